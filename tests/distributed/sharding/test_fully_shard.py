"""fully_shard trains as PyTorch's does with gloo, and as one process does; its checkpoints fit any number of ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from weft.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from weft.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from weft.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import weft
from ranks import needs_mpi, run
from weft import nn
from weft.distributed import checkpoint
from weft.distributed.device_mesh import init_device_mesh

PROGRAM, FILES = "fully_sharded.py", "sharded_checkpoints.py"
PARTS = ["whole", "sharded", "kept", "unused", "accumulation", "by hand", "copies", "scaled"]
Results = Callable[[str, str, int], list[Any]]


def near(value: Any) -> Any:
    """What a value is to be, as the tests of DistributedDataParallel have it."""
    is_float = isinstance(value, float) or (isinstance(value, list) and isinstance(value[0], float))
    return pytest.approx(value, rel=1e-3, abs=1e-4) if is_float else value


@needs_mpi
@pytest.mark.parametrize("part", PARTS)
def test_losses_norms_and_weights_are_those_of_pytorch(results: Results, part: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, 2) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert own[part] == {name: near(value) for name, value in other[part].items()}
        assert own["never"] and other["never"]


@needs_mpi
def test_mixed_precision_is_that_of_pytorch(results: Results) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, 2)[0]["mixed"] for lib in ("as_torch", "torch"))
    assert ours["dtypes"] == theirs["dtypes"] == ["bfloat16"]
    for name in ("losses", "norms"):
        assert ours[name] == pytest.approx(theirs[name], rel=2**-7)  # bfloat16 has 8 bits


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("part", ["sharded", "kept", "copies"])
def test_losses_norms_and_weights_are_those_of_one_process(
    results: Results, size: int, part: str
) -> None:
    for rank in results("as_torch", PROGRAM, size):
        assert rank[part] == {name: near(value) for name, value in rank["whole"].items()}


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_losses_and_weights_have_the_bits_of_data_parallel(results: Results, size: int) -> None:
    assert all(rank["as data parallel"] for rank in results("as_torch", PROGRAM, size))


# -- modules that are shared out as well ------------------------------------------------------------------------------

BOTH = "two_dimensional.py"


@needs_mpi
@pytest.mark.parametrize("part", ["two dimensions", "kept", "sequence", "copies"])
def test_parts_that_are_sharded_train_as_in_pytorch_and_alone(results: Results, part: str) -> None:
    for rank in results("as_torch", BOTH, 4):
        assert rank[part] == {name: near(value) for name, value in rank["alone"].items()}
    pytest.importorskip("torch")
    ours, theirs = (results(lib, BOTH, 4) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert own[part] == {name: near(value) for name, value in other[part].items()}


@needs_mpi
def test_the_norm_of_parts_that_are_sharded_is_that_of_the_whole(results: Results) -> None:
    for rank in results("as_torch", BOTH, 4):
        assert rank["clipped"] == {n: near(value) for n, value in rank["clipped alone"].items()}


@needs_mpi
def test_parts_that_are_sharded_lie_as_in_pytorch(results: Results) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, BOTH, 4) for lib in ("as_torch", "torch"))
    assert [rank["layouts"] for rank in ours] == [rank["layouts"] for rank in theirs]
    for own, other in zip(ours, theirs, strict=True):
        for name in ("losses", "norms"):
            assert own["mixed"][name] == pytest.approx(other["mixed"][name], rel=2**-7)


# -- files and memory ------------------------------------------------------------------------------------------------


def said(printed: str) -> set[str]:
    """What ranks printed, without their numbers."""
    return set(re.findall(r"rank \d: (.*)", printed))


@needs_mpi
def test_another_number_of_ranks_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    ends = said(run(2, FILES, "save", tmp_path / "two"))
    assert len(ends) == 1
    assert said(run(2, FILES, "load own", tmp_path / "two")) == ends
    assert said(run(1, FILES, "load", tmp_path / "two")) == ends
    assert said(run(4, FILES, "load", tmp_path / "two")) == ends
    whole = {"model": {"0.weight": weft.zeros(7, 5)}, "step": 0}
    checkpoint.load(whole, checkpoint_id=tmp_path / "two")
    assert whole["step"] == 3 and (whole["model"]["0.weight"] != 0).all()
    checkpoint.format_utils.dcp_to_torch_save(tmp_path / "two", tmp_path / "one.safetensors")
    assert said(run(2, FILES, "load", tmp_path / "one.safetensors")) == ends


@needs_mpi
def test_parts_of_parts_go_on_in_one_process_and_lie_otherwise(tmp_path: Path) -> None:
    ends = said(run(4, FILES, "save", tmp_path / "four", 2))
    assert len(ends) == 1
    assert said(run(1, FILES, "load", tmp_path / "four")) == ends
    assert said(run(2, FILES, "load own", tmp_path / "four")) == ends
    assert said(run(4, FILES, "load own", tmp_path / "four", 2)) == ends
    assert said(run(2, FILES, "load", tmp_path / "four", 1)) == ends
    whole = {"model": {"0.weight": weft.zeros(7, 5), "2.weight": weft.zeros(3, 7)}}
    checkpoint.load(whole, checkpoint_id=tmp_path / "four")
    assert all((values != 0).all() for values in whole["model"].values())
    files = list((tmp_path / "four").glob("*-?.safetensors"))
    assert len(files) == 4 and all(weft.load(path) for path in files)  # each rank its own parts
    checkpoint.format_utils.dcp_to_torch_save(tmp_path / "four", tmp_path / "one.safetensors")
    assert said(run(4, FILES, "load", tmp_path / "one.safetensors", 2)) == ends


@needs_mpi
def test_four_ranks_train_what_is_three_times_the_budget_of_each(tmp_path: Path) -> None:
    assert said(run(4, FILES, "budget", tmp_path)) == {"the same losses: True"}


# -- one process -----------------------------------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[None]:
    weft.distributed.init_process_group()
    yield
    weft.distributed.destroy_process_group()


def model() -> nn.Sequential:
    weft.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.mark.usefixtures("group")
def test_a_sharded_module_is_still_of_its_class() -> None:
    alone, sharded = model(), model()
    fully_shard([sharded[0], sharded[2]])
    fully_shard(sharded)
    assert isinstance(sharded[0], nn.Linear) and isinstance(sharded, FSDPModule)
    assert sharded.load_state_dict(alone.state_dict()) == ([], [])
    x = weft.rand(5, 3)
    for net in (alone, sharded):
        net(x).square().sum().backward()
    for whole, rows in zip(alone.parameters(), sharded.parameters(), strict=True):
        assert isinstance(rows, DTensor) and rows.placements == (Shard(0),)
        assert rows.grad.tolist() == whole.grad.tolist()
    assert "FSDPLinear(in_features=3" in repr(sharded)


@pytest.mark.usefixtures("group")
def test_a_module_on_meta_is_assigned_what_another_one_has() -> None:
    """What starts a model that is too large for one rank: made without memory, sharded, then given its rows."""
    given = fully_shard(model())
    with weft.device("meta"):
        empty = fully_shard(model())
    assert all(isinstance(each, nn.Parameter) and each.is_meta for each in empty.parameters())
    state = given.state_dict()
    assert empty.load_state_dict(state, assign=True) == ([], [])
    x = weft.ones(2, 3)
    assert weft.equal(empty(x), given(x))
    empty(x).sum().backward()
    for name, parameter in empty.named_parameters():
        assert isinstance(parameter, DTensor) and isinstance(parameter, nn.Parameter)
        assert parameter.to_local().data_ptr() == state[name].to_local().data_ptr()
        assert parameter.grad is not None and parameter.grad.placements == parameter.placements


@pytest.mark.usefixtures("group")
def test_words_for_parts_over_another_mesh() -> None:
    one, other = (init_device_mesh("cpu", (1,), mesh_dim_names=(n,)) for n in ("dp", "tp"))
    layer = parallelize_module(nn.Linear(2, 2), other, ColwiseParallel())
    with pytest.raises(ValueError, match="not different dimensions of one mesh"):
        fully_shard(layer, mesh=one)
    assert layer.weight.placements == (Shard(0),)


@pytest.mark.usefixtures("group")
def test_tensors_over_a_mesh() -> None:
    mesh = init_device_mesh("cpu", (1,))
    whole = weft.arange(6.0).reshape(3, 2)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert rows.full_tensor().tolist() == rows.to_local().tolist() == whole.tolist()
    assert distribute_tensor(whole, mesh, [Replicate()]).full_tensor().shape == (3, 2)
    assert DTensor.from_local(whole, mesh, [Shard(0)]).device_mesh == mesh
    assert type(rows * 2) is DTensor and "DTensor(local_tensor=" in repr(rows)
    with pytest.raises(ValueError, match=r"a tensor cannot lie as \[Shard\(dim=2\)\]"):
        distribute_tensor(whole, mesh, [Shard(2)])


class Scalar(nn.Module):
    """A module with a parameter that cannot be sharded."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(weft.tensor(1.0))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return x * self.scale


