"""Modules that are wrapped or replicated in place, and parts of meshes: `composed.py LIB OUT`, in both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import OUT, RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.experimental import local_map
from torch.utils.checkpoint import checkpoint


def model() -> Any:
    """Two layers with the same weights in both libraries."""
    made = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        for seed, parameter in enumerate(made.parameters()):
            parameter.copy_(numbers(seed, *parameter.shape))
    return made


def kinds_of(function: Callable[[], object]) -> list[str]:
    """The kinds of the error that a function raises."""
    try:
        function()
    except (RuntimeError, ValueError, KeyError) as error:
        kinds = (KeyError, RuntimeError, ValueError)
        return [kind.__name__ for kind in kinds if isinstance(error, kind)]
    return []


def replicated() -> dict[str, Any]:
    """Gradients after a step with an average, one without, and one with again."""
    made = replicate(model(), ignored_modules=[])
    found: dict[str, Any] = {
        "names": sorted(made.state_dict()),
        "kept": isinstance(made, nn.Sequential),
    }
    for step in range(3):
        made.set_requires_gradient_sync(step != 1)
        made(numbers(10 * step + RANK, 4, 6)).sigmoid().square().sum().backward()
        found[f"gradients {step}"] = [p.grad.flatten().tolist() for p in made.parameters()]
    return found


def part_replicated() -> dict[str, Any]:
    """Gradients where one module's are left alone."""
    made = model()
    replicate(made, ignored_modules=[made[2]])
    made(numbers(RANK, 4, 6)).sigmoid().square().sum().backward()
    return {"gradients": [p.grad.flatten().tolist() for p in made.parameters()]}


def checkpointed() -> dict[str, Any]:
    """States, names and gradients of wrapped modules."""
    found: dict[str, Any] = {}
    for kind in (CheckpointImpl.NO_REENTRANT, CheckpointImpl.REENTRANT):
        made = model()
        apply_activation_checkpointing(
            made,
            checkpoint_wrapper_fn=lambda module, kind=kind: checkpoint_wrapper(module, kind),
            check_fn=lambda module: isinstance(module, nn.Linear),
        )
        x = numbers(7, 4, 6).requires_grad_()
        made(x).sigmoid().square().sum().backward()
        found[kind.name] = {
            "wrapped": [isinstance(module, CheckpointWrapper) for module in made],
            "state": sorted(made.state_dict()),
            "names": [name for name, _ in made[0].named_parameters()],
            "features": made[0].out_features,
            "gradients": [p.grad.flatten().tolist() for p in made.parameters()],
            "loaded": str(made.load_state_dict(model().state_dict())),
        }
    return found


