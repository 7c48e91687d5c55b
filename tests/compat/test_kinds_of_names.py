"""What PyTorch's modules show as functions are functions here too, not the modules that hold them."""

from __future__ import annotations

import importlib
import types
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

# Modules with functions that are named like a module here.
MODULES = (
    "", "functional", "nn", "nn.functional", "nn.init", "optim", "linalg", "special", "fft", "sparse", "func", "random",
    "autograd.functional", "utils.checkpoint", "utils.dlpack", "utils.data", "distributions", "nn.utils",
    "nn.utils.rnn", "hub", "serialization", "overrides", "signal.windows", "nested", "futures",
    "optim.lr_scheduler", "nn.modules",
    "masked",
)  # fmt: skip


@pytest.mark.parametrize("path", MODULES)
def test_functions_are_no_modules(path: str) -> None:
    theirs: Any = importlib.import_module(f"torch.{path}".rstrip("."))
    ours: Any = importlib.import_module(f"weft.{path}".rstrip("."))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [name for name in dir(theirs) if not name.startswith("_") and hasattr(ours, name)]
        other = [
            name
            for name in names
            if isinstance(getattr(ours, name), types.ModuleType) and callable(getattr(theirs, name))
        ]
    assert not other
