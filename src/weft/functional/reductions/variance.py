# ruff: noqa: A001, A002 - PyTorch's names
"""Variance and standard deviation: two passes, the mean first. Half types compute in float32."""

from __future__ import annotations

import warnings
from typing import Any

from weft._typing import Dims
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.errors import DTypeError
from weft.functional.reductions.sums_and_extrema import count_of, reduce_over, reduced_shape
from weft.functional.support.variants import by_name
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape, where
from weft.tensor.arguments import Shape, describe, need_tensor, reduced_axes, widen

_SUM = OPS["sum"]


def _deviations(
    name: str, input: Tensor, dim: Dims, unbiased: bool | None, correction: float | None
) -> tuple[Any, Any, Shape, Any]:
    """Widened deviations from the mean, the mean (kept dimensions), the axes and the divisor."""
    need_tensor(name, input)
    if input._dtype.category < 2:
        raise DTypeError(
            f"{name if name.endswith('_mean') else 'std and var'} only support floating point and complex dtypes",
            expected="a floating-point tensor",
            got=describe("input", input),
            fix="convert with .float()",
        )
    axes = reduced_axes(dim, len(input._shape))
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    wide = widen(input)
    count = count_of(input._shape, axes)
    if count <= correction:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=3,
        )
    middle = reduce_over(_SUM, wide, axes, True, wide._dtype) / count
    return wide - middle, middle, axes, (count - correction if count > correction else 0)


def _spread(deviations: Tensor, axes: Shape, keepdim: bool, divisor: float) -> Any:
    square = call("square", deviations)
    if deviations._dtype.is_complex:
        square = call("square", call("abs", deviations))
    return reduce_over(_SUM, square, axes, keepdim, square._dtype) / float(divisor)


def _bool_dim(dim: Dims, unbiased: object) -> tuple[Any, Any]:
    """`var(False)`: the first positional argument may be `unbiased`."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The variance over dimensions, divided by n - correction (1 unless given)."""
    dim, unbiased = _bool_dim(dim, unbiased)
    deviations, _, axes, divisor = _deviations("var", input, dim, unbiased, correction)
    return cast(_spread(deviations, axes, keepdim, divisor), input._dtype.to_real())


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The standard deviation over dimensions; its gradient where all elements are equal is 0."""
    dim, unbiased = _bool_dim(dim, unbiased)
    deviations, _, axes, divisor = _deviations("std", input, dim, unbiased, correction)
    return cast(_root(_spread(deviations, axes, keepdim, divisor)), input._dtype.to_real())


def _root(variance: Tensor) -> Any:
    """sqrt with gradient 0 at 0 (and no nan from infinity times 0)."""
    flat = variance == 0
    return where(flat, 0, call("sqrt", where(flat, 1, variance)))


def var_mean(
    input: Tensor,
    dim: int | Shape | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Any, Any]:
    """(variance, mean)."""
    dim, unbiased = _bool_dim(dim, unbiased)
    deviations, middle, axes, divisor = _deviations("var_mean", input, dim, unbiased, correction)
    spread = cast(_spread(deviations, axes, keepdim, divisor), input._dtype.to_real())
    if not keepdim:
        middle = reshape(middle, reduced_shape(input._shape, axes, False))
    return _named("VarMeanBackward0", spread, cast(middle, input._dtype))


def std_mean(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Any, Any]:
    """(standard deviation, mean)."""
    dim, unbiased = _bool_dim(dim, unbiased)
    deviations, middle, axes, divisor = _deviations("std_mean", input, dim, unbiased, correction)
    spread = cast(_root(_spread(deviations, axes, keepdim, divisor)), input._dtype.to_real())
    if not keepdim:
        middle = reshape(middle, reduced_shape(input._shape, axes, False))
    return _named("StdMeanBackward0", spread, cast(middle, input._dtype))


def _named(name: str, *results: Tensor) -> tuple[Any, ...]:
    """Results whose gradient records have the name of the function."""
    return tuple([rename_record(result, name) for result in results])


FUNCTIONS = by_name(var, std, var_mean, std_mean)
METHODS = by_name(var, std)
