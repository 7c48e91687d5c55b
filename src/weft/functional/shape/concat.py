# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Joining tensors: cat, stack and their kin, meshgrid, broadcasting several at once.

Sequences of tensors come in; dtypes are promoted; one `cat` node goes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.recorder import cast, record
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes as common_shape
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from weft.functional.shape.rearrange import atleast_1d, atleast_2d, atleast_3d
from weft.functional.shape.views import expand, reshape
from weft.functional.support.memory_formats import (
    all_channels_last,
    like_channels,
    stacked_channels,
)
from weft.functional.support.variants import write_out
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full
from weft.tensor.arguments import Shape, describe, need_tensor, sizes, wrap_dim
from weft.tensor.size import Size

require(__name__, cython.compiled)

_CAT = cython.declare(Primitive, OPS["cat"])
_STACK = cython.declare(Primitive, OPS["stack"])
_VIEW = cython.declare(Primitive, OPS["view"])


def _tensors(name: str, tensors: Sequence[Tensor]) -> list[Any]:
    if isinstance(tensors, Tensor):
        raise ArgumentTypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor",
            expected="a sequence of tensors",
            got=describe("tensors", tensors),
            fix=f"pass a list: {name}([a, b])",
        )
    found = list(tensors)
    if not found:
        kind: Any = ArgumentError if name == "cat" else ShapeError
        text = "torch.cat(): expected a non-empty list of Tensors"
        raise kind(
            text if name == "cat" else f"{name} expects a non-empty TensorList",
            expected="at least one tensor",
            got="an empty list",
            fix="check the list first",
        )
    for place, tensor in enumerate(found):
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(
                f"expected Tensor as element {place} in argument 0, but got {type(tensor).__name__}",
                expected="tensors",
                got=type(tensor).__name__,
                fix="convert it with weft.tensor(...)",
            )
    return found


@cython.cfunc
@cython.locals(tensors=list, first=Tensor, tensor=Tensor)
def _promoted(tensors: list[Tensor]) -> list[Any]:
    first = tensors[0]
    for tensor in tensors:
        if tensor._dtype is not first._dtype:
            dtype = dtypes.result_dtype([(t._dtype, 2 if t._shape else 1) for t in tensors])
            return [cast(t, dtype) for t in tensors]
    return tensors


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Any:
    """Tensors joined along a dimension; empty vectors are skipped. Errors: ShapeError where other sizes differ."""
    parts = _promoted(_tensors("cat", tensors))
    kept = _of_elements(parts)
    if len(parts) > 1 and kept[0]._shape == (0,):  # empty vectors only, along whichever dimension
        dim = 0
    joined = wrap_dim(dim, len(kept[0]._shape))
    if len(kept) < len(parts):
        nothing = (*kept[0]._shape[:joined], 0, *kept[0]._shape[joined + 1 :])
        kept += [reshape(part, nothing) for part in parts if _is_empty_and_tracked(part)]
    shape = _joined_shape(kept, joined)
    if len(kept) == 1:
        result = call("clone", kept[0])
    else:
        result = record(_CAT, tuple(kept), (joined,), shape, kept[0]._dtype)
        if kept[0].strides is not None and all_channels_last(kept):
            result = like_channels(result, kept[0])
    if out is None:
        return result
    return write_out(out, result)


def _is_empty_and_tracked(part: Tensor) -> bool:
    """True for an empty vector whose gradient is wanted: what it is joined to depends on it."""
    return part._shape == (0,) and part.requires_grad


@cython.cfunc
@cython.locals(parts=list, part=Tensor, empty=cython.bint)
def _of_elements(parts: list[Tensor]) -> list[Any]:
    """Tensors without empty vectors, of which one stays where there is nothing else. Errors: ShapeError on 0-d ones."""
    empty = False
    for place, part in enumerate(parts):
        if len(part._shape) == 0:
            raise ShapeError(
                f"zero-dimensional tensor (at position {place}) cannot be concatenated",
                expected="tensors of at least one dimension",
                got="a 0-d tensor",
                fix="use weft.stack",
            )
        empty = empty or part._shape == (0,)
    if not empty:
        return parts
    return [part for part in parts if part._shape != (0,)] or parts[:1]


