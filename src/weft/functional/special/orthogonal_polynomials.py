"""Orthogonal polynomials by their recurrences, and three functions of SciPy.

The polynomials have no derivative here, as in PyTorch; values are read at the call and computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.functional.linalg.factored import Factored, keep
from weft.functional.support import host
from weft.functional.support.variants import named, write_out
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full
from weft.tensor.arguments import need_tensor

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


Step = Callable[[Any, int, Any, Any], Any]
MOST_STEPS = (
    24  # degrees up to which polynomials of a tensor are recorded, which makes them one kernel
)


def _recorded(x: Tensor, n: int, first: Callable[..., Any], step: Step) -> Any:
    """P_n(x) of one degree."""
    if n < 1:
        return full(x._shape, int(n == 0), x._dtype)
    before, now = 1.0, first(x)
    for k in range(1, n):
        before, now = now, step(x, k, now, before)
    return now


def _climbed(x: object, n: int | np.ndarray, first: Callable[..., Any], step: Step) -> Any:
    """P_n(x) from P_0 = 1, P_1 = first and P_k+1 = step(x, k, P_k, P_k-1); 0 for negative n."""
    x, n = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(n, np.float64))
    n = np.trunc(np.where(np.isfinite(n), n, -1)).astype(np.int64)
    before, now = np.ones(x.shape), first(x)
    result = np.where(n == 0, before, np.where(n == 1, now, 0.0))
    with np.errstate(all="ignore"):
        for k in range(1, int(min(n.max(initial=0), 1 << 14))):
            before, now = now, step(x, k, now, before)
            result = np.where(n == k + 1, now, result)
    return result


def _title(name: str) -> str:
    """The polynomials by their symbol: "The shifted Chebyshev polynomials T_n" of shifted_chebyshev_polynomial_t."""
    family, _, symbol = name.partition("_polynomial_")
    words = " ".join(each if each == "shifted" else each.title() for each in family.split("_"))
    return f"The {words} polynomials {symbol.title()}_n"


def _polynomial(name: str, first: Callable[..., Tensor], step: Step, shifted: bool = False) -> Any:
    def function(input: Tensor, n: Tensor | int, *, out: Tensor | None = None) -> Any:  # noqa: A002
        tensors = [t for t in (input, n) if isinstance(t, Tensor)]
        if not tensors:
            need_tensor(name, input)
        if out is None and type(n) is int and n <= MOST_STEPS and input._dtype.category > 1:
            wide = cast(input.detach(), dtypes.float64)
            return cast(_recorded(2 * wide - 1 if shifted else wide, n, first, step), input._dtype)
        broadcast_shapes([t._shape for t in tensors], name)
        arrays = [host.to_numpy(t) if isinstance(t, Tensor) else t for t in (input, n)]
        kinds = [t._dtype for t in tensors if t._dtype.category > 1]
        kind = max(kinds, key=lambda d: d.itemsize, default=dtypes.get_default())
        x = 2 * np.asarray(arrays[0], np.float64) - 1 if shifted else arrays[0]
        made = host.from_numpy(_climbed(x, arrays[1], first, step), kind)
        return made if out is None else write_out(out, made)

    return named(function, name, f"{_title(name)}(x), of degree n, at each element x.")


def _double(
    x: Tensor | np.ndarray, k: int, now: Tensor | np.ndarray, before: Tensor | float | np.ndarray
) -> Any:
    return 2 * x * now - before


_CHEBYSHEV: dict[str, Any] = {
    "t": lambda x: x,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}
SPECIAL: dict[str, Any] = {}
for _kind, _first in _CHEBYSHEV.items():
    for _prefix in ("", "shifted_"):
        _name = f"{_prefix}chebyshev_polynomial_{_kind}"
        SPECIAL[_name] = _polynomial(_name, _first, _double, bool(_prefix))
_OTHERS: dict[str, Any] = {
    "hermite_polynomial_h": (lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - 2 * k * q),
    "hermite_polynomial_he": (lambda x: x, lambda x, k, p, q: x * p - k * q),
    "laguerre_polynomial_l": (
        lambda x: 1 - x,
        lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1),
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1),
    ),
}
for _name, (_first, _step) in _OTHERS.items():
    SPECIAL[_name] = _polynomial(_name, _first, _step)

# -- of SciPy ----------------------------------------------------------------------------------------------------------


def _of_scipy(name: str, input: Tensor) -> Any:  # noqa: A002
    from scipy import special

    with np.errstate(all="ignore"):
        found = getattr(special, name)(np.asarray(host.to_numpy(input), np.float64))
    return host.from_numpy(found[0] if isinstance(found, tuple) else found, input._dtype)


class SpecialErfcx(Factored):
    """exp(x^2) erfc(x)."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Any:
        """The value."""
        made = _of_scipy("erfcx", x)
        return keep(ctx, SpecialErfcx.rule, (made,), x)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """2 x erfcx(x) - 2 / sqrt(pi)."""
        (x,) = saved
        return g * (2 * x * SpecialErfcx.apply(x) - 2 / math.sqrt(math.pi))


class SpecialLogNdtr(Factored):
    """The logarithm of the normal distribution function."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Any:
        """The value."""
        made = _of_scipy("log_ndtr", x)
        return keep(ctx, SpecialLogNdtr.rule, (made,), x)

    @staticmethod
    def rule(saved: tuple[Tensor, ...], g: Tensor) -> Any:
        """phi(x) / Phi(x), which is sqrt(2 / pi) / erfcx(-x / sqrt(2))."""
        (x,) = saved
        return g * math.sqrt(2 / math.pi) / SpecialErfcx.apply(x * -math.sqrt(0.5))


def _floating(name: str, input: Tensor) -> Any:  # noqa: A002
    need_tensor(name, input)
    return input if input._dtype.category > 1 else cast(input, dtypes.get_default())


def erfcx(input: Tensor, *, out: Tensor | None = None) -> Any:  # noqa: A002
    """exp(x^2) erfc(x), which does not overflow."""
    made = SpecialErfcx.apply(_floating("erfcx", input))
    return made if out is None else write_out(out, made)


def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Any:  # noqa: A002
    """The logarithm of the normal distribution function."""
    made = SpecialLogNdtr.apply(_floating("log_ndtr", input))
    return made if out is None else write_out(out, made)


def airy_ai(x: Tensor, *, out: Tensor | None = None) -> Any:
    """The Airy function Ai."""
    made = _of_scipy("airy", call("clone", _floating("airy_ai", x)).detach())
    return made if out is None else write_out(out, made)


SPECIAL.update(erfcx=erfcx, log_ndtr=log_ndtr, airy_ai=airy_ai)
publish(globals())
