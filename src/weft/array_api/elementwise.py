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
    function.__doc__ = f"`{name}` of the array API standard, element by element."
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
    """`logical_not` of the array API standard, element by element. Errors: RuntimeError on other types than bool."""
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
