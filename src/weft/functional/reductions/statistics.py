# ruff: noqa: A001, A002 - PyTorch's names
"""Numerical calculus and statistics: differences, trapezoids, gradients, covariances, histograms, combinations.

What counts (histograms, combinations) reads its values; the rest is recorded.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft._typing import Shape, TensorLike
from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from weft.functional.shape.concat import cat, stack
from weft.functional.support import host
from weft.functional.support.variants import given
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where
from weft.tensor.arguments import (
    describe,
    need_tensor,
    wrap_dim,
    wrap_dims,
)


def _along(x: Tensor, axis: int, part: slice) -> Any:
    """A slice along one dimension."""
    return x[(slice(None),) * axis + (part,)]


# -- differences and integrals -----------------------------------------------------------------------------------------


def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """The n-th differences of neighbours along a dimension."""
    need_tensor("diff", input)
    if not input._shape:
        raise ShapeError(
            "diff expects input to be at least one-dimensional",
            expected="a dimension",
            got=describe("input", input),
            fix="unsqueeze first",
        )
    if n < 0:
        raise ArgumentError(
            f"order must be non-negative but got {n}", expected="n >= 0", got=str(n), fix="pass n=1"
        )
    axis = wrap_dim(dim, len(input._shape))
    if n == 0:
        return given(out, call("clone", input))
    ends = [part for part in (prepend, input, append) if part is not None]
    if any(len(part._shape) != len(input._shape) for part in ends):
        raise ShapeError(
            "diff expects prepend or append to be the same dimension as input",
            expected=f"tensors of {len(input._shape)} dimensions",
            got=", ".join(str(list(part._shape)) for part in ends),
            fix="reshape what is put before and behind",
        )
    x = cat(ends, axis) if len(ends) > 1 else input
    for _ in range(min(n, x._shape[axis])):
        later, earlier = _along(x, axis, slice(1, None)), _along(x, axis, slice(None, -1))
        x = call("ne", later, earlier) if x._dtype is dtypes.bool_ else later - earlier
    return given(out, x)


def _spaced(y: Tensor, x: Tensor | None, dx: TensorLike, dim: int) -> Any:
    """(y_i + y_i+1) / 2 times the step; integers as floats, which sums do not leave."""
    axis = wrap_dim(dim, len(y._shape))
    if y._dtype.category < 2:
        y = cast(y, dtypes.get_default())
    sums = _along(y, axis, slice(1, None)) + _along(y, axis, slice(None, -1))
    if x is None:
        return sums * (0.5 * dx) if not isinstance(dx, Tensor) else sums * dx * 0.5, axis
    if len(x._shape) == 1 and len(y._shape) > 1:
        if x._shape[0] != y._shape[axis]:
            raise ShapeError(
                f"trapezoid: There must be one `x` value for each sample point, got {x._shape[0]} and "
                f"{y._shape[axis]}",
                expected=f"{y._shape[axis]} points",
                got=describe("x", x),
                fix="pass one x per sample",
            )
        steps = diff(x).reshape((-1,) + (1,) * (len(y._shape) - axis - 1))
    elif len(x._shape) >= len(y._shape) - axis and x._shape[axis - len(y._shape)] not in (
        1,
        y._shape[axis],
    ):
        raise ShapeError(
            "trapezoid: There must be one `x` value for each sample point",
            expected=f"{y._shape[axis]} points",
            got=describe("x", x),
            fix="pass one x per sample",
        )
    else:
        steps = diff(x, dim=axis - len(y._shape))
    return sums * steps * 0.5, axis


def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: TensorLike | None = None, dim: int = -1
) -> Any:
    """The integral along a dimension by the trapezoid rule, over points x or steps dx."""
    if need_tensor("trapezoid", y, "y")._dtype is dtypes.bool_:
        raise DTypeError(
            "trapezoid: received a bool input for `y`, but bool is not supported",
            expected="numbers",
            got=describe("y", y),
            fix="convert with .float()",
        )
    pieces, axis = _spaced(y, x, 1 if dx is None else dx, dim)
    return pieces.sum(axis)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: TensorLike | None = None, dim: int = -1
) -> Any:
    """The running integral along a dimension by the trapezoid rule."""
    need_tensor("cumulative_trapezoid", y, "y")
    pieces, axis = _spaced(y, x, 1 if dx is None else dx, dim)
    return pieces.cumsum(axis)


trapz = trapezoid


def gradient(input: Tensor, *, spacing: Any = 1, dim: object = None, edge_order: int = 1) -> Any:
    """Estimates of the derivative along dimensions, by central differences (one-sided at the ends).

    Source: Quarteroni, Sacco and Saleri (2007), for uneven spacing.
    """
    need_tensor("gradient", input)
    rank = len(input._shape)
    listed = isinstance(spacing, (tuple, list))
    named = tuple(range(rank)) if dim is None else dim
    axes = wrap_dims(named if isinstance(named, (tuple, list)) else (named,), rank)
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if listed else [spacing] * len(axes)
    if len(steps) != len(axes):
        raise ArgumentError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have "
            f"the same length, but got a spacing argument of length {len(steps)} and a dim argument of length "
            f"{len(axes)}.",
            expected=f"{len(axes)} spacings",
            got=str(len(steps)),
            fix="pass one per dimension",
        )
    if edge_order not in (1, 2):
        raise ArgumentError(
            "torch.gradient only supports edge_order=1 and edge_order=2.",
            expected="1 or 2",
            got=str(edge_order),
            fix="pass 1",
        )
    for axis in axes:
        if input._shape[axis] < edge_order + 1:
            raise ArgumentError(
                "torch.gradient expected each dimension size to be at least edge_order+1",
                expected=f"at least {edge_order + 1} elements",
                got=describe("input", input),
                fix="use a smaller edge_order",
            )
    return tuple(_slope(input, a, s, edge_order) for a, s in zip(axes, steps, strict=True))


def _gaps(x: Tensor, axis: int, step: object) -> Any:
    """The distances between neighbours along an axis: a number, or a tensor that broadcasts."""
    if isinstance(step, Tensor) and step._shape:
        return diff(step).reshape((-1,) + (1,) * (len(x._shape) - axis - 1))
    return step.item() if isinstance(step, Tensor) else step


def _slope(x: Tensor, axis: int, step: TensorLike, edge_order: int) -> Any:
    """Central differences inside, of second order (where the distances are equal, half the difference of both
    neighbours, so that an infinity next to a number stays one); differences of first or second order at both ends."""
    x = x if x._dtype.category > 1 else cast(x, dtypes.get_default())
    gaps = _gaps(x, axis, step)
    even = not isinstance(gaps, Tensor)

    def at(first: int, last: int | None) -> Any:
        return _along(x, axis, slice(first, last))

    def gap(first: int, last: int | None) -> Any:
        return gaps if even else _along(gaps, 0, slice(first, last))

    if even:
        middle = (at(2, None) - at(0, -2)) / (2 * gaps)
    else:
        before, after = gap(0, -1), gap(1, None)
        middle = (
            -at(0, -2) * (after / (before * (before + after)))
            + at(1, -1) * ((after - before) / (before * after))
            + at(2, None) * (before / (after * (before + after)))
        )
    first, last = gap(0, 1), gap(-1, None)
    if edge_order == 1:
        left, right = (at(1, 2) - at(0, 1)) / first, (at(-1, None) - at(-2, -1)) / last
    elif even:
        left = (-1.5 * at(0, 1) + 2 * at(1, 2) - 0.5 * at(2, 3)) / gaps
        right = (0.5 * at(-3, -2) - 2 * at(-2, -1) + 1.5 * at(-1, None)) / gaps
    else:
        second, inner = gap(1, 2), gap(-2, -1)
        left = (
            -at(0, 1) * ((2 * first + second) / (first * (first + second)))
            + at(1, 2) * ((first + second) / (first * second))
            - at(2, 3) * (first / (second * (first + second)))
        )
        right = (
            at(-3, -2) * (last / (inner * (inner + last)))
            - at(-2, -1) * ((inner + last) / (inner * last))
            + at(-1, None) * ((2 * last + inner) / (last * (inner + last)))
        )
    return cat([left, middle, right], axis)


# -- covariances -------------------------------------------------------------------------------------------------------


def _need_variables(name: str, input: Tensor) -> None:
    """Errors: ShapeError for more than variables in rows."""
    need_tensor(name, input)
    if len(input._shape) > 2:
        raise ShapeError(
            f"{name}(): expected input to have two or fewer dimensions but got an input with {len(input._shape)} "
            "dimensions",
            expected="variables in rows",
            got=describe("input", input),
            fix="take one matrix at a time",
        )


def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Any:
    """The covariances of variables (rows) over observations (columns), which may have weights."""
    _need_variables("cov", input)
    if input._dtype is dtypes.bool_:
        raise DTypeError(
            "cov(): bool dtype is not supported for input",
            expected="numbers",
            got=describe("input", input),
            fix="convert with .float()",
        )
    x = input if input._dtype.category > 1 else cast(input, dtypes.get_default())
    x = x if len(x._shape) == 2 else x.reshape(1, -1)
    weights, total = _weights(x, fweights, _as_precise(aweights, x))
    middle = (
        (x * weights).sum(1, keepdim=True) / total
        if weights is not None
        else x.mean(1, keepdim=True)
    )
    if weights is None:
        norm: Any = x._shape[1] - correction
    elif aweights is None or correction == 0:
        norm = total - correction
    else:
        norm = total - correction * (weights * _as_precise(aweights, x)).sum() / total
    norm = max(norm, 0) if not isinstance(norm, Tensor) else where(norm > 0, norm, 0)
    if not isinstance(norm, Tensor) and norm <= 0:
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning,
            stacklevel=3,
        )
    gap = x - middle
    turned = (gap if weights is None else gap * weights).mT
    turned = call("conj", turned) if turned._dtype.is_complex else turned
    result = gap @ turned / norm
    return result.squeeze()


def _as_precise(weights: Tensor | None, x: Tensor) -> Any:
    """Weights in the precision of the variables, where that is the wider one: their sums cancel."""
    if not isinstance(weights, Tensor) or weights._dtype.category != 2:
        return weights
    if weights._dtype.itemsize < x._dtype.to_real().itemsize:
        return cast(weights, x._dtype.to_real())
    return weights


def _weights(x: Tensor, fweights: Tensor | None, aweights: Tensor | None) -> tuple[Any, Any]:
    """The product of both kinds of weights, and its sum. Errors: as PyTorch's on other shapes and types."""
    weights = None
    kinds = (("fweights", fweights, 1, "integral"), ("aweights", aweights, 2, "floating point"))
    for name, one, category, word in kinds:
        if one is None:
            continue
        what = ""
        if len(one._shape) > 1:
            what = f"cov(): expected {name} to have one or fewer dimensions but got {name} with {len(one._shape)} "
            what += "dimensions"
        elif one._dtype.category != category:
            what = f"cov(): expected {name} to have {word} dtype but got {name} with {one._dtype.name} dtype"
        elif one.numel() != x._shape[1]:
            what = f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            what += f"{one.numel()} != {x._shape[1]}"
        elif bool((one < 0).any().item()):
            what = f"cov(): {name} cannot be negative"
        if what:
            raise ArgumentError(
                what,
                expected=f"{word} numbers >= 0, one per observation",
                got=describe(name, one),
                fix="leave it out for equal weights",
            )
        weights = one if weights is None else weights * one
    return weights, None if weights is None else weights.sum()


