# ruff: noqa: A001, A002 - PyTorch's names
"""Orders: sort, argsort, topk, kthvalue, median, mode, quantile, and running extrema.

Kernels find the places (`weft.ops.structure.ordering`); the values that go out are gathered by them, so that
gradients flow. nan counts as the largest. What is distinct or counted is in
`weft.functional.sorting.unique`, what is found in an order in `weft.functional.sorting.search`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.engine.api.call_cache import ComposedPart
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import record_gradient
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DimensionError, DTypeError, ShapeError, UnsupportedDTypeError
from weft.functional.elementwise.binary import lerp
from weft.functional.reductions.sums_and_extrema import picked
from weft.functional.shape.rearrange import keep_layout
from weft.functional.shape.views import movedim, ravel, unsqueeze
from weft.functional.support import host
from weft.functional.support.return_types import TYPES
from weft.functional.support.variants import by_name
from weft.ops import OPS
from weft.ops.primitives import (
    concat,
    full,
    gather,
    iota,
    nth_place,
    order,
    reduce,
    reshape,
    running_place,
    slice_axis,
    take,
    where,
)
from weft.ops.primitives import elementwise as call
from weft.ops.structure.ordering import NAN_IS_LARGEST, NAN_WINS
from weft.tensor.arguments import (
    describe,
    need_number,
    need_tensor,
    wrap_dim,
)


def need_order(name: str, input: Tensor, message: str = "") -> Any:
    """A tensor whose elements have an order. Errors: TypeError on others, RuntimeError on complex numbers."""
    if need_tensor(name, input)._dtype.is_complex:
        raise UnsupportedDTypeError(
            message or no_kernel_for(f"{name}_cpu", input._dtype.name),
            expected="numbers that have an order",
            got=describe("input", input),
            fix="take .abs() or .real",
        )
    return input


def _no_order_of_bools(message: str, input: Tensor) -> DTypeError:
    return DTypeError(
        message,
        expected="numbers",
        got=describe("input", input),
        fix="convert with .byte(), or sort",
    )


def _itself(name: str, input: Tensor) -> Any:
    """The result of an ordering function for a number."""
    return TYPES[name]((call("clone", input), full((), 0, dtypes.int64)))


def sort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    out: Tensor | None = None,
) -> Any:
    """(values, indices) in order along a dimension, equal elements in the order that they have."""
    need_order("sort", input, " Sort does not support complex dtypes on CPU")
    axis = wrap_dim(dim, len(input._shape))
    if not input._shape:
        return _itself("sort", input)
    indices = order(input, axis, input._shape[axis], descending)
    found = keep_layout(gather(input, axis, indices), input)
    return TYPES["sort"](
        (
            rename_record(found, "SortBackward1" if stable else "SortBackward0"),
            keep_layout(indices, input),
        ),
    )


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices that sort a dimension."""
    need_order("sort", input, " Sort does not support complex dtypes on CPU")
    axis = wrap_dim(dim, len(input._shape))
    if not input._shape:
        return _itself("sort", input)[1]
    return keep_layout(order(input, axis, input._shape[axis], descending), input)


def msort(input: Tensor) -> Any:
    """The values in order along the first dimension."""
    return sort(input, 0)[0]


def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: Tensor | None = None,
) -> Any:
    """(values, indices) of the k largest or smallest along a dimension, the first ones of a stable order."""
    need_order("topk", input, " topk does not support complex dtypes on CPU")
    if input._dtype is dtypes.bool_:
        raise _no_order_of_bools("topk does not support bool dtypes on CPU", input)
    axis = wrap_dim(dim, len(input._shape))
    size = input._shape[axis] if input._shape else 1
    if not 0 <= need_number("topk", k, "k") <= size:
        raise ShapeError(
            "selected index k out of range",
            expected=f"0 <= k <= {size}",
            got=f"k={k}",
            fix="check the size of the dimension",
        )
    if not input._shape:
        return _itself("topk", input)
    indices = order(input, axis, int(k), largest)
    return TYPES["topk"]((gather(input, axis, indices), indices))


