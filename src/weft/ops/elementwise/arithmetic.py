"""Elementwise rows: arithmetic, comparison, logic, rounding, exponentials.

A derivative is the linear map that one output element's cotangent goes through; broadcasting is undone by the walk.
`domain` names the domain of each operand for the tests: real, positive, unit (inside (-1, 1)), nonzero, above_one,
octave (inside (1, 2)), integer, bits (a shift), counter (of random numbers), boolean, small (|x| < 3). `dtypes` are the
operand types that have a kernel, after promotion; what a user passes beyond them is refused by the row's dtype rule or
its function.

Not compiled: where in a rule an operation is recorded is part of its place (`weft.engine.capi.call_site`), by which
batches tell the operations of one cell apart. Without it a cell that is written by hand takes a fifth more kernels
backward.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import (
    COMPARE,
    INTEGRAL,
    LOGICAL,
    SELECT,
    TO_FLOAT,
    cast,
    record_gradient,
)
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.errors import DTypeError
from weft.ops.primitives import conj, where
from weft.ops.primitives import elementwise as call
from weft.ops.registry import (
    EVERY_TYPE,
    OPS,
    Rule,
    define,
    not_differentiable,
)
from weft.ops.registry import define_elementwise as _row

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.dtype import DType


REAL_TYPES = "bool integer float"
INDEX_VALUES = not_differentiable(
    "the result takes discrete values: its derivative is zero or undefined everywhere"
)


def _where(g: Tensor, mask: Tensor) -> Any:
    return where(mask, g, 0)


def _ordered(name: str, compares: bool = False, divides: bool = False) -> Rule:
    """The dtype rule of an operation that needs an order: complex numbers have none. Nor does bool divide."""

    def dtype(params: object, operand: DType) -> Any:
        if divides:
            _number(name, operand)
        if operand.is_complex:
            raise DTypeError(
                f'"{name}" not implemented for complex numbers',
                expected="real operands",
                got=operand.name,
                fix="compare .abs(), .real or .imag",
            )
        return dtypes.bool_ if compares else operand

    return dtype


def _number(name: str, operand: Any) -> Any:
    if operand.category == 0:
        raise DTypeError(
            f"\"{name}\" not implemented for 'Bool'",
            expected="numeric operands",
            got="bool",
            fix="convert one operand first",
        )
    return operand


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


def _complex_numpy(real: Array, imag: Array) -> Any:
    out = np.zeros(np.broadcast(real, imag).shape, np.result_type(real, np.complex64))
    out.real, out.imag = real, imag
    return out


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
)
_row(
    "sub",
    "self other",
    np.subtract,
    "real real",
    {"self": lambda g: g, "other": lambda g: -g},
    dtype=_subtracted,
    dtypes="integer float complex",
)
_row(
    "mul",
    "self other",
    np.multiply,
    "real real",
    {"self": lambda g, other: g * conj(other), "other": lambda g, self: g * conj(self)},
    lower=lambda e, d, a, b: e.logical_and(a, b) if d == "bool" else e.mul(a, b),
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
    dtype=_ordered("floor_divide", divides=True),
    dtypes="integer float",
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
)
_row(
    "remainder",
    "self other",
    _remainder_numpy,
    "real nonzero",
    {"self": lambda g: g, "other": lambda g, self, other: -g * call("floor_divide", self, other)},
    dtype=_ordered("remainder", divides=True),
    dtypes="integer float",
)
_row(
    "fmod",
    "self other",
    np.fmod,
    "real nonzero",
    {"self": lambda g: g, "other": lambda g, self, other: -g * call("trunc_divide", self, other)},
    dtype=_ordered("fmod", divides=True),
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
    dtype=lambda params, d: _number("pow", d),
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
    dtype=lambda params, d: _number("pow", d),
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
    dtype=_ordered("maximum"),
    dtypes=REAL_TYPES,
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
    dtype=_ordered("minimum"),
    dtypes=REAL_TYPES,
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
    dtype=_ordered("clamp"),
    dtypes=REAL_TYPES,
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
    dtype=_ordered("clamp"),
    dtypes=REAL_TYPES,
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
    dtype=_ordered("atan2"),
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


# -- exponentials and their like -----------------------------------------------------------------------------------

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

# -- rounding ------------------------------------------------------------------------------------------------------

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

# -- comparison and logic ------------------------------------------------------------------------------------------

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
        dtype=None if _name in ("eq", "ne") else _ordered(_name, compares=True),
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

# -- conversion and complex parts ----------------------------------------------------------------------------------

_row(
    "cast",
    "self",
    lambda x, dtype: x.astype(dtype),
    "real",
    {"self": lambda g, at: _vjp_cast(g, at)},
    lower=lambda e, d, x: e.cast(x, d),
    grad_name="ToCopyBackward0",
    index_bound="operand",
    is_cast=True,
)
_row("clone", "self", np.copy, "real", {"self": lambda g: g}, lower=lambda e, d, x: x)
_row("conj", "self", np.conjugate, "real", {"self": lambda g: conj(g)})
_row(
    "real",
    "self",
    np.real,
    "real",
    {"self": lambda g, at: cast(g, g.dtype.to_complex())},
    dtype=lambda params, d: d.to_real(),
    dtypes="complex",
)
_row(
    "imag",
    "self",
    np.imag,
    "real",
    {"self": lambda g, at: cast(g, g.dtype.to_complex()) * 1j},
    dtype=lambda params, d: d.to_real(),
    dtypes="complex",
)
_row(
    "complex",
    "real imag",
    _complex_numpy,
    "real real",
    {"real": lambda g: call("real", g), "imag": lambda g: call("imag", g)},
    dtype=lambda params, d: d.to_complex(),
    dtypes="float32 float64",
    jvp_kind="linear",
)


def _vjp_cast(g: Tensor, at: At) -> Any:
    source = at.params[0]
    if g.dtype.is_complex and not source.is_complex:
        g = call("real", g)
    return cast(g, source)
