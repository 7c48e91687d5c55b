# ruff: noqa: A001, A002 - PyTorch's names
"""Orders: sort, argsort, topk, kthvalue, median, unique, searchsorted, and running extrema.

The long tail: NumPy decides the order on values read at the call; the values that go out are gathered by the indices
it found, so that gradients flow. nan counts as the largest.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from weft.errors import ArgumentError, DimensionError, DTypeError, ShapeError
from weft.functional import host
from weft.functional.arguments import (
    TYPE_NAMES,
    ValuesIndices,
    describe,
    need_integer,
    need_number,
    need_rank,
    need_tensor,
    wrap_dim,
)
from weft.functional.places import first_places, last_best, order_of
from weft.functional.reductions import picked
from weft.functional.shaping import keep_layout
from weft.functional.views import movedim, ravel, unsqueeze
from weft.graph.edges import rename_record
from weft.graph.recording import record_gradient
from weft.graph.tensor import Tensor
from weft.ops import TABLE
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import gather, reshape, take


def sort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None
) -> Any:
    """(values, indices) in order along a dimension. Reads the values."""
    need_tensor("sort", input)
    axis = wrap_dim(dim, len(input._shape))
    if not input._shape:
        return ValuesIndices(call("clone", input), host.from_numpy(np.zeros((), np.int64)))
    indices = host.from_numpy(order_of(host.to_numpy(input), axis, descending))
    found = keep_layout(gather(input, axis, indices), input)
    return ValuesIndices(
        rename_record(found, "SortBackward1" if stable else "SortBackward0"),
        keep_layout(indices, input),
    )


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices that sort a dimension. Reads the values."""
    return sort(input, dim, descending, stable)[1]


def msort(input: Any) -> Any:
    """The values in order along the first dimension."""
    return sort(input, 0)[0]


