"""Programs in the style of PyTorch's tutorials and examples for several processes, as functions of one: run by torch
with gloo, or by `weft run` under mpiexec. `tutorials.py LIB OUT`. What it writes are losses.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as such programs have it
from on_ranks import OUT, RANK, WORLD, finish, numbers
from torch import nn, optim
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


def filled(model: nn.Module) -> Any:
    """A model with weights that both libraries have."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(numbers(number, *parameter.shape) * 0.3)
    return model


class ToyModel(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.net1 = nn.Linear(10, 32)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net2(self.relu(self.net1(x)))


def data_parallel() -> list[float]:
    """Toy steps, with a checkpoint by the first rank that the others read after a barrier."""
    ddp = DDP(filled(ToyModel()))
    cost = nn.MSELoss()
    optimizer = optim.SGD(ddp.parameters(), lr=0.01)
    place = OUT / "ddp.checkpoint"
    if RANK == 0:
        torch.save(ddp.state_dict(), place)
    dist.barrier()
    ddp.load_state_dict(torch.load(place, map_location="cpu", weights_only=True))
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        loss = cost(ddp(numbers(step + 10 * RANK, 20, 10)), numbers(99 + step + RANK, 20, 5))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    dist.barrier()
    return losses


class Images(Dataset):  # type: ignore[type-arg]
    """Small images with a class each."""

    def __len__(self) -> int:
        return 26

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return numbers(index, 3, 8, 8), index % 4


class AverageMeter:
    """A sum and a count that ranks add up."""

    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, value: float, n: int) -> None:
        self.sum += value * n
        self.count += n

    def all_reduce(self) -> float:
        total = torch.tensor([self.sum, self.count], dtype=torch.float32)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()
        return self.sum / self.count


def accuracy(output: torch.Tensor, target: torch.Tensor, topk: tuple[int, ...]) -> list[float]:
    """The percentage of examples whose class is among the first k."""
    with torch.no_grad():
        _, found = output.topk(max(topk), 1, True, True)
        correct = found.t().eq(target.view(1, -1).expand_as(found.t()))
        return [
            float(correct[:k].reshape(-1).float().sum(0).mul_(100.0 / target.size(0))) for k in topk
        ]


def image_classes() -> list[float]:
    """A network with batch norm on a sampler's part of the images, a schedule, and meters over all ranks."""
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
    )  # fmt: skip
    model = DDP(filled(network))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    sampler: Any = DistributedSampler(Images(), shuffle=False, drop_last=True)
    loader: Any = DataLoader(Images(), batch_size=4, sampler=sampler, num_workers=0)
    found = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        model.train()
        losses, first, third = AverageMeter(), AverageMeter(), AverageMeter()
        for images, target in loader:
            output = model(images)
            loss = F.cross_entropy(output, target)
            one, three = accuracy(output, target, topk=(1, 3))
            losses.update(loss.item(), images.size(0))
            first.update(one, images.size(0))
            third.update(three, images.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        found += [losses.all_reduce(), first.all_reduce(), third.all_reduce()]
        model.eval()
        with torch.no_grad():
            found.append(float(model(numbers(5, 2, 3, 8, 8)).sum()))
    return found


def averaged_by_hand() -> list[float]:
    """Gradients that the program averages itself, then parameters, by messages as well."""
    torch.manual_seed(1234)
    model = filled(ToyModel())
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        output = F.log_softmax(model(numbers(step + 20 * RANK, 6, 10)), dim=1)
        loss = F.nll_loss(output, torch.arange(6) % 5)
        losses.append(loss.item())
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad.data, op=dist.ReduceOp.SUM)
            parameter.grad.data /= float(WORLD)
        optimizer.step()
    for parameter in model.parameters():  # what another rank has, halfway
        other = torch.zeros_like(parameter.data)
        works = [
            dist.isend(parameter.data, (RANK + 1) % WORLD),
            dist.irecv(other, (RANK - 1) % WORLD),
        ]
        for work in works:
            work.wait()
        parameter.data.add_(other).div_(2)
        losses.append(float(parameter.data.sum()))
    return losses


class Layer(nn.Module):
    """An encoder layer of few numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 2, batch_first=True)
        self.norm = nn.LayerNorm(12)
        self.forward_part = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.forward_part(x)


def fully_sharded() -> list[float]:
    """A transformer whose layers are sharded, gradients clipped, and the whole state at the end."""
    model = filled(nn.Sequential(nn.Linear(4, 12), Layer(), Layer(), nn.Linear(12, 3)))
    for layer in (model[1], model[2]):
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(4):
        x = numbers(step + 30 * RANK, 2, 5, 4)
        loss = F.cross_entropy(model(x).flatten(0, 1), torch.arange(10) % 3)
        loss.backward()
        norm: Any = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        losses += [loss.item(), float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)]
        optimizer.step()
        optimizer.zero_grad()
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)
    return [*losses, *[float(state[name].double().sum()) for name in sorted(state)]]


def tensor_parallel() -> list[float]:
    """The toy model with its layers shared out; all ranks have the same inputs."""
    mesh = init_device_mesh("cpu", (WORLD,))
    plan = {"net1": ColwiseParallel(), "net2": RowwiseParallel()}
    model = parallelize_module(filled(ToyModel()), mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
    losses = []
    for step in range(4):
        output = model(numbers(step, 20, 10))
        output.square().mean().backward()
        losses.append(output.sum().item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def pipelined() -> list[float]:
    """Stages of a model on two ranks, with microbatches."""
    layers = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(4)]
    filled(nn.Sequential(*layers))
    module = nn.Sequential(*layers[2 * RANK : 2 * RANK + 2])
    stage = PipelineStage(module, RANK, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.MSELoss())
    optimizer = optim.SGD(module.parameters(), lr=0.1)
    found = []
    for step in range(3):
        losses: list[torch.Tensor] = []
        if RANK == 0:
            schedule.step(numbers(step, 8, 6))
        else:
            schedule.step(target=numbers(50 + step, 8, 6), losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        found += [loss.item() for loss in losses]
    return [*found, *[float(p.detach().sum()) for p in module.parameters()]]


def main() -> None:
    dist.init_process_group("gloo")
    programs = (
        data_parallel, image_classes, averaged_by_hand, fully_sharded, tensor_parallel, pipelined,
    )  # fmt: skip
    finish({program.__name__: program() for program in programs})


if __name__ == "__main__":
    main()
