# ruff: noqa: A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Whole slices of a dimension, picked or written by a vector of indices: `index_select`, `index_add` and their kin.

Indices are checked as in `gather_scatter`.
"""

from __future__ import annotations

import math
from typing import Any

import cython

from weft._build.compiled import require
from weft._typing import Scalar, TensorLike
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import (
    DTypeError,
    ShapeError,
    TensorIndexError,
)
from weft.functional.elementwise.comparison import fill_value
from weft.functional.indexing.advanced_index import wrapped
from weft.functional.indexing.gather_scatter import need_index, need_index_type, vector
from weft.functional.indexing.overlapping_writes import taking_overlaps
from weft.functional.support.variants import by_name, in_place_variants
from weft.ops import OPS
from weft.ops.primitives import (
    full,
    reshape,
    take,
    take_add,
    take_put,
    where,
    write_slices,
)
from weft.ops.registry import named
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor, wrap_dim

require(__name__, cython.compiled)

_COPY = named(OPS["take_put"], "IndexCopyBackward0")
_FILL = named(OPS["take_put"], "IndexFillBackward0")


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Any:
    """Slices of a dimension, in the order of a vector of indices."""
    need_tensor("index_select", input)
    axis = wrap_dim(dim, len(input._shape))
    index = need_index("index_select", index, input, axis)
    if len(index._shape) > 1:
        raise TensorIndexError(
            "index_select(): Index is supposed to be a vector",
            expected="one dimension",
            got=describe("index", index),
            fix="flatten the index",
        )
    if input._shape:
        return take(input, axis, vector(index))
    count = math.prod(index._shape)
    if count != 1:
        raise ShapeError(
            f"index_select(): Index to scalar can have only 1 value, got {count} value(s)",
            expected="one index of a tensor without dimensions",
            got=describe("index", index),
            fix="expand the tensor instead",
        )
    return reshape(take(reshape(input, (1,)), 0, vector(index)), ())


def _listed(shape: list[int], axis: int) -> str:
    """The sizes of a slice, as PyTorch prints them."""
    return " ".join(map(str, shape[:axis] + shape[axis + 1 :]))


def _no_slices(name: str, input: Tensor, axis: int, index: Tensor, source: Tensor) -> str:
    """PyTorch's error text for a source that has not the shape of the slices."""
    have, want = list(source._shape), list(input._shape)
    if name == "index_copy" and len(have) != len(want) and have and want:
        return (
            f"{name}_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({len(have)}), destination dimensionality ({len(want)})"
        )
    if len(have) == len(want) and have[:axis] + have[axis + 1 :] == want[:axis] + want[axis + 1 :]:
        count = f"({have[axis] if have else 1})"
        last = f" {count}" if name == "index_copy" else f": {count}, for dim: {axis}"
        return f"{name}_(): Number of indices ({index._shape[0]}) should be equal to source.size(dim){last}"
    if name == "index_copy":
        return (
            f"{name}_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{_listed(want, axis)} at dimension {axis} and source slice shape: {_listed(have, axis)} at dimension "
            f"{axis}."
        )
    return (
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
        f"{want} source.shape = {have}"
    )


def _slices(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor
) -> tuple[int, Any, Any]:
    axis = wrap_dim(dim, len(input._shape))
    index = vector(need_index(name, index, input, axis))
    if len(index._shape) > 1:
        raise TensorIndexError(
            f"{name}_(): Index is supposed to be a vector, but got dim: {len(index._shape)} with type: "
            f"{TYPE_NAMES[index._dtype.name]} and size: {list(index._shape)}",
            expected="one dimension",
            got=describe("index", index),
            fix="flatten the index",
        )
    want = (*input._shape[:axis], index._shape[0], *input._shape[axis + 1 :])
    if source._dtype is not input._dtype:
        types = TYPE_NAMES[input._dtype.name], TYPE_NAMES[source._dtype.name]
        raise DTypeError(
            f"index_copy_(): self and source expected to have the same dtype, but got (self) {types[0]} and (source) "
            f"{types[1]}"
            if name == "index_copy"
            else f"{name}_(): self ({types[0]}) and source ({types[1]}) must have the same scalar type",
            expected=input._dtype.name,
            got=describe("source", source),
            fix="convert the source",
        )
    if vector(source)._shape != want:
        words = _no_slices(name, input, axis, index, source)
        bad_count = "dimensionality" in words or "Number of indices" in words
        raise (TensorIndexError if name == "index_copy" and bad_count else ShapeError)(
            words,
            expected=str(list(want)),
            got=describe("source", source),
            fix="reshape the source",
        )
    return axis, index, vector(source)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1) -> Any:
    """A copy with alpha * source added at slices of a dimension."""
    axis, index, source = _slices("index_add", input, dim, index, source)
    result = take_add(vector(input), axis, index, source if alpha == 1 else source * alpha)
    return result if input._shape else reshape(result, ())


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """A copy with source stored at slices of a dimension."""
    axis, index, source = _slices("index_copy", input, dim, index, source)
    base = vector(input)
    result = write_slices(_COPY, base, axis, index, source)
    return result if input._shape else reshape(result, ())


def index_fill(input: Tensor, dim: int, index: Tensor, value: TensorLike) -> Any:
    """A copy with one number in slices of a dimension."""
    axis = wrap_dim(dim, len(input._shape))
    size = input._shape[axis] if input._shape else 1
    index = vector(wrapped("index_fill", need_index_type("index_fill", index), size, axis))
    if len(index._shape) > 1:
        raise ShapeError(
            "index_fill_(): Index has to be a vector/scalar",
            expected="one dimension at most",
            got=describe("index", index),
            fix="flatten the index",
        )
    shape = (*input._shape[:axis], index._shape[0], *input._shape[axis + 1 :])
    if isinstance(value, Tensor):
        if value._shape:
            raise ShapeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{len(value._shape)} dimension(s).",
                expected="a number, or a tensor without dimensions",
                got=describe("value", value),
                fix="use index_copy for several values",
            )
        named_once = full(shape, True, dtypes.bool_)
        nowhere = full(input._shape or (1,), False, dtypes.bool_)
        filled = where(take_put(nowhere, axis, index, named_once), value, vector(input))
        return cast(reshape(filled, input._shape), input._dtype)
    if isinstance(value, complex) and not input._dtype.is_complex:
        raise DTypeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported",
            expected=f"a value that {input._dtype.name} holds",
            got=str(value),
            fix="pass value.real",
        )
    source = full(shape, fill_value(input._dtype, value), input._dtype)
    base = vector(input)
    result = write_slices(_FILL, base, axis, index, source)
    return result if input._shape else reshape(result, ())


FUNCTIONS: dict[str, Any] = by_name(index_select, index_add, index_copy, index_fill)
METHODS: dict[str, Any] = {
    **FUNCTIONS,
    **in_place_variants(FUNCTIONS, "index_add index_copy index_fill"),
}
METHODS["index_fill_"] = taking_overlaps(METHODS["index_fill_"])
