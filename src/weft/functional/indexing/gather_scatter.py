# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Gather, scatter and their kin: whole dimensions addressed by index tensors.

Indices are int64 tensors, checked at the call or, while pending, by the kernel. Negative ones are out of range, as
in PyTorch, but for `take`, `take_along_dim` and `index_fill`, which count them from the end. Repeated indices of a
store keep the last value, of an addition sum in stable order.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import cython
import numpy as np

from weft._build.compiled import require
from weft._build.lazy import later
from weft._typing import Scalar, TensorLike
from weft.engine.frontend.recorder import cast, record
from weft.engine.frontend.resolve import rename_record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IndexRangeError,
    ShapeError,
)
from weft.functional.elementwise.comparison import fill_value
from weft.functional.indexing.advanced_index import regrouped, wrapped
from weft.functional.support import host
from weft.functional.support.index_bounds import UNKNOWN, check_index, values_if_there
from weft.functional.support.variants import make_in_place
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import (
    expand,
    full,
    iota,
    permute,
    reshape,
    slice_axis,
    where,
)
from weft.ops.primitives import gather as gather_value
from weft.ops.primitives import scatter as scatter_value
from weft.ops.primitives import scatter_add as scatter_sum
from weft.ops.registry import named
from weft.tensor.arguments import TYPE_NAMES, describe, need_integer, need_tensor, wrap_dim
from weft.tensor.memory.host_memory import region

require(__name__, cython.compiled)

# One row under the names of several functions, for gradient records and messages.
_TAKE = named(OPS["take"], "TakeBackward0")
_GATHERED = named(OPS["take"], "GatherBackward0")
_MASKED = named(OPS["take"], "MaskedScatterBackward0")

folding = later("weft.functional.indexing.scatter_reduce")


def need_index(name: str, index: Tensor, input: Tensor, axis: int) -> Any:
    """The index in int64, within a dimension of the input."""
    need_index_type(name, index)
    return _within(name, index, input, axis)


def _within(name: str, index: Tensor, input: Tensor, axis: int) -> Any:
    check_index(name, index, input._shape[axis] if input._shape else 1, axis, False)
    return cast(index, dtypes.int64)


_SCATTERED = ("scatter_add", "scatter_reduce")  # to PyTorch's texts they are scatter
_INDEX_TYPES = {
    **dict.fromkeys(_SCATTERED, "scatter(): Expected dtype int32/int64 for index"),
    "index_add": "index_add_(): Expected dtype int32/int64 for index but got: {}",
    "index_select": "index_select(): Expected dtype int32 or int64 for index",
}


def need_index_type(name: str, index: Tensor) -> Any:
    """Errors: DTypeError on an index with elements that is of no integer type."""
    need_tensor(name, index, "index", 3)
    if index._dtype in (dtypes.int64, dtypes.int32) or 0 in index._shape:
        return index
    raise DTypeError(
        _INDEX_TYPES.get(name, f"{name}(): Expected dtype int32/int64 for index").format(
            TYPE_NAMES[index._dtype.name]
        ),
        expected="an index of int32 or int64",
        got=describe("index", index),
        fix="convert with .long()",
    )


def vector(x: Tensor) -> Any:
    return x if x._shape else reshape(x, (1,))


def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Any:
    """out[i][j] = input[index[i][j]][j] along a dimension. Shapes: out as index."""
    need_tensor("gather", input)
    axis = wrap_dim(dim, len(input._shape))
    need_index_type("gather", index)
    if 0 in index._shape:  # of any rank
        return reshape(reshape(input, (math.prod(input._shape),))[:0], index._shape)
    _check_rank("gather", input, axis, index)
    line = _line_of(index, axis, input._shape)
    if line is not None:
        places = _within("gather", line, input, axis)
        return record(_GATHERED, (input, places), (axis,), index._shape, input._dtype)
    index = _within("gather", index, input, axis)
    if not input._shape:
        return reshape(gather_value(reshape(input, (1,)), 0, vector(index)), index._shape)
    if not index._shape:
        return reshape(gather_value(input, axis, vector(index)), ())
    return gather_value(input, axis, index)


