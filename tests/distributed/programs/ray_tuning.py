"""Ray Tune over trainers: each trial trains on two workers of a Ray cluster at another learning rate."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.train import RunConfig, ScalingConfig
from ray.tune.integration.ray_train import TuneReportCallback

import weft
import weft.distributed as dist
from weft.distributed.ray import Trainer, WeftConfig, prepare_model

RATES = (0.0, 0.02, 0.1)


def train(config: dict[str, Any]) -> None:
    weft.manual_seed(0)
    model = prepare_model(weft.nn.Linear(3, 1))
    optimizer = weft.optim.SGD(model.parameters(), lr=config["rate"])
    for step in range(4):
        inputs = weft.arange(9.0).reshape(3, 3) * 0.1 + dist.get_rank()
        loss = (model(inputs) - 1.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        ray.train.report({"loss": float(total) / 2, "step": step, "ranks": dist.get_world_size()})


def main(folder: str, rays_own: str) -> None:
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}},
        _node_ip_address="127.0.0.1",
        _temp_dir=rays_own,
    )

    def trial(config: dict[str, Any]) -> None:
        """One trial: a trainer of its own."""
        Trainer(
            train,
            train_loop_config=config,
            weft_config=WeftConfig(timeout_s=60),
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(
                name=f"rate {config['rate']}", storage_path=folder, callbacks=[TuneReportCallback()]
            ),
        ).fit()

    found = tune.Tuner(
        trial,
        param_space={"rate": tune.grid_search(list(RATES))},
        tune_config=tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=1),
        run_config=tune.RunConfig(name="tune", storage_path=folder),
    ).fit()
    rows = {str(one.config["rate"]): one.metrics["loss"] for one in found}
    best = found.get_best_result()
    said = {"losses": rows, "best": best.config["rate"], "ranks": best.metrics["ranks"]}
    Path(folder, "tuned.json").write_text(json.dumps(said))
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
