"""A program for PyTorch whose modules are shared out: run by torch with gloo, or by `weft run` under mpiexec.

`tensor_parallel.py LIB OUT`. What it writes are values, placements, losses and whole gradients and weights.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F


def whole(x: Any) -> Any:
    return x.full_tensor() if isinstance(x, DTensor) else x


def listed(x: Any) -> Any:
    return whole(x).detach().double().flatten().tolist()


# -- operations on tensors that lie anyhow ---------------------------------------------------------------------------

Operation = Callable[..., Any]
UNARY: dict[str, Operation] = {
    "relu": lambda x: x.relu(),
    "scaled": lambda x: (2 - x * 3) / 2,
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(1),
    "mean of columns": lambda x: x.mean(0, keepdim=True),
    "mean": lambda x: x.exp().mean(),
    "largest": lambda x: x.amax(1),
    "variance": lambda x: x.var(0),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=0),
    "norm": lambda x: F.layer_norm(x, (6,)),
    "transposed": lambda x: x.t().exp(),
    "view": lambda x: x.view(5, 2, 3).transpose(0, 1).sin(),
    "flat": lambda x: x.reshape(-1).square(),
    "flattened": lambda x: x.unsqueeze(1).flatten(0, 1).tanh(),
    "index": lambda x: x[:, 1:4] * x[2, 3:],
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "stack": lambda x: torch.stack([x, x.exp()]),
    "split": lambda x: x.split(3, 1)[1].sigmoid(),
    "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "cumsum": lambda x: x.cumsum(1),
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1).pow(2),
    "norm of all": lambda x: torch.linalg.vector_norm(x),
    "norms": lambda x: torch.linalg.vector_norm(x, dim=1) * x.norm(1, 1),
    "gelu": lambda x: F.gelu(x),
    "in place": lambda x: x.clone().mul_(2).add_(1),
}
BINARY: dict[str, Operation] = {
    "matmul": lambda x, y: x @ y.t(),
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "row": lambda x, y: x * y[0],
    "as the other": lambda x, y: x.view_as(y) * y,
    "linear": lambda x, y: F.linear(x, y, y.sum(1)),
    "addmm": lambda x, y: torch.addmm(x.sum(1), x, y.t()),
    "sum of products": lambda x, y: (x @ y.t() + x @ y.t()).sum(),
}


def lies(name: str) -> Any:
    return {"rows": Shard(0), "columns": Shard(1), "whole": Replicate()}[name]


def laid(seed: int, name: str, mesh: Any) -> Any:
    return everywhere(numbers(seed, 5, 6), mesh, lies(name)).requires_grad_()


def everywhere(x: torch.Tensor, mesh: Any, placement: Any) -> Any:
    """A tensor over the mesh; in PyTorch the plain one, since not all operations know tensors that lie unevenly."""
    return x if sys.argv[1] == "torch" else distribute_tensor(x, mesh, [placement])


def operations(mesh: Any) -> dict[str, Any]:
    """Values and gradients of operations on tensors that lie in all ways."""
    found: dict[str, Any] = {}
    ways = ["rows", "columns", "whole"]
    for name, operation in UNARY.items():
        for way in ways:
            x = laid(1, way, mesh)
            out = operation(x)
            weight = numbers(3, *out.shape)
            (out * everywhere(weight, mesh, Replicate())).sum().backward()
            found[f"{name} {way}"] = [list(out.shape), listed(out), listed(x.grad)]
    for name, operation in BINARY.items():
        for first in ways:
            for second in ways:
                x, y = laid(1, first, mesh), laid(2, second, mesh)
                out = operation(x, y)
                out.square().sum().backward()
                found[f"{name} {first} {second}"] = [listed(out), listed(x.grad), listed(y.grad)]
    return found


def moves(mesh: Any) -> dict[str, Any]:
    """Layouts, changed into each other, with the shapes of this rank's parts."""
    found: dict[str, Any] = {}
    for first in (Shard(0), Shard(1), Replicate(), Partial()):
        for second in (Shard(0), Shard(1), Replicate()):
            part = numbers(5, 4, 8) * (RANK + 1 if first == Partial() else 1)
            x = part.requires_grad_()
            moved = DTensor.from_local(x, mesh, [first]).redistribute(mesh, [second])
            local = moved.to_local()
            (local * (RANK + 2 if second.is_shard() else 2)).sum().backward()
            row = [list(moved.shape), list(local.shape), listed(moved), x.grad.flatten().tolist()]
            found[f"{first} to {second}"] = row
    return found


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def hooked(mesh: Any) -> dict[str, Any]:
    """What hooks of a module on backward see of tensors over ranks, and what comes of their answers."""
    found: dict[str, Any] = {}
    for name in ("rows", "columns", "whole"):
        seen: list[Any] = []
        module = Doubled()

        def after(module: Any, inputs: Any, outputs: Any, seen: Any = seen) -> Any:
            seen += [[type(g).__name__, listed(g)] for g in (*inputs, *outputs)]
            return (inputs[0] * 3,)

        module.register_full_backward_hook(after)
        x = distribute_tensor(numbers(1, 6, 4), mesh, [lies(name)]).requires_grad_()
        module(x).square().sum().backward()
        found[name] = [seen, listed(x.grad)]
    return found


