# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Functions of one tensor, element by element: exp, log, sin, floor, isnan and their like.

Each is one row of the op table under PyTorch's name, made in one loop; what a row does not cover (integers that
need no rounding, `round(decimals=)`, complex parts) is written out below.
"""

from __future__ import annotations

import math
from typing import Any

import cython

from weft._build.compiled import require
from weft.engine.api.api_function import records
from weft.engine.dispatch.type_names import TYPE_NAMES, no_kernel_for
from weft.engine.frontend.recorder import PROMOTE, TO_FLOAT, cast, record_elementwise
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, UnsupportedDTypeError
from weft.functional.support.variants import Function, by_name, in_place_variants, named, write_out
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where
from weft.tensor.arguments import describe, need_tensor, widen

require(__name__, cython.compiled)

_ROUNDING = {
    "floor": "The largest integer up to each element",
    "ceil": "The smallest integer from each element on",
    "trunc": "Each element without the digits behind its point",
}
_SIMPLE = {  # functions that are one row, and what they return
    "abs": "The absolute value of each element.",
    "sgn": "The sign of each element: -1, 0 or 1; of a complex number x / |x|.",
    "exp": "e to the power of each element.",
    "exp2": "2 to the power of each element.",
    "expm1": "exp(x) - 1 for each element x, exact near 0 too.",
    "log": "The natural logarithm of each element.",
    "log2": "The logarithm to base 2 of each element.",
    "log10": "The logarithm to base 10 of each element.",
    "log1p": "log(1 + x) for each element x, exact near 0 too.",
    "sqrt": "The square root of each element.",
    "rsqrt": "1 / sqrt(x) for each element x.",
    "sin": "The sine of each element, in radians.",
    "cos": "The cosine of each element, in radians.",
    "tan": "The tangent of each element, in radians.",
    "asin": "The arc sine of each element, in radians.",
    "acos": "The arc cosine of each element, in radians.",
    "atan": "The arc tangent of each element, in radians.",
    "sinh": "The hyperbolic sine of each element.",
    "cosh": "The hyperbolic cosine of each element.",
    "tanh": "The hyperbolic tangent of each element.",
    "asinh": "The inverse hyperbolic sine of each element.",
    "acosh": "The inverse hyperbolic cosine of each element.",
    "atanh": "The inverse hyperbolic tangent of each element.",
    "sigmoid": "1 / (1 + exp(-x)) for each element x.",
    "erf": "The error function of each element.",
    "erfc": "1 - erf(x) for each element x, exact for large ones too.",
    "reciprocal": "1 / x for each element x.",
    "isfinite": "True where an element is neither infinite nor nan.",
    "isinf": "True where an element is infinite.",
    "isnan": "True where an element is nan.",
    "logical_not": "True where an element is 0.",
}
_ALIASES = {
    "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arccosh": "acosh", "arcsinh": "asinh",
    "arctanh": "atanh", "absolute": "abs", "negative": "neg", "fix": "trunc", "expit": "sigmoid",
}  # fmt: skip
_IN_PLACE = (
    "abs sgn exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid erf erfc reciprocal logical_not floor ceil trunc neg bitwise_not sign round square frac relu "
    "logit deg2rad rad2deg absolute negative fix arccos arcsin arctan arccosh arcsinh arctanh"
)


def _refuse(name: str, input: Tensor) -> None:
    """Errors: DTypeError for a type that a function does not take."""
    raise UnsupportedDTypeError(
        no_kernel_for(name, input._dtype.name),
        expected="a tensor of another type",
        got=describe("input", input),
        fix="convert with .float(), or take .abs() or .real of complex numbers",
    )


def _unary(name: str) -> Function:
    op = OPS[name]
    refused = {"abs": 0, "erf": 3, "erfc": 3}.get(name, -1)

    def function(input: Tensor, *, out: Tensor | None = None) -> Any:
        if not isinstance(input, Tensor):
            need_tensor(name, input)
        if input._dtype.category == refused:
            _refuse(name, input)
        result = record_elementwise(op, (input,), None)
        return result if out is None else write_out(out, result)

    if op.dtype is None and op.rule in (PROMOTE, TO_FLOAT):
        records(op)(function)
    return named(function, name, f"{_SIMPLE[name]} Shapes: as `input`.")


def _rounding(name: str) -> Function:
    op = OPS[name]

    def function(input: Tensor, *, out: Tensor | None = None) -> Any:
        need_tensor(name, input)
        if input._dtype.category in (0, 3):
            _refuse(name, input)
        result = record_elementwise(
            op if input._dtype.category > 1 else OPS["clone"], (input,), None
        )
        return result if out is None else write_out(out, result)

    records(op)(function)
    return named(
        function, name, f"{_ROUNDING[name]}; integers stay as they are. Shapes: as `input`."
    )


FUNCTIONS: dict[str, Function] = {name: _unary(name) for name in _SIMPLE}
FUNCTIONS.update({name: _rounding(name) for name in _ROUNDING})


@records(OPS["neg"])
def neg(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The negative of each element. Errors: DTypeError on bool."""
    if not isinstance(input, Tensor):
        need_tensor("neg", input)
    if input._dtype.category == 0:
        raise DTypeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert "
            "a mask, use the `~` or `logical_not()` operator instead.",
            expected="a numeric tensor",
            got=describe("input", input),
            fix="use ~input",
        )
    result = record_elementwise(OPS["neg"], (input,), None)
    return result if out is None else write_out(out, result)


