"""masked_scatter with too few values is refused at the call where the mask is there, else at the read."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

MASKS: dict[str, Any] = {
    "all": lambda T: T.tensor([True, True, True]),
    "some": lambda T: T.tensor([True, False, True]),
    "strided": lambda T: T.tensor([True, False, False, False, True])[::2],
    "one for all": lambda T: T.tensor([True]),
    "none": lambda T: T.tensor([False, False, False]),
}


@pytest.mark.parametrize("count", range(7))
@pytest.mark.parametrize("name", MASKS)
def test_as_in_pytorch(name: str, count: int) -> None:
    def told(T: Any) -> Any:
        try:
            made = T.zeros(2, 3).masked_scatter(MASKS[name](T), T.arange(1.0, count + 1.0))
        except RuntimeError as error:
            return str(error).split("\n")[0].split(", called at")[0]
        return made.tolist()

    assert told(weft) == told(torch)


@pytest.mark.parametrize("count", [0, 1])
def test_masks_that_are_to_be_computed(count: int) -> None:
    mask = weft.arange(3) > 0
    with pytest.raises(RuntimeError):
        weft.zeros(3).masked_scatter_(mask, weft.ones(count)).tolist()
    none = weft.arange(3) > 5
    assert weft.zeros(3).masked_scatter_(none, weft.ones(count)).tolist() == [0.0] * 3