def two_dims() -> dict[str, Any]:
    """A mesh of two dimensions."""
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("dp", "tp"))
    x = distribute_tensor(numbers(1, 6, 5), mesh, [Shard(0), Shard(0)]).requires_grad_()
    y = distribute_tensor(numbers(2, 5, 4), mesh, [Replicate(), Shard(1)]).requires_grad_()
    out = (x @ y).relu()
    out.sum().backward()
    moved = x.redistribute(placements=[Replicate(), Shard(1)])
    local = [list(x.to_local().shape), list(moved.to_local().shape)]
    return {"values": [listed(out), listed(x.grad), listed(y.grad), listed(moved)], "local": local}


# -- modules -----------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention and a layer of more features, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.out = nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        heads = [m(y).unflatten(-1, (-1, 2)).transpose(1, 2) for m in (self.q, self.k, self.v)]
        seen = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(self.up(self.norm2(x)).relu())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 12)
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(numbers(number, *parameter.shape) * 0.5)

    def forward(self, words: torch.Tensor) -> Any:
        x = self.embed(words)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def tensor_parallel() -> Model:
    """The model with its products shared out."""
    plan: dict[str, Any] = {
        "embed": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(),
    }
    for name in ("q", "k", "v", "up"):
        plan[f"blocks.*.{name}"] = ColwiseParallel()
    for name in ("out", "down"):
        plan[f"blocks.*.{name}"] = RowwiseParallel()
    plan["head"] = ColwiseParallel(output_layouts=Replicate())
    return parallelize_module(Model(), init_device_mesh("cpu", (WORLD,)), plan)


def sequence_parallel(logits: Any) -> Model:
    """The model whose values between products are parts of the sequence; its logits lie over classes."""
    model = Model()
    mesh = init_device_mesh("cpu", (WORLD,))
    plan: dict[str, Any] = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(
            input_layouts=Shard(1), output_layouts=logits, use_local_output=False
        ),
    }
    rows = RowwiseParallel(output_layouts=Shard(1))
    for number in range(2):
        block = f"blocks.{number}"
        plan |= {f"{block}.norm1": SequenceParallel(), f"{block}.norm2": SequenceParallel()}
        plan |= {
            f"{block}.{name}": ColwiseParallel(input_layouts=Shard(1))
            for name in ("q", "k", "v", "up")
        }
        plan |= {f"{block}.out": rows, f"{block}.down": rows}
        plan[f"{block}.up"] = ColwiseParallel(input_layouts=Shard(1))
    return parallelize_module(model, mesh, plan)


def train(model: Model) -> dict[str, Any]:
    """Losses, norms and weights of some steps on the same examples on all ranks."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03, eps=0.01)
    losses, norms = [], []
    for step in range(3):
        draw = random.Random(step)
        words = torch.tensor([[draw.randrange(12) for _ in range(9)] for _ in range(4)])
        logits = model(words[:, :-1])
        loss = F.cross_entropy(whole(logits).flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        grads = [whole(p.grad) for p in model.parameters()]
        norms.append(float(torch.stack([g.double().square().sum() for g in grads]).sum()))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    weights = [float(whole(p).detach().double().abs().sum()) for p in model.parameters()]
    return {"losses": losses, "norms": norms, "weights": weights}


def of_parts() -> dict[str, Any]:
    """The loss of logits whose classes are shared out."""
    model = sequence_parallel(Shard(-1))
    words = torch.tensor([[random.Random(1).randrange(12) for _ in range(9)] for _ in range(4)])
    with loss_parallel():
        logits = model(words[:, :-1])
        rows = logits.flatten(0, 1)
        loss = F.cross_entropy(rows, words[:, 1:].flatten())
        loss.backward()
    grads = [float(whole(p.grad).double().abs().sum()) for p in model.parameters()]
    return {
        "loss": float(whole(loss).detach()),
        "grads": grads,
        "lies": str(rows.placements[0].dim),
    }


def prepared() -> dict[str, Any]:
    """Inputs and outputs that are laid otherwise than they come."""
    mesh = init_device_mesh("cpu", (WORLD,))
    layer = nn.Linear(4, 4)
    with torch.no_grad():
        for number, parameter in enumerate(layer.parameters()):
            parameter.copy_(numbers(number, *parameter.shape))
    taken = PrepareModuleInput(
        input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),), use_local_output=True
    )
    given = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    layer = parallelize_module(parallelize_module(layer, mesh, taken), mesh, given)
    x = numbers(RANK, 2, 4).requires_grad_()
    out = layer(x)
    out.sum().backward()
    return {"out": listed(out), "grad": listed(x.grad)}


def main() -> None:
    dist.init_process_group(backend="gloo")
    mesh = init_device_mesh("cpu", (WORLD,))
    found = {
        "operations": operations(mesh),
        "moves": moves(mesh),
        "hooked": hooked(mesh),
        "two dims": two_dims(),
        "alone": train(Model()),
        "tensor parallel": train(tensor_parallel()),
        "sequence parallel": train(sequence_parallel(Replicate())),
        "loss": of_parts(),
        "prepared": prepared(),
    }
    finish(found)


if __name__ == "__main__":
    main()
