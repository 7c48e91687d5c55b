"""The names of tiers A and B: whether Weft has them.

Device, distributed and compile-stack names are held apart: Weft has one device.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import weft
from conformance.report import tiers

COLUMNS = ("exists",)
MODULE_API = ("nn_module_api", "state_hooks")


def entries() -> dict[str, tuple[str, str]]:
    """name -> (tier, group)."""
    return {
        name: (tier, group)
        for tier in ("A", "B")
        for group, names in tiers()[tier].items()
        for name in names
    }


def has(root: Any, path: str) -> bool:
    """Whether a dotted name is there."""
    for part in path.split("."):
        try:
            root = getattr(root, part)
        except AttributeError:
            if not isinstance(root, ModuleType):
                return False
            try:
                root = import_module(f"{root.__name__}.{part}")
            except ImportError:
                return False
    return True


def _found(name: str, group: str) -> bool:
    if has(weft, name):
        return True
    if "module" in group or "hook" in group:
        return has(weft.nn.Module, name) or has(weft.nn.Module(), name)
    return has(weft.optim.Optimizer, name) or has(weft.nn.Module, name)


def check(name: str, samples: int = 0) -> dict[str, Any]:
    """Whether the name is there."""
    _, group = entries()[name]
    failures = [] if _found(name, group) else [["", f"missing in {group}", name]]
    return {"exists": {"tried": 1, "failures": failures}}
