"""Subclasses of Tensor whose `__new__` takes arguments of its own, and the dictionary of a tensor's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

both = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])


@both
@pytest.mark.parametrize("base", ["Tensor", "nn.Parameter"])
def test_a_subclass_takes_keywords_of_its_own(lib: Any, base: str) -> None:
    above = lib.Tensor if base == "Tensor" else lib.nn.Parameter

    class Placed(above):  # type: ignore[misc,valid-type]
        def __new__(cls, data: Any, *, where: str, requires_grad: bool = False) -> Any:
            made = lib.Tensor._make_subclass(cls, data.detach(), requires_grad)
            made.where = where
            return made

    made = Placed(lib.ones(3), where="here", requires_grad=True)
    assert made.where == "here" and made.requires_grad and made.tolist() == [1, 1, 1]
    assert type(made) is Placed


@both
def test_the_dictionary_of_attributes_can_be_another(lib: Any) -> None:
    x, y = lib.ones(1), lib.zeros(1)
    x.name_of_mine = "x"
    y.__dict__ = x.__dict__
    x.further = 1
    assert y.name_of_mine == "x" and y.further == 1
    with pytest.raises(TypeError):
        y.__dict__ = 3


@both
def test_old_constructors_take_arrays(lib: Any) -> None:
    for array in (np.array([50.0, 5.0]), np.arange(3), np.ones((2, 2))):
        made = lib.Tensor(array)
        assert made.dtype == lib.float32 and made.tolist() == array.tolist()
    assert lib.Tensor(np.int64(3)).shape == (3,) and lib.Tensor(2, 3).shape == (2, 3)
