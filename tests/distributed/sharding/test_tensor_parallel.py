"""Tensors that lie over ranks, and modules shared out over them, give what PyTorch's give with gloo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from weft.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from weft.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import weft
from ranks import agree, needs_mpi
from weft import nn
from weft.distributed.collectives.carrier import record
from weft.distributed.device_mesh import DeviceMesh, init_device_mesh
from weft.distributed.sharding import layout

PROGRAM = "tensor_parallel.py"
PARTS = [
    "operations",
    "moves",
    "hooked",
    "two dims",
    "tensor parallel",
    "sequence parallel",
    "loss",
    "prepared",
]
Results = Callable[[str, str, int], list[Any]]


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("part", PARTS)
def test_values_and_gradients_are_those_of_pytorch(results: Results, part: str, size: int) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, size) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        wrong = [
            name for name in other[part] if not agree(own[part][name], other[part][name], 1e-4)
        ]
        assert not wrong


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("part", ["tensor parallel", "sequence parallel"])
def test_models_train_as_one_process_does(results: Results, part: str, size: int) -> None:
    for rank in results("as_torch", PROGRAM, size):
        assert agree(rank[part], rank["alone"], 1e-4)


# -- one process -----------------------------------------------------------------------------------------------------


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    weft.distributed.init_process_group()
    yield init_device_mesh("cpu", (1,))
    weft.distributed.destroy_process_group()


def test_a_tensor_says_what_is_true_of_the_whole(mesh: DeviceMesh) -> None:
    x = distribute_tensor(weft.arange(6.0).reshape(2, 3), mesh, [Shard(-1)])
    assert (x.shape, x.ndim, x.size(1), x.numel(), len(x)) == ((2, 3), 2, 3, 6, 2)
    assert x.stride() == (3, 1) and x.placements == (Shard(1),)
    assert str(x.placements[0]) == "S(1)" and x.dtype is weft.float32
    assert (x.sum().item(), x.tolist()) == (15.0, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert (x @ x.mT).placements[0].is_partial()
    assert isinstance(nn.Parameter(x), nn.Parameter) and type(nn.Parameter(x)) is DTensor


def test_shards_move_to_another_dimension_without_the_whole(
    mesh: DeviceMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = []

    def note(name: str, *args: Any, **options: Any) -> Any:
        recorded.append(name)
        return record(name, *args, **options)

    monkeypatch.setattr(layout, "record", note)
    x = distribute_tensor(weft.arange(6.0).reshape(2, 3), mesh, [Shard(0)]).requires_grad_()
    moved = x.redistribute(placements=[Shard(1)])
    moved.to_local().square().sum().backward()
    assert recorded == ["all_to_all"] * 2
    assert x.grad.tolist() == (2 * x).tolist() and x.grad.placements == (Shard(0),)


def test_second_derivatives(mesh: DeviceMesh) -> None:
    x = distribute_tensor(weft.tensor([1.0, 2.0]), mesh, [Shard(0)]).requires_grad_()
    (first,) = weft.autograd.grad((x**3).sum(), x, create_graph=True)
    assert isinstance(first, DTensor) and first.tolist() == [3.0, 12.0]
    (second,) = weft.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]


def test_random_values_are_those_of_one_process(mesh: DeviceMesh) -> None:
    weft.manual_seed(0)
    alone = weft.rand(3, 2)
    weft.manual_seed(0)
    assert weft.distributed.tensor.rand(3, 2, device_mesh=mesh).tolist() == alone.tolist()
    weft.manual_seed(0)
    x = weft.distributed.tensor.zeros(3, 2, device_mesh=mesh, placements=[Shard(0)])
    assert x.uniform_().tolist() == alone.tolist()


def test_initial_values_are_those_of_the_whole(mesh: DeviceMesh) -> None:
    names = "kaiming_uniform_ kaiming_normal_ xavier_uniform_ xavier_normal_ trunc_normal_ normal_ orthogonal_ eye_"
    for name in names.split():
        initialise = getattr(nn.init, name)
        alone, x = weft.zeros(4, 3), distribute_tensor(weft.zeros(4, 3), mesh, [Shard(0)])
        for tensor in (alone, x.requires_grad_()):
            weft.manual_seed(0)
            assert initialise(tensor) is tensor
        assert x.tolist() == alone.tolist() and x.placements == (Shard(0),)
    assert nn.init.constant_(x, 3.0).full_tensor().tolist() == [[3.0] * 3] * 4


def test_the_mesh_of_a_context_is_the_one_that_is_not_named(mesh: DeviceMesh) -> None:
    named = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    with named as inner, mesh:
        assert inner is named
        assert distribute_tensor(weft.ones(2)).device_mesh == mesh
    with named:
        assert distribute_tensor(weft.ones(2)).device_mesh == named
        assert weft.distributed.tensor.zeros(2).device_mesh == named
    assert distribute_tensor(weft.ones(2)).device_mesh == mesh


def test_words_for_what_cannot_be(mesh: DeviceMesh) -> None:
    x = distribute_tensor(weft.ones(2, 2), mesh, [Shard(0)])
    with pytest.raises(TypeError, match="got mixed Tensor and DTensor"):
        x + weft.ones(2, 2)
    with pytest.raises(ValueError, match="Cannot distribute a DTensor with placements"):
        distribute_tensor(x, mesh, [Replicate()])
    with pytest.raises(RuntimeError, match="should be used to distribute leaf tensors"):
        distribute_tensor(weft.ones(2, requires_grad=True) * 2, mesh, [Shard(0)])
    with pytest.raises(ValueError, match="must have the same length as `device_mesh.ndim`"):
        distribute_tensor(weft.ones(2), mesh, [Shard(0), Shard(0)])
    with pytest.raises(RuntimeError, match="pass both shape and stride at the same time"):
        DTensor.from_local(weft.ones(2), mesh, [Shard(0)], shape=(2,))
    with pytest.raises(ValueError, match="placements is needed to be specified"):
        x.redistribute()
    with pytest.raises(RuntimeError, match="cannot be written to so"):
        x.cumsum_(0)
    with pytest.raises(RuntimeError, match="only support nn.Linear and nn.Embedding"):
        parallelize_module(nn.LayerNorm(2), mesh, ColwiseParallel())
    with pytest.raises(TypeError, match=r"Expect Union\[ParallelStyle"):
        parallelize_module(nn.Linear(2, 2), mesh, [])  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="no submodule matches it"):
        parallelize_module(nn.Linear(2, 2), mesh, {"fc": ColwiseParallel()})
    assert distribute_tensor(weft.ones(2), mesh).placements == (Replicate(),)
