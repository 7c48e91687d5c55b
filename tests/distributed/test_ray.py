"""Ray: a train function on the workers of a cluster, which begins again where it was when a worker is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import weft
from ranks import PROGRAMS, environment

LONGEST_RUN_S = 1200  # on a machine that does other things, too; alone 30 s
# Ray's workers are as nice as others here: at 15, as they are by default, they starve on a busy machine.
RAYS_OWN = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_raylet_start_wait_time_s": "600",
    "RAY_gcs_server_request_timeout_seconds": "600",
}
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="needs ray: pip install 'weft[ray]'"
)


@needs_ray
def test_workers_train_together_and_go_on_when_one_is_killed(tmp_path: Path) -> None:
    run_in_cluster("ray_training.py", tmp_path)
    found = json.loads((tmp_path / "weights.json").read_text())
    assert found["begun at"] > 0  # from a checkpoint
    assert found["weights"] == undisturbed()
    data = [json.loads((tmp_path / f"data.{rank}.json").read_text()) for rank in range(2)]
    assert (
        [one["rows"] for one in data] == [one["stream"] for one in data] == [[0, 2, 4], [1, 3, 5]]
    )
    assert sorted(data[0]["ray"] + data[1]["ray"]) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@needs_ray
def test_trials_of_ray_tune_train_on_workers_of_their_own(tmp_path: Path) -> None:
    run_in_cluster("ray_tuning.py", tmp_path)
    found = json.loads((tmp_path / "tuned.json").read_text())
    rates = [0.0, 0.02, 0.1]
    expected = {str(rate): last_loss(rate) for rate in rates}
    assert found["losses"] == {name: pytest.approx(loss) for name, loss in expected.items()}
    assert found["best"] == min(rates, key=lambda rate: expected[str(rate)])
    assert found["ranks"] == 2


def last_loss(rate: float) -> float:
    """The mean loss of the last step of a trial, in one process."""
    weft.manual_seed(0)
    model = weft.nn.Linear(3, 1)
    optimizer = weft.optim.SGD(model.parameters(), lr=rate)
    for _ in range(4):
        inputs = [weft.arange(9.0).reshape(3, 3) * 0.1 + rank for rank in range(2)]
        loss = weft.stack([(model(x) - 1.0).square().mean() for x in inputs]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def run_in_cluster(program: str, folder: Path) -> None:
    """Run a program that begins a cluster of its own; nothing of it is left afterwards."""
    output = folder / "printed"
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as short:
        with output.open("w") as file:  # no pipe: what Ray leaves behind for a moment would hold it
            process = subprocess.Popen(
                [sys.executable, str(PROGRAMS / program), str(folder), short],
                env=environment() | RAYS_OWN,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            status = process.wait(LONGEST_RUN_S)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.kill()
            process.wait()
            subprocess.run(["pkill", "-9", "-f", short], check=False)
    assert status == 0, output.read_text()[-3000:]


def undisturbed() -> list[Any]:
    """The weights after the same steps in one process, which takes the mean of the gradients of two."""
    sys.path.insert(0, str(PROGRAMS))
    try:
        from ray_training import STEPS, loss_of
    finally:
        sys.path.remove(str(PROGRAMS))
    weft.manual_seed(0)
    model = weft.nn.Linear(4, 2)
    optimizer = weft.optim.Adam(model.parameters(), 0.1)
    parameters = list(model.parameters())
    for step in range(STEPS):
        ranks = [weft.autograd.grad(loss_of(model, step, rank), parameters) for rank in range(2)]
        for parameter, first, second in zip(parameters, *ranks, strict=True):
            parameter.grad = (first + second) / 2
        optimizer.step()
    return [parameter.tolist() for parameter in parameters]
