"""Collective operations of a group of one leave what PyTorch's leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from oracle import submodule, torch

CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "all_reduce": lambda d, x, y, how: d.all_reduce(x, **how),
    "reduce": lambda d, x, y, how: d.reduce(x, dst=0, **how),
    "broadcast": lambda d, x, y, how: d.broadcast(x, src=0, **how),
    "all_gather": lambda d, x, y, how: d.all_gather([y], x, **how),
    "all_gather_into_tensor": lambda d, x, y, how: d.all_gather_into_tensor(y, x, **how),
    "gather": lambda d, x, y, how: d.gather(x, [y], dst=0, **how),
    "scatter": lambda d, x, y, how: d.scatter(y, [x], src=0, **how),
    "reduce_scatter_tensor": lambda d, x, y, how: d.reduce_scatter_tensor(y, x, **how),
    "all_to_all_single": lambda d, x, y, how: d.all_to_all_single(y, x, **how),
    "barrier": lambda d, x, y, how: d.barrier(**how),
}


@pytest.fixture(params=[weft, torch], ids=["weft", "torch"])
def lib(request: Any, tmp_path: Path) -> Iterator[Any]:
    lib = request.param
    distributed = submodule(f"{lib.__name__}.distributed")
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    yield lib
    distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", CALLS)
def test_what_is_sent_comes_back(lib: Any, name: str) -> None:
    x, y = lib.arange(4.0), lib.zeros(4)
    assert CALLS[name](lib.distributed, x, y, {}) is None
    assert x.tolist() == [0, 1, 2, 3]
    assert y.tolist() == ([0] * 4 if name in list(CALLS)[:3] or name == "barrier" else x.tolist())


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", CALLS)
def test_an_operation_that_is_waited_for(lib: Any, name: str) -> None:
    work = CALLS[name](lib.distributed, lib.arange(4.0), lib.zeros(4), {"async_op": True})
    work.wait()
    assert lib is torch or work.is_completed()  # gloo says so later


def test_objects(lib: Any) -> None:
    gathered, scattered, everywhere = [None], [None], [None]
    lib.distributed.gather_object({"a": 1}, gathered, dst=0)
    lib.distributed.scatter_object_list(scattered, ["b"], src=0)
    lib.distributed.all_gather_object(everywhere, 3)
    assert (gathered, scattered, everywhere) == ([{"a": 1}], ["b"], [3])


@pytest.fixture
def alone() -> Iterator[Any]:
    weft.distributed.init_process_group()
    yield weft.distributed
    weft.distributed.destroy_process_group()


def test_there_is_no_other_process(alone: Any) -> None:
    with pytest.raises(ValueError, match="all_gather: a list of 2 for a group of 1"):
        alone.all_gather([weft.ones(1), weft.ones(1)], weft.ones(1))
    with pytest.raises(ValueError, match="Global rank 1 is not part of group"):
        alone.broadcast(weft.ones(1), src=1)
    with pytest.raises(ValueError, match="cannot send to itself"):
        alone.send(weft.ones(1), 0)
    with pytest.raises(ValueError, match="should be unique ranks of the world"):
        alone.new_group([1])


def test_more_processes_than_were_started_are_refused() -> None:
    with pytest.raises(RuntimeError, match="start the program with mpiexec -n 2"):
        weft.distributed.init_process_group("gloo", world_size=2, rank=0)
    assert not weft.distributed.is_initialized()


def test_collectives_have_gradients(alone: Any) -> None:
    from weft.distributed import nn

    x = weft.ones(2, requires_grad=True)
    (nn.all_reduce(x) + nn.all_gather(x)[0] + nn.broadcast(x, 0)).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_mesh_of_one(alone: Any) -> None:
    mesh = alone.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert mesh["tp"].get_group().ranks == (0,)
    assert (mesh.shape, mesh.get_coordinate(), mesh.size(1)) == ((1, 1), [0, 0], 1)
    with pytest.raises(KeyError, match="there is no dimension 'pp'"):
        mesh["pp"]
    with pytest.raises(ValueError, match="bigger than default world size 1"):
        alone.init_device_mesh("cpu", (2,))


class Unknown:
    """A class that no receiver knows."""


def test_objects_are_data_only(alone: Any) -> None:
    with pytest.raises(RuntimeError, match="Unknown"):
        alone.all_gather_object([None], Unknown())


@pytest.mark.parametrize("op", ["BAND", "AVG"])
def test_reductions_that_a_type_lacks(alone: Any, op: str) -> None:
    x = weft.ones(2) if op == "BAND" else weft.ones(2, dtype=weft.int64)
    with pytest.raises(RuntimeError, match=f"all_reduce does not support ReduceOp.{op}"):
        alone.all_reduce(x, getattr(alone.ReduceOp, op))


def test_a_result_takes_no_copy(alone: Any) -> None:
    source, target = weft.ones(1 << 16), weft.zeros(1 << 16)
    alone.all_gather_into_tensor(target, source)
    assert target.sum() == 1 << 16
    source.zero_()  # what was gathered is not the source's memory
    assert target.sum() == 1 << 16


def test_reductions_are_of_the_type_that_packages_name() -> None:
    assert isinstance(weft.distributed.ReduceOp.SUM, weft.distributed.ReduceOp.RedOpType)


def test_placements_describe() -> None:
    """Packages make tables of them when they are imported."""
    tensor = weft.distributed.tensor
    assert tensor.Shard(-1) == tensor.Shard(-1) != tensor.Shard(0)
    assert tensor.Shard(0).is_shard(0) and not tensor.Shard(0).is_shard(1)
    assert tensor.Replicate() == tensor.Replicate() and tensor.Replicate().is_replicate()
    assert tensor.Partial().is_partial("sum") and not tensor.Partial("avg").is_partial("sum")
    assert tensor.placement_types._StridedShard(0, split_factor=2).is_shard()


SPLITS = {
    "collective": lambda d, x, sent, got: d.all_to_all_single(x.clone(), x, got, sent),
    "with derivatives": lambda d, x, sent, got: submodule(
        f"{d.__name__}.nn.functional"
    ).all_to_all_single(x.clone(), x, got, sent),
    "functional": lambda d, x, sent, got: submodule(
        f"{d.__name__}._functional_collectives"
    ).all_to_all_single(x, got, sent, d.group.WORLD),
}


@pytest.mark.parametrize("lib", [weft], indirect=True)
@pytest.mark.parametrize("call", SPLITS)
@pytest.mark.parametrize("sent, received", [([3], [4]), ([2, 2], [4]), ([4], [2, 2])])
def test_rows_that_do_not_fit_the_ranks_are_refused(
    lib: Any, call: str, sent: list[int], received: list[int]
) -> None:
    with pytest.raises(RuntimeError, match="split sizes"):
        SPLITS[call](lib.distributed, lib.arange(4.0), sent, received)


def test_the_default_group_has_its_name(lib: Any) -> None:
    """A module below has the name `group` too."""
    submodule(f"{lib.__name__}.distributed.distributed_c10d")
    assert lib.distributed.group.WORLD.size() == lib.distributed.GroupMember.WORLD.size() == 1


def test_all_functional_collectives_are_here() -> None:
    """Also under the names that they had before derivatives, and have now."""
    theirs = pytest.importorskip("torch.distributed._functional_collectives")
    ours = submodule("weft.distributed._functional_collectives")
    stems = (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "broadcast",
        "permute",
        "reduce_scatter",
        "wait",
    )
    inner = "backward", "setup_context", "inplace"
    names = {n for n in vars(theirs) if n.startswith(stems) and not n.endswith(inner)}
    assert {n for n in names if not hasattr(ours, n)} == set()
