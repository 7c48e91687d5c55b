"""Programs that keep track of runs, on Weft as `torch`: Weights & Biases and MLflow, where they are installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

WANDB = """
import weft.as_torch; weft.as_torch.install()
import torch, wandb
run = wandb.init(project="p", mode="offline", dir=".")
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
wandb.watch(model, log="all", log_freq=1, log_graph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(5, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    wandb.log({"loss": loss, "weight": wandb.Histogram(model[0].weight.detach())})
    wandb.log({"image": wandb.Image(torch.rand(3, 8, 8))})
assert isinstance(run.summary["loss"], float)
wanted = [f"{kind}/{name}" for kind in ("gradients", "parameters") for name, _ in model.named_parameters()]
missing = {*wanted, "image", "weight", "graph_0"} - set(run.summary.keys())
assert not missing, missing
wandb.unwatch(model)
wandb.finish()
print("fine")
"""
MLFLOW = """
import weft.as_torch; weft.as_torch.install()
import torch, mlflow, mlflow.pytorch
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
with mlflow.start_run() as run:
    mlflow.log_metric("loss", torch.tensor(0.5))
    told = mlflow.pytorch.log_model(
        model, name="model", serialization_format="pickle", pip_requirements=[]
    )
assert mlflow.get_run(run.info.run_id).data.metrics["loss"] == 0.5
x = torch.randn(4, 3)
assert mlflow.pytorch.load_model(told.model_uri)(x).equal(model(x))
print("fine")
"""


def _run(program: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    sources = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join(filter(None, (sources, os.getenv("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **more},
    )


def _need(*packages: str) -> None:
    """Skip where a package is missing; it is not imported here, where it would find PyTorch."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def test_tensors_have_the_name_that_packages_look_for(tmp_path: Path) -> None:
    """Packages that do not import PyTorch know its tensors by the name of their class."""
    program = (
        "import weft.as_torch; weft.as_torch.install()\nimport torch, pickle\nx = torch.ones(2)\n"
        "print(type(x).__module__, type(x).__name__, pickle.loads(pickle.dumps(torch.Tensor)) is torch.Tensor)"
    )
    assert _run(program, tmp_path).stdout.split() == ["torch", "Tensor", "True"]


def test_weights_and_biases(tmp_path: Path) -> None:
    _need("wandb")
    done = _run(WANDB, tmp_path, WANDB_MODE="offline", WANDB_SILENT="true")
    assert done.stdout.split()[-1:] == ["fine"], done.stderr


def test_mlflow(tmp_path: Path) -> None:
    _need("mlflow", "pandas")
    store = {"MLFLOW_TRACKING_URI": (tmp_path / "runs").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    done = _run(MLFLOW, tmp_path, **store)
    assert done.stdout.split()[-1:] == ["fine"], done.stderr