def positive(input: Tensor) -> Any:
    """The tensor itself. Errors: DTypeError on bool."""
    if input._dtype.category == 0:
        raise DTypeError(
            "The `+` operator, on a bool tensor is not supported.",
            expected="a numeric tensor",
            got=describe("input", input),
            fix="leave the + out",
        )
    return input


def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Any:
    """Each bit inverted; logical not on bool."""
    need_tensor("bitwise_not", input)
    result = record_elementwise(OPS["bitwise_not"], (input,), None)
    return result if out is None else write_out(out, result)


def invert(input: Tensor) -> Any:
    """`~input`. Errors: TypeError on floats and complex numbers."""
    if input._dtype.category >= 2:
        raise ArgumentTypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors",
            expected="integers or bools",
            got=describe("input", input),
            fix="compare first, as in ~(x > 0)",
        )
    return bitwise_not(input)


@records(OPS["sign"])
def sign(input: Tensor, *, out: Tensor | None = None) -> Any:
    """-1, 0 or 1 after the sign of each element; nan gives 0."""
    need_tensor("sign", input)
    if input._dtype.is_complex:
        raise DTypeError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
            expected="a real tensor",
            got=describe("input", input),
            fix="use weft.sgn",
        )
    result = record_elementwise(OPS["sign" if input._dtype.category else "clone"], (input,), None)
    return result if out is None else write_out(out, result)


@records(OPS["round"])
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Any:
    """Each element rounded half to even, at `decimals` places."""
    need_tensor("round", input)
    if input._dtype.category in (0, 3):
        _refuse("round", input)
    if input._dtype.category < 2:
        if decimals:
            _refuse("round", input)
        result = call("clone", input)
    elif abs(decimals) > 300:
        raise ArgumentError(
            f"round(): decimals={decimals} is out of range",
            expected="-300 <= decimals <= 300",
            got=str(decimals),
            fix="pass the number of places behind the point",
        )
    elif decimals == 0:
        result = record_elementwise(OPS["round"], (input,), None)
    elif decimals > 0:
        result = call("round", input * 10.0**decimals) / 10.0**decimals
    else:
        result = call("round", input / 10.0**-decimals) * 10.0**-decimals
    return result if out is None else write_out(out, result)


@records(OPS["square"])
def square(input: Tensor, *, out: Tensor | None = None) -> Any:
    """x * x; bool squares to int64."""
    need_tensor("square", input)
    x = input if input._dtype.category else cast(input, dtypes.int64)
    result = record_elementwise(OPS["square"], (x,), None)
    return result if out is None else write_out(out, result)


