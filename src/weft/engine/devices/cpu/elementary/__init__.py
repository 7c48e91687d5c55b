"""Elementary functions as vector IR, the same bits on every machine.

`emit` appends the instructions of one function to a builder.  Values are float, double, or vectors
of either.  Results are within 2 ulp of the exact value over the whole range; only IEEE operations
and explicit fused multiply-adds are used, and no library is called.  The code is straight-line
except for functions that skip what no lane wants (sin, cos, tan, digamma, trigamma, Bessel functions), which
become internal functions of the module.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from weft.engine.devices.cpu.elementary import (
    bessel,
    error_function,
    exponential,
    gamma,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from weft.engine.devices.cpu.elementary.expressions import SimdExpr

Function = Callable[..., SimdExpr]


def through_double(function: Function) -> Function:
    """A float64 function for both widths: float32 is widened, and the result rounded."""

    def either(*values: SimdExpr) -> SimdExpr:
        if not values[0].single:
            return function(*values)
        return function(*(value.widened() for value in values)).narrowed()

    return either


def pow_either(x: SimdExpr, y: SimdExpr) -> SimdExpr:
    if not x.single:
        return power.pow_64(x, y)
    return power.pow_32(x.widened(), y.widened()).narrowed()


FUNCTIONS: dict[str, Function] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "tanh": exponential.tanh,
    "sigmoid": exponential.sigmoid,
    "sinh": through_double(exponential.sinh),
    "cosh": through_double(exponential.cosh),
    "log": logarithm.log,
    "log2": through_double(logarithm.log2),
    "log10": through_double(logarithm.log10),
    "log1p": logarithm.log1p,
    "asinh": through_double(logarithm.asinh),
    "acosh": through_double(logarithm.acosh),
    "atanh": through_double(logarithm.atanh),
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": through_double(inverse.asin),
    "acos": through_double(inverse.acos),
    "atan": through_double(inverse.atan),
    "atan2": through_double(inverse.atan2),
    "erf": error_function.erf,
    "erfc": through_double(error_function.erfc),
    "erfinv": through_double(error_function.erfinv),
    "lgamma": through_double(gamma.lgamma),
    "digamma": gamma.digamma,
    "trigamma": gamma.trigamma,
    **{name: bessel.function(name) for name in bessel.VALUES},
    "pow": pow_either,
}


def emit(builder: ir.IRBuilder, name: str, *values: ir.Value) -> ir.Value:
    """The value of `name` at `values` (one, or two of the same type), lane by lane."""
    return FUNCTIONS[name](*(SimdExpr(builder, value) for value in values)).value
