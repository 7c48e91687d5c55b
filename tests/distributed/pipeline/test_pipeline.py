"""Pipelines train as PyTorch's do with gloo, and as one process does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from weft.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from weft.distributed.pipelining.microbatch import TensorChunkSpec

import weft
from ranks import needs_mpi
from weft import nn

PROGRAM = "pipelined.py"
PARTS = ["gpipe", "1f1b", "interleaved", "looped"]
Results = Callable[[str, str, int], list[Any]]


def near(value: Any) -> Any:
    """Nested numbers, but for rounding."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return [near(row) for row in value]
    return pytest.approx(value, rel=1e-3, abs=1e-4)


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("part", PARTS)
def test_outputs_losses_and_weights_are_those_of_pytorch(
    results: Results, part: str, size: int
) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, size) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        assert own[part] == {name: near(value) for name, value in other[part].items()}


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_losses_are_those_of_one_process(results: Results, size: int) -> None:
    last = results("as_torch", PROGRAM, size)[-1]
    for part in PARTS:
        means = [sum(losses) / len(losses) for losses in last[part]["losses"]]
        assert means == near(last["alone"]["one" if part in PARTS[:2] else "two"])


# -- one process -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def group(request: Any) -> Iterator[None]:
    weft.distributed.init_process_group()
    yield
    weft.distributed.destroy_process_group()


class Ragged(nn.Module):
    """A stage whose output is shorter for some microbatches, with an input by name."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(weft.ones(1))

    def forward(self, x: weft.Tensor, scale: float = 1.0) -> Any:
        return (x[x > 0] if bool(x.sum() > 2) else x.flatten()) * self.weight * scale


def test_microbatches_may_have_other_shapes_and_stages_of_one_rank_need_no_messages() -> None:
    stages = [PipelineStage(Ragged(), index, 2, "cpu") for index in range(2)]
    schedule = ScheduleInterleaved1F1B(
        stages, 2, lambda out, target: (out.sum() - target.sum()).square()
    )
    losses: list[weft.Tensor] = []
    x = weft.tensor([[1.0, -2.0], [3.0, -4.0], [5.0, 6.0], [7.0, -8.0]])
    outputs = schedule.step(x, target=weft.zeros(4), losses=losses, scale=2.0)
    assert outputs.tolist() == [4.0, -8.0, 12.0, -16.0, 20.0, 24.0, 28.0]
    assert [loss.item() for loss in losses] == [64.0, 5184.0]
    assert stages[0].submod.weight.grad.item() == (2 * 64.0 + 2 * 5184.0) / 2
    assert schedule.eval(x, scale=2.0).tolist() == outputs.tolist()


def test_words_for_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="Stage index 2 is out of range of 2"):
        PipelineStage(nn.Identity(), 2, 2, "cpu")
    stage = PipelineStage(nn.Identity(), 0, 1, "cpu")
    with pytest.raises(ValueError, match="a batch of 2 cannot be cut into 4 microbatches"):
        Schedule1F1B(stage, 4).step(weft.ones(2, 8))
    columns = Schedule1F1B(stage, 4, args_chunk_spec=(TensorChunkSpec(1),))
    assert columns.step(weft.ones(2, 8)).shape == (8, 2)
    with pytest.raises(TypeError, match="a stage gives tensors to the next one, not str"):
        Schedule1F1B(PipelineStage(Named(), 0, 1, "cpu"), 1).step(weft.ones(1))


class Named(nn.Module):
    def forward(self, x: weft.Tensor) -> str:
        return "no tensor"
