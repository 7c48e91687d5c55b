"""A train function on two workers of a Ray cluster: one is killed in the middle, and all go on from a checkpoint."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.data
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig

import weft
import weft.distributed as dist
from weft.distributed.ray import Trainer, WeftConfig, batches, prepare_data_loader, prepare_model

STEPS, KILLED_AT = 6, 3


def train(config: dict[str, Any]) -> None:
    weft.manual_seed(0)
    model = prepare_model(weft.nn.Linear(4, 2))
    optimizer = weft.optim.Adam(model.parameters(), 0.1)
    begin = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            model_state, optimizer_state, begin = weft.load(f"{folder}/state.weft")
            model.load_state_dict(model_state)
            optimizer.load_state_dict(optimizer_state)
    for step in range(begin, STEPS):
        if step == KILLED_AT and checkpoint is None and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss_of(model, step, dist.get_rank()).backward()
        optimizer.step()
        report(model, optimizer, step + 1)
    if dist.get_rank() == 0:
        weights = [parameter.tolist() for parameter in model.parameters()]
        said = {"weights": weights, "begun at": begin}
        Path(config["folder"], "weights.json").write_text(json.dumps(said))
    Path(config["folder"], f"data.{dist.get_rank()}.json").write_text(json.dumps(own_data()))


def loss_of(model: Any, step: int, rank: int) -> Any:
    inputs = weft.arange(4.0 * (3 + rank)).reshape(-1, 4) * 0.1 + step
    return (model(inputs).tanh() - 0.5).pow(2).mean()


def report(model: Any, optimizer: Any, step: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if dist.get_rank() == 0:
            state = (model.state_dict(), optimizer.state_dict(), step)
            weft.save(state, f"{folder}/state.weft")
            checkpoint = Checkpoint.from_directory(folder)
        ray.train.report({"step": step}, checkpoint=checkpoint)


def own_data() -> dict[str, list[float]]:
    """What of the data this worker is given: by Ray Data, by a loader of rows, by a loader of a stream."""
    rows = batches(ray.train.get_dataset_shard("rows"), batch_size=2)

    class Stream(weft.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(6))

    loader = prepare_data_loader(weft.data.DataLoader(list(range(6)), batch_size=2))
    stream = prepare_data_loader(weft.data.DataLoader(Stream(), batch_size=2))
    return {
        "ray": [number for batch in rows for number in batch["value"].tolist()],
        "rows": [number for batch in loader for number in batch.tolist()],
        "stream": [number for batch in stream for number in batch.tolist()],
    }


def main(folder: str, rays_own: str) -> None:
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}},
        _node_ip_address="127.0.0.1",
        _temp_dir=rays_own,
    )
    result = Trainer(
        train,
        train_loop_config={"folder": folder},
        weft_config=WeftConfig(timeout_s=60),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="run", storage_path=folder, failure_config=FailureConfig(max_failures=1)
        ),
        datasets={"rows": ray.data.from_items([{"value": float(n)} for n in range(6)])},
    ).fit()
    print("metrics", result.metrics)
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