def corrcoef(input: Tensor) -> Any:
    """The correlations of variables (rows) over observations (columns)."""
    _need_variables("corrcoef", input)
    covariances = cov(input)
    if not covariances._shape:
        return covariances / covariances
    spread = call("sqrt", covariances.diagonal())
    result = covariances / spread.unsqueeze(1) / spread.unsqueeze(0)
    if not result._dtype.is_complex:
        return result.clip(-1, 1)
    return call("complex", call("real", result).clip(-1, 1), call("imag", result).clip(-1, 1))


# -- counting ----------------------------------------------------------------------------------------------------------


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of r elements of a vector, as rows."""
    need_tensor("combinations", input)
    if len(input._shape) != 1 or r < 0:
        raise ShapeError(
            f"Expect a 1D vector, but got shape {list(input._shape)}"
            if r >= 0
            else f"Expect a non-negative number, but got {r}",
            expected="a vector and r >= 0",
            got=f"{describe('input', input)}, r={r}",
            fix="flatten it first",
        )
    choose: Any = (
        itertools.combinations_with_replacement if with_replacement else itertools.combinations
    )
    if r == 0:
        return full((0,), 0, input._dtype)
    rows = np.array(list(choose(range(input._shape[0]), r)), np.int64).reshape(-1, r)
    return stack(
        [input.index_select(0, host.from_numpy(np.ascontiguousarray(c))) for c in rows.T], 1
    )


def _grid_sizes(shape: Shape | int | Sequence[int]) -> tuple[int, ...]:
    """A shape as ints. Errors: TypeError on anything else."""
    if isinstance(shape, int):
        return (shape,)
    if not isinstance(shape, Sequence):
        raise ArgumentTypeError(
            f"expected 'shape' to be int or sequence of ints, but got {type(shape)}",
            expected="an int, or several",
            got=repr(type(shape).__name__),
            fix="pass a tuple of sizes",
        )
    for size in shape:
        if not isinstance(size, int):
            raise ArgumentTypeError(
                f"expected 'shape' sequence to only contain ints, but got {type(size)}",
                expected="ints",
                got=repr(size),
                fix="convert the sizes with int()",
            )
    return tuple(shape)


def unravel_index(indices: Tensor, shape: int | Sequence[int] | Sequence[int]) -> Any:
    """The coordinates of flat indices in a shape, one tensor per dimension. Reads the indices."""
    need_tensor("unravel_index", indices, "indices")
    if indices._dtype.category != 1:
        raise ArgumentTypeError(
            f"expected 'indices' to be integer dtype, but got {indices._dtype}",
            expected="integers",
            got=describe("indices", indices),
            fix="convert with .long()",
        )
    sizes = _grid_sizes(shape)
    if any(size < 0 for size in sizes):
        raise ArgumentError(
            f"'shape' cannot have negative values, but got {sizes}",
            expected="sizes >= 0",
            got=str(sizes),
            fix="check the sizes",
        )
    coordinates, rest = [], cast(indices, dtypes.int64)
    for size in reversed(sizes):
        coordinates.append(rest % size if size else rest * 0)
        rest = rest // size if size else rest * 0
    if not coordinates:
        return ()
    return stack(coordinates[::-1], -1).unbind(-1)


def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Any:
    """The first `size` coordinates of elements that are not 0, filled up with fill_value. Reads the values."""
    need_tensor("nonzero_static", input)
    if size < 0:
        raise ArgumentError(
            "nonzero_static: 'size' must be an non-negative integer",
            expected="size >= 0",
            got=str(size),
            fix="pass how many rows are wanted",
        )
    found = np.argwhere(host.to_numpy(input) != 0)[:size]
    rows = np.full((size, len(input._shape)), fill_value, np.int64)
    rows[: len(found)] = found
    return given(out, host.from_numpy(rows))


publish(globals())
