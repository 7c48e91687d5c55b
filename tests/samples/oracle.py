"""PyTorch, with which tests compare, where it is installed: `from oracle import torch`.

Where it is missing, the name still imports, and whatever asks it for something is skipped, with the reason: a test,
once it gets that far; a whole file, if its module level asks. Tests that do not compare run as ever. `submodule` does
the same for a module of PyTorch's that `import torch` need not load, `conformance` for the databases that PyTorch tests
itself with. Any other package that the extra `dev` lacks: `pytest.importorskip`.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

import weft

OPTIONAL = ("torch", "expecttest")  # the extra `torch` of pyproject.toml


class _Missing(ModuleType):
    """A module that is not there: it can be named and passed on, and skips whoever asks it for an attribute."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name not in ("__version__", "__future__"):
            # pytest and `inspect` look for such names in every object of a test file
            raise AttributeError(name)
        pytest.skip(self.__doc__ or "", allow_module_level=True)

    def __dir__(self) -> NoReturn:
        self.__getattr__("any name")


def submodule(name: str) -> ModuleType:
    """The module of a full name, such as `torch.nn.utils.prune`; one that skips where PyTorch is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        return _Missing(name, f"compares with PyTorch; {error.name} is not installed")


def conformance(name: str) -> ModuleType:
    """A module of `tools/conformance`: `operators`, `modules`, `optimizers`."""
    tools = str(Path(__file__).resolve().parents[2] / "tools")
    if tools not in sys.path:
        sys.path.append(tools)
    return submodule(f"conformance.{name}")


torch = submodule("torch")
both = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
