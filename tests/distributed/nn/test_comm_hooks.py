"""Communication hooks and stores between ranks do what PyTorch's do, in one program for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from weft.distributed.algorithms.ddp_comm_hooks import default_hooks
from weft.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

import weft
from ranks import needs_mpi
from weft import nn

PROGRAM = "hooks_and_stores.py"
Results = Callable[[str, str, int], list[Any]]
# The last bit of what is sent: PyTorch adds in the type that is sent, Weft in float32.
TOLERANCES = {"mean": 1e-5, "own": 1e-5, "fp16": 2**-9, "by name": 2**-9, "wrapped": 2**-9, "bf16": 2**-6,
    "power": 1e-4, "square": 1e-4}  # fmt: skip


@needs_mpi
@pytest.mark.parametrize("hook", list(TOLERANCES))
def test_hooks_give_the_weights_of_pytorch(results: Results, hook: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, 2) for lib in ("as_torch", "torch"))
    assert ours[0]["hooks"][hook] == ours[1]["hooks"][hook]
    of_pytorch = theirs[0]["hooks"].get(hook, theirs[0]["hooks"]["mean"])
    expected = pytest.approx(of_pytorch, abs=TOLERANCES[hook])
    assert ours[0]["hooks"][hook] == expected


@needs_mpi
def test_stores_hold_what_pytorchs_hold(results: Results) -> None:
    pytest.importorskip("torch")
    for rank in range(2):
        ours, theirs = (results(lib, PROGRAM, 2)[rank]["stores"] for lib in ("as_torch", "torch"))
        assert ours == theirs
        assert ours[:2] == [[["0", "10"], "40", True]] * 2
        numbers = [*range(10), *range(100, 110)]
        assert ours[2] == [20, 20, True, numbers, True, ["queue is empty", True], "x"]


@needs_mpi
def test_ranks_that_train_by_themselves_meet_where_pytorchs_do(results: Results) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, 2) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert own["hooks"]["local"] == pytest.approx(other["hooks"]["local"], abs=1e-5)
    assert ours[0]["hooks"]["local"] == ours[1]["hooks"]["local"]  # the last step was one of means


@pytest.fixture
def parallel() -> Iterator[Any]:
    """A model in one process."""
    weft.distributed.init_process_group()
    yield nn.parallel.DistributedDataParallel(nn.Linear(2, 1, bias=False), bucket_cap_mb=25)
    weft.distributed.destroy_process_group()


def test_without_another_rank_a_hook_changes_nothing(parallel: Any) -> None:
    parallel.register_comm_hook(None, default_hooks.allreduce_hook)
    x = weft.rand(3, 2)
    parallel(x).sum().backward()
    assert parallel.module.weight.grad.tolist() == [pytest.approx(x.sum(0).tolist())]


def test_buckets_are_of_one_dtype_and_of_bounded_size(parallel: Any) -> None:
    seen = []

    def look(state: str, bucket: Any) -> Any:
        seen.append(
            (state, bucket.index(), bucket.is_last(), [p.numel() for p in bucket.parameters()])
        )
        return default_hooks.allreduce_hook(None, bucket)

    layers = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 32, bias=False))
    model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=64 * 32 * 4 / 2**20)
    model.register_comm_hook("said", look)
    model(weft.ones(1, 64)).sum().backward()
    assert seen == [("said", 0, False, [2048]), ("said", 1, False, [64]), ("said", 2, True, [4096])]


def test_power_iteration_finds_the_nearest_matrix_and_sends_the_rest_later() -> None:
    weft.distributed.init_process_group()
    weft.manual_seed(0)
    wanted = weft.randn(10, 12)
    values = weft.linalg.svdvals(wanted)
    lost = float((values[2:].square().sum() / values.square().sum()).sqrt())
    for feeds_back in (False, True):
        layer = nn.Linear(12, 10)
        model = nn.parallel.DistributedDataParallel(layer)
        state = PowerSGDState(
            None, 2, start_powerSGD_iter=2, min_compression_rate=1, use_error_feedback=feeds_back
        )
        model.register_comm_hook(state, powerSGD_hook)
        total = weft.zeros(10, 12)
        for _ in range(60):
            layer.zero_grad()
            (model(weft.eye(12)) * wanted.mT).sum().backward()
            total += layer.weight.grad
        if feeds_back:
            assert float((total / 60 - wanted).norm() / wanted.norm()) < 0.1
        else:
            error = float((layer.weight.grad - wanted).norm() / wanted.norm())
            assert error == pytest.approx(lost, rel=1e-3)
        rate, before, after = state.compression_stats()
        assert (before, after) == (58 * 130, 58 * (2 * 22 + 10)) and rate == before / after
    with pytest.raises(ValueError, match="`start_powerSGD_iter` > 1"):
        PowerSGDState(None, start_powerSGD_iter=1)
    weft.distributed.destroy_process_group()


def test_what_is_no_hook(parallel: Any) -> None:
    with pytest.raises(TypeError, match=r"Communication hook must be callable"):
        parallel.register_comm_hook(None, 3)
    parallel.register_comm_hook(None, lambda state, bucket: 3)
    with pytest.raises(ValueError, match="has to give a future of a tensor"):
        parallel(weft.rand(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match="can only be called once"):
        parallel.register_comm_hook(None, default_hooks.allreduce_hook)
    exact = nn.parallel.DistributedDataParallel(nn.Linear(1, 1), deterministic=True)
    with pytest.raises(RuntimeError, match="says how gradients are added"):
        exact.register_comm_hook(None, default_hooks.allreduce_hook)
