"""Optimizers whose state is shared out over ranks do what PyTorch's do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from ranks import agree, needs_mpi
from weft.distributed.nn.zero_redundancy import ZeroRedundancyOptimizer

Results = Callable[[str, str, int], list[Any]]


@needs_mpi
@pytest.mark.parametrize("part", ["Adam", "SGD", "AdamW", "grouped", "joined"])
def test_weights_and_states_are_those_of_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "zero_redundancy.py", 4) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert agree(own[part], other[part]), (own[part], other[part])


@needs_mpi
def test_what_pytorch_refuses_is_refused(results: Results) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, "zero_redundancy.py", 4) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert set(other["refused"]) <= set(own["refused"])


@pytest.fixture
def alone() -> Iterator[None]:
    weft.distributed.init_process_group()
    yield
    weft.distributed.destroy_process_group()


def test_a_rank_has_the_state_of_its_own_parameters_alone(
    alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = [weft.nn.Parameter(weft.ones(size)) for size in (2, 5, 3)]
    optimizer = ZeroRedundancyOptimizer(parameters, weft.optim.Adam, lr=0.1)
    optimizer._owners = {id(p): number % 2 for number, p in enumerate(parameters)}
    assert [p.numel() for p in optimizer._numbered(1).values()] == [5]
    assert optimizer.optim.state == {} and optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_words_for_what_cannot_be(alone: None) -> None:
    parameters = [weft.nn.Parameter(weft.ones(2))]
    with pytest.raises(NotImplementedError, match="steps within the backward pass"):
        ZeroRedundancyOptimizer(parameters, weft.optim.SGD, overlap_with_ddp=True, lr=0.1)
    with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
        ZeroRedundancyOptimizer(parameters, weft.optim.SGD, lr=0.1).state_dict()
    with pytest.raises(ValueError, match="empty parameter list"):
        ZeroRedundancyOptimizer([], weft.optim.SGD, lr=0.1)
