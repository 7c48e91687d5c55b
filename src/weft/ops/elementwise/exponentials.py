"""Elementwise rows of exponentials, logarithms, roots, trigonometric functions and their like."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import TO_FLOAT
from weft.ops.elementwise.arithmetic import tied
from weft.ops.elementwise.dtype_rules import REAL_TYPES
from weft.ops.primitives import conj, where
from weft.ops.primitives import elementwise as call
from weft.ops.registry import OPS
from weft.ops.registry import define_elementwise as _row

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter
    from weft.engine.devices.cpu.llvm.simd_value import SimdValue
    from weft.engine.frontend.tensor import Tensor

_row("exp", "self", np.exp, "small", {"self": lambda g, result: g * conj(result)}, rule=TO_FLOAT)
_row(
    "exp2",
    "self",
    np.exp2,
    "small",
    {"self": lambda g, result: g * conj(result) * math.log(2)},
    rule=TO_FLOAT,
)
_row(
    "expm1",
    "self",
    np.expm1,
    "small",
    {"self": lambda g, result: g * (conj(result) + 1)},
    rule=TO_FLOAT,
)
_row("log", "self", np.log, "positive", {"self": lambda g, self: g / conj(self)}, rule=TO_FLOAT)
_row(
    "log2",
    "self",
    np.log2,
    "positive",
    {"self": lambda g, self: g / (conj(self) * math.log(2))},
    rule=TO_FLOAT,
)
_row(
    "log10",
    "self",
    np.log10,
    "positive",
    {"self": lambda g, self: g / (conj(self) * math.log(10))},
    rule=TO_FLOAT,
)
_row(
    "log1p",
    "self",
    np.log1p,
    "positive",
    {"self": lambda g, self: g / (conj(self) + 1)},
    rule=TO_FLOAT,
    grad_name="Log1PBackward0",
)
_row(
    "logaddexp",
    "self other",
    np.logaddexp,
    "real real",
    {
        "self": lambda g, self, other: _vjp_logaddexp(g, self, other, g),
        "other": lambda g, self, other: _vjp_logaddexp(g, other, self, 0),
    },
    rule=TO_FLOAT,
    lower=lambda e, d, a, b: _lower_logaddexp(e, d, a, b),
    dtypes="float",
)
_row(
    "sqrt",
    "self",
    np.sqrt,
    "positive",
    {"self": lambda g, result: g / (conj(result) * 2)},
    rule=TO_FLOAT,
)
_row(
    "rsqrt",
    "self",
    lambda x: 1 / np.sqrt(x),
    "positive",
    {"self": lambda g, result: g * conj(result * result * result) * -0.5},
    rule=TO_FLOAT,
)
_row(
    "sin",
    "self",
    np.sin,
    "real",
    {"self": lambda g, self: g * conj(call("cos", self))},
    rule=TO_FLOAT,
)
_row(
    "cos",
    "self",
    np.cos,
    "real",
    {"self": lambda g, self: -g * conj(call("sin", self))},
    rule=TO_FLOAT,
)
_row(
    "tan",
    "self",
    np.tan,
    "unit",
    {"self": lambda g, result: g * conj(result * result + 1)},
    rule=TO_FLOAT,
)
_row(
    "asin",
    "self",
    np.arcsin,
    "unit",
    {"self": lambda g, self: g * conj(call("rsqrt", 1 - self * self))},
    rule=TO_FLOAT,
)
_row(
    "acos",
    "self",
    np.arccos,
    "unit",
    {"self": lambda g, self: -g * conj(call("rsqrt", 1 - self * self))},
    rule=TO_FLOAT,
)
_row(
    "atan",
    "self",
    np.arctan,
    "real",
    {"self": lambda g, self: g / conj(self * self + 1)},
    rule=TO_FLOAT,
)
_row(
    "sinh",
    "self",
    np.sinh,
    "small",
    {"self": lambda g, self: g * conj(call("cosh", self))},
    rule=TO_FLOAT,
)
_row(
    "cosh",
    "self",
    np.cosh,
    "small",
    {"self": lambda g, self: g * conj(call("sinh", self))},
    rule=TO_FLOAT,
)
_row(
    "tanh",
    "self",
    np.tanh,
    "real",
    {"self": lambda g, result: g * conj(1 - result * result)},
    rule=TO_FLOAT,
)
_row(
    "asinh",
    "self",
    np.arcsinh,
    "real",
    {"self": lambda g, self: g * conj(call("rsqrt", self * self + 1))},
    rule=TO_FLOAT,
)
_row(
    "acosh",
    "self",
    np.arccosh,
    "above_one",
    {"self": lambda g, self: g * conj(call("rsqrt", self * self - 1))},
    rule=TO_FLOAT,
)
_row(
    "atanh",
    "self",
    np.arctanh,
    "unit",
    {"self": lambda g, self: g / conj(1 - self * self)},
    rule=TO_FLOAT,
)
_row(
    "sigmoid",
    "self",
    lambda x: 1 / (1 + np.exp(-x)),
    "real",
    {"self": lambda g, result: g * conj((1 - result) * result)},
    rule=TO_FLOAT,
)
_row(
    "erf",
    "self",
    np.vectorize(math.erf, otypes=[np.float64]),
    "real",
    {"self": lambda g, self: g * (call("exp", -(self * self)) * (2 / math.sqrt(math.pi)))},
    rule=TO_FLOAT,
    dtypes=REAL_TYPES,
)
_row(
    "erfc",
    "self",
    np.vectorize(math.erfc, otypes=[np.float64]),
    "real",
    {"self": lambda g, self: g * (call("exp", -(self * self)) * (-2 / math.sqrt(math.pi)))},
    rule=TO_FLOAT,
    dtypes=REAL_TYPES,
)
_row(
    "relu",
    "self",
    lambda x: np.where(x < 0, 0, x).astype(x.dtype),
    "nonzero",
    {"self": lambda g, result: tied(where(result <= 0, 0, g), result)},
    lower=lambda e, d, x: e.maximum(x, e.constant(0, d)),
    dtypes="integer float",
)


# -- sums of exponentials ----------------------------------------------------------------------------------------------


def _lower_logaddexp(e: Emitter, dtype: str, one: SimdValue, other: SimdValue) -> SimdValue:
    """From the greater of the two; halves are widened, and rounded once. The difference of equal infinities, which
    are their own sum, would be nan."""
    wide = dtype if dtype == "float64" else "float32"
    a, b = e.cast(one, wide), e.cast(other, wide)

    def of(op: str, *operands: SimdValue, made: str = wide) -> Any:
        return OPS[op].lower(e, made, *operands)

    greater = of("ge", a, b, made="bool")
    top, low = of("where", greater, a, b), of("where", greater, b, a)
    same = of("eq", a, b, made="bool")
    gap = of("where", same, e.constant(0, wide), of("sub", low, top))
    return e.cast(of("add", top, of("log1p", of("exp", gap))), dtype)


def _vjp_logaddexp(g: Tensor, mine: Tensor, other: Tensor, at_infinity: Tensor | float) -> Any:
    """The cotangent's share: what exp(mine) is of the sum; of two equal infinities the first has all."""
    same = (mine == other) & call("isinf", mine)
    gap = where(same, 0, mine - other)
    return where(same, at_infinity, call("sigmoid_mul", gap, g))
