"""A program for PyTorch that trains on several ranks: run by torch with gloo, or by `weft run` under mpiexec.

`data_parallel.py LIB OUT`. Every rank takes branches of its own, has batches of its own size, and leaves parameters
unused; the ranks have different numbers of batches. What it writes are losses and weights.
"""

from __future__ import annotations

import os
import random
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

LOCAL = int(os.environ["LOCAL_RANK"])


class Branches(nn.Module):
    """Layers of which each call takes some, in an order and number of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.norm = nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 1)
        self.unused = nn.Linear(2, 2)
        for number, parameter in enumerate(self.parameters()):
            parameter.data.copy_(numbers(100 * seed + number, *parameter.shape))

    def forward(self, x: torch.Tensor, path: list[int]) -> torch.Tensor:
        for number in path:
            x = self.layers[number](x).tanh()
        return self.last(self.norm(x))


def total(model: nn.Module) -> list[float]:
    return [float(p.detach().double().sum()) for p in model.parameters()]


def dynamic_graphs() -> dict[str, Any]:
    """Other branches, depths and batch sizes on each rank, and a step of two backward passes."""
    model = DDP(Branches(RANK), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    draw, losses = random.Random(RANK), []
    for step in range(6):
        optimizer.zero_grad()
        path = [draw.randrange(3) for _ in range(1 + draw.randrange(3))]
        if step == 4:
            with model.no_sync():
                model(numbers(step + 50 * RANK, 4, 6), path).square().mean().backward()
        loss = model(numbers(step + 10 * RANK, 3 + RANK + step % 2, 6), path).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    untouched = model.module.unused.weight.grad is None
    names = sorted(model.state_dict())[:2]
    return {"losses": losses, "weights": total(model), "untouched": untouched, "names": names}


def uneven_loops(divide: bool) -> dict[str, Any]:
    """More batches on later ranks."""
    model = DDP(Branches(7), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    with model.join(divide_by_initial_world_size=divide):
        for step in range(2 + 2 * RANK):
            optimizer.zero_grad()
            loss = model(numbers(step + 20 * RANK, 4, 6), [step % 3]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    return {"losses": losses, "weights": total(model)}


def shared_data() -> dict[str, Any]:
    """A loader whose sampler gives each rank its part; a loss averaged over ranks."""
    data = TensorDataset(numbers(3, 22, 6), numbers(4, 22, 1))
    sampler = DistributedSampler(data, shuffle=False)
    model = DDP(nn.Linear(6, 1))
    for number, parameter in enumerate(model.parameters()):
        parameter.data.copy_(numbers(number, *parameter.shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    means = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean, op=dist.ReduceOp.SUM)
            means.append(float(mean) / WORLD)
    return {"means": means, "weights": total(model)}


def main() -> None:
    dist.init_process_group(backend="gloo")
    assert (dist.get_rank(), dist.get_world_size()) == (RANK, WORLD)
    found = {
        "dynamic": dynamic_graphs(),
        "uneven": uneven_loops(True),
        "uneven, of those left": uneven_loops(False),
        "data": shared_data(),
    }
    finish(found)


if __name__ == "__main__":
    main()
