"""The op table: one complete record per primitive. Adding an op is adding a row.

`elementwise`, `random_numbers`, `bits`, `gates`, `updates`, `structure`, `indexing`, `ordering`, `resampling`,
`contraction`, `attention` hold rows; `row` how one is written; `primitives` the rows as functions on tensors;
`composite`, `analysis`, `convolution` gradient records of composed operations; `macro` and `losses` operations that are
one node until they are collected.
"""

from importlib import import_module
from typing import Any

from weft.engine.dispatch.core_hooks import operator_namespace
from weft.ops import (
    analysis,
    attention,
    bits,
    composite,
    contraction,
    convolution,
    elementwise,
    gates,
    indexing,
    losses,
    macro,
    ordering,
    random_numbers,
    resampling,
    structure,
    updates,
)
from weft.ops.registry import OPS

__all__ = [
    "OPS",
    "analysis",
    "attention",
    "bits",
    "composite",
    "contraction",
    "convolution",
    "elementwise",
    "gates",
    "indexing",
    "losses",
    "macro",
    "ordering",
    "random_numbers",
    "resampling",
    "structure",
    "updates",
]
_ON_FIRST_USE = ("bessel", "bessel_coefficients")


def load_library(path: str) -> None:
    """Errors: OSError: what is compiled for PyTorch runs only there."""
    raise OSError(f"{path}: operations that are compiled for PyTorch do not run here")


def __getattr__(name: str) -> Any:
    """A namespace of operations that a program has defined. `from weft.ops import bessel` asks here first."""
    if name in _ON_FIRST_USE:
        return import_module(f"weft.ops.{name}")
    found = None if name.startswith("__") else operator_namespace(name)
    if found is None:
        raise AttributeError(f"module 'weft.ops' has no attribute {name!r}")
    return found