def frac(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The part behind the point: x - trunc(x)."""
    if need_tensor("frac", input)._dtype.category != 2:
        _refuse("frac", input)
    result = input - call("trunc", input)
    return result if out is None else write_out(out, result)


@records(OPS["relu"])
def relu(input: Tensor, *, out: Tensor | None = None) -> Any:
    """max(x, 0); the derivative at 0 is 0."""
    if not isinstance(input, Tensor):
        need_tensor("relu", input)
    if input._dtype.category == 3:
        _refuse("relu", input)
    if input._dtype.category == 0:
        raise DTypeError(
            "Boolean inputs not supported for relu",
            expected="a numeric tensor",
            got=describe("input", input),
            fix="convert with .float() first",
        )
    result = record_elementwise(OPS["relu"], (input,), None)
    return result if out is None else write_out(out, result)


def isposinf(input: Tensor) -> Any:
    """True where an element is +inf."""
    if input._dtype.is_complex:
        _refuse("isposinf", input)
    return input == math.inf


def isneginf(input: Tensor) -> Any:
    """True where an element is -inf."""
    if input._dtype.is_complex:
        _refuse("isneginf", input)
    return input == -math.inf


def isreal(input: Tensor) -> Any:
    """True where an element has no imaginary part."""
    return (
        call("imag", input) == 0
        if input._dtype.is_complex
        else full(input._shape, True, dtypes.bool_)
    )


def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Any:
    """real + i imag. Errors: DTypeError where the two types differ."""
    need_tensor("complex", real, "real", 1)
    need_tensor("complex", imag, "imag", 2)
    first, second = (TYPE_NAMES[x._dtype.name] for x in (real, imag))
    if real._dtype is not imag._dtype:
        floats = real._dtype.category == imag._dtype.category == 2
        raise DTypeError(
            f"Expected object of scalar type {first} but got scalar type {second} for second argument"
            if floats
            else f"Expected both inputs to be Half, Float or Double tensors but got {first} and {second}",
            expected="two tensors of one floating-point type",
            got=f"{describe('real', real)}, {describe('imag', imag)}",
            fix="convert one with .to(dtype)",
        )
    result = call("complex", real, imag)
    if out is not None and out._dtype is not result._dtype:
        raise DTypeError(
            f"Expected object of scalar type {TYPE_NAMES[result._dtype.name]} but got scalar type "
            f"{TYPE_NAMES[out._dtype.name]} for argument 'out'",
            expected=f"out of type {result._dtype.name}",
            got=describe("out", out),
            fix="leave out= away",
        )
    return result if out is None else write_out(out, result)


def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Any:
    """abs (cos angle + i sin angle)."""
    need_tensor("polar", abs, "abs", 1)
    need_tensor("polar", angle, "angle", 2)
    result = complex(abs * call("cos", angle), abs * call("sin", angle))
    return result if out is None else write_out(out, result)


def angle(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The argument of each number: 0 or pi for reals."""
    if input._dtype.is_complex:
        result = call("atan2", call("imag", input), call("real", input))
    else:
        x = input if input._dtype.category > 1 else cast(input, dtypes.get_default())
        result = where(x < 0, math.pi, where(call("isnan", x), math.nan, call("sign", x) * 0))
    return result if out is None else write_out(out, result)


def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Any:
    """log(x / (1 - x)); with `eps`, x is clamped to [eps, 1 - eps] first."""
    need_tensor("logit", input)
    dtype = input._dtype if input._dtype.category > 1 else dtypes.get_default()
    x = widen(cast(input, dtype))
    if eps is not None:
        x = where(x < eps, eps, where(x > 1 - eps, 1 - eps, x))
    else:
        x = x * where((x < 0) | (x > 1), math.nan, 1)  # the slope is nan there too
    result = cast(call("log", x) - call("log1p", -x), dtype)
    return result if out is None else write_out(out, result)


def deg2rad(input: Tensor) -> Any:
    """Degrees to radians."""
    if input._dtype.is_complex:
        _refuse("deg2rad", input)
    return input * (math.pi / 180)


def rad2deg(input: Tensor) -> Any:
    """Radians to degrees."""
    if input._dtype.is_complex:
        _refuse("rad2deg", input)
    return input * (180 / math.pi)


FUNCTIONS.update(
    by_name(
        neg, positive, bitwise_not, sign, round, square, frac, relu, isposinf, isneginf, isreal,
        complex, polar, angle, logit, deg2rad, rad2deg,
    )
)  # fmt: skip
FUNCTIONS.update({alias: FUNCTIONS[name] for alias, name in _ALIASES.items()})
_NOT_METHODS = ("complex", "polar", "expit")
METHODS: dict[str, Any] = {
    name: function for name, function in FUNCTIONS.items() if name not in _NOT_METHODS
}
METHODS.update(in_place_variants(FUNCTIONS, _IN_PLACE))
HOOKS = {"neg": neg, "invert": invert}