class Inside(nn.Module):
    """A module that computes a part of itself again."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.body, self.reentrant = model(), reentrant
        self.body[3] = nn.LayerNorm(3)

    def forward(self, x: Any) -> Any:
        return checkpoint(self.body, x, use_reentrant=self.reentrant)


def sharded_around() -> dict[str, Any]:
    """Gradients of modules that gather parameters around what is computed again: wrapped ones, and calls inside."""
    found: dict[str, Any] = {}
    for reshards in (True, False):
        for kind in (CheckpointImpl.NO_REENTRANT, CheckpointImpl.REENTRANT):
            reentrant = kind is CheckpointImpl.REENTRANT
            made = nn.Sequential(
                checkpoint_wrapper(model()[:3], kind), nn.Linear(3, 6), Inside(reentrant)
            )
            with torch.no_grad():
                for seed, parameter in enumerate(made[1].parameters()):
                    parameter.copy_(numbers(seed, *parameter.shape))
            for part in made:
                fully_shard(part, reshard_after_forward=reshards)
            fully_shard(made)
            x = numbers(RANK, 4, 6).requires_grad_()
            losses = []
            for _ in range(2):
                loss = made(x).sigmoid().square().sum()
                loss.backward()
                losses.append(loss.item())
            gradients = [p.grad.full_tensor().flatten().tolist() for p in made.parameters()]
            found[f"{kind.name} {reshards}"] = [losses, x.grad.tolist(), gradients]
    return found


def meshes() -> dict[str, Any]:
    """Dimensions that are taken as one, and what is refused."""
    mesh = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("dp", "cp", "tp"))
    flat = mesh["dp", "cp"]._flatten()
    named = mesh["cp", "tp"]._flatten("inner")
    total = torch.tensor([float(RANK)])
    dist.all_reduce(total, group=named.get_group())
    every = torch.tensor([float(RANK)])
    dist.all_reduce(every, group=flat.get_group())
    return {
        "flat": [flat.mesh.tolist(), list(flat.mesh_dim_names), flat.get_local_rank()],
        "named": [named.mesh.tolist(), list(named.mesh_dim_names), named.size()],
        "sums": [total.item(), every.item()],
        "again": mesh["dp", "cp"]._flatten() is flat,
        "from group": DeviceMesh.from_group(flat.get_group(), "cpu").mesh.tolist(),
    }


def refused() -> list[list[str]]:
    """Kinds of errors of meshes."""
    mesh = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("dp", "cp", "tp"))
    flat = mesh["dp", "cp"]._flatten()
    mesh["cp", "tp"]._flatten("inner")
    return [
        kinds_of(lambda: mesh["cp", "tp"]._flatten("dp")),
        kinds_of(lambda: mesh["dp", "tp"]._flatten("inner")),
        kinds_of(lambda: mesh.get_group()),
        kinds_of(lambda: mesh.get_local_rank()),
        kinds_of(lambda: init_device_mesh("cpu", (2, 2))["dp"]),
        kinds_of(lambda: init_device_mesh("cpu", (4,), mesh_dim_names=("a", "b"))),
        kinds_of(lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a"))),
        kinds_of(lambda: init_device_mesh("cpu:0", (4,))),
        kinds_of(lambda: DeviceMesh.from_group([flat.get_group()] * 2, "cpu")),
        kinds_of(lambda: DeviceMesh.from_group(flat.get_group(), "cpu", [0, 1])),
    ]


def plain(value: Any) -> list[Any]:
    """A tensor over ranks as JSON has it."""
    return [str(type(value).__name__), list(value.to_local().shape), value.full_tensor().tolist()]


def saved() -> dict[str, Any]:
    """Tensors over ranks that a rank has written to a file of its own."""
    mesh = init_device_mesh("cpu", (WORLD,))
    sharded = fully_shard(model())
    parameters = {name: p for name, p in sharded.named_parameters()}
    state = {**sharded.state_dict(), "x": distribute_tensor(numbers(1, 6, 5), mesh, [Shard(1)])}
    torch.save(state, OUT / f"{RANK}.pt")
    found = torch.load(OUT / f"{RANK}.pt", weights_only=True)
    x = found.pop("x")
    other = fully_shard(model())
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(found)
    loaded = {name: plain(p) for name, p in other.named_parameters()}
    return {"x": plain(x), "mesh": x.device_mesh == mesh, "loaded": loaded, "of": len(parameters)}


def of_parts() -> dict[str, Any]:
    """A function of parts, with gradients, and one whose arguments are moved."""
    mesh = init_device_mesh("cpu", (WORLD,))
    x = distribute_tensor(numbers(1, 8, 4), mesh, [Shard(0)]).requires_grad_()
    w = distribute_tensor(numbers(2, 4, 3), mesh, [Replicate()])

    def product(a: torch.Tensor, b: torch.Tensor, factor: int) -> torch.Tensor:
        return torch.mm(a, b) * factor

    lie = ([Shard(0)], [Replicate()], None)
    y = local_map(product, [Shard(0)], lie, device_mesh=mesh)(x, w, 2)
    y.sum().backward()

    @local_map(
        out_placements=([Shard(1)], None), in_placements=([Shard(1)],), redistribute_inputs=True
    )
    def doubled(a: torch.Tensor) -> tuple[torch.Tensor, int]:
        return a * 2, 3

    moved, number = doubled(x)
    refused = kinds_of(lambda: local_map(product, [Shard(0)], ([Shard(1)], None, None))(x, w, 2))
    return {
        "y": plain(y),
        "gradient": plain(x.grad),
        "moved": plain(moved),
        "number": number,
        "refused": "ValueError" in refused,
    }


def around_modules() -> dict[str, Any]:
    """Functions of inputs and outputs, with the module and, as older programs have them, without."""
    mesh = init_device_mesh("cpu", (WORLD,))
    layer = nn.Linear(6, 6)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(numbers(seed, *parameter.shape))

    def replicated(inputs: Any, mesh: Any) -> Any:
        return (distribute_tensor(inputs[0], mesh, [Replicate()]),)

    def sharded(module: Any, output: Any, mesh: Any) -> Any:
        return output.redistribute(placements=[Shard(0)])

    distribute_module(layer, mesh, input_fn=replicated, output_fn=sharded)
    return {"y": plain(layer(numbers(7, 8, 6)))}


def main() -> None:
    dist.init_process_group("gloo", rank=RANK, world_size=WORLD)
    parts = (replicated, part_replicated, checkpointed, sharded_around, meshes, refused)
    over_ranks = (saved, of_parts, around_modules)
    finish({part.__name__: part() for part in (*parts, *over_ranks)})


if __name__ == "__main__":
    main()
