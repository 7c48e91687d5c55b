"""A program for PyTorch whose model is cut into stages: run by torch with gloo, or by `weft run` under mpiexec.

`pipelined.py LIB OUT`. What it writes are outputs, losses and gradients of this rank's stages.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)

MICROBATCHES = 8


class Part(nn.Module):
    """One stage, of a size of its own."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.linear = nn.Linear(3 + index, 4 + index)
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(numbers(10 * index + number, *parameter.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).tanh()


def cost(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


def train(kind: Any, stages_of_rank: int) -> dict[str, Any]:
    """Steps of a schedule on this rank's stages."""
    count = WORLD * stages_of_rank
    indices = range(RANK, count, WORLD)
    parts = [Part(index) for index in indices]
    stages = [
        PipelineStage(part, index, count, torch.device("cpu"))
        for part, index in zip(parts, indices, strict=True)
    ]
    schedule = kind(stages if stages_of_rank > 1 else stages[0], MICROBATCHES, loss_fn=cost)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=0.5)
    found: dict[str, Any] = {"losses": [], "outputs": []}
    for step in range(3):
        batch = [numbers(100 + step, 16, 3)] if RANK == 0 else []
        is_last = RANK == WORLD - 1
        more = {"target": numbers(200 + step, 16, 3 + count), "losses": []} if is_last else {}
        output = schedule.step(*batch, **more)
        optimizer.step()
        found["grads"] = [float(p.grad.double().sum()) for part in parts for p in part.parameters()]
        optimizer.zero_grad()
        if is_last:
            found["losses"].append([float(loss.detach()) for loss in more["losses"]])
            found["outputs"].append(output.detach().flatten().tolist())
        else:
            assert output is None
    found["weights"] = [p.detach().flatten().tolist() for part in parts for p in part.parameters()]
    return found


def alone(count: int) -> list[float]:
    """The mean losses of the same steps in one process."""
    model = nn.Sequential(*[Part(index) for index in range(count)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for step in range(3):
        loss = cost(model(numbers(100 + step, 16, 3)), numbers(200 + step, 16, 3 + count))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def main() -> None:
    dist.init_process_group(backend="gloo")
    found = {
        "gpipe": train(ScheduleGPipe, 1),
        "1f1b": train(Schedule1F1B, 1),
        "interleaved": train(ScheduleInterleaved1F1B, 2),
        "looped": train(ScheduleLoopedBFS, 2),
        "alone": {"one": alone(WORLD), "two": alone(2 * WORLD)},
    }
    finish(found)


if __name__ == "__main__":
    main()
