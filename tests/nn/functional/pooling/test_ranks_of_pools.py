"""Pools of an input of another rank are refused by the error, and in the words, of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

POOLS = [
    f"{kind}_pool{spatial}d"
    for kind in ("avg", "max", "lp", "adaptive_avg", "adaptive_max")
    for spatial in (1, 2, 3)
]


@pytest.mark.parametrize("rank", range(1, 7))
@pytest.mark.parametrize("name", POOLS)
def test_other_ranks_are_refused_in_pytorchs_words(name: str, rank: int) -> None:
    def told(lib: Any) -> Any:
        power = (2.0,) if name.startswith("lp") else ()
        try:
            made = getattr(lib.nn.functional, name)(lib.ones((2,) * rank), *power, 2)
        except (RuntimeError, IndexError) as error:
            return isinstance(error, IndexError), str(error).split("\n")[0].split(", called at")[0]
        return made.tolist()

    assert told(weft) == told(torch)
