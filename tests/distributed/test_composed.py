"""Modules that are wrapped or replicated in place, and parts of meshes, do what PyTorch's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ranks import agree, needs_mpi

PARTS = [
    *("replicated", "part_replicated", "checkpointed", "sharded_around", "meshes"),
    *("saved", "of_parts", "around_modules"),
]
Results = Callable[[str, str, int], list[Any]]


@needs_mpi
@pytest.mark.parametrize("part", PARTS)
def test_values_names_and_errors_are_those_of_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "composed.py", 4) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        wrong = {name for name in other[part] if not agree(own[part][name], other[part][name])}
        assert not wrong


@needs_mpi
def test_what_pytorch_refuses_is_an_error_of_its_kind(results: Results) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "composed.py", 4) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        kinds = zip(own["refused"], other["refused"], strict=True)
        assert all(mine and set(its) <= set(mine) for mine, its in kinds), (own, other)
