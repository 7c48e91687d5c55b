"""Distributed tensors in custom functions, under autocast and in files are what PyTorch's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ranks import needs_mpi

PARTS = ["functions", "operations", "moves", "attention", "read_again", "groups"]
Results = Callable[[str, str, int], list[Any]]


def agree(own: Any, other: Any) -> bool:
    """True if two trees are equal, but for rounding."""
    if isinstance(other, dict):
        return own.keys() == other.keys() and all(agree(own[key], other[key]) for key in other)
    if isinstance(other, list):
        return len(own) == len(other) and all(map(agree, own, other))
    is_float = isinstance(other, float)
    return bool(own == (pytest.approx(other, rel=1e-3, abs=1e-5) if is_float else other))


@needs_mpi
@pytest.mark.parametrize("part", PARTS)
def test_values_types_and_gradients_are_those_of_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "distributed_tensors.py", 4) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert agree(own[part], other[part]), (own[part], other[part])


@needs_mpi
def test_what_pytorch_refuses_is_an_error_of_its_kind(results: Results) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "distributed_tensors.py", 4) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        refused = other["refused"]
        assert len(refused) == 5 and own["refused"].keys() == refused.keys()
        assert all(set(refused[name]) <= set(own["refused"][name]) for name in refused)