@cython.cfunc
@cython.locals(
    parts=list,
    axis=cython.Py_ssize_t,
    part=Tensor,
    first=tuple,
    shape=tuple,
    place=cython.Py_ssize_t,
    total=cython.longlong,
    number=cython.Py_ssize_t,
)
def _joined_shape(parts: list[Tensor], axis: int) -> Shape:
    """The shape of tensors joined along an axis. Errors: ShapeError where they do not fit."""
    total = 0
    first = cython.cast(Tensor, parts[0])._shape
    for number in range(len(parts)):
        part = parts[number]
        shape = part._shape
        if len(shape) != len(first):
            raise ShapeError(
                f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}",
                expected=f"{len(first)} dimensions",
                got=describe(f"tensors[{number}]", part),
                fix="unsqueeze the smaller one",
            )
        for place in range(len(first)):
            if place != axis and shape[place] != first[place]:
                raise _unequal(first, part, axis, number)
        total += shape[axis]
    return (*first[:axis], total, *first[axis + 1 :])


def _unequal(first: Shape, part: Tensor, axis: int, number: int) -> ShapeError:
    size, other = _first_difference(first, part._shape, axis)
    return ShapeError(
        f"Sizes of tensors must match except in dimension {axis}. Expected size {size} but got size {other} "
        f"for tensor number {number} in the list.",
        expected=f"{list(first)} except in dimension {axis}",
        got=describe(f"tensors[{number}]", part),
        fix="pad or narrow it, or join along another dimension",
    )


def _first_difference(first: Shape, shape: Shape, axis: int) -> tuple[int, int]:
    return next(
        (a, b)
        for place, (a, b) in enumerate(zip(first, shape, strict=True))
        if a != b and place != axis
    )


@cython.cfunc
@cython.locals(parts=list, part=Tensor, shape=tuple, number=cython.Py_ssize_t)
def _common_shape(parts: list[Tensor]) -> Shape:
    """The shape that all tensors have. Errors: ShapeError."""
    shape = cython.cast(Tensor, parts[0])._shape
    for number in range(len(parts)):
        part = parts[number]
        if part._shape is not shape and part._shape != shape:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(part._shape)} at entry {number}",
                expected=str(list(shape)),
                got=describe(f"tensors[{number}]", part),
                fix="pad the tensors to one size",
            )
    return shape


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Any:
    """Tensors of one shape side by side in a new dimension. Errors: ShapeError where shapes differ."""
    parts = _promoted(_tensors("stack", tensors))
    shape = _common_shape(parts)
    axis = wrap_dim(dim, len(shape) + 1)
    whole = (*shape[:axis], len(parts), *shape[axis:])
    if len(parts) == 1:
        result = call("clone", record(_VIEW, (parts[0],), whole, whole, parts[0]._dtype))
    else:
        result = record(_STACK, tuple(parts), (axis,), whole, parts[0]._dtype)
    if axis < len(shape) and parts[0].strides is not None and all_channels_last(parts):
        result.strides = stacked_channels(shape, axis, len(parts))
    return result if out is None else write_out(out, result)


def hstack(tensors: Sequence[Tensor]) -> Any:
    """Tensors joined along dimension 1 (vectors along 0)."""
    parts = [atleast_1d(tensor) for tensor in _tensors("hstack", tensors)]
    return cat(parts, 0 if len(parts[0]._shape) == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Any:
    """Tensors joined along dimension 0, vectors as rows."""
    return cat([atleast_2d(tensor) for tensor in _tensors("vstack", tensors)], 0)


def dstack(tensors: Sequence[Tensor]) -> Any:
    """Tensors joined along dimension 2."""
    return cat([atleast_3d(tensor) for tensor in _tensors("dstack", tensors)], 2)


def column_stack(tensors: Sequence[Tensor]) -> Any:
    """Vectors as columns, joined along dimension 1."""
    parts = _tensors("column_stack", tensors)
    return cat([reshape(t, (-1, 1)) if len(t._shape) < 2 else t for t in parts], 1)


def _list(tensors: Sequence[Tensor]) -> list[Any]:
    return (
        list(tensors[0])
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list))
        else list(tensors)
    )


