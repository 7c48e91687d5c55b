"""The type of `clamp` with tensors as bounds, of all types, with and without dimensions: PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

TYPES = ("bool", "uint8", "int64", "float32", "float64")


def _made(lib: Any, dtype: str, has_dimensions: bool) -> Any:
    return lib.tensor([1] if has_dimensions else 1, dtype=getattr(lib, dtype))


@pytest.mark.parametrize("dimensions", [*itertools.product([False, True], repeat=3)])
def test_bounds_of_all_types(dimensions: tuple[bool, bool, bool]) -> None:
    import weft
    from oracle import torch

    for types in itertools.product(TYPES, repeat=3):
        given = list(zip(types, dimensions, strict=True))
        try:
            theirs = torch.clamp(*[_made(torch, *one) for one in given]).dtype
        except RuntimeError:
            continue
        mine = weft.clamp(*[_made(weft, *one) for one in given]).dtype
        assert mine.name == str(theirs).removeprefix("torch."), given
