"""The standard's element-wise functions: positional operands, types joined by the standard's lattice.

Arrays and numbers come in, one array goes out. Most are weft's own functions after promotion; what stands here besides
is where the standard and PyTorch give another value or another type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft.array_api.arguments import joined, need_array
from weft.engine.frontend.tensor import Tensor
from weft.errors import DTypeError

SENTENCES = {  # what each does that is made below
    "abs": "The absolute value of each element, of a complex one its size.",
    "acos": "The arc cosine of each element, in radians.",
    "acosh": "The inverse hyperbolic cosine of each element.",
    "add": "x1 + x2, broadcast.",
    "asin": "The arc sine of each element, in radians.",
    "asinh": "The inverse hyperbolic sine of each element.",
    "atan": "The arc tangent of each element, in radians.",
    "atan2": "The angle of the point (x2, x1), in radians from -pi to pi; broadcast.",
    "atanh": "The inverse hyperbolic tangent of each element.",
    "bitwise_and": "The bits that both have; broadcast.",
    "bitwise_invert": "Each bit inverted; logical not on bool.",
    "bitwise_left_shift": "The bits of `x1` moved by `x2` places to the left; broadcast.",
    "bitwise_or": "The bits that one has or both have; broadcast.",
    "bitwise_right_shift": "The bits of `x1` moved by `x2` places to the right; broadcast.",
    "bitwise_xor": "The bits that one of the two has; broadcast.",
    "ceil": "The smallest integer from each element on, in both parts of a complex one; integers stay as they are.",
    "conj": "The complex conjugate of each element; real ones stay as they are.",
    "copysign": "The size of `x1` with the sign of `x2` (-0.0 and nan with their signs); broadcast.",
    "cos": "The cosine of each element, in radians.",
    "cosh": "The hyperbolic cosine of each element.",
    "divide": "x1 / x2, broadcast; integers give floats.",
    "equal": "True where `x1` and `x2` are equal; broadcast.",
    "exp": "e to the power of each element.",
    "expm1": "exp(x) - 1 for each element, exact near 0 too.",
    "floor": "The largest integer up to each element, in both parts of a complex one; integers stay as they are.",
    "floor_divide": "x1 / x2 rounded down, broadcast; of infinities the quotient itself.",
    "greater": "True where x1 > x2; broadcast.",
    "greater_equal": "True where x1 >= x2; broadcast.",
    "hypot": "sqrt(x1 ** 2 + x2 ** 2) without overflow on the way, broadcast.",
    "imag": "The imaginary part of each element.",
    "isfinite": "True where an element is neither infinite nor nan; each integer is finite.",
    "isinf": "True where an element is infinite; no integer is.",
    "isnan": "True where an element is nan; no integer is.",
    "less": "True where x1 < x2; broadcast.",
    "less_equal": "True where x1 <= x2; broadcast.",
    "log": "The natural logarithm of each element.",
    "log10": "The logarithm to base 10 of each element.",
    "log1p": "log(1 + x) for each element, exact near 0 too.",
    "log2": "The logarithm to base 2 of each element.",
    "logaddexp": "log(exp(x1) + exp(x2)) without overflow, broadcast.",
    "logical_and": "True where both are; broadcast. Errors: DTypeError on other types than bool.",
    "logical_or": "True where one is, or both are; broadcast. Errors: DTypeError on other types than bool.",
    "logical_xor": "True where one of the two is; broadcast. Errors: DTypeError on other types than bool.",
    "maximum": "The larger of two elements, nan where one is nan; broadcast.",
    "minimum": "The smaller of two elements, nan where one is nan; broadcast.",
    "multiply": "x1 * x2, broadcast.",
    "negative": "The negative of each element.",
    "nextafter": "The next float from `x1` towards `x2`; broadcast.",
    "not_equal": "True where `x1` and `x2` differ; broadcast.",
    "positive": "A copy of the array.",
    "pow": "x1 to the power of x2, broadcast.",
    "real": "The real part of each element.",
    "reciprocal": "1 / x for each element.",
    "remainder": "The rest of x1 / x2 with the sign of `x2`, which a rest of 0 has too; broadcast.",
    "round": "The nearest integer, of two the even one, in both parts of a complex element; integers stay as they are.",
    "sign": "-1, 0 or 1 after the sign of each element, of a complex one x / abs(x); nan stays nan.",
    "signbit": "True where an element is negative; -0.0 is, and a nan whose sign is set.",
    "sin": "The sine of each element, in radians.",
    "sinh": "The hyperbolic sine of each element.",
    "sqrt": "The square root of each element.",
    "square": "The square of each element.",
    "subtract": "x1 - x2, broadcast.",
    "tan": "The tangent of each element, in radians.",
    "tanh": "The hyperbolic tangent of each element.",
    "trunc": "Each element without the digits behind its point, in both parts of a complex one; integers stay.",
}


def _unary(name: str, function: Callable[..., Tensor] | None = None) -> Callable[[Tensor], Tensor]:
    compute = getattr(weft, name) if function is None else function

    def apply(x: Tensor, /) -> Tensor:
        return compute(need_array(name, x))

    return _named(apply, name)


def _binary(
    name: str, function: Callable[..., Tensor] | None = None
) -> Callable[[Any, Any], Tensor]:
    compute = getattr(weft, name) if function is None else function

    def apply(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
        return compute(*joined(name, x1, x2))

    return _named(apply, name)


def _named(function: Callable[..., object], name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = SENTENCES[name]
    return function


def _boolean(name: str, *arrays: Tensor) -> None:
    for x in arrays:
        if x.dtype is not weft.bool:
            raise DTypeError(
                f"{name}: arrays of bool are expected",
                expected="bool",
                got=x.dtype.name,
                fix="compare with 0 first",
            )


def _logical(name: str) -> Any:
    compute = getattr(weft, name)

    def checked(x1: Tensor, x2: Tensor) -> Any:
        _boolean(name, x1, x2)
        return compute(x1, x2)

    return _binary(name, checked)


def logical_not(x: Tensor, /) -> Tensor:
    """True where an element is not. Errors: DTypeError on other types than bool."""
    _boolean("logical_not", need_array("logical_not", x))
    return weft.logical_not(x)


def _sign(x: Tensor) -> Tensor:
    """nan stays nan, where PyTorch's sign has 0; of -0 the sign is 0, in complex numbers too."""
    if x.dtype.is_complex:
        return weft.where(x == 0, 0, weft.sgn(x))
    if not x.dtype.is_floating_point:
        return weft.sgn(x)
    return weft.where(weft.isnan(x), x, weft.sign(x))