@pytest.mark.usefixtures("group")
def test_words_for_what_cannot_be_sharded() -> None:
    twice = fully_shard(nn.Linear(2, 2))
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    fully_shard(tied[0])
    cases: list[tuple[Any, str]] = [
        (twice, "has already been applied"),
        (nn.ModuleList([nn.Linear(2, 2)]), "containers that do not implement forward: ModuleList"),
        (Scalar(), r"doesn't support scalar parameters. Change scale to a 1D tensor"),
        (tied, "1.weight is shared with a module that is sharded already"),
    ]
    for module, words in cases:
        with pytest.raises(ValueError, match=words):
            fully_shard(module)
    with pytest.raises(AssertionError, match="Shard dim 1 is invalid for 1D tensor: bias"):
        fully_shard(nn.Linear(2, 2), shard_placement_fn=lambda parameter: Shard(1))
    with pytest.raises(ValueError, match=r"weight cannot be sharded as Replicate\(\)"):
        fully_shard(nn.Linear(2, 2), shard_placement_fn=lambda parameter: Replicate())
    twice.weight = nn.Parameter(weft.ones(2, 2))
    with pytest.raises(ValueError, match="weight has been replaced by what does not lie as it did"):
        twice(weft.ones(1, 2))
    empty = fully_shard(nn.Linear(2, 2, device="meta"))
    with pytest.raises(RuntimeError, match="should be materialized from meta device"):
        empty(weft.ones(1, 2))
    with pytest.raises(TypeError, match="expected a module"):
        fully_shard([3])
    with pytest.raises(ValueError, match="reshard_after_forward should be a bool"):
        twice.set_reshard_after_forward(2)
    with pytest.raises(ValueError, match="Expects FSDPModule"):
        twice.set_modules_to_forward_prefetch([nn.Linear(1, 1)])


def test_a_group_comes_first() -> None:
    with pytest.raises(RuntimeError, match="has not been initialized"):
        fully_shard(nn.Linear(1, 1))


@pytest.mark.usefixtures("group")
def test_values_that_two_segments_read_are_not_overwritten_between_them() -> None:
    weft.manual_seed(0)
    policy = MixedPrecisionPolicy(output_dtype=weft.float64)
    nets = []
    for shards in (False, True):
        weft.manual_seed(0)
        layers = [Normed() for _ in range(3)]
        nets.append(nn.Sequential(*layers))
        for layer in layers if shards else ():
            fully_shard(layer)
    fully_shard(nets[1], mp_policy=policy)
    x = weft.rand(4, 3)
    outputs = [net(x) for net in nets]
    assert outputs[1].dtype is weft.float64
    for output in outputs:
        output.float().square().sum().backward()
    for whole, rows in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert (whole.grad is None) == (rows.grad is None)
        assert whole.grad is None or whole.grad.tolist() == rows.grad.tolist()


class Normed(nn.Module):
    """A layer whose unused parameter has the gradients of each layer read before those of the next are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(3), nn.Linear(3, 3)
        self.never = nn.Parameter(weft.zeros(2))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return x + self.linear(self.norm(x)).tanh()
