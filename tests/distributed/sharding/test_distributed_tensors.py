"""Distributed tensors in custom functions, under autocast and in files are what PyTorch's are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from weft.distributed.tensor import Replicate, Shard, distribute_tensor

import weft
from ranks import agree, needs_mpi
from weft.distributed.sharding import visualize
from weft.distributed.sharding.layout import MeshLayout

PARTS = ["functions", "operations", "moves", "attention", "read_again", "groups"]
Results = Callable[[str, str, int], list[Any]]


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


def table_of(shape: list[int], placements: list[Any], mesh_shape: list[int]) -> list[str]:
    """The table of a tensor over a mesh whose other ranks are not there."""
    ranks = weft.arange(weft.Size(mesh_shape).numel()).reshape(mesh_shape)
    mesh = SimpleNamespace(shape=tuple(mesh_shape), mesh=ranks, device_type="cpu")
    layout = MeshLayout(mesh, tuple(placements), tuple(shape))  # type: ignore[arg-type]
    return visualize._lines(visualize._owners(SimpleNamespace(spread=layout)))  # type: ignore[arg-type]


def test_tables_say_which_ranks_have_which_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert table_of([4, 6], [Shard(0), Shard(1)], [2, 2]) == [
        "         Col 0-2  Col 3-5",
        "Row 0-1  cpu:0    cpu:1",
        "Row 2-3  cpu:2    cpu:3",
    ]
    assert table_of([5], [Shard(0), Replicate()], [2, 2]) == [
        "         Col 0-2       Col 3-4",
        "Row 0-0  cpu:0, cpu:1  cpu:2, cpu:3",
    ]
    assert table_of([1, 2], [Shard(0)], [2]) == ["         Col 0-1", "Row 0-0  cpu:0"]
    weft.distributed.init_process_group()
    mesh = weft.distributed.init_device_mesh("cpu", (1,))
    visualize.visualize_sharding(distribute_tensor(weft.ones(2, 3), mesh), header="all of it")
    assert capsys.readouterr().out.startswith("all of it\n         Col 0-2\n")
    with pytest.raises(RuntimeError, match="only implemented for 1D or 2D dtensor"):
        visualize.visualize_sharding(distribute_tensor(weft.ones(2, 3, 1), mesh))
    weft.distributed.destroy_process_group()
