"""The standard's statistical and logical functions over axes, and running sums.

Arrays and axes come in (None is all, an empty tuple is none), arrays go out. Sums and products of small integers are
in int64 or, of unsigned ones, in uint64.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

import weft
from weft.array_api.arguments import Axes, axes_of, joined, need_array, one_axis, refuse
from weft.array_api.data_types import UNSIGNED
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import DTypeError


def _accumulated(x: Tensor, dtype: DType | None) -> Tensor:
    """The array in the type that its sum has."""
    if dtype is None and x.dtype.category < 2:
        dtype = weft.uint64 if x.dtype.name in UNSIGNED else weft.int64
    return x if dtype is None else x.to(dtype)


def _real(name: str, x: Tensor) -> Tensor:
    if need_array(name, x).dtype.is_complex:
        raise DTypeError(
            f"{name}: complex numbers have no order",
            expected="a real type",
            got=x.dtype.name,
            fix="take xp.abs(x) or xp.real(x)",
        )
    return x


def _together(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The axes as one, in last place: (..., n)."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.permute(*kept, *axes).flatten(len(kept)) if axes else x.unsqueeze(-1)


def _over(
    x: Tensor, axes: tuple[int, ...], keepdims: bool, function: Callable[..., Tensor]
) -> Tensor:
    """`function(lines, -1)`, with the axes that were folded as ones where they are kept."""
    result = function(_together(x, axes), -1)
    if not keepdims:
        return result
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return result.reshape(shape)


def sum(  # noqa: A001
    x: Tensor,
    /,
    *,
    axis: Axes = None,
    dtype: DType | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum over axes."""
    x = _accumulated(need_array("sum", x), dtype)
    axes = axes_of("sum", x, axis)
    wide = x.to(weft.int64) if x.dtype is weft.uint64 else x  # the same bits
    result = weft.sum(wide, axes, keepdims, dtype=wide.dtype) if axes else wide.clone()
    return result.to(x.dtype)


def prod(  # noqa: A001
    x: Tensor,
    /,
    *,
    axis: Axes = None,
    dtype: DType | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The product over axes."""
    x = _accumulated(need_array("prod", x), dtype)
    axes = axes_of("prod", x, axis)
    return _over(x, axes, keepdims, lambda lines, last: weft.prod(lines, last, dtype=x.dtype))


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean over axes. Errors: RuntimeError on integers."""
    axes = axes_of("mean", need_array("mean", x), axis)
    return weft.mean(x, axes, keepdims) if axes else x.clone()


def var(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance over axes."""
    axes = axes_of("var", need_array("var", x), axis)
    if not axes:
        return (x - x) / (1 - correction)
    return weft.var(x, axes, correction=correction, keepdim=keepdims)


def std(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over axes."""
    axes = axes_of("std", need_array("std", x), axis)
    if not axes:
        return weft.sqrt(var(x, axis=(), correction=correction))
    return weft.std(x, axes, correction=correction, keepdim=keepdims)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """The largest element over axes; nan where there is one. Errors: RuntimeError on complex numbers."""
    axes = axes_of("max", _real("max", x), axis)
    return weft.amax(x, axes, keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """The smallest element over axes; nan where there is one. Errors: RuntimeError on complex numbers."""
    axes = axes_of("min", _real("min", x), axis)
    return weft.amin(x, axes, keepdims) if axes else x.clone()


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """True where every element over axes is other than 0."""
    axes = axes_of("all", need_array("all", x), axis)
    return _over(x.to(weft.bool), axes, keepdims, weft.all)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """True where one element over axes is other than 0."""
    axes = axes_of("any", need_array("any", x), axis)
    return _over(x.to(weft.bool), axes, keepdims, weft.any)


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The number of elements over axes that are other than 0."""
    axes = axes_of("count_nonzero", need_array("count_nonzero", x), axis)
    return _over(x.to(weft.bool), axes, keepdims, weft.sum)


def _extreme(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    axes = axes_of(name, _real(name, x), axis)
    return _over(x, axes, keepdims, getattr(weft, name))


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the largest element along an axis, of the flattened array for None; the first of several."""
    return _extreme("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest element along an axis, of the flattened array for None; the first of several."""
    return _extreme("argmin", x, axis, keepdims)


def _running(
    name: str, first: int, x: Tensor, axis: int | None, dtype: DType | None, include: bool
) -> Tensor:
    if axis is None:
        if need_array(name, x).ndim > 1:
            refuse(name, "no axis", "an axis", f"{x.ndim} dimensions", "pass axis=...")
        x, axis = x.reshape(-1), 0
    axis = one_axis(name, x.ndim, axis)
    x = _accumulated(x, dtype)
    result = getattr(weft, "cumsum" if first == 0 else "cumprod")(x, axis, dtype=x.dtype)
    if not include:
        return result
    shape = [1 if number == axis else size for number, size in enumerate(x.shape)]
    return weft.cat([weft.full(shape, first, dtype=x.dtype), result], axis)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The sums of the first elements along an axis, with 0 in front where asked for."""
    return _running("cumulative_sum", 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The products of the first elements along an axis, with 1 in front where asked for."""
    return _running("cumulative_prod", 1, x, axis, dtype, include_initial)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, `n` times."""
    axis = one_axis("diff", need_array("diff", x).ndim, axis)
    parts = joined("diff", *[part for part in (prepend, x, append) if part is not None])
    result = weft.cat(parts, axis) if len(parts) > 1 else x
    for _ in range(builtins.min(n, result.shape[axis])):
        count = result.shape[axis] - 1
        result = weft.narrow(result, axis, 1, count) - weft.narrow(result, axis, 0, count)
    return result
