"""Tools around training: recomputation instead of saving, nested containers, data sets under PyTorch's path."""

from importlib import import_module
from typing import Any

from weft._lazy import export_later

_find, __dir__ = export_later(__name__, {"swap_tensors": "swapping"})


def __getattr__(name: str) -> Any:
    return import_module("weft.utils._pytree") if name == "_pytree" else _find(name)
