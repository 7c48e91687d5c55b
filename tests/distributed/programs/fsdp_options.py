"""A program for PyTorch that shards models in other ways than by rows, by module and at each backward: run by torch
with gloo, or by `weft run` under mpiexec.

`fsdp_options.py LIB OUT`. What it writes are losses, weights and counts.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from fully_sharded import Model, bits, cost, sharded, total
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed._composable import checkpoint, replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.debug import CommDebugMode


def longest(parameter: nn.Parameter) -> Shard | None:
    """The last dimension of matrices that have evenly many columns."""
    return Shard(-1) if parameter.ndim == 2 and parameter.shape[1] % WORLD == 0 else None


def stack() -> nn.Sequential:
    """Layers of matrices whose columns can be shared out."""
    model = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 4))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(numbers(number, *parameter.shape) * 0.5)
    return model


def steps(model: nn.Module, clips: bool = True) -> dict[str, Any]:
    """Losses, norms of gradients and whole weights of some steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03, foreach=False)
    losses, norms = [], []
    for step in range(4):
        loss = model(numbers(10 * step + RANK, 5, 8)).square().sum()
        loss.backward()
        if clips:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            norms.append(float(norm.full_tensor() if isinstance(norm, DTensor) else norm))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return {"losses": losses, "norms": norms, "weights": total(model)}


def columns() -> dict[str, Any]:
    """Parameters that are shared out along their last dimension."""
    model = stack()
    for layer in (model[0], model[2]):
        fully_shard(layer, shard_placement_fn=longest)
    fully_shard(model, shard_placement_fn=longest)
    lies = [str(p.placements) for p in model.parameters()]
    shapes = [list(p.to_local().shape) for p in model.parameters()]
    found = steps(model)
    strides = [list(p.grad.to_local().stride()) for p in with_gradients(model)]
    return {**found, "lies": lies, "shapes": shapes, "strides": strides}


def with_gradients(model: nn.Module) -> list[nn.Parameter]:
    model(numbers(3, 5, 8)).sum().backward()
    return list(model.parameters())


def in_backward() -> dict[str, Any]:
    """Optimizers that step as soon as a parameter has its gradient."""
    model = sharded()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
    called = 0

    def step(parameter: nn.Parameter) -> None:
        nonlocal called
        called += 1
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for number in range(2):
        cost(model, number, RANK).backward()
    return {"weights": total(model), "called": called}


def together() -> dict[str, Any]:
    """Modules that are gathered together, of which two have one weight, and one is not called every time."""
    model = Model()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard([model.embed, model.head])
    fully_shard(model)
    losses, weights = bits(model)
    model.embed(torch.zeros(2, dtype=torch.int64))
    return {"losses": losses, "weights": weights, "again": float(cost(model, 9, RANK).detach())}


def computed_again() -> dict[str, Any]:
    """Checkpointed layers, sharded, with the counts of collectives in forward and in backward."""
    model = Model()
    for layer in model.layers:
        checkpoint(layer)
        fully_shard(layer)
    fully_shard(model)
    with CommDebugMode() as mode:
        cost(model, 0, RANK).backward()
    model.zero_grad()
    losses, weights = bits(model)
    return {
        "losses": losses,
        "weights": weights,
        "counts": counts(mode),
    }


def counts(mode: CommDebugMode) -> dict[str, int]:
    return {str(kind): count for kind, count in sorted(mode.get_comm_counts().items(), key=str)}


def divided() -> dict[str, Any]:
    """A divisor of one's own, and a function that sees combined gradients."""
    model = sharded()
    for layer in model.layers:
        layer.set_force_sum_reduction_for_comms(True)  # what gloo can do
        layer.set_gradient_divide_factor(4.0)
        layer.set_all_reduce_hook(lambda flat: flat.mul_(0.5))
    cost(model, 0, RANK).backward()
    grads = [p.grad.full_tensor() for p in model.parameters() if p.grad is not None]
    return {"grads": [float(g.double().sum()) for g in grads]}


def late_copies() -> dict[str, Any]:
    """A mesh of two dimensions: gradients are combined over copies at every other backward."""
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("copy", "shard"))
    model = sharded(mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        model.set_requires_all_reduce(step % 2 == 1)
        cost(model, step, RANK).backward()
        if step % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    return {"weights": total(model)}


def left_whole() -> dict[str, Any]:
    """Batches of a step between which parameters stay whole, with the collectives of each forward and backward."""
    found: dict[str, Any] = {}
    for outer, inner in ((True, True), (True, False), (None, False)):
        model = stack()
        for layer in (model[0], model[2]):
            fully_shard(layer, reshard_after_forward=inner)
        fully_shard(model, reshard_after_forward=outer)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        losses, collectives = [], []
        for batch in range(6):
            is_last = batch % 3 == 2
            model.set_requires_gradient_sync(is_last)
            model.set_reshard_after_backward(is_last)
            with CommDebugMode() as mode:
                loss = model(numbers(10 * batch + RANK, 5, 8)).square().sum()
            collectives.append(counts(mode))
            with CommDebugMode() as mode:
                loss.backward()
            collectives.append(counts(mode))
            losses.append(float(loss.detach()))
            if is_last:
                optimizer.step()
                optimizer.zero_grad()
        found[f"{outer} {inner}"] = collectives
        found[f"losses {outer} {inner}"] = losses
    return found


class Half(nn.Module):
    """A module of which a part is sharded and the rest copied."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = stack(), nn.Linear(8, 8)
        with torch.no_grad():
            for number, parameter in enumerate(self.second.parameters()):
                parameter.copy_(numbers(number, *parameter.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(self.second(x))


def beside_copies() -> dict[str, Any]:
    """A model that is replicated but for a part that is sharded."""
    model = Half()
    fully_shard(model.first)
    replicate(model)
    return steps(model, clips=False)


def replaced() -> dict[str, Any]:
    """A parameter that is replaced after the model has been sharded."""
    model = fully_shard(stack())
    old = model[0].weight
    model[0].weight = nn.Parameter(copy.deepcopy(old.detach()) * 0.5)
    return steps(model)


def main() -> None:
    dist.init_process_group(backend="gloo")
    finish(
        {
            "columns": columns(),
            "in backward": in_backward(),
            "together": together(),
            "computed again": computed_again(),
            "divided": divided(),
            "late copies": late_copies(),
            "left whole": left_whole(),
            "beside copies": beside_copies(),
            "replaced": replaced(),
        }
    )


if __name__ == "__main__":
    main()
