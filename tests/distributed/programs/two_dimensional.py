"""A program for PyTorch that shares modules out over one dimension of a mesh and shards them over another one: run by
torch with gloo, or by `weft run` under mpiexec.

`two_dimensional.py LIB OUT`. What it writes are losses, norms, layouts and whole gradients and weights.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F

COPIES, SHARDS = 2, WORLD // 2  # of the data; one dimension each
STEPS, ROWS = 4, 4


class Layer(nn.Module):
    """A layer of more features, whose number is no multiple of the ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.up, self.down = nn.Linear(6, 10), nn.Linear(10, 6)
        self.never = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(self.norm(x)).relu())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 6)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(6, 12)
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(numbers(number, *parameter.shape) * 0.5)

    def forward(self, words: torch.Tensor) -> Any:
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def plan(in_sequence: bool) -> dict[str, Any]:
    """Which modules are shared out, and how; with parts of the sequence between them, or whole values."""
    between: Any = Shard(1) if in_sequence else Replicate()
    styles: dict[str, Any] = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "layers.*.up": ColwiseParallel(input_layouts=between),
        "layers.*.down": RowwiseParallel(output_layouts=between),
        "head": ColwiseParallel(input_layouts=between, output_layouts=Replicate()),
    }
    return styles | ({"layers.*.norm": SequenceParallel()} if in_sequence else {})


def two_dimensional(in_sequence: bool = False, **options: Any) -> Model:
    """The model, shared out over one dimension of a mesh and sharded over the other."""
    mesh = init_device_mesh("cpu", (SHARDS, COPIES), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(Model(), mesh["tp"], plan(in_sequence))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"], **options)
    return fully_shard(model, mesh=mesh["dp"], **options)


def copied() -> Model:
    """The model on a mesh of three dimensions: copies of shards of parts."""
    mesh = init_device_mesh("cpu", (SHARDS, 1, COPIES), mesh_dim_names=("copy", "shard", "tp"))
    model = parallelize_module(Model(), mesh["tp"], plan(False))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["copy", "shard"])
    return fully_shard(model, mesh=mesh["copy", "shard"])


def words(step: int, rank: int) -> torch.Tensor:
    """Examples of a rank, or of a line of ranks that share one model out."""
    return (numbers(100 * step + rank, ROWS, 7).abs() * 11).long()


def cost(model: nn.Module, step: int, rank: int) -> torch.Tensor:
    x = words(step, rank)
    return F.cross_entropy(model(x[:, :-1]).flatten(0, 1).float(), x[:, 1:].flatten())


def whole(x: Any) -> Any:
    return x.full_tensor() if isinstance(x, DTensor) else x


def sums(model: nn.Module) -> list[float]:
    used = [p for name, p in model.named_parameters() if "never" not in name]
    return [float(whole(p.detach()).double().abs().sum()) for p in used]


def train(model: nn.Module, clips: bool) -> dict[str, Any]:
    """Some steps on examples of this rank's line; the loss is the mean over lines."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03, eps=0.01)
    losses, norms = [], []
    for step in range(STEPS):
        loss = cost(model, step, RANK // COPIES)
        loss.backward()
        grads = [whole(p.grad) for p in model.parameters() if p.grad is not None]
        norms.append(float(torch.stack([g.double().square().sum() for g in grads]).sum()))
        if clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(float(mean) / WORLD)
    return {"losses": losses, "norms": norms, "weights": sums(model)}


def alone(clips: bool) -> dict[str, Any]:
    """The same steps of one process, on the examples of all lines."""
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03, eps=0.01)
    losses, norms = [], []
    for step in range(STEPS):
        loss = sum(cost(model, step, line) for line in range(SHARDS)) / SHARDS
        loss.backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        norms.append(float(torch.stack([g.double().square().sum() for g in grads]).sum()))
        if clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return {"losses": losses, "norms": norms, "weights": sums(model)}


def layouts() -> dict[str, Any]:
    """How parameters lie, and the shapes of this rank's parts."""
    found = {}
    for name, parameter in two_dimensional(True).named_parameters():
        placements = [[type(p).__name__, getattr(p, "dim", None)] for p in parameter.placements]
        factors = [getattr(p, "split_factor", None) for p in parameter.placements]
        shape = list(parameter.to_local().shape)
        found[name] = [
            list(parameter.shape),
            shape,
            parameter.device_mesh.ndim,
            placements,
            factors,
        ]
        found[name].append(parameter.full_tensor().flatten().tolist())
    return found


def mixed() -> dict[str, Any]:
    """bfloat16 within."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return train(two_dimensional(mp_policy=policy), False)


def main() -> None:
    dist.init_process_group(backend="gloo")
    found = {
        "alone": alone(False),
        "clipped alone": alone(True),
        "two dimensions": train(two_dimensional(), False),
        "kept": train(two_dimensional(reshard_after_forward=False), False),
        "sequence": train(two_dimensional(True), False),
        "copies": train(copied(), False),
        "layouts": layouts(),
        "mixed": mixed(),
    }
    if sys.argv[1] != "torch":  # which refuses gradients that lie over different meshes
        found["clipped"] = train(two_dimensional(), True)
    finish(found)


if __name__ == "__main__":
    main()