def _check_rank(name: str, input: Tensor, axis: int, index: Tensor) -> None:
    have, want = len(index._shape) or 1, len(input._shape) or 1
    if have != want:
        raise ShapeError(
            f"Index tensor must have the same number of dimensions as {'input' if name == 'gather' else 'self'} tensor",
            expected=f"{want} dimensions",
            got=describe("index", index),
            fix="unsqueeze the index",
        )
    for place, (size, limit) in enumerate(zip(index._shape, input._shape, strict=False)):
        if place != axis and size > limit:
            index_size = list(index._shape)
            raise ShapeError(
                f"Size does not match at dimension {place} expected index {index_size} to be no larger than self "
                f"{list(input._shape)} apart from dimension {axis}"
                if name == "gather"
                else f"Expected index {index_size} to be no larger than self {list(input._shape)} apart from "
                f"dimension {axis}",
                expected="an index within the input",
                got=describe("index", index),
                fix="narrow the index",
            )


def _source(name: str, input: Tensor, dim: int, index: Tensor, src: TensorLike) -> Any:
    """The source of a scatter cut to the index's shape."""
    if not isinstance(src, Tensor):
        return full(index._shape, fill_value(input._dtype, src), input._dtype)
    if src._dtype is not input._dtype:
        raise DTypeError(
            f"{'scatter' if name in _SCATTERED else name}(): Expected self.dtype to be equal to src.dtype",
            expected=input._dtype.name,
            got=describe("src", src),
            fix="convert src with .to(input.dtype)",
        )
    source: Tensor = vector(src)
    if len(source._shape) != len(index._shape):
        raise ShapeError(
            "Index tensor must have the same number of dimensions as src tensor",
            expected=f"src of {len(index._shape)} dimensions",
            got=describe("src", source),
            fix="unsqueeze src, or pass value= for a number",
        )
    for axis, size in enumerate(index._shape):
        if size > source._shape[axis]:
            raise ShapeError(
                f"Expected index {list(index._shape)} to be no larger than self {list(input._shape)} apart from "
                f"dimension {dim} and to be no larger size than src {list(source._shape)}",
                expected="an index within src",
                got=describe("src", source),
                fix="enlarge src",
            )
        if size != source._shape[axis]:
            source = slice_axis(source, axis, 0, size)
    return source


def _scatter(
    name: str,
    write: Callable[..., Tensor],
    input: Tensor,
    dim: int,
    index: Tensor,
    src: TensorLike,
) -> Any:
    need_tensor(name, input)
    axis = wrap_dim(dim, len(input._shape))
    index = vector(need_index_type(name, index))
    if 0 in index._shape:
        return call("clone", input)
    base = vector(input)
    _check_rank(name, base, axis, index)
    source = _source(name, input, axis, index, src)
    line = _line_of(index, axis, base._shape) if write in _OF_SLICES else None
    if line is not None:
        places = _within(name, line, input, axis)
        operands = (base, places, source)
        result = record(_OF_SLICES[write], operands, (axis,), base._shape, base._dtype)
    else:
        result = write(base, axis, _within(name, index, input, axis), source)
    return result if input._shape else reshape(result, ())


_OF_SLICES = {
    scatter_sum: named(OPS["take_add"], "ScatterAddBackward0"),
    scatter_value: named(OPS["take_put"], "ScatterBackward0"),
}


def _line_of(index: Tensor, axis: int, shape: tuple[int, ...]) -> Any:
    """The positions that an index has along a dimension, if they are the same at all other places, and these are all
    that there are (`rows[:, None].expand(-1, columns)`): whole slices are written then. Else None."""
    strides = index.strides
    if strides is None or len(shape) < 2:
        return None
    for place, (size, step) in enumerate(zip(index._shape, strides, strict=True)):
        if place != axis and (size != shape[place] or (step and size > 1) or not size):
            return None
    return region(index, index._shape[axis : axis + 1], strides[axis : axis + 1], index.offset)