def _nothing_along(name: str, input: Tensor, axis: int) -> DimensionError:
    return DimensionError(
        f"{name}(): Expected reduction dim {axis} to have non-zero size.",
        expected="at least one element along the dimension",
        got=describe("input", input),
        fix="check .numel() first",
    )


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """(value, index) of the k-th smallest along a dimension, k from 1; of equal elements the first one."""
    need_order("kthvalue", need_tensor("kthvalue", input, "input", 1))
    if input._dtype is dtypes.bool_:
        raise _no_order_of_bools(no_kernel_for("kthvalue_cpu", "bool"), input)
    axis = wrap_dim(dim, len(input._shape))
    size = input._shape[axis] if input._shape else 1
    if not size:
        raise _nothing_along("kthvalue", input, axis)
    if not 1 <= k <= size:
        raise ShapeError(
            f"kthvalue(): selected number k out of range for dimension {axis}",
            expected=f"1 <= k <= {size}",
            got=f"k={k}",
            fix="count from 1",
        )
    if not input._shape:
        return _itself("kthvalue", input)
    place = nth_place(input.detach(), axis, int(k) - 1, NAN_IS_LARGEST, True)
    return picked("kthvalue", input, axis, place, keepdim)


def lower_median(input: Tensor, axis: int, nan: int = NAN_WINS) -> Any:
    """The index of the lower median along an axis, which is kept; that of the first nan where there is one, unless nan
    is left out."""
    return nth_place(input.detach(), axis, (input._shape[axis] - 1) // 2, nan)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median: of all elements (ties share the gradient), or (values, indices) along a dimension."""
    need_tensor("median", input)
    if input._dtype.category in (0, 3):
        raise UnsupportedDTypeError(
            no_kernel_for("median", input._dtype.name),
            expected="numbers that have an order",
            got=describe("input", input),
            fix="convert with .int(), or take .abs() or .real of complex numbers",
        )
    if dim is not None:
        axis = wrap_dim(dim, len(input._shape))
        if not input._shape:
            return _itself("median", input)
        if input._shape[axis] == 0:
            raise DimensionError(
                f"median(): Expected reduction dim {axis} to have non-zero size.",
                expected="at least one element",
                got=describe("input", input),
                fix="check the size",
            )
        found = picked("median", input, axis, lower_median(input, axis), keepdim)
        rename_record(found.values, "MedianBackward1")
        return found
    if not input.numel():
        return host.from_numpy(np.array(np.nan), input._dtype)
    flat = reshape(input.detach(), (input.numel(),))
    return _shared(input, reshape(gather(flat, 0, lower_median(flat, 0)), ()))


def _shared(x: Tensor, middle: Tensor) -> Any:
    """The value `middle`, with its gradient shared by the elements equal to it."""
    return record_gradient(OPS["median"], (x,), (tuple(range(len(x._shape))), False), middle)


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the most frequent element along a dimension, the smallest of several, where it stands last;
    a nan equals nothing."""
    need_order("mode", need_tensor("mode", input, "input", 1))
    axis = wrap_dim(dim, len(input._shape))
    if not input._shape:
        return _itself("mode", input)
    if not input._shape[axis]:
        raise _nothing_along("mode", input, axis)
    return picked("mode", input, axis, _ends_of_longest_runs(input.detach(), axis), keepdim)


@ComposedPart
def _ends_of_longest_runs(x: Tensor, axis: int) -> Any:
    """The position of the last element of the longest run of equal elements once they are sorted; of equal runs the
    first."""
    size = x._shape[axis]
    places = order(x, axis, size)
    if size == 1:
        return places
    ordered = gather(x, axis, places)
    later, previous = (slice_axis(ordered, axis, start, size - 1) for start in (1, 0))
    differs = call("ne", later, previous)
    first = full((*x._shape[:axis], 1, *x._shape[axis + 1 :]), True, dtypes.bool_)
    starts = running_place(concat((first, differs), axis), axis, False)
    line = iota(tuple([size if a == axis else 1 for a in range(len(x._shape))]))
    end = reduce("argmax", line - starts, (axis,), True, dtypes.int64)
    return gather(places, axis, end)


def _running(name: str, input: Tensor, dim: int, smallest: bool) -> Any:
    need_order(name, input)
    axis = wrap_dim(dim, len(input._shape))
    if not input._shape:
        return _itself(name, input)
    indices = running_place(input, axis, smallest)
    return TYPES[name]((gather(input, axis, indices), indices))


def cummax(input: Tensor, dim: int) -> Any:
    """(values, indices) of the running maximum along a dimension, the last index of equal ones."""
    return _running("cummax", input, dim, False)


def cummin(input: Tensor, dim: int) -> Any:
    """(values, indices) of the running minimum along a dimension, the last index of equal ones."""
    return _running("cummin", input, dim, True)


_ROUNDED: dict[str, Any] = {"lower": np.floor, "higher": np.ceil, "nearest": np.round}


def _check_interpolation(interpolation: str) -> None:
    known = ("linear", "midpoint", *_ROUNDED)
    if interpolation not in known:
        raise ArgumentError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}",
            expected=", ".join(known),
            got=repr(interpolation),
            fix="choose one of these",
        )


def need_quantiles(input: Tensor) -> None:
    """Errors: RuntimeError on a tensor that has no quantiles: of other than floats, or without elements."""
    if not need_tensor("quantile", input, "input", 1)._dtype.is_floating_point:
        raise DTypeError(
            "quantile() input tensor must be either float or double dtype",
            expected="floating-point numbers, between which there are others",
            got=describe("input", input),
            fix="convert with .float()",
        )
    if 0 in input._shape:
        raise ArgumentError(
            "quantile() input tensor must be non-empty",
            expected="at least one element",
            got=describe("input", input),
            fix="check .numel() first",
        )


def _at_shares(ordered: Tensor, points: np.ndarray, q: Tensor | float, interpolation: str) -> Any:
    """The quantiles of ordered elements at given shares; nan if an element is. Shapes: (*, n), (k) -> (*, k)."""
    _check_interpolation(interpolation)
    axis = len(ordered._shape) - 1
    last = ordered._shape[axis] - 1
    place = points * last
    if interpolation in _ROUNDED:
        place = _ROUNDED[interpolation](place)
    low = np.floor(place)
    found = take(ordered, axis, host.from_numpy(low.astype(np.int64)))
    if interpolation not in _ROUNDED:
        upper = take(ordered, axis, host.from_numpy(np.ceil(place).astype(np.int64)))
        share = place - low if interpolation == "linear" else np.full(len(low), 0.5)
        weight = host.from_numpy(share, ordered._dtype)
        if interpolation == "linear" and isinstance(q, Tensor) and q.requires_grad:
            moving = reshape(q, (len(low),)) * last
            weight = moving - moving.detach() + weight
        found = lerp(found, upper, weight)
    largest = slice_axis(ordered, axis, last, 1)  # nan where there is one
    return where(call("isnan", largest.detach()), largest, found)


def quantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """Interpolation between the two nearest of the sorted elements; nan where one of them is. Reads the shares.

    Errors: RuntimeError on an unknown interpolation, on shares outside [0, 1], on integers, and without elements.
    """
    need_quantiles(input)
    if isinstance(q, Tensor) and q._dtype is not input._dtype:
        raise DTypeError(
            "quantile() q tensor must be same dtype as the input tensor",
            expected=input._dtype.name,
            got=q._dtype.name,
            fix="convert q",
        )
    shape = input._shape
    axis = 0 if dim is None else wrap_dim(dim, len(shape))
    x = ravel(input) if dim is None or not shape else input
    lasting = len(x._shape) - 1
    x = movedim(x, axis, lasting)
    ordered = sort(x, lasting)[0]
    points = np.asarray(host.to_numpy(q) if isinstance(q, Tensor) else q, np.float64)
    if points.ndim > 1 or not ((points >= 0) & (points <= 1)).all():
        raise ArgumentError(
            "quantile() q must be a scalar or 1D tensor"
            if points.ndim > 1
            else "quantile() q values must be in the range [0, 1]"
            if isinstance(q, Tensor)
            else f"quantile() q must be in the range [0, 1] but got {points.tolist()}",
            expected="shares from 0 to 1",
            got=str(points.tolist()),
            fix="divide percentages by 100",
        )
    found = _at_shares(ordered, points.reshape(-1), q, interpolation)
    result = movedim(found, lasting, 0)  # (*, q) -> (q, *)
    if keepdim and dim is not None and shape:
        result = unsqueeze(result, axis + 1)
    elif keepdim:
        result = reshape(result, (points.size, *(1 for _ in shape)))
    return result if points.ndim else reshape(result, result._shape[1:])


FUNCTIONS: dict[str, Any] = by_name(
    sort, argsort, msort, topk, kthvalue, median, mode, cummax, cummin, quantile
)  # fmt: skip
METHODS: dict[str, Any] = dict(FUNCTIONS)
