"""Rarer distributions in place, Poisson counts, and rarer ways to give a tensor its values.

Uniform numbers come from the generator; what needs an inverse distribution function reads its parameters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.errors import ArgumentError, ArgumentTypeError, DTypeError
from weft.functional import host
from weft.functional.arguments import describe, need_tensor
from weft.functional.views import view
from weft.generator import standard_normal, unit
from weft.graph import dtype as dtypes
from weft.graph.mutation import mutate
from weft.graph.public import publish
from weft.graph.recording import cast
from weft.graph.tensor import Tensor
from weft.graph.views import replace_value
from weft.ops.primitives import elementwise as call


def _need(name: str, good: bool, what: str, got: Any) -> None:
    """Errors: RuntimeError on a parameter that the distribution does not have."""
    if not good:
        raise ArgumentError(
            f"{name} expects {what}, but found {got}",
            expected=what,
            got=str(got),
            fix="check the parameter",
        )


def _wide(input: Any) -> Any:  # noqa: A002
    return dtypes.float64 if input._dtype is dtypes.float64 else dtypes.float32


def _need_floats(name: str, input: Any) -> None:  # noqa: A002
    if input._dtype.category != 2:
        raise DTypeError(
            f'"{name}" not implemented for {input._dtype.name}',
            expected="a floating-point tensor",
            got=describe("self", input),
            fix="convert with .float()",
        )


def geometric_(self: Any, p: float, *, generator: Any = None) -> Any:
    """How many trials of chance p it takes to succeed, in place."""
    _need("geometric_", 0 < p < 1, "p to be in (0, 1)", f"p={p}")
    uniform = 1 - unit(self._shape, _wide(self), generator)
    return mutate(
        self, cast(call("ceil", call("log", uniform) / math.log1p(-p)).clamp(min=1), self._dtype)
    )


def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    """Exponentials of normal numbers, in place."""
    _need_floats("log_normal_", self)
    _need("log_normal_", std > 0, "std > 0.0", f"std={std}")
    numbers = standard_normal(self._shape, _wide(self), generator) * std + mean
    return mutate(self, cast(call("exp", numbers), self._dtype))


def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    """Numbers of the Cauchy distribution, in place."""
    _need_floats("cauchy_", self)
    _need("cauchy_", sigma > 0, "sigma > 0.0", f"sigma={sigma}")
    angle = (unit(self._shape, _wide(self), generator) - 0.5) * math.pi
    return mutate(self, cast(call("tan", angle) * sigma + median, self._dtype))


def poisson(input: Any, generator: Any = None) -> Any:  # noqa: A002
    """A count for each rate. Reads the rates."""
    from scipy import special

    _need_floats("poisson", need_tensor("poisson", input))
    rates = np.asarray(host.to_numpy(input.detach()), np.float64)
    _need(
        "poisson",
        not (rates < 0).any(),
        "all elements of input to be non-negative",
        "a negative one",
    )
    uniform = host.to_numpy(unit(input._shape, dtypes.float64, generator))
    with np.errstate(all="ignore"):
        count = np.maximum(np.ceil(special.pdtrik(uniform, np.where(rates > 0, rates, 1.0))), 0.0)
        count = np.where(
            (count > 0) & (special.pdtr(count - 1, rates) >= uniform), count - 1, count
        )
    return host.from_numpy(np.where(rates > 0, count, 0.0), input._dtype)


def apply_(self: Any, callable: Any) -> Any:  # noqa: A002
    """A Python function of each element, in place. Reads the values. Errors: RuntimeError where it requires grad."""
    if self.requires_grad:
        raise ArgumentError(
            "Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.",
            expected="a tensor without gradient",
            got=describe("self", self),
            fix="use .detach().apply_(...)",
        )
    array = host.to_numpy(self)
    values = [callable(value) for value in array.reshape(-1).tolist()]
    return mutate(self, host.from_numpy(np.array(values).reshape(array.shape), self._dtype))


def set_(
    self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = ()
) -> Any:
    """Show the memory of another tensor from now on (or a region of it); without one, no elements."""
    if source is None:
        source = host.from_numpy(np.zeros(0), self._dtype)
    if not isinstance(source, Tensor) or source._dtype is not self._dtype:
        raise ArgumentTypeError(
            "set_(): expected a tensor of the same dtype",
            expected=f"a {self._dtype.name} tensor",
            got=repr(type(source).__name__),
            fix="pass a tensor of the same dtype",
        )
    shown = source.detach()
    if size is not None:
        shown = shown.as_strided(size, stride or view(shown, -1).stride(), storage_offset)
    replace_value(self, shown)
    return self


publish(globals())