def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: TensorLike | None = None,
    *,
    value: Scalar | None = None,
    reduce: str | None = None,
) -> Any:
    """A copy with src (a tensor or number) stored at index along a dimension."""
    src = value if src is None else src
    if src is None:
        raise ArgumentTypeError(
            "scatter() received an invalid combination of arguments",
            expected="scatter(dim, index, src) or scatter(dim, index, value=number)",
            got="neither src nor value",
            fix="pass one of the two",
        )
    if reduce in ("add", "multiply") and isinstance(src, Tensor):
        warnings.warn(
            "The reduce argument of weft.scatter with Tensor src is deprecated and will be removed in a future PyTorch "
            "release. Use weft.scatter_reduce instead for more reduction options.",
            UserWarning,
            stacklevel=2,
        )
    if reduce == "add":
        return _scatter("scatter", scatter_sum, input, dim, index, src)
    if reduce == "multiply" and input._dtype is dtypes.bool_:
        factors = src if isinstance(src, Tensor) else full(index._shape, src != 0, dtypes.bool_)
        return scatter_reduce(input, dim, index, factors, "prod")
    if reduce == "multiply":
        fold = lambda *given: folding.fold_product(*given, True)  # noqa: E731
        return _scatter("scatter", fold, input, dim, index, src)
    if reduce is not None:
        raise ArgumentError(
            "reduce argument must be either add or multiply.",
            expected="'add' or 'multiply'",
            got=repr(reduce),
            fix="use scatter_reduce",
        )
    made = _scatter("scatter", scatter_value, input, dim, index, src)
    return made if isinstance(src, Tensor) else rename_record(made, "ScatterBackward1")


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """A copy with src added at index along a dimension, in the stable order of src."""
    return _scatter("scatter_add", scatter_sum, input, dim, index, src)


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """src folded into input at index along a dimension: "sum", "mean", "prod", "amax" or "amin". A product reads
    the index where a derivative follows."""
    if reduce not in ("sum", "mean", "prod", "amax", "amin"):
        raise ArgumentError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}",
            expected="'sum', 'prod', 'mean', 'amax' or 'amin'",
            got=repr(reduce),
            fix="choose one of these",
        )
    if input._dtype is dtypes.bool_ and reduce in ("sum", "prod") and src._dtype is dtypes.bool_:
        counts = cast(input, dtypes.int64), dim, index, cast(src, dtypes.int64)  # or, and
        return scatter_reduce(*counts, reduce, include_self=include_self) != 0
    if reduce == "prod":
        fold = lambda *given: folding.fold_product(*given, include_self)  # noqa: E731
        return _scatter("scatter_reduce", fold, input, dim, index, src)
    if reduce in ("amax", "amin"):
        fold = lambda *given: folding.fold_extremum(*given, include_self, reduce == "amax")  # noqa: E731
        return _scatter("scatter_reduce", fold, input, dim, index, src)
    index = need_index("scatter_reduce", index, input, wrap_dim(dim, len(input._shape)))
    ones = full(index._shape, 1, input._dtype)
    start = full(input._shape, 1 if include_self else 0, input._dtype)
    count = scatter_add(start, dim, index, ones)
    base = input
    if not include_self:
        touched = scatter(
            full(input._shape, False, dtypes.bool_),
            dim,
            index,
            full(index._shape, True, dtypes.bool_),
        )
        base = where(touched, 0, input)
    total = scatter_add(base, dim, index, src)
    if reduce == "sum":
        return total
    count = where(count == 0, 1, count)
    return total / count if input._dtype.category > 1 else call("floor_divide", total, count)


def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Any:
    """`gather` with broadcasting; without dim, of the flattened tensor."""
    need_tensor("take_along_dim", input)
    need_tensor("take_along_dim", indices, "indices", 2)
    if indices._dtype is not dtypes.int64:
        raise DTypeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {TYPE_NAMES[indices._dtype.name]}",
            expected="int64",
            got=describe("indices", indices),
            fix="convert with .long()",
        )
    if dim is not None and len(indices._shape) != len(input._shape):
        raise ShapeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{len(input._shape)} dimensions for input, and {len(indices._shape)} dimensions for indices",
            expected=f"indices of {len(input._shape)} dimensions",
            got=describe("indices", indices),
            fix="unsqueeze the indices",
        )
    if dim is None:
        return gather_value(
            reshape(input, (math.prod(input._shape),)),
            0,
            reshape(indices, (math.prod(indices._shape),)),
        )
    axis = wrap_dim(dim, len(input._shape))
    hole = (*input._shape[:axis], 1, *input._shape[axis + 1 :])
    shape = broadcast_shapes(
        [hole, (*indices._shape[:axis], 1, *indices._shape[axis + 1 :])], "take_along_dim"
    )
    wide = (*shape[:axis], input._shape[axis], *shape[axis + 1 :])
    index = (*shape[:axis], indices._shape[axis], *shape[axis + 1 :])
    places = wrapped("take_along_dim", indices, input._shape[axis], axis)
    return gather_value(expand(input, wide), axis, expand(places, index))


