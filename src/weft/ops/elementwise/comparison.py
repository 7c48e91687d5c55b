"""Elementwise rows of comparison, logic and bits, and the choice between two values."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.engine.frontend.recorder import COMPARE, INTEGRAL, LOGICAL, SELECT
from weft.ops.elementwise.dtype_rules import INDEX_VALUES, REAL_TYPES, ordered
from weft.ops.primitives import where
from weft.ops.registry import EVERY_TYPE
from weft.ops.registry import define_elementwise as _row

_function: Any
for _name, _function in (
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("lt", np.less),
    ("le", np.less_equal),
    ("gt", np.greater),
    ("ge", np.greater_equal),
):
    _row(
        _name,
        "self other",
        _function,
        "real real",
        INDEX_VALUES,
        rule=COMPARE,
        dtype=None if _name in ("eq", "ne") else ordered(_name, compares=True),
        dtypes=EVERY_TYPE if _name in ("eq", "ne") else REAL_TYPES,
    )
for _name, _function in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
    _row(_name, "self", _function, "real", INDEX_VALUES, rule=COMPARE)
for _name, _function in (
    ("logical_and", np.logical_and),
    ("logical_or", np.logical_or),
    ("logical_xor", np.logical_xor),
):
    _row(_name, "self other", _function, "boolean boolean", INDEX_VALUES, rule=LOGICAL)
_row("logical_not", "self", np.logical_not, "boolean", INDEX_VALUES, rule=LOGICAL)
for _name, _function in (
    ("bitwise_and", np.bitwise_and),
    ("bitwise_or", np.bitwise_or),
    ("bitwise_xor", np.bitwise_xor),
):
    _row(
        _name,
        "self other",
        _function,
        "integer integer",
        INDEX_VALUES,
        rule=INTEGRAL,
        dtypes="bool integer",
    )
_row(
    "bitwise_not",
    "self",
    np.invert,
    "integer",
    INDEX_VALUES,
    rule=INTEGRAL,
    lower=lambda e, d, x: e.logical_not(x) if d == "bool" else e.bitwise_not(x),
    dtypes="bool integer",
)
_row(
    "bitwise_left_shift",
    "self other",
    np.left_shift,
    "integer bits",
    INDEX_VALUES,
    rule=INTEGRAL,
    lower="shl",
    dtypes="integer",
)
_row(
    "bitwise_right_shift",
    "self other",
    np.right_shift,
    "integer bits",
    INDEX_VALUES,
    rule=INTEGRAL,
    lower="shr",
    dtypes="integer",
)
_row(
    "where",
    "condition self other",
    np.where,
    "boolean real real",
    {
        "self": lambda g, condition: where(condition, g, 0),
        "other": lambda g, condition: where(condition, 0, g),
    },
    rule=SELECT,
    lower="select",
    index_bound="choice",
)
