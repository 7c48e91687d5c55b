"""The op table: one complete record per primitive. Adding an op is adding a row.

`registry` is how a row is written down and checked, `primitives` the rows as functions on tensors, with which
derivative rules are written. Rows stand in rooms by what they do to elements:

- `elementwise`: arithmetic, exponentials, comparison, conversion, special functions;
- `structure`: views, joins, sources, reductions, scans, indexing, places in an order;
- `contractions`: matrix products, convolution, attention, resampling;
- `composite`: operations with a derivative of their own, and macros: one node until they are collected;
- `random_numbers`; `direct_vjps`: derivative rules that are one row; `any_size`: records that are to hold for any size.

No values are computed here: kernels, which run, are lowered from the rows. Start with `elementwise.arithmetic`.
"""

from typing import Any

from weft.engine.dispatch.core_hooks import operator_namespace
from weft.ops import random_numbers  # noqa: F401 - here and below: rows are defined as their module is imported
from weft.ops.composite import losses, macro, own_derivatives  # noqa: F401
from weft.ops.contractions import attention, convolution, matmul, resampling  # noqa: F401
from weft.ops.elementwise import (  # noqa: F401
    arithmetic,
    bits,
    comparison,
    conversion,
    exponentials,
    gates,
    rounding,
    special_functions,
    updates,
)
from weft.ops.registry import OPS
from weft.ops.structure import collective, indexing, movement, ordering, reductions  # noqa: F401

__all__ = ["OPS"]


def load_library(path: str) -> None:
    """Errors: OSError: what is compiled for PyTorch runs only there."""
    raise OSError(f"{path}: operations that are compiled for PyTorch do not run here")


def __getattr__(name: str) -> Any:
    """A namespace of operations that a program has defined."""
    found = None if name.startswith("__") else operator_namespace(name)
    if found is None:
        raise AttributeError(f"module 'weft.ops' has no attribute {name!r}")
    return found
