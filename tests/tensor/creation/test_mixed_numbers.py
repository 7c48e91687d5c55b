"""Integers beside floats in lists of unsigned types, and running sums and products whose partial results are large."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

LISTS: list[Any] = [
    [1.0, -1],
    [[1.0, -1], [2, 3]],
    [-1, 2.5],
    [1.0, -255],
    [1.0, -256],
    [-1.0],
    [1, -1.0],
    [1.0, 300],
]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int64"])
@pytest.mark.parametrize("data", LISTS)
def test_lists_give_what_pytorch_gives(data: Any, dtype: str) -> None:
    try:
        wanted = torch.tensor(data, dtype=getattr(torch, dtype)).tolist()
    except RuntimeError:
        with pytest.raises(RuntimeError):
            weft.tensor(data, dtype=getattr(weft, dtype))
    else:
        assert weft.tensor(data, dtype=getattr(weft, dtype)).tolist() == wanted


INF = float("inf")
RUNS = [
    ("cumsum", [3e38, 3e38, -3e38, -INF, 1, 2]),
    ("cumsum", [1, 3e38] + [1] * 20 + [3e38] + [1] * 40 + [-3e38]),
    ("cumprod", [1e30, 1e30, 1e-30, 1e-30, 0, 5]),
    ("cumprod", [1e30, 1e30, 0, 3, 1e30] * 4),
    ("cumprod", [1e-30, 1e-30, 1e30, 1e30, 1e30]),
    ("cumprod", [0.5] * 200 + [2] * 200),
]


@pytest.mark.parametrize("columns", [1, 3, 64])
@pytest.mark.parametrize(("name", "numbers"), RUNS)
def test_partial_results_may_be_large(name: str, numbers: list[float], columns: int) -> None:
    theirs = torch.tensor(numbers)[:, None].expand(-1, columns).contiguous()
    ours = weft.tensor(theirs.numpy())
    for x, y in ((ours, theirs), (ours.T.contiguous(), theirs.T.contiguous())):
        dim = 0 if x is ours else 1
        found, wanted = getattr(weft, name)(x, dim), getattr(torch, name)(y, dim)
        torch.testing.assert_close(torch.tensor(found.tolist()), wanted, equal_nan=True)
