"""Elementwise rows of rounding, and of the parts of a number: mantissa, exponent, what comes next, common divisors."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.engine.frontend.recorder import cast
from weft.engine.ir import dtype as dtypes
from weft.ops.elementwise.dtype_rules import INDEX_VALUES
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import where
from weft.ops.registry import define_elementwise as _row

_function: Any
for _name, _function in (
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("trunc", np.trunc),
    ("round", np.round),
):
    _row(_name, "self", _function, "real", {"self": lambda g: g * 0}, dtypes="integer float")

_row(
    "nextafter",
    "self other",
    np.nextafter,
    "real real",
    {"self": lambda g, self, other: where(self == other, 0, g), "other": lambda g: g * 0},
    dtypes="float",
)
_row(
    "mantissa",
    "self",
    lambda x: np.frexp(x)[0],
    "octave",
    {"self": lambda g, self: g / call("exp2", cast(call("exponent", self), self._dtype))},
    grad_name="FrexpBackward0",
    dtypes="float",
)
_row(
    "exponent",
    "self",
    lambda x: np.frexp(x)[1],
    "octave",
    INDEX_VALUES,
    dtype=lambda params, d: dtypes.int32,
    dtypes="float",
)
_row("gcd", "self other", np.gcd, "integer integer", INDEX_VALUES, dtypes="integer")
