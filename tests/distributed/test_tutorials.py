"""Programs in the style of PyTorch's tutorials for several processes, unchanged, have the losses of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ranks import needs_mpi

PROGRAM = "tutorials.py"
PARTS = [
    "data_parallel", "image_classes", "averaged_by_hand", "fully_sharded", "tensor_parallel", "pipelined",
]  # fmt: skip
Results = Callable[[str, str, int], list[Any]]


@needs_mpi
@pytest.mark.parametrize("part", PARTS)
def test_losses_are_those_of_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, 2) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert own[part] == pytest.approx(other[part], rel=1e-3, abs=1e-4)
