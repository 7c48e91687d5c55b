# ruff: noqa: A002 - PyTorch's names
"""The regularised incomplete gamma functions, by SciPy on values that are read; not imported before the first use."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.autograd.function import Function
from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.functional.shape.concat import broadcast_tensors
from weft.functional.special.operands import floating, floats
from weft.functional.special.special import lgamma
from weft.functional.support import host
from weft.functional.support.not_differentiable import no_derivative
from weft.functional.support.variants import given, make_in_place
from weft.ops.primitives import elementwise as call
from weft.tensor.arguments import need_tensor, widen


class Igamma(Function):
    """The lower function (1) or the upper one (-1), with the derivative by x."""

    _ending = "Backward0"

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, side: int) -> Any:
        """P(a, x) or Q(a, x), computed in float64."""
        pair = [host.to_numpy(part).astype(np.float64) for part in (a, x)]
        made = _lower(*pair) if side > 0 else _upper(pair[0], pair[1], a._dtype.itemsize)
        ctx.set_materialize_grads(False)  # a tangent of a that is not there is None
        ctx.save_for_backward(a, x)
        ctx.side = side
        return host.from_numpy(np.asarray(made), a._dtype)

    @staticmethod
    def backward(ctx: Any, g: object) -> Any:
        """exp((a - 1) log x - x - lgamma(a)) by x. Errors: NotImplementedError where that by a is wanted."""
        if ctx.needs_input_grad[0]:
            raise no_derivative(_name(ctx.side))
        return Igamma._by_x(ctx, g)

    @staticmethod
    def _by_x(ctx: Any, g: object) -> Any:
        a, x = ctx.saved_tensors
        slope = call("exp", (a - 1) * call("log", x) - x - lgamma(a))
        return None, g * slope * ctx.side, None

    @staticmethod
    def jvp(ctx: Any, moved: Tensor | None, x_moved: Tensor | None, side: object) -> Any:
        """The derivative by x. Errors: NotImplementedError where a moves."""
        if moved is not None:
            raise no_derivative(_name(ctx.side))
        return Igamma._by_x(ctx, x_moved)[1]


def _lower(a: np.ndarray, x: np.ndarray) -> Any:
    from scipy.special import gammainc

    return gammainc(a, x)


def _upper(a: np.ndarray, x: np.ndarray, itemsize: int) -> Any:
    """1 - P(a, x) wherever that has all the digits of the type; SciPy's own function, which is many times slower near
    0, where it has not."""
    from scipy.special import gammaincc

    made = np.asarray(1 - _lower(a, x))
    few = ~(made > (0.1 if itemsize > 4 else 1e-7))  # nan too
    made[few] = gammaincc(a[few], x[few])
    return made


def _name(side: int) -> str:
    return "igamma: input" if side > 0 else "igammac: input"


def _incomplete(name: str, input: Tensor, other: Tensor, side: int, out: Tensor | None) -> Any:
    need_tensor(name, input)
    need_tensor(name, other, "other", 2)
    a, x = (floating(name, part) for part in floats(name, input, other))
    made = Igamma.apply(*broadcast_tensors(widen(a), widen(x)), side)
    return given(out, cast(made, a._dtype))


def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """The regularised lower incomplete gamma function of order `input` at `other`. Reads the values.

    Shapes: broadcast. nan below 0. Errors: NotImplementedError where the derivative by `input` is wanted.
    """
    return _incomplete("igamma", input, other, 1, out)


def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """The regularised upper incomplete gamma function, 1 - igamma. Reads the values. Shapes: broadcast."""
    return _incomplete("igammac", input, other, -1, out)


igamma_, igammac_ = make_in_place(igamma, "igamma"), make_in_place(igammac, "igammac")
publish(globals())
