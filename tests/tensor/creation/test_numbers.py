"""Single numbers as tensors: the same values, types and bounds as arrays of them have."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
from oracle import torch
from weft.engine.frontend.resolve import value_of

FLOATS = (0.0, -0.0, 1.5, -2.25, 1e-45, 1e300, -1e300, 0.1, math.inf, -math.inf, 3.4028236e38)
INTEGERS = (0, 1, -1, 7, 2**31, -(2**40), 2**62 - 1, 2**62, -(2**63), 2**63 - 1)


@pytest.mark.parametrize("number", [*FLOATS, *INTEGERS, True, False, 1 + 2j], ids=repr)
def test_a_number_is_what_it_is_in_pytorch(number: Any) -> None:
    ours, theirs = weft.tensor(number), torch.tensor(number)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    assert ours.shape == () and repr(ours.item()) == repr(theirs.item())
    assert repr(weft.tensor([number])[0].item()) == repr(theirs.item())


def test_nan_and_the_default_type() -> None:
    assert math.isnan(weft.tensor(math.nan).item())
    weft.set_default_dtype(weft.float64)
    try:
        assert weft.tensor(0.1).dtype is weft.float64 and weft.tensor(0.1).item() == 0.1
    finally:
        weft.set_default_dtype(weft.float32)


def test_a_number_is_a_leaf_that_is_there() -> None:
    x = weft.tensor(2.0, requires_grad=True)
    assert x.is_leaf and (x * x).item() == 4.0
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        weft.tensor(2, requires_grad=True)
    y = weft.tensor(3)
    y += 1
    assert y.item() == 4 and weft.tensor(3).item() == 3


def test_the_range_of_an_integer_is_known() -> None:
    assert value_of(weft.tensor(5)).max_index == 6
    assert value_of(weft.tensor(-5)).max_index == -1
    with pytest.raises(IndexError):
        weft.nn.functional.embedding(weft.tensor(4), weft.ones(4, 2))
