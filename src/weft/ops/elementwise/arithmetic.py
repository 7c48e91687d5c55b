"""Elementwise rows of arithmetic: sums, products, quotients, powers, extrema, magnitudes and signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import TO_FLOAT, cast, record_gradient
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import tape as tapes
from weft.errors import DTypeError
from weft.ops.elementwise.dtype_rules import INDEX_VALUES, REAL_TYPES, need_number, ordered
from weft.ops.primitives import conj, where
from weft.ops.primitives import elementwise as call
from weft.ops.registry import OPS, define
from weft.ops.registry import define_elementwise as _row

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.dtype import DType


def _where(g: Tensor, mask: Tensor) -> Any:
    return where(mask, g, 0)


def _subtracted(params: object, operand: DType) -> Any:
    if operand.category == 0:
        raise DTypeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead.",
            expected="numeric operands",
            got="two bool tensors",
            fix="use a ^ b",
        )
    return operand


# -- meanings in NumPy where it has no function of that meaning -----------------------------------------------------


def _trunc_divide_numpy(a: Array, b: Array) -> Any:
    if np.result_type(a, b).kind == "f":
        return np.trunc(np.true_divide(a, b))
    return np.where(b == 0, 0, (a - np.fmod(a, b)) // np.where(b == 0, 1, b))


def _remainder_numpy(a: Array, b: Array) -> Any:
    """The remainder of fmod moved to the divisor's sign: a zero keeps the sign of a, unlike np.remainder's."""
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _sign_numpy(x: Array) -> Any:
    """0 for nan; bool stays."""
    if x.dtype.kind == "b":
        return x
    return np.where(np.isnan(x) & (x.dtype.kind != "c"), 0, np.sign(x)).astype(x.dtype)


def _power_numpy(a: Array, b: Array) -> Any:
    """Integers: 1 / a ** -b truncated where the exponent is negative."""
    if np.result_type(a, b).kind not in "iu":
        return np.power(a, b)
    unit = np.where(np.abs(a) == 1, np.power(a, np.abs(b) % 2), 0)
    return np.where(b < 0, unit, np.power(a, np.maximum(b, 0)))


def _larger(a: Array, b: Array) -> Any:
    """The first of equals, which are 0.0 and -0.0 too; a nan where there is one."""
    return np.where((a >= b) | (a != a), a, b)


def _smaller(a: Array, b: Array) -> Any:
    return np.where((a <= b) | (a != a), a, b)


# -- slopes that are constant in places ------------------------------------------------------------------------------


def tied(value: Tensor, source: Tensor, name: str = "tied") -> Any:
    """A slope that does not change with `source`, with a record that leads there: its derivative is zeros, as in
    PyTorch, not that of an input that was never used. Only where slopes are differentiated again."""
    if not source.requires_grad or not tapes.tape().mode.grad:
        return value
    return record_gradient(OPS[name], (value, source), None, wrap_node(value_of(value)))


define(
    "tied",
    kind="composite",
    operands="self other",
    reference=lambda x, y, params: x,
    vjp={"self": lambda g: g, "other": lambda g: g * 0},
    batch=lambda p, shapes, flags, n: p,
    domain=[((3, 4), (3, 4), None)],
    shape=lambda p, *shapes: shapes[0],
    jvp_kind="rule",
    grad_name="ThresholdBackwardBackward0",
)
define(
    "first_power",
    kind="composite",
    operands="self other",
    reference=lambda x, y, params: x,
    vjp={"self": lambda g, self: tied(g, self)},
    batch=lambda p, shapes, flags, n: p,
    domain=[((3, 4), (3, 4), None)],
    shape=lambda p, *shapes: shapes[0],
    jvp_kind="rule",
    grad_name="PowBackward0",
)

# -- arithmetic ----------------------------------------------------------------------------------------------------

_row(
    "add",
    "self other",
    np.add,
    "real real",
    {"self": lambda g: g, "other": lambda g: g},
    lower=lambda e, d, a, b: e.logical_or(a, b) if d == "bool" else e.add(a, b),
    sums="operands",
    is_identity_of_one=True,
    index_bound="sum",
)
_row(
    "sub",
    "self other",
    np.subtract,
    "real real",
    {"self": lambda g: g, "other": lambda g: -g},
    dtype=_subtracted,
    dtypes="integer float complex",
    index_bound="difference",
)
_row(
    "mul",
    "self other",
    np.multiply,
    "real real",
    {"self": lambda g, other: g * conj(other), "other": lambda g, self: g * conj(self)},
    lower=lambda e, d, a, b: e.logical_and(a, b) if d == "bool" else e.mul(a, b),
    index_bound="product",
)
_row(
    "div",
    "self other",
    np.true_divide,
    "real nonzero",
    {
        "self": lambda g, other: g / conj(other),
        "other": lambda g, self, other: -g * conj((self / other) / other),
    },
    rule=TO_FLOAT,
)
_row(
    "floor_divide",
    "self other",
    np.floor_divide,
    "real nonzero",
    INDEX_VALUES,
    lower="floordiv",
    dtype=ordered("floor_divide", divides=True),
    dtypes="integer float",
    index_bound="quotient",
)
_row(
    "trunc_divide",
    "self other",
    _trunc_divide_numpy,
    "real nonzero",
    {"self": lambda g: g * 0, "other": lambda g: g * 0},
    lower=lambda e, d, a, b: (
        e.trunc(e.div(a, b)) if "float" in d else e.div(e.sub(a, e.fmod(a, b)), b)
    ),
    dtypes="integer float",
    index_bound="quotient",
)
_row(
    "remainder",
    "self other",
    _remainder_numpy,
    "real nonzero",
    {"self": lambda g: g, "other": lambda g, self, other: -g * call("floor_divide", self, other)},
    dtype=ordered("remainder", divides=True),
    dtypes="integer float",
    index_bound="remainder",
)
_row(
    "fmod",
    "self other",
    np.fmod,
    "real nonzero",
    {"self": lambda g: g, "other": lambda g, self, other: -g * call("trunc_divide", self, other)},
    dtype=ordered("fmod", divides=True),
    dtypes="integer float",
)
_row(
    "neg",
    "self",
    np.negative,
    "real",
    {"self": lambda g: -g},
    dtypes="integer float complex",
)
_row(
    "abs",
    "self",
    np.abs,
    "nonzero",
    {"self": lambda g, self: g * call("sgn", self)},
    dtype=lambda params, d: d.to_real(),
    dtypes="integer float complex",
)
_row(
    "sign",
    "self",
    _sign_numpy,
    "nonzero",
    {"self": lambda g: g * 0},
    dtypes="bool integer float",
)
_row(
    "sgn",
    "self",
    _sign_numpy,
    "nonzero",
    {"self": lambda g, self, result: _vjp_sgn(g, self, result)},
    lower="sign",
)
_row(
    "reciprocal",
    "self",
    np.reciprocal,
    "nonzero",
    {"self": lambda g, result: -g * conj(result * result)},
    rule=TO_FLOAT,
)
_row(
    "square",
    "self",
    np.square,
    "real",
    {"self": lambda g, self: g * conj(tied(self, self, "first_power") * 2)},
    grad_name="PowBackward0",
    lower=lambda e, d, x: x if d == "bool" else e.mul(x, x),
    dtypes="integer float complex",
)
_row(
    "cube",
    "self",
    lambda x: x * x * x,
    "real",
    {"self": lambda g, self: g * conj(call("square", self) * 3)},
    grad_name="PowBackward0",
    lower=lambda e, d, x: e.mul(e.mul(x, x), x),
    dtype=lambda params, d: need_number("pow", d),
    dtypes="integer float complex",
)
_row(
    "pow",
    "self exponent",
    _power_numpy,
    "positive real",
    {
        "self": lambda g, self, exponent: _vjp_power_base(g, self, exponent),
        "exponent": lambda g, self, exponent, result: _vjp_power_exponent(
            g, self, exponent, result
        ),
    },
    dtype=lambda params, d: need_number("pow", d),
    dtypes="integer float complex",
)
_row(
    "maximum",
    "self other",
    _larger,
    "real real",
    {
        "self": lambda g, self, other: _vjp_extremum(g, self, other, "lt"),
        "other": lambda g, self, other: _vjp_extremum(g, other, self, "lt"),
    },
    dtype=ordered("maximum"),
    dtypes=REAL_TYPES,
    index_bound="larger",
)
_row(
    "minimum",
    "self other",
    _smaller,
    "real real",
    {
        "self": lambda g, self, other: _vjp_extremum(g, self, other, "gt"),
        "other": lambda g, self, other: _vjp_extremum(g, other, self, "gt"),
    },
    dtype=ordered("minimum"),
    dtypes=REAL_TYPES,
    index_bound="smaller",
)
_row(
    "clamp_min",
    "self min",
    _larger,
    "real real",
    {
        "self": lambda g, self, min: _where(g, self >= min),
        "min": lambda g, self, min: _where(g, self < min),
    },
    lower="maximum",
    grad_name="ClampMinBackward0",
    dtype=ordered("clamp"),
    dtypes=REAL_TYPES,
    index_bound="larger",
)
_row(
    "clamp_max",
    "self max",
    _smaller,
    "real real",
    {
        "self": lambda g, self, max: _where(g, self <= max),
        "max": lambda g, self, max: _where(g, self > max),
    },
    lower="minimum",
    grad_name="ClampMaxBackward0",
    dtype=ordered("clamp"),
    dtypes=REAL_TYPES,
    index_bound="smaller",
)
_row(
    "atan2",
    "self other",
    np.arctan2,
    "real nonzero",
    {
        "self": lambda g, self, other: g * _atan2_part(other, self, other),
        "other": lambda g, self, other: -g * _atan2_part(self, self, other),
    },
    rule=TO_FLOAT,
    dtype=ordered("atan2"),
    dtypes=REAL_TYPES,
)


def _atan2_part(top: Tensor, y: Tensor, x: Tensor) -> Any:
    square = y * y + x * x
    return where(square == 0, 0, top / square)


def _vjp_sgn(g: Tensor, self: Tensor, result: Tensor) -> Any:
    if not self.dtype.is_complex:
        return g * 0
    size = call("abs", self)
    real = call("real", g * conj(result))
    return where(size == 0, 0, (g - result * cast(real, g.dtype)) / cast(size, g.dtype))


def _vjp_extremum(g: Tensor, mine: Tensor, other: Tensor, loses: str) -> Any:
    """Ties share; where one is nan nobody loses, and both get the cotangent."""
    return where(mine == other, g * 0.5, where(call(loses, mine, other), 0, g))


def _vjp_power_base(g: Tensor, self: Tensor, exponent: Tensor) -> Any:
    slope = exponent * call("pow", self, exponent - 1)
    return g * conj(where(exponent == 0, 0, slope))


def _vjp_power_exponent(g: Tensor, self: Tensor, exponent: Tensor, result: Tensor) -> Any:
    slope = result * call("log", self)
    if self.dtype.is_complex:
        return g * conj(where(self == 0, 0, slope))
    silent = call("logical_and", self == 0, exponent >= 0)
    return g * where(silent, 0, slope)
