"""safetensors, as it is written for PyTorch, on modules of Weft: every weight is saved, tied ones once.

It finds ties by addresses. The script runs on both libraries, each in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors.torch")
SCRIPT = """
import json, sys
if sys.argv[1] == "weft":
    from weft import as_torch
    as_torch.install()
import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

def tied():
    module = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    module[1].weight = module[0].weight
    return module

def copied():
    module = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    module["b"].load_state_dict(module["a"].state_dict())
    return module

def views():
    module = nn.Module()
    module.whole = nn.Parameter(torch.arange(6.0))
    module.register_buffer("part", module.whole.detach()[2:4])
    return module

MODULES = {
    "layer norms": lambda: nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4)),
    "batch norms": lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4), nn.BatchNorm1d(4)),
    "transformer": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2),
    "lstm": lambda: nn.LSTM(3, 4, num_layers=2),
    "zeros": lambda: nn.ParameterList([nn.Parameter(torch.zeros(3)) for _ in range(3)]),
    "scalars": lambda: nn.ParameterList([nn.Parameter(torch.tensor(2.0)) for _ in range(3)]),
    "tied": tied, "copied": copied, "views": views,
}

def trained(module):
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(module.parameters(), lr=0.5).step()
    return module

def outcome(function, *arguments):
    try:
        return function(*arguments)
    except RuntimeError:
        return "RuntimeError"

said = {}
for name, make in MODULES.items():
    for module in (make(), trained(make())):
        file = sys.argv[2] + "/" + name
        said.setdefault(name, []).append(outcome(save_file, module.state_dict(), file))
        if outcome(save_model, module, file) == "RuntimeError":
            continue
        other, state = make(), module.state_dict()
        said[name] += [sorted(load_file(file)), sorted(map(sorted, load_model(other, file)))]
        said[name].append(all(torch.equal(x, state[key]) for key, x in other.state_dict().items()))
print(json.dumps(said))
"""


def _said(library: str, folder: Path) -> Any:
    command = [sys.executable, "-c", SCRIPT, library, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_modules_are_saved_as_from_pytorch(tmp_path: Path) -> None:
    assert _said("weft", tmp_path) == _said("torch", tmp_path)
