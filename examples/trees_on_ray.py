"""The demo's Tree-LSTM on the workers of a Ray cluster: each worker has trees of its own, of other shapes.

Run: python examples/trees_on_ray.py [--workers 2]
On a cluster: RAY_ADDRESS=host:6379 python examples/trees_on_ray.py --workers 8 --storage /shared/folder

A worker that is killed does not end the training: all go on from the last checkpoint.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import ray
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, get_checkpoint, report

import weft
import weft.distributed as dist
from weft import nn
from weft.demo.model import TreeLSTM
from weft.demo.syntax_trees import load_functions
from weft.distributed.ray import Trainer, prepare_data_loader, prepare_model
from weft.nn import functional as F


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    data = load_functions(limit=config["functions"])
    weft.manual_seed(0)
    model = TreeLSTM(data.vocabulary(), len(data.packages))
    optimizer = weft.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.5)
    begin = restore(model, optimizer)
    together = prepare_model(model)
    loader = prepare_data_loader(
        weft.data.DataLoader(data.train, batch_size=32, shuffle=True, collate_fn=as_list)
    )
    classes = {name: weft.tensor(number) for number, name in enumerate(data.packages)}
    for epoch in range(begin, config["epochs"]):
        set_epoch = getattr(loader.sampler, "set_epoch", None)  # with one worker nothing is shared
        if set_epoch is not None:
            set_epoch(epoch)
        losses = []
        for functions in loader:
            optimizer.zero_grad()
            scores = [(together(one.tree), classes[one.package]) for one in functions]
            loss = weft.stack([F.cross_entropy(score, label) for score, label in scores]).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
        mean = weft.stack(losses).mean()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        save(model, optimizer, epoch + 1, mean.item())


def as_list(functions: Any) -> list[Any]:
    """A batch of functions as it is: trees are not stacked."""
    return list(functions)


def restore(model: nn.Module, optimizer: weft.optim.Optimizer) -> int:
    """Go on from the last checkpoint; the epoch to begin with."""
    checkpoint = get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        state = weft.load(Path(folder, "state.weft"))
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"])


def save(model: nn.Module, optimizer: weft.optim.Optimizer, epoch: int, loss: float) -> None:
    """Report an epoch; the first worker adds a checkpoint."""
    print(f"worker {dist.get_rank()}: epoch {epoch}, loss {loss:.4f}")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            weft.save(state | {"epoch": epoch}, Path(folder, "state.weft"))
            checkpoint = Checkpoint.from_directory(folder)
        report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--functions", type=int, default=600, help="to learn from")
    parser.add_argument("--storage", default=str(Path("build/ray").resolve()))
    options = parser.parse_args()
    # Ray's workers have the lowest priority (nice 15) and wait for all other programs of this machine; not these.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init()  # a cluster of this machine, or that of RAY_ADDRESS
    result = Trainer(
        train,
        train_loop_config={"epochs": options.epochs, "functions": options.functions},
        scaling_config=ScalingConfig(num_workers=options.workers),
        run_config=RunConfig(
            storage_path=options.storage, failure_config=FailureConfig(max_failures=2)
        ),
    ).fit()
    print(f"loss {result.metrics['loss']:.4f}, checkpoint in {result.checkpoint.path}")


if __name__ == "__main__":
    main()
