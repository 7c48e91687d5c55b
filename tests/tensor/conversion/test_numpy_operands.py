"""Operators between tensors and arrays of NumPy, on either side."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest

import weft

ARRAY = np.array([1.0, 2.0, 4.0])
OPERATORS = "add sub mul truediv floordiv mod pow eq ne lt le gt ge"


@pytest.mark.parametrize("name", OPERATORS.split())
def test_an_array_is_an_operand_on_either_side(name: str) -> None:
    function: Any = getattr(operator, name)
    x = weft.tensor([3.0, 2.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ours, theirs in (
            (function(x, ARRAY), function(x.numpy().astype(np.float64), ARRAY)),
            (function(ARRAY, x), function(ARRAY, x.numpy().astype(np.float64))),
        ):
            assert isinstance(ours, weft.Tensor)
            assert ours.numpy().dtype == theirs.dtype
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-15)


def test_gradients_flow_past_arrays() -> None:
    x = weft.tensor([3.0, 2.0, 1.0], requires_grad=True)
    (ARRAY * x).sum().backward()
    assert x.grad.tolist() == ARRAY.tolist()


def test_functions_of_numpy_take_tensors_without_warnings() -> None:
    x = weft.tensor([3.0, 2.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (
            np.add(ARRAY, x),
            np.sin(x),
            np.multiply(x, 2),
            np.sum(x),
            np.maximum(x, ARRAY),
        ):
            assert isinstance(made, weft.Tensor)


def test_other_operands_are_refused() -> None:
    for other in (np.array(["a", "b", "c"]), "abc", [1.0, 2.0, 3.0]):
        with pytest.raises(TypeError):
            weft.ones(3) + other
