"""Steps of optimizers whose state is shared out over ranks: `zero_redundancy.py LIB OUT`, in both libraries."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def model() -> Any:
    """Layers of several sizes, with equal weights in both libraries."""
    made = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3), nn.Linear(3, 2))
    with torch.no_grad():
        for seed, parameter in enumerate(made.parameters()):
            parameter.copy_(numbers(seed, *parameter.shape))
    return made


def stepped(parallel: Any, optimizer: Any, begin: int, end: int) -> list[float]:
    """Losses of some steps."""
    losses = []
    for step in range(begin, end):
        optimizer.zero_grad()
        loss = parallel(numbers(100 * step + RANK, 4, 6)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def listed(made: Any) -> list[Any]:
    return [parameter.detach().flatten().tolist() for parameter in made.parameters()]


def saved(optimizer: Any) -> Any:
    """The state of all ranks on the last one."""
    optimizer.consolidate_state_dict(to=WORLD - 1)
    return optimizer.state_dict() if RANK == WORLD - 1 else None


def shown(state: Any) -> Any:
    """Numbers of parameters, options and values of a state."""
    groups = [[group["lr"], group["params"]] for group in state["param_groups"]]
    values = {
        str(number): {
            name: value.double().flatten().tolist() if isinstance(value, torch.Tensor) else value
            for name, value in entries.items()
        }
        for number, entries in state["state"].items()
    }
    return [groups, values]


OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Adam": (torch.optim.Adam, {"lr": 0.01}),
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


def trained(name: str) -> list[Any]:
    """Losses, weights and the state after steps under a schedule; then of a new optimizer that goes on."""
    cls, options = OPTIMIZERS[name]
    parallel = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(parallel.parameters(), optimizer_class=cls, **options)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    losses = []
    for step in range(3):
        losses += stepped(parallel, optimizer, step, step + 1)
        schedule.step()
    state = saved(optimizer)
    seen, said = state and shown(state), [state]  # PyTorch empties what it loads
    dist.broadcast_object_list(said, src=WORLD - 1)
    again = ZeroRedundancyOptimizer(parallel.parameters(), optimizer_class=cls, **options)
    again.load_state_dict(said[0])
    losses += stepped(parallel, again, 3, 5)
    return [losses, listed(parallel), seen, sorted(said[0])]


def grouped() -> list[Any]:
    """Two groups, one of which comes later; ranks without a parameter of one."""
    made = model()
    parallel = DistributedDataParallel(made)
    groups = [{"params": list(made[0].parameters())}, {"params": [made[2].weight], "lr": 0.5}]
    optimizer = ZeroRedundancyOptimizer(groups, optimizer_class=torch.optim.SGD, lr=0.1)
    losses = stepped(parallel, optimizer, 0, 2)
    optimizer.add_param_group({"params": [made[3].weight], "lr": 0.2})
    losses += stepped(parallel, optimizer, 2, 4)
    state = saved(optimizer)
    return [losses, listed(made), state and shown(state), len(optimizer.param_groups)]


def joined() -> list[Any]:
    """Ranks with different numbers of steps."""
    parallel = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(
        parallel.parameters(), optimizer_class=torch.optim.SGD, lr=0.1
    )
    with Join([parallel, optimizer]):
        stepped(parallel, optimizer, 0, 2 + RANK)
    return listed(parallel)


def refused() -> list[str]:
    """The kinds of errors: a state that is not here, and another number of groups."""
    parallel, found = DistributedDataParallel(model()), []
    optimizer = ZeroRedundancyOptimizer(
        parallel.parameters(), optimizer_class=torch.optim.SGD, lr=0.1
    )
    state = {"state": {}, "param_groups": []}
    for function in (optimizer.state_dict, lambda: optimizer.load_state_dict(state)):
        try:
            function()
        except (RuntimeError, ValueError) as error:
            found += [
                kind.__name__ for kind in (RuntimeError, ValueError) if isinstance(error, kind)
            ]
    return found


if __name__ == "__main__":
    dist.init_process_group("gloo")
    results: dict[str, Any] = {name: trained(name) for name in OPTIMIZERS}
    finish({**results, "grouped": grouped(), "joined": joined(), "refused": refused()})