def _predicate(name: str, of_integers: bool) -> Any:
    compute = getattr(weft, name)

    def checked(x: Tensor) -> Any:
        inexact = x.dtype.is_floating_point or x.dtype.is_complex
        return compute(x) if inexact else weft.full(x.shape, of_integers, dtype=weft.bool)

    return _unary(name, checked)


def _rounded(name: str) -> Any:
    compute = getattr(weft, name)

    def whole(x: Tensor) -> Any:
        if x.dtype.is_complex:
            return weft.complex(compute(weft.real(x)), compute(weft.imag(x)))
        return compute(x) if x.dtype.is_floating_point else x.clone()

    return _unary(name, whole)


def _floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    """Of infinities the quotient, where PyTorch has nan."""
    whole = weft.floor_divide(x1, x2)
    if not whole.dtype.is_floating_point:
        return whole
    return weft.where(weft.isinf(x1), weft.true_divide(x1, x2), whole)


def _remainder(x1: Tensor, x2: Tensor) -> Tensor:
    """A remainder of 0 has the sign of the divisor, where PyTorch's has that of the dividend."""
    rest = weft.remainder(x1, x2)
    if not rest.dtype.is_floating_point:
        return rest
    return weft.where(rest == 0, weft.copysign(rest, x2), rest)


def clip(
    x: Tensor,
    /,
    min: Tensor | float | None = None,
    max: Tensor | float | None = None,
) -> Tensor:
    """Each element held between `min` and `max`, in the type of `x`; nan where one of the three is."""
    result = need_array("clip", x)
    if min is not None:
        result = weft.maximum(*_as_first(result, min))
    if max is not None:
        result = weft.minimum(*_as_first(result, max))
    return result.clone() if result is x else result


def _as_first(x: Tensor, bound: object) -> tuple[Tensor, Tensor]:
    if isinstance(bound, Tensor):
        return x, bound.to(x.dtype)
    return x, weft.tensor(bound, dtype=x.dtype)


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
add = _binary("add")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atan2 = _binary("atan2")
atanh = _unary("atanh")
bitwise_and = _binary("bitwise_and")
bitwise_invert = _unary("bitwise_invert", weft.bitwise_not)
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
ceil = _rounded("ceil")
conj = _unary("conj", weft.conj)
copysign = _binary("copysign")
cos = _unary("cos")
cosh = _unary("cosh")
divide = _binary("divide", weft.true_divide)
equal = _binary("equal", weft.eq)
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _rounded("floor")
floor_divide = _binary("floor_divide", _floor_divide)
greater = _binary("greater", weft.gt)
greater_equal = _binary("greater_equal", weft.ge)
hypot = _binary("hypot")
imag = _unary("imag")
isfinite = _predicate("isfinite", True)
isinf = _predicate("isinf", False)
isnan = _predicate("isnan", False)
less = _binary("less", weft.lt)
less_equal = _binary("less_equal", weft.le)
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
logaddexp = _binary("logaddexp")
logical_and = _logical("logical_and")
logical_or = _logical("logical_or")
logical_xor = _logical("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply", weft.mul)
negative = _unary("negative", weft.neg)
nextafter = _binary("nextafter")
not_equal = _binary("not_equal", weft.ne)
positive = _unary("positive", weft.clone)
pow = _binary("pow")
real = _unary("real")
reciprocal = _unary("reciprocal")
remainder = _binary("remainder", _remainder)
round = _rounded("round")
sign = _unary("sign", _sign)
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
subtract = _binary("subtract", weft.sub)
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _rounded("trunc")
