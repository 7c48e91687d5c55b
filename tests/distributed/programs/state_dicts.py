"""A program for PyTorch that takes states of parallel models: run by torch with gloo, or by `weft run` under mpiexec.

`state_dicts.py LIB OUT`. What it writes are names and values.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import WORLD, finish, numbers
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

WHOLE = StateDictOptions(full_state_dict=True)


def made(kind: str, seed: int = 0) -> tuple[Any, Any]:
    """A model that lies over ranks in a way, after a step, and its optimizer."""
    model: Any = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(numbers(seed + number, *parameter.shape))
    if kind == "data parallel":
        model = DistributedDataParallel(model)
    elif kind == "sharded":
        fully_shard(model[0])
        fully_shard(model)
    elif kind == "tensor parallel":
        mesh = init_device_mesh("cpu", (WORLD,))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return model, optimizer


def step(model: Any, optimizer: Any) -> float:
    loss = model(numbers(50, 3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())


def plain(value: Any) -> Any:
    if isinstance(value, DTensor):
        value = value.full_tensor()
    if isinstance(value, torch.Tensor):
        return value.detach().flatten().tolist()
    return {key: plain(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def through(first: str, second: str) -> dict[str, Any]:
    """The state of one model, loaded into another that lies otherwise; then a step of both."""
    model, optimizer = made(first)
    step(model, optimizer)
    state, of_optimizer = deepcopy(get_state_dict(model, optimizer, options=WHOLE))
    found = {"state": plain(state), "optimizer": plain(of_optimizer["state"])}
    other, its_optimizer = made(second, seed=100)
    set_state_dict(
        other, its_optimizer, model_state_dict=state, optim_state_dict=of_optimizer, options=WHOLE
    )
    losses = [step(model, optimizer), step(other, its_optimizer), step(other, its_optimizer)]
    params = [group["params"] for group in of_optimizer["param_groups"]]
    return {**found, "params": params, "losses": losses}


def details() -> dict[str, Any]:
    """Options, one by one."""
    model, optimizer = made("sharded")
    step(model, optimizer)
    first = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    flat = get_optimizer_state_dict(
        model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True)
    )
    model[0].weight.requires_grad_(False)
    trained = get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
    other, _ = made("sharded", seed=100)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(other, first, options=options)
    fresh_model, fresh = made("alone")
    begun = get_optimizer_state_dict(fresh_model, fresh)
    return {
        "first": sorted(first),
        "flat": sorted(name for name in flat if name.startswith("state.")),
        "rate": flat["param_groups.0.weight.lr"],
        "trained": sorted(trained),
        "broadcast": plain(get_model_state_dict(other)),
        "begun": plain(begun["state"]["0.bias"]),
    }


def main() -> None:
    dist.init_process_group(backend="gloo")
    kinds = ["data parallel", "sharded", "tensor parallel", "alone"]
    found = {
        f"{a} to {b}": through(a, b) for a, b in zip(kinds, [*kinds[1:], kinds[0]], strict=True)
    }
    found["details"] = details()
    finish(found)


if __name__ == "__main__":
    main()
