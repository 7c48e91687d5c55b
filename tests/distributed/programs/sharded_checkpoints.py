"""Sharded models in memory and in files: `sharded_checkpoints.py WHAT FOLDER`; what they find they print."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from weft.distributed.fsdp import fully_shard
from weft.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import weft
import weft.distributed as dist
from weft import nn
from weft.distributed import checkpoint
from weft.distributed.device_mesh import init_device_mesh
from weft.io.partial_files import PartialFile

WHAT, FOLDER = sys.argv[1], Path(sys.argv[2])
LINES = (
    int(sys.argv[3]) if len(sys.argv) > 3 else 0
)  # of ranks that share one copy of the model out
STEPS, WIDTH = 6, 256


def made(seed: int, is_sharded: bool) -> dict[str, Any]:
    """A model whose rows are no multiple of the ranks, and its optimizer."""
    weft.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    if is_sharded:
        mesh = None
        if LINES:
            shape = (LINES, dist.get_world_size() // LINES)
            both = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
            parallelize_module(model, both["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
            mesh = both["dp"]
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = weft.optim.AdamW(model.parameters(), lr=0.05)
    return {"model": model, "optimizer": optimizer, "step": 0}


def train(state: dict[str, Any], until: int) -> str:
    """Steps on equal examples, so that the mean over ranks is the same on any number of them."""
    for step in range(state["step"], until):
        weft.manual_seed(100 + step)
        loss = state["model"](weft.rand(8, 5)).square().mean()
        loss.backward()
        state["optimizer"].step()
        state["optimizer"].zero_grad()
    state["step"] = until
    return f"{float(loss.detach()):.6f}"


def save() -> str:
    state = made(0, True)
    train(state, STEPS // 2)
    checkpoint.save(state, checkpoint_id=FOLDER)
    return train(state, STEPS)


def load() -> str:
    state = made(1, True)
    checkpoint.load(state, checkpoint_id=FOLDER)
    rows = state["optimizer"].state_dict()["state"][0]["exp_avg"]
    assert rows.full_tensor().shape == (7, 5)
    return train(state, STEPS)


def load_own() -> str:
    """Go on from the checkpoint, of which no more is read than this rank keeps."""
    read = PartialFile.read
    counts = []

    def counted(*args: Any, **options: Any) -> Any:
        found = read(*args, **options)
        counts.append(found.numel())
        return found

    PartialFile.read = counted  # type: ignore[method-assign]
    state = made(1, True)
    checkpoint.load(state, checkpoint_id=FOLDER)
    parameters = list(state["model"].parameters())
    kept = sum(parameter.to_local().numel() for parameter in parameters)
    assert sum(counts) == 3 * kept + len(parameters), (
        counts,
        kept,
    )  # with both averages and a step
    return train(state, STEPS)


class Residual(nn.Linear):
    """A layer that adds to its input."""

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return x + super().forward(x).tanh()


def residual() -> nn.Sequential:
    weft.manual_seed(0)
    return nn.Sequential(*[Residual(WIDTH, WIDTH, bias=False) for _ in range(48)])


def losses(model: nn.Module) -> list[float]:
    """Those of some steps on this rank's examples."""
    optimizer = weft.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    found = []
    for _ in range(3):
        weft.manual_seed(dist.get_rank())
        loss = model(weft.rand(4, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss.detach()))
    return found


def budget() -> str:
    """Train a model whose parameters, gradients and momentum are three times what a rank may use, and one that is not
    sharded and may use more."""
    expected = losses(nn.parallel.DistributedDataParallel(residual()))
    model = residual()
    state_bytes = sum(3 * p.numel() * p.element_size() for p in model.parameters())
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    weft.set_memory_budget(state_bytes // 3)
    return f"the same losses: {losses(model) == expected}"


def main() -> None:
    dist.init_process_group(timeout=timedelta(seconds=20))
    said = {"save": save, "load": load, "load own": load_own, "budget": budget}[WHAT]()
    print(f"rank {dist.get_rank()}: {said}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
