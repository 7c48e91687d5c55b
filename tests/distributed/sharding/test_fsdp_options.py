"""What `fully_shard` leaves to the program is done as in PyTorch: other dimensions, groups of modules, hooks, divisors,
when gradients are combined, and what of it CommDebugMode counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from weft.distributed._composable import checkpoint
from weft.distributed.fsdp import fully_shard
from weft.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from weft.distributed.tensor._dtensor_spec import DTensorSpec
from weft.distributed.tensor.debug import CommDebugMode

import weft
from ranks import needs_mpi
from weft import nn
from weft.distributed.device_mesh import init_device_mesh

PROGRAM = "fsdp_options.py"
PARTS = [
    "columns",
    "in backward",
    "together",
    "computed again",
    "divided",
    "late copies",
    "left whole",
]
Results = Callable[[str, str, int], list[Any]]


def near(value: Any) -> Any:
    """What a value is to be: floats within rounding, texts and counts exactly."""
    is_float = isinstance(value, float) or (
        isinstance(value, list) and value and isinstance(value[0], float)
    )
    return pytest.approx(value, rel=1e-3, abs=1e-4) if is_float else value


@needs_mpi
@pytest.mark.parametrize("part", [*PARTS, "beside copies", "replaced"])
def test_options_do_what_they_do_in_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, 2) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert own[part] == {name: near(value) for name, value in other[part].items()}


# -- one process -----------------------------------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[None]:
    weft.distributed.init_process_group()
    yield
    weft.distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_collectives_are_counted_by_kind_and_module() -> None:
    mesh = init_device_mesh("cpu", (1,))
    ops = weft.ops.c10d_functional

    class Whole(nn.Module):
        def forward(self, x: DTensor) -> weft.Tensor:
            return x.full_tensor()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = Whole()

        def forward(self, x: DTensor) -> weft.Tensor:
            return self.whole(x) + x.sum().full_tensor()

    x = distribute_tensor(weft.ones(2, 2), mesh, [Shard(0)])
    with CommDebugMode() as mode:
        Net()(x)
        weft.distributed.all_reduce(weft.ones(1))
    found = mode.get_comm_counts()
    expected = {ops.all_gather_into_tensor: 1, ops.all_reduce: 1, weft.ops.c10d.allreduce_: 1}
    assert found == expected and mode.get_total_counts() == 3
    assert found[ops.reduce_scatter_tensor] == 0
    forward = {name: counts["forward"] for name, counts in mode.comm_module_counts.items()}
    assert forward["Net.whole"] == {ops.all_gather_into_tensor: 1}
    assert forward["Net"] == {ops.all_gather_into_tensor: 1, ops.all_reduce: 1}
    assert forward["Global"] == found
    assert "*forward c10d_functional.all_reduce: 1" in mode.generate_comm_debug_tracing_table()
    weft.distributed.all_reduce(weft.ones(1))
    assert mode.get_total_counts() == 3


@pytest.mark.usefixtures("group")
def test_gradients_within_a_mode_are_of_backward() -> None:
    model = fully_shard(nn.Linear(2, 2))
    with CommDebugMode() as mode:
        model(weft.ones(1, 2)).sum().backward()
    names = {str(kind): count for kind, count in mode.get_comm_counts().items()}
    assert names == {"c10d._allgather_base_": 1, "c10d._reduce_scatter_base_": 1}
    backward = mode.comm_module_counts["Global"]["backward"]
    assert backward == {weft.ops.c10d._reduce_scatter_base_: 1}
    assert mode.get_sharding_info()["FSDPLinear.weight"] == (Shard(0),)


@pytest.mark.usefixtures("group")
def test_what_stays_whole_is_gathered_again_after_a_write() -> None:
    model = fully_shard(nn.Linear(2, 2))
    model.set_reshard_after_backward(False)
    x = weft.ones(1, 2)

    def gathers() -> int:
        with CommDebugMode() as mode:
            model(x).sum().backward()
        return mode.get_comm_counts()[weft.ops.c10d._allgather_base_]

    assert [gathers(), gathers()] == [1, 0]
    with weft.no_grad():
        model.weight.to_local().mul_(2)
    assert [gathers(), gathers()] == [1, 0]
    model.weight.data = model.weight.data * 2
    assert [gathers(), gathers()] == [1, 0]
    model.load_state_dict({name: value * 2 for name, value in model.state_dict().items()})
    assert [gathers(), gathers()] == [1, 0]
    assert weft.equal(model(x), x @ model.weight.full_tensor().mT + model.bias.full_tensor())
    model.reshard()
    model.set_reshard_after_backward(True)
    assert [gathers(), gathers()] == [1, 1]


@pytest.mark.usefixtures("group")
def test_the_norm_of_distributed_gradients_is_one() -> None:
    model = fully_shard(nn.Linear(2, 2))
    model(weft.ones(1, 2)).sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert isinstance(norm, DTensor) and norm.placements == (Replicate(),)
    assert float(norm) == norm.full_tensor().item() == pytest.approx(6**0.5)
    assert f"{norm:.2f}" == "2.45"


@pytest.mark.usefixtures("group")
def test_specs_say_how_tensors_lie() -> None:
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(weft.ones(2, 3), mesh, [Shard(1)])
    spec = x._spec
    assert (spec.shape, spec.stride, spec.ndim) == ((2, 3), (3, 1), 2)
    assert (spec.dim_map, spec.num_shards, spec.sums) == ([-1, 0], 1, [])
    assert spec.is_sharded() and not spec.is_replicated()
    assert DTensor(x.to_local(), spec, requires_grad=True).placements == x.placements
    with pytest.raises(ValueError, match="nothing is known of the whole tensor"):
        _ = DTensorSpec(mesh, (Shard(0),)).shape


@pytest.mark.usefixtures("group")
def test_words_for_checkpoints_and_operators() -> None:
    layer = checkpoint(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="has been given already"):
        checkpoint(layer)
    with pytest.raises(ValueError, match="use_reentrant=True is not supported"):
        checkpoint(nn.Linear(2, 2), use_reentrant=True)
    with pytest.raises(NotImplementedError, match="c10d.allreduce_ cannot be called"):
        weft.ops.c10d.allreduce_(weft.ones(1))
    name = weft.distributed.group.WORLD.group_name
    assert weft.ops._c10d_functional.all_reduce(weft.ones(1), "sum", name).tolist() == [1.0]
    deterministic = fully_shard(nn.Linear(2, 2), deterministic=True)
    with pytest.raises(ValueError, match="set_requires_all_reduce of gradients whose order"):
        deterministic.set_requires_all_reduce(False)