def topk(
    input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> Any:
    """(values, indices) of the k largest or smallest along a dimension. Reads the values."""
    axis = wrap_dim(dim, len(need_tensor("topk", input)._shape))
    size = input._shape[axis] if input._shape else 1
    if not 0 <= need_number("topk", k, "k") <= size:
        raise ShapeError(
            "selected index k out of range",
            expected=f"0 <= k <= {size}",
            got=f"k={k}",
            fix="check the size of the dimension",
        )
    if not input._shape:
        return sort(input)
    indices = host.from_numpy(first_places(host.to_numpy(input), axis, k, largest))
    return ValuesIndices(gather(input, axis, indices), indices)


def _nothing_along(name: str, input: Any, axis: int) -> DimensionError:
    return DimensionError(
        f"{name}(): Expected reduction dim {axis} to have non-zero size.",
        expected="at least one element along the dimension",
        got=describe("input", input),
        fix="check .numel() first",
    )


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """(value, index) of the k-th smallest along a dimension, k from 1. Reads the values."""
    need_tensor("kthvalue", input, "input", 1)
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
        return sort(input)
    array = host.to_numpy(input)
    place = np.take(order_of(array, axis, False), [k - 1], axis)
    same = array == np.take_along_axis(array, place, axis)
    first = np.expand_dims(np.argmax(same, axis), axis)
    place = np.where(same.any(axis, keepdims=True), first, place)  # a nan equals nothing
    return picked(input, axis, host.from_numpy(place), keepdim)


def _median_places(array: Any, axis: int) -> Any:
    """The index of the lower median along an axis; that of a nan where there is one."""
    order = order_of(array, axis, False)
    middle = np.take(order, [(array.shape[axis] - 1) // 2], axis)
    if array.dtype.kind != "f":
        return middle
    holes = np.isnan(array)
    first = np.expand_dims(np.argmax(holes, axis), axis)
    return np.where(holes.any(axis, keepdims=True), first, middle)


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median: of all elements (ties share the gradient), or (values, indices) along a dimension."""
    need_tensor("median", input)
    if input._dtype.category in (0, 3):
        raise DTypeError(
            f"\"median_cpu\" not implemented for '{TYPE_NAMES[input._dtype.name]}'",
            expected="numbers that have an order",
            got=describe("input", input),
            fix="convert with .int(), or take .abs() or .real of complex numbers",
        )
    if dim is not None:
        axis = wrap_dim(dim, len(input._shape))
        if not input._shape:
            return sort(input)
        if input._shape[axis] == 0:
            raise DimensionError(
                f"median(): Expected reduction dim {axis} to have non-zero size.",
                expected="at least one element",
                got=describe("input", input),
                fix="check the size",
            )
        return picked(
            input, axis, host.from_numpy(_median_places(host.to_numpy(input), axis)), keepdim
        )
    array = host.to_numpy(input).reshape(-1)
    if not array.size:
        return host.from_numpy(np.array(np.nan), input._dtype)
    middle = host.from_numpy(array[_median_places(array, 0)[0]], input._dtype)
    return _shared(input, middle)


def _shared(x: Any, middle: Any) -> Any:
    """The value `middle`, with its gradient shared by the elements equal to it."""
    return record_gradient(TABLE["median"], (x,), (tuple(range(len(x._shape))), False), middle)


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the most frequent element along a dimension, the smallest of several. Reads the values."""
    need_tensor("mode", input, "input", 1)
    axis = wrap_dim(dim, len(input._shape))
    array = host.to_numpy(input)
    if not array.ndim:
        return sort(input)
    if not array.shape[axis]:
        raise _nothing_along("mode", input, axis)
    if not array.size:
        return picked(input, axis, host.from_numpy(np.zeros_like(array[:1], np.int64)), keepdim)

    def last_of_most(line: Any) -> Any:
        values, first, counts = np.unique(
            line, return_index=True, return_counts=True, equal_nan=False
        )
        most = int(np.argmax(counts))
        equal = np.flatnonzero(line == values[most])
        return equal[-1] if equal.size else first[most]  # a nan equals nothing

    def places_in(array: Any) -> Any:
        return np.apply_along_axis(last_of_most, axis, array)

    places = host.answering(places_in, array)
    return picked(input, axis, host.from_numpy(np.expand_dims(places, axis)), keepdim)


def _running(input: Any, dim: int, smaller: bool) -> Any:
    axis = wrap_dim(dim, len(input._shape))
    if not input._shape:
        return sort(input)
    places = host.answering(last_best, host.to_numpy(input), axis, smaller)
    indices = host.from_numpy(places)
    return ValuesIndices(gather(input, axis, indices), indices)


def cummax(input: Any, dim: int) -> Any:
    """(values, indices) of the running maximum along a dimension, the last index of equal ones. Reads the values."""
    return _running(input, dim, False)


def cummin(input: Any, dim: int) -> Any:
    """(values, indices) of the running minimum along a dimension, the last index of equal ones. Reads the values."""
    return _running(input, dim, True)


def _axis(name: str, input: Any, dim: Any) -> int:
    """A dimension whose slices are compared. Errors: ShapeError, DimensionError."""
    need_rank(name, input, 1)
    return wrap_dim(dim, len(input._shape))


def _need_lines(input: Any, dim: int) -> None:
    """Errors: ShapeError where slices along a dimension have no elements to compare."""
    if 0 in (*input._shape[:dim], *input._shape[dim + 1 :]):
        raise ShapeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied",
            expected="slices with elements",
            got=describe("input", input),
            fix="name the dimension without elements, or check .numel() first",
        )


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along `dim`) in ascending order, with inverse indices and counts on request.
    Reads the values."""
    need_tensor("unique", input)
    dim = None if dim is None else _axis("unique", input, dim)
    if dim is not None:
        _need_lines(input, dim)
    array = host.to_numpy(input)
    values, inverse, counts = host.answering(
        np.unique, array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    if dim is None:
        lines, inverse = values, inverse.reshape(array.shape)
    else:
        lines, inverse = np.moveaxis(values, dim, 0), inverse.reshape(-1)
    return _found(input, dim, lines, inverse, counts, return_inverse, return_counts)


def _found(
    input: Any,
    dim: int | None,
    lines: Any,
    inverse: Any,
    counts: Any,
    return_inverse: bool,
    return_counts: bool,
) -> Any:
    """The values, which were found as lines along the first dimension, and what else is wanted."""
    values = host.from_numpy(np.ascontiguousarray(lines), input._dtype)
    result = [values if dim is None else movedim(values, 0, dim)]
    if return_inverse:
        result.append(host.from_numpy(np.asarray(inverse, np.int64)))
    if return_counts:
        result.append(host.from_numpy(np.asarray(counts, np.int64)))
    return result[0] if len(result) == 1 else tuple(result)


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Runs of equal elements (or slices) as one each. Reads the values."""
    need_tensor("unique_consecutive", input)
    dim = None if dim is None else _axis("unique_consecutive", input, dim)
    array = host.to_numpy(input)
    lines = array.reshape(-1) if dim is None else np.moveaxis(array, dim, 0)
    changed = np.ones(len(lines), bool)
    if len(lines) > 1:
        changed[1:] = (lines[1:] != lines[:-1]).reshape(len(lines) - 1, -1).any(1)
    inverse = np.cumsum(changed) - 1
    counts = np.diff(np.append(np.flatnonzero(changed), len(lines)))
    if dim is None:
        inverse = inverse.reshape(array.shape)
    return _found(input, dim, lines[changed], inverse, counts, return_inverse, return_counts)


def _side(side: str | None, right: bool) -> Literal["left", "right"]:
    """Where a value goes among equal ones. Errors: ArgumentError."""
    if side not in (None, "left", "right"):
        raise ArgumentError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}",
            expected="'left' or 'right'",
            got=repr(side),
            fix="leave side out, or pass right=True",
        )
    if right and side == "left":
        raise ArgumentError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
            expected="one of them",
            got="side='left', right=True",
            fix="leave right out",
        )
    return "right" if right or side == "right" else "left"


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    right: bool = False,
    side: str | None = None,
    out_int32: bool = False,
    sorter: Any = None,
) -> Any:
    """Where values would be inserted into ascending sequences (the last dimension). Reads the values."""
    place = _side(side, right)
    edges = host.to_numpy(need_tensor("searchsorted", sorted_sequence, "sorted_sequence"))
    if sorter is not None and edges.size:
        places = host.to_numpy(need_tensor("searchsorted", sorter, "sorter"))
        if places.shape != edges.shape or places.dtype != np.int64:
            raise ArgumentError(
                "torch.searchsorted(): boundary and sorter must have the same size, and sorter be of int64",
                expected=f"int64{list(edges.shape)}",
                got=f"{places.dtype}{list(places.shape)}",
                fix="pass sorted_sequence.argsort()",
            )
        if places.size and not 0 <= places.min() <= places.max() < edges.shape[-1]:
            raise ArgumentError(
                "torch.searchsorted(): sorter index out of range",
                expected=f"0 <= index < {edges.shape[-1]}",
                got=f"{places.min()} to {places.max()}",
                fix="pass sorted_sequence.argsort()",
            )
        edges = np.take_along_axis(edges, places, -1)
    number = not isinstance(input, Tensor)
    points = np.asarray(input) if number else host.to_numpy(input)
    if edges.ndim != 1 and (number or edges.ndim == 0 or edges.shape[:-1] != points.shape[:-1]):
        raise ShapeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            "tensor and input value tensor must match",
            expected=f"values of shape {[*edges.shape[:-1], '*']}" if edges.ndim else "boundaries",
            got=f"boundaries {list(edges.shape)}, values {list(points.shape)}",
            fix="use one vector of boundaries",
        )
    if edges.ndim == 1:
        found = host.answering(lambda points: np.searchsorted(edges, points, place), points)
    else:
        found = np.empty(points.shape, np.int64)
        for row in np.ndindex(points.shape[:-1]):
            found[row] = np.searchsorted(edges[row], points[row], place)
    return host.from_numpy(np.asarray(found, np.int32 if out_int32 else np.int64))


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The bucket of each value between ascending boundaries. Reads the values."""
    return searchsorted(boundaries, input, right=right, out_int32=out_int32)


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each non-negative integer occurs (or the sum of its weights). Reads the values."""
    need_tensor("bincount", input)
    numbers = host.to_numpy(input)
    if numbers.ndim != 1 or input._dtype.category > 1 or (numbers < 0).any():
        raise ArgumentError(
            "bincount only supports 1-d non-negative integral inputs.",
            expected="a vector of integers >= 0",
            got=describe("input", input) + (f", least {numbers.min()}" if numbers.size else ""),
            fix="flatten or convert it first",
        )
    values = (
        None if weights is None else host.to_numpy(need_tensor("bincount", weights, "weights", 2))
    )
    if values is not None and values.shape != numbers.shape:
        raise ShapeError(
            "weights should be 1-d and have the same length as input",
            expected=str(list(numbers.shape)),
            got=describe("weights", weights),
            fix="pass one weight per element",
        )
    counts = np.bincount(
        numbers.astype(np.int64), values, need_integer("bincount", minlength, "minlength", 0)
    )
    if values is not None and values.dtype == np.float32:
        counts = counts.astype(np.float32)
    return host.from_numpy(counts)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Whether each element is among others. Reads the values."""
    first = host.to_numpy(elements) if isinstance(elements, Tensor) else np.asarray(elements)
    second = (
        host.to_numpy(test_elements)
        if isinstance(test_elements, Tensor)
        else np.asarray(test_elements)
    )
    found = host.answering(np.isin, first, second, assume_unique=assume_unique, invert=invert)
    return host.from_numpy(found)


def _weights(place: Any, low: Any, interpolation: str) -> Any:
    """How much of the upper one of two neighbours goes into a quantile."""
    above = place > low
    rules: dict[str, Any] = {
        "linear": lambda: place - low,
        "lower": lambda: above * 0.0,
        "higher": lambda: above * 1.0,
        "midpoint": lambda: above * 0.5,
        "nearest": lambda: np.round(place) - low,
    }
    if interpolation not in rules:
        raise ArgumentError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}",
            expected=", ".join(rules),
            got=repr(interpolation),
            fix="choose one of these",
        )
    return rules[interpolation]()


def quantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """Interpolation between the two nearest of the sorted elements. Reads the values.

    Errors: RuntimeError on an unknown interpolation, and on shares outside [0, 1].
    """
    need_tensor("quantile", input, "input", 1)
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
    last = x._shape[lasting] - 1
    ordered = sort(x, lasting)[0]
    points = np.asarray(host.to_numpy(q) if isinstance(q, Tensor) else q, np.float64)
    if not ((points >= 0) & (points <= 1)).all():
        raise ArgumentError(
            f"quantile() q must be in the range [0, 1] but got {points.tolist()}",
            expected="shares from 0 to 1",
            got=str(points.tolist()),
            fix="divide percentages by 100",
        )
    place = points.reshape(-1) * last
    low = np.floor(place).astype(np.int64)
    lower = take(ordered, lasting, host.from_numpy(low))
    upper = take(ordered, lasting, host.from_numpy(np.minimum(low + 1, last)))
    weight = host.from_numpy(_weights(place, low, interpolation), input._dtype)
    if interpolation == "linear" and isinstance(q, Tensor) and q.requires_grad:
        moving = reshape(q, (len(low),)) * last
        weight = moving - moving.detach() + weight
    result = movedim(lower + (upper - lower) * weight, lasting, 0)  # (*, q) -> (q, *)
    if keepdim and dim is not None and shape:
        result = unsqueeze(result, axis + 1)
    elif keepdim:
        result = reshape(result, (len(low), *(1 for _ in shape)))
    return result if points.ndim else reshape(result, result._shape[1:])


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        sort,
        argsort,
        msort,
        topk,
        kthvalue,
        median,
        mode,
        cummax,
        cummin,
        unique,
        unique_consecutive,
        searchsorted,
        bucketize,
        bincount,
        isin,
        quantile,
    )
}
METHODS: dict[str, Any] = {
    name: function
    for name, function in FUNCTIONS.items()
    if name not in ("searchsorted", "bucketize", "isin")
}
LATE: dict[str, Any] = {}
