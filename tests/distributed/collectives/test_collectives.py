"""Collectives of several ranks give what PyTorch's do with gloo, for random dtypes, shapes, groups and roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ranks import needs_mpi

Results = Callable[[str, str, int], list[Any]]


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_results_are_those_of_gloo(results: Results, size: int) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "collectives.py", size) for lib in ("weft", "torch"))
    for rank in range(size):
        assert list(ours[rank]) == list(theirs[rank])
        wrong = [
            f"rank {rank}, {case}: {ours[rank][case]} instead of {theirs[rank][case]}"
            for case in ours[rank]
            if ours[rank][case] != theirs[rank][case]
        ]
        assert not wrong, "\n".join(wrong[:5])
