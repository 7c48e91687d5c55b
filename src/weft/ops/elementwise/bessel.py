"""Bessel functions, whose values are functions of kernels, and Hurwitz' zeta function, a composite in float64.

Not imported before the first use. Source: Abramowitz and Stegun, chapter 9 and 23.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import TO_FLOAT, cast, record_gradient
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.tape import tape
from weft.ops.composite.own_derivatives import define_custom_vjp
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import where
from weft.ops.registry import OPS, define_elementwise

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor


_TERMS = 20  # terms of Hurwitz' series before the asymptotic one
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


# -- zeta ------------------------------------------------------------------------------------------------------------


def _zeta_and_slope(s: Tensor, q: Tensor) -> tuple[Any, Any]:
    """The sum of (q + k) ** -s over k >= 0, and its derivative by s: a number of terms, then Euler and Maclaurin's."""
    total: Any = 0.0
    slope: Any = 0.0
    for place in range(_TERMS):
        term = call("pow", q + float(place), -s)
        total, slope = total + term, slope - term * call("log", q + float(place))
    z = q + float(_TERMS)
    log, power, rest = call("log", z), call("pow", z, -s), 1 / (s - 1)
    integral, half = power * z * rest, power * 0.5
    total = total + integral + half
    slope = slope - integral * (log + rest) - half * log
    factor, power, inverses = s, power / z, 1 / s
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        term = power * factor * (bernoulli / math.factorial(2 * j))
        total, slope = total + term, slope + term * (inverses - log)
        low, high = s + float(2 * j - 1), s + float(2 * j)
        factor, inverses = factor * low * high, inverses + 1 / low + 1 / high
        power = power / (z * z)
    return total, slope


def zeta_value(s: Tensor, q: Tensor) -> Any:
    """Hurwitz' zeta function in float64, for s > 1 and q > -11."""
    total, _ = _zeta_and_slope(s, q)
    z = q + float(_TERMS)
    total = where(call("isinf", s) & (q > 1), 0.0, where(q == math.inf, 0.0, total))
    whole = q == call("floor", q)
    left = where(whole, math.inf, where((s == call("floor", s)) & (z > 9), total, math.nan))
    total = where(s == 1, math.inf, where(s < 1, math.nan, where(q <= 0, left, total)))
    return where(call("isnan", s) | call("isnan", q), math.nan, total)


# -- rows ------------------------------------------------------------------------------------------------------------

NAMES = (
    *("i0", "i0e", "i1", "i1e"),
    *("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"),
    *("modified_bessel_k0", "modified_bessel_k1"),
    *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"),
)


def _untracked(value: Callable[..., Tensor], *operands: Tensor) -> Any:
    """A value computed in float64 and off the gradient's graph, in the type of the first operand."""
    mode = tape().mode
    grad, mode.grad = mode.grad, False
    try:
        return cast(value(*[cast(x, dtypes.float64) for x in operands]), operands[0]._dtype)
    finally:
        mode.grad = grad


def _over(value: Tensor, x: Tensor, at_zero: float) -> Any:
    """value / x, where value is an odd function; the limit at 0."""
    return where(x == 0, at_zero, value / where(x == 0, 1, x))


def _slope(name: str, x: Tensor) -> Any:
    """The derivative of one of NAMES."""
    f = call
    if name in ("i0", "bessel_j0", "bessel_y0", "modified_bessel_k0"):
        slope = f(name[:-1] + "1", x)
        return slope if name == "i0" else -slope
    if name == "i0e":
        return f("i1e", x) - call("sign", x) * f("i0e", x)
    if name == "i1e":
        value = f("i1e", x)
        return f("i0e", x) - call("sign", x) * value - _over(value, x, 0.5)
    if name == "scaled_modified_bessel_k0":
        return f(name, x) - f("scaled_modified_bessel_k1", x)
    if name == "scaled_modified_bessel_k1":
        value = f(name, x)
        return value - f("scaled_modified_bessel_k0", x) - value / x
    lower = f(name[:-1] + "0", x)
    if name == "modified_bessel_k1":
        return -lower - f(name, x) / x
    value = f(name, x)
    return lower - (_over(value, x, 0.5) if name in ("i1", "bessel_j1") else value / x)


_SCIPY = {"bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1"}


def _scipy(name: str) -> Any:
    spelled = _SCIPY.get(
        name, name.replace("scaled_modified_bessel_", "").removeprefix("modified_bessel_")
    )
    spelled += "e" if name.startswith("scaled") else ""

    def reference(*arrays: Array, params: None) -> Any:
        import scipy.special

        wide = [np.asarray(a, np.float64) for a in arrays]
        value = getattr(scipy.special, spelled)(*wide)
        return _with_limits(name, wide[0], value) if len(wide) == 1 else value

    return reference


def _with_limits(name: str, x: Array, value: Array) -> Any:
    """Values with the limits at infinity, and those of K1 at denormals, which SciPy does not have."""
    if "k1" in name:
        return np.where(np.isnan(value) & (x > 0), np.inf, value)
    limits = {"i0": np.abs(x), "i1": x}.get(name, np.zeros_like(x))
    reached = np.isinf(x) & ((x > 0) | (name[0] == "i") | ("j" in name))
    return np.where(reached & np.isnan(value), limits, value)


def _define(name: str) -> None:
    prefix = "" if name == "i0" else "Special"
    words = "".join(part.capitalize() for part in name.split("_"))
    reference = _scipy(name)
    define_elementwise(
        name,
        "self",
        lambda x: reference(x, params=None),
        "real" if name[0] == "i" or "j" in name else "positive",
        {"self": lambda g, self: g * _slope(name, self)},
        TO_FLOAT,
        dtypes="float" if name[0] == "i" else "float32 float64",
        grad_name=f"{prefix}{words[:-1] + 'E' if words in ('I0e', 'I1e') else words}Backward0",
    )


for _name in NAMES:
    _define(_name)


def _slope_by_s(s: Tensor, q: Tensor) -> Any:
    _, slope = _zeta_and_slope(cast(s, dtypes.float64), cast(q, dtypes.float64))
    return cast(slope, s._dtype)


define_custom_vjp(
    "zeta",
    "self other",
    _scipy("zeta"),
    {
        "self": lambda g, self, other: g * _slope_by_s(self, other),
        "other": lambda g, self, other: -g * self * zeta(self + 1, other),
    },
    lambda p, shapes, flags, n: p,
    [((3, 4), (3, 4), None)],
    "float32 float64",
    grad_name="SpecialZetaBackward0",
)


def zeta(s: Tensor, q: Tensor) -> Any:
    """Hurwitz' zeta function of two tensors of one type and shape, with its gradient record."""
    return record_gradient(OPS["zeta"], (s, q), None, _untracked(zeta_value, s, q))