def broadcast_tensors(*tensors: Tensor) -> tuple[Any, ...]:
    """Views of several tensors in their common shape; one that has it already is itself."""
    parts = _list(tensors)
    shape = tuple(common_shape([part._shape for part in parts], "broadcast_tensors"))
    return tuple([part if part._shape == shape else expand(part, shape) for part in parts])


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that several shapes broadcast to. Errors: ValueError for a negative size; RuntimeError where two
    differ."""
    given = [sizes((shape,), "broadcast_shapes") for shape in shapes]
    if any(size < 0 for shape in given for size in shape):
        raise ArgumentError(
            "Attempting to broadcast a dimension with negative length!",
            expected="sizes of 0 or more",
            got=", ".join(str(list(shape)) for shape in given),
            fix="pass sizes as they are, not -1",
        )
    return Size(common_shape(given, "broadcast_shapes"))


def _need_grid(parts: list[Tensor]) -> None:
    """Errors: ArgumentError without vectors, DTypeError where their types differ."""
    if not parts:
        raise ArgumentError(
            "meshgrid expects a non-empty TensorList",
            expected="at least one vector",
            got="none",
            fix="pass the coordinates along each dimension",
        )
    for part in parts:
        if part._dtype is not parts[0]._dtype:
            raise DTypeError(
                "meshgrid expects all tensors to have the same dtype",
                expected=parts[0]._dtype.name,
                got=part._dtype.name,
                fix="convert them with .to(dtype)",
            )


def meshgrid(*tensors: Tensor, indexing: str | None = "ij") -> tuple[Any, ...]:
    """Grids of coordinates: result k repeats vector k over all dimensions but the k-th."""
    parts = [part if part._shape else reshape(part, 1) for part in _list(tensors)]
    if indexing not in ("ij", "xy", None):
        raise ArgumentError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}',
            expected="'ij' or 'xy'",
            got=repr(indexing),
            fix="choose one of these",
        )
    for part in parts:
        if len(part._shape) > 1:
            raise ShapeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(part._shape)}",
                expected="vectors",
                got=describe("tensor", part),
                fix="flatten it first",
            )
    _need_grid(parts)
    swap = indexing == "xy" and len(parts) > 1
    if swap:
        parts[0], parts[1] = parts[1], parts[0]
    shape = tuple([part._shape[0] for part in parts])
    grids = [
        expand(reshape(part, (1,) * k + (-1,) + (1,) * (len(parts) - k - 1)), shape)
        for k, part in enumerate(parts)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Any:
    """All combinations of the elements of vectors, one per row."""
    for number, tensor in enumerate(tensors):
        if len(need_tensor("cartesian_prod", tensor, "tensors", number + 1)._shape) != 1:
            raise ShapeError(
                f"Expect a 1D vector, but got shape {list(tensor._shape)}",
                expected="vectors",
                got=describe("tensor", tensor),
                fix="flatten it",
            )
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(grid, -1) for grid in meshgrid(*tensors)], 1)


def block_diag(*tensors: Tensor) -> Any:
    """Matrices along the diagonal of a larger one."""
    for number, tensor in enumerate(tensors):
        if len(need_tensor("block_diag", tensor, "tensors", number + 1)._shape) > 2:
            raise ShapeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{number} has {len(tensor._shape)} dimensions",
                expected="matrices",
                got=describe("tensor", tensor),
                fix="pass the matrices of a batch one by one",
            )
    if not tensors:
        return full((1, 0), 0, dtypes.get_default())
    parts = _promoted([atleast_2d(tensor) for tensor in tensors])
    columns = 0
    for part in parts:
        columns += part._shape[1]
    rows, start = [], 0
    from weft.ops.primitives import pad

    for part in parts:
        after = columns - start - part._shape[1]
        rows.append(pad(part, ((0, 0), (start, after))))
        start += part._shape[1]
    return cat(rows, 0)


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        cat,
        stack,
        hstack,
        vstack,
        dstack,
        column_stack,
        broadcast_tensors,
        broadcast_shapes,
        meshgrid,
        cartesian_prod,
        block_diag,
    )
}
FUNCTIONS.update(concat=cat, concatenate=cat, row_stack=vstack)
METHODS: dict[str, Any] = {}