def take_flat(input: Tensor, index: Tensor) -> Any:
    """Elements of the flattened tensor, in the shape of the index."""
    count = math.prod(input._shape)
    places = wrapped("take", need_index_type("take", index), count, 0)
    return record(_TAKE, (regrouped(input, (count,)), places), (0,), index._shape, input._dtype)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Any:
    """A copy with the elements of source, in order, where the mask holds."""
    need_tensor("masked_scatter", input, "input", 1)
    need_tensor("masked_scatter", mask, "mask", 2)
    if mask._dtype is not dtypes.bool_:
        raise DTypeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {TYPE_NAMES[mask._dtype.name]}",
            expected="a mask of dtype bool",
            got=describe("mask", mask),
            fix="use mask.bool()",
        )
    from weft.ops.primitives import cumulate

    shape = broadcast_shapes([input._shape, mask._shape], "masked_scatter")
    chosen = expand(mask, shape)
    flat = reshape(source, (math.prod(source._shape),))
    count = math.prod(shape)
    _check_source(source, mask, count)
    if not flat._shape[0]:  # and no place is chosen, or that had raised
        return call("clone", expand(input, shape))
    place = cumulate("cumsum", cast(reshape(chosen, (count,)), dtypes.int64), 0) - 1
    place = where(reshape(chosen, (count,)), place, 0)
    taken = record(_MASKED, (flat, place), (0,), place._shape, flat._dtype)
    return where(chosen, reshape(taken, shape), expand(input, shape))


def _check_source(source: Tensor, mask: Tensor, count: int) -> None:
    """Errors: ShapeError where a mask that is there already, or has to be for there are no elements, holds at more
    places than there are elements."""
    there = math.prod(source._shape)
    values = values_if_there(mask) if there else host.to_numpy(mask)
    if values is None or not values.size:
        return
    wanted = np.count_nonzero(values) * (count // values.size)
    if wanted > there:
        raise ShapeError(
            "Number of elements of source < number of ones in mask",
            expected=f"at least {wanted} elements",
            got=describe("source", source),
            fix="use where, or masked_fill, to repeat a value",
        )


def one_hot(input: Tensor, num_classes: int = -1) -> Any:
    """Integer classes as rows with a single 1. num_classes=-1 reads the largest class. Shapes: (*, num_classes).

    Errors: IndexRangeError on a class that is negative or not below num_classes.
    """
    need_tensor("one_hot", input)
    if input._dtype is not dtypes.int64:
        raise DTypeError(
            "one_hot is only applicable to index tensor of type LongTensor.",
            expected="int64",
            got=describe("input", input),
            fix="convert with .long()",
        )
    num_classes = need_integer("one_hot", num_classes, "num_classes")
    if num_classes == -1:
        values = host.to_numpy(input)
        if not values.size:
            raise ArgumentError(
                "Can not infer total number of classes from empty tensor.",
                expected="at least one class",
                got=describe("input", input),
                fix="pass num_classes",
            )
        if values.min() < 0:
            text, lowest = "Class values must be non-negative.", str(values.min())
            raise IndexRangeError(text, expected="classes from 0", got=lowest, fix="check them")
        num_classes = int(values.max()) + 1
    wide = reshape(input, (*input._shape, 1))
    if check_index("one_hot", input, num_classes, -1, False) == UNKNOWN:  # the kernel looks
        return scatter(full((*input._shape, num_classes), 0, dtypes.int64), -1, wide, value=1)
    return cast(wide == iota((num_classes,)), dtypes.int64)


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        gather,
        scatter,
        scatter_add,
        scatter_reduce,
        take_along_dim,
        masked_scatter,
    )
}
FUNCTIONS["take"] = take_flat
METHODS: dict[str, Any] = dict(FUNCTIONS)
for _function in (
    scatter,
    scatter_add,
    scatter_reduce,
    masked_scatter,
):
    METHODS[f"{_function.__name__}_"] = make_in_place(_function)
__all__ = ["FUNCTIONS", "METHODS", "one_hot", "permute"]
