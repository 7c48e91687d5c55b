"""A program for PyTorch that shards models: run by torch with gloo, or by `weft run` under mpiexec.

`fully_sharded.py LIB OUT`. What it writes are losses, norms and whole weights.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel


class Layer(nn.Module):
    """A layer whose rows are no multiple of the ranks, with a parameter that some ranks leave unused, and one that all
    do."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(7)
        self.linear = nn.Linear(7, 7)
        self.sometimes = nn.Parameter(torch.zeros(3, 1))
        self.never = nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor, uses: bool) -> torch.Tensor:
        y = self.linear(self.norm(x)).tanh()
        return x + y * self.sometimes.sum() if uses else x + y


class Model(nn.Module):
    """Layers between an embedding and a head that have one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 7)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.head = nn.Linear(7, 10, bias=False)
        self.head.weight = self.embed.weight
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(numbers(number, *parameter.shape) * 0.5)

    def forward(self, words: torch.Tensor, uses: bool = True) -> torch.Tensor:
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x, uses)
        return self.head(x)


def sharded(**options: Any) -> Model:
    """The model, with its layers and then the rest sharded."""
    model = Model()
    for layer in model.layers:
        fully_shard(layer, **options)
    assert fully_shard(model, **options) is model and isinstance(model, FSDPModule)
    return model


def words(step: int, rank: int) -> torch.Tensor:
    draw = random.Random(100 * step + rank)
    return torch.tensor([[draw.randrange(10) for _ in range(5)] for _ in range(4)])


def cost(model: Model, step: int, rank: int, uses: bool = True) -> torch.Tensor:
    x = words(step, rank)
    out = model(x[:, :-1], uses)
    return nn.functional.cross_entropy(out.flatten(0, 1).float(), x[:, 1:].flatten())


def total(model: nn.Module) -> list[float]:
    """The sum of each whole parameter that is used."""
    used = [p for name, p in model.named_parameters() if "never" not in name]
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in used]
    return [float(p.detach().double().sum()) for p in whole]


def mean(value: torch.Tensor) -> float:
    mean = value.detach().clone()
    dist.all_reduce(mean)
    return float(mean) / WORLD


def norm_of(model: nn.Module) -> float:
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def train(model: Model, uses: Callable[[int], bool] = lambda step: True) -> dict[str, Any]:
    """Steps with clipped gradients; the loss is the mean of all ranks."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    losses, norms = [], []
    for step in range(4):
        loss = cost(model, step, RANK, uses(step))
        loss.backward()
        norms.append(norm_of(model))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean(loss))
    return {"losses": losses, "norms": norms, "weights": total(model)}


def whole_batch() -> dict[str, Any]:
    """The same steps without sharding, on the examples of all ranks."""
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    losses, norms = [], []
    for step in range(4):
        loss = sum(cost(model, step, rank) for rank in range(WORLD)) / WORLD
        loss.backward()
        norms.append(norm_of(model))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return {"losses": losses, "norms": norms, "weights": total(model)}


def unused() -> dict[str, Any]:
    """Some ranks leave a parameter unused, in turn."""
    model = sharded()
    model.set_reduce_scatter_unused_params(True)
    return train(model, lambda step: (step + RANK) % 2 == 0)


def bits(model: nn.Module) -> tuple[list[float], list[float]]:
    """Losses and weights after some steps without clipping."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    losses = []
    for step in range(4):
        loss = cost(model, step, RANK)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean(loss))
    return losses, total(model)


def accumulation() -> dict[str, Any]:
    """Two backward passes for each step, of which the first keeps its gradients on the rank."""
    model = sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        model.set_requires_gradient_sync(False)
        cost(model, 2 * step, RANK).backward()
        before = model.layers[0].linear.weight.grad is None
        model.set_requires_gradient_sync(True)
        cost(model, 2 * step + 1, RANK).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"weights": total(model), "none before": before}


def by_hand() -> dict[str, Any]:
    """`unshard` and `reshard`, parameters that are frozen, and a forward without gradients."""
    model = sharded(reshard_after_forward=False)
    for parameter in model.layers[1].parameters():
        parameter.requires_grad_(False)
    first = model.layers[0]
    first.unshard()
    whole = tuple(first.linear.weight.shape)
    first.reshard()
    handle = first.unshard(async_op=True)
    model.set_modules_to_forward_prefetch([first])
    with torch.no_grad():
        value = float(cost(model, 0, RANK))
    handle.wait()
    cost(model, 0, RANK).backward()
    frozen = model.layers[1].linear.weight.grad is None
    grad = model.layers[2].linear.weight.grad
    local = grad.to_local() if isinstance(grad, DTensor) else grad
    return {"whole": whole, "value": value, "frozen": frozen, "grad": float(local.sum())}


def copies() -> dict[str, Any]:
    """A mesh of two dimensions: parameters are shared out over one and copied over the other."""
    shape = (2, WORLD // 2)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("copy", "shard"))
    return train(sharded(mesh=mesh))


def mixed() -> dict[str, Any]:
    """bfloat16 within, float32 for parameters and gradients."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(mp_policy=policy)
    seen: list[Any] = []
    model.layers[1].linear.register_forward_hook(lambda m, i, o: seen.append(str(o.dtype)))
    found = train(model)
    return {**found, "dtypes": sorted({name.split(".")[1] for name in seen})}


def scaled() -> dict[str, Any]:
    """A step that all ranks leave out, as one has a gradient that is not finite."""
    model = sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scales = []
    for step in range(2):
        scaler.scale(cost(model, step, RANK)).backward()
        if step == 0 and RANK == 1:
            grad = model.layers[0].linear.weight.grad
            assert isinstance(grad, DTensor)
            grad.to_local().fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return {"scales": scales, "weights": total(model)}


def main() -> None:
    dist.init_process_group(backend="gloo")
    found = {
        "whole": whole_batch(),
        "sharded": train(sharded()),
        "kept": train(sharded(reshard_after_forward=False)),
        "unused": unused(),
        "accumulation": accumulation(),
        "by hand": by_hand(),
        "copies": copies(),
        "mixed": mixed(),
        "scaled": scaled(),
    }
    model = sharded()
    cost(model, 0, RANK).backward()
    found["never"] = model.layers[0].never.grad is None
    parallel = DistributedDataParallel(Model(), find_unused_parameters=True)
    found["as data parallel"] = bits(sharded()) == bits(parallel)
    finish(found)


if __name__ == "__main__":
    main()
