"""Rarer distributions in place, counts, and rarer ways to give a tensor its values.

Uniform numbers come from the generator; counts are the smallest integers whose distribution function reaches one of 53
bits, by SciPy: they read their parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._typing import Shape
from weft.engine.api.api_function import publish
from weft.engine.dispatch.type_names import C_NAMES
from weft.engine.frontend.inplace import mutate
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes, contiguous_strides
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
)
from weft.functional.random.generator import standard_normal, unit
from weft.functional.random.poisson import MOST_RATE, walked
from weft.functional.support import host
from weft.ops.primitives import elementwise as call
from weft.tensor.arguments import describe, need_tensor, no_kernel
from weft.tensor.creation.factories import read_size
from weft.tensor.leaves import need_writable, show_data
from weft.tensor.memory.storage_base import StorageBase
from weft.tensor.modes import is_grad_enabled

if TYPE_CHECKING:
    from weft.functional.random.generator import Generator


def _need(name: str, good: bool, what: str, got: str, verb: str = "found") -> None:
    """Errors: RuntimeError on a parameter that the distribution does not have."""
    if not good:
        raise ArgumentError(
            f"{name} expects {what}, but {verb} {got}",
            expected=what,
            got=str(got),
            fix="check the parameter",
        )


def _wide(input: Tensor) -> Any:  # noqa: A002
    return dtypes.float64 if input._dtype is dtypes.float64 else dtypes.float32


def _need_floats(name: str, input: Tensor) -> None:  # noqa: A002
    if input._dtype.category != 2:
        raise no_kernel(name, input)


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Any:
    """The number of trials of probability p until the first success, in place."""
    if self._dtype.category in (0, 3):
        raise no_kernel("geometric_cpu", self, "real numbers")
    _need("geometric_", 0 < p < 1, "p to be in (0, 1)", f"p={p}", "got")
    uniform = 1 - unit(self._shape, _wide(self), generator)
    return mutate(
        self, cast(call("ceil", call("log", uniform) / math.log1p(-p)).clamp(min=1), self._dtype)
    )


def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Any:
    """Exponentials of normal numbers, in place."""
    _need_floats("log_normal_", self)
    _need("log_normal_", std > 0, "std > 0.0", f"std={std}")
    numbers = standard_normal(self._shape, _wide(self), generator) * std + mean
    return mutate(self, cast(call("exp", numbers), self._dtype))


def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Any:
    """Numbers of the Cauchy distribution, in place."""
    _need_floats("cauchy_", self)
    _need("cauchy_", sigma > 0, "sigma > 0.0", f"sigma={sigma}")
    angle = (unit(self._shape, _wide(self), generator) - 0.5) * math.pi
    return mutate(self, cast(call("tan", angle) * sigma + median, self._dtype))


def poisson(input: Tensor, generator: Generator | None = None) -> Any:  # noqa: A002
    """A count for each rate. Reads the rates. Errors: DTypeError, ArgumentError on rates below zero."""
    _need_floats("poisson", need_tensor("poisson", input))
    rates = _numbers(input)
    _need(
        "poisson",
        not (rates < 0).any(),
        "all elements of input to be non-negative",
        "a negative one",
    )
    uniform = host.to_numpy(unit(input._shape, dtypes.float64, generator))
    found = walked(np.where(rates <= MOST_RATE, rates, 0.0), uniform)
    high = rates > MOST_RATE
    if high.any():
        found[high] = _counts_of_high_rates(rates[high], uniform[high])
    return host.from_numpy(found, input._dtype)


def _counts_of_high_rates(rates: np.ndarray, uniform: np.ndarray) -> Any:
    from scipy import special

    with np.errstate(all="ignore"):
        quantile = special.pdtrik(uniform, rates)
    return _smallest(quantile, lambda k: special.pdtr(k, rates), uniform)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Any:
    """The number of successes in `count` trials of probability `prob`. Reads both.

    Shapes: any two that broadcast; the result has their common shape and the type of `prob`. Errors: DTypeError,
    ShapeError, ArgumentError on counts below zero and on numbers that are no probability."""
    for name, value, position in (("count", count, 1), ("prob", prob, 2)):
        _need_floats("binomial", need_tensor("binomial", value, name, position))
    n, p = _numbers(count), _numbers(prob)
    _need(
        "binomial", not (n < 0).any(), "all elements of count to be non-negative", "a negative one"
    )
    _need("binomial", bool(((p >= 0) & (p <= 1)).all()), "prob to be in [0, 1]", "another number")
    shape = broadcast_shapes([count._shape, prob._shape], "binomial")
    uniform = host.to_numpy(unit(shape, dtypes.float64, generator))
    return host.from_numpy(_successes(n, p, uniform), prob._dtype)


def _successes(n: np.ndarray, p: np.ndarray, uniform: np.ndarray) -> Any:
    """The least counts at which the binomial distribution functions reach uniform numbers."""
    from scipy import special

    inside = (p > 0) & (p < 1) & (n > 0)
    safe_n, safe_p = np.where(inside, n, 1.0), np.where(inside, p, 0.5)

    def below(k: np.ndarray) -> Any:
        """The chance of at most k successes."""
        left = np.maximum(safe_n - k, 1e-300)
        return np.where(k >= safe_n, 1.0, special.betainc(left, k + 1, 1 - safe_p))

    with np.errstate(all="ignore"):
        quantile = special.bdtrik(uniform, safe_n, safe_p)
    found = np.minimum(_smallest(quantile, below, uniform), n)
    return np.where(inside, found, np.where(p > 0.5, n, 0.0))


def _numbers(input: Tensor) -> Any:  # noqa: A002
    return np.asarray(host.to_numpy(input.detach()), np.float64)


def _smallest(quantile: np.ndarray, below: Callable[..., object], uniform: np.ndarray) -> Any:
    """The smallest integer whose distribution function reaches a uniform number: rounded up, corrected by one."""
    with np.errstate(all="ignore"):
        found = np.maximum(np.ceil(quantile), 0.0)
        before = np.maximum(found - 1, 0.0)
        return np.where(below(before) >= uniform, before, found)


def _mapped(name: str, callable: Callable[..., object], self: Tensor, *others: Tensor) -> Any:  # noqa: A002
    """A Python function of each element and those of other tensors, in place."""
    if any(tensor.requires_grad for tensor in (self, *others)):
        raise ArgumentError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.",
            expected="a tensor without gradient",
            got=describe("self", self),
            fix=f"use .detach().{name}(...)",
        )
    for other in others:
        if other._dtype is not self._dtype:
            raise ArgumentTypeError(
                f"{name}: expected {self.type()} for 'other' (got {other.type()})",
                expected=self._dtype.name,
                got=describe("other", other),
                fix="convert it with .to(tensor.dtype)",
            )
    arrays = [host.to_numpy(part) for part in (self, *(other.expand_as(self) for other in others))]
    rows = zip(*(array.reshape(-1).tolist() for array in arrays), strict=True)
    values = np.array([callable(*row) for row in rows]).reshape(arrays[0].shape)
    return mutate(self, host.from_numpy(values, self._dtype))


def apply_(self: Tensor, callable: Callable[..., object]) -> Any:  # noqa: A002
    """A Python function of each element, in place. Reads the values. Errors: RuntimeError where it requires grad."""
    return _mapped("apply_", callable, self)


def map_(self: Tensor, tensor: Tensor, callable: Callable[..., object]) -> Any:  # noqa: A002
    """A Python function of each element and that of another tensor, in place. Reads the values. Errors: RuntimeError
    where one requires grad, TypeError where the types differ."""
    return _mapped("map_", callable, self, need_tensor("map_", tensor, "tensor"))


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[..., object]) -> Any:  # noqa: A002
    """`map_` of two other tensors."""
    others = (need_tensor("map2_", x, "x"), need_tensor("map2_", y, "y", 2))
    return _mapped("map2_", callable, self, *others)


def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Shape | None = None,
    stride: Shape = (),
) -> Any:
    """Show the memory of another tensor, or a storage, from now on (or a region of it); without one, no elements.

    Errors: RuntimeError for elements of another type, for a region outside of the memory, and for a tensor
    that requires grad, except in `no_grad`: a history belongs to the values that it led to.
    """
    if need_tensor("set_", self, "self").requires_grad and is_grad_enabled():
        raise GradientError(
            "a leaf Variable that requires grad is being used in an in-place operation."
            if self.is_leaf
            else "derivative for set_ is not implemented",
            expected="a tensor without gradient",
            got=describe("self", self),
            fix="use .detach().set_(...), or do it within weft.no_grad()",
        )
    need_writable(self)
    if source is None:
        source = host.from_numpy(np.zeros(0), self._dtype)
    if isinstance(source, StorageBase):
        source = source.shown_as(self._dtype)
    if need_tensor("set_", source, "source", 1)._dtype is not self._dtype:
        raise DTypeError(
            f"Could not set tensor of type {C_NAMES[source._dtype.name]} to a tensor of type "
            f"{C_NAMES[self._dtype.name]}",
            expected=f"a {self._dtype.name} tensor",
            got=describe("source", source),
            fix="convert one of the two",
        )
    shown = source.detach()
    if size is not None:
        shape = read_size("set_", (size,))
        strides = tuple(stride) or contiguous_strides(shape)
        shown = shown.as_strided(shape, strides, storage_offset)
    show_data(self, shown, writes=1)
    return self


publish(globals())
