"""DistributedDataParallel trains as PyTorch's does with gloo: one program, also run by `weft run` under mpiexec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from ranks import needs_mpi
from weft import nn

PROGRAM = "data_parallel.py"
PARTS = ["dynamic", "uneven", "uneven, of those left", "data"]
Results = Callable[[str, str, int], list[Any]]


@needs_mpi
@pytest.mark.parametrize("part", PARTS)
def test_losses_and_weights_are_those_of_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, 2) for lib in ("as_torch", "torch"))
    for rank in range(2):
        assert list(ours[rank][part]) == list(theirs[rank][part])
        for name, value in theirs[rank][part].items():
            numeric = isinstance(value, list) and isinstance(value[0], float)
            expected = pytest.approx(value, rel=1e-3, abs=1e-4) if numeric else value
            assert ours[rank][part][name] == expected, (rank, name)


@needs_mpi
def test_ranks_have_the_same_weights(results: Results) -> None:
    ranks = results("as_torch", PROGRAM, 2)
    for part in PARTS:
        assert ranks[0][part]["weights"] == ranks[1][part]["weights"]


def test_one_process_trains_as_the_module_alone() -> None:
    weft.distributed.init_process_group()
    try:
        alone, model = nn.Linear(3, 2), nn.Linear(3, 2)
        model.load_state_dict(alone.state_dict())
        parallel = nn.parallel.DistributedDataParallel(model)
        x = weft.rand(4, 3)
        for net in (alone, parallel):
            net(x).square().sum().backward()
        assert model.weight.grad.tolist() == alone.weight.grad.tolist()
        assert list(parallel.state_dict()) == ["module.weight", "module.bias"]
        with pytest.raises(ValueError, match="any parameter that requires a gradient"):
            nn.parallel.DistributedDataParallel(nn.ReLU())
    finally:
        weft.distributed.destroy_process_group()


def test_a_saved_model_belongs_to_the_group_that_is_there_when_it_is_loaded(tmp_path: Path) -> None:
    weft.distributed.init_process_group()
    weft.save(nn.parallel.DistributedDataParallel(nn.Linear(3, 2)), tmp_path / "model")
    weft.distributed.destroy_process_group()
    with pytest.raises(RuntimeError, match="Default process group has not been initialized"):
        weft.load(tmp_path / "model", weights_only=False)
    weft.distributed.init_process_group()
    try:
        loaded = weft.load(tmp_path / "model", weights_only=False)
        loaded(weft.ones(1, 3)).sum().backward()
        assert loaded.module.bias.grad.tolist() == [1.0, 1.0]
        assert loaded.process_group is weft.distributed.group.WORLD
    finally:
        weft.distributed.destroy_process_group()


def test_a_group_comes_first() -> None:
    with pytest.raises(RuntimeError, match="has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
