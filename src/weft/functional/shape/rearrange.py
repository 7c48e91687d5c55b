# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Rearrangements that copy: repeat, roll, flip, triangles, diagonals; and the ranks that atleast_nd promises.

They are written in primitives, so they fuse with what comes after; nothing here aliases its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cython

from weft._build.compiled import require
from weft._typing import Shape
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.strides import contiguous_strides, elementwise_strides
from weft.errors import ArgumentError, ArgumentTypeError, DimensionError, ShapeError
from weft.functional.shape.slicing import diagonal, diagonal_dims
from weft.functional.shape.views import permuted, reshape, unsqueeze
from weft.functional.support.memory_formats import in_order, like_channels
from weft.ops import OPS
from weft.ops.primitives import concat, embed, expand, iota, slice_axis, where
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import flip as reverse
from weft.ops.primitives import reshape as reshape_value
from weft.tensor.arguments import (
    describe,
    is_empty,
    need_integer,
    need_rank,
    need_tensor,
    per_dimension,
    sizes,
    wrap_dim,
    wrap_dims,
)

require(__name__, cython.compiled)

MOST_JOINED_REPEATS = (
    8  # repeats of single elements that are joined as slices; more are expanded and cloned
)


def repeated(x: Tensor, axis: int, times: int) -> Any:
    """Each slice along an axis `times` times in a row, as new memory. Single elements a few times are joined: their
    derivative is a sum of slices."""
    shape = x._shape
    apart, joined = (*shape[: axis + 1], 1, *shape[axis + 1 :]), list(shape)
    joined[axis] *= times
    spread = reshape_value(x, apart)
    if axis == len(shape) - 1 and 1 < times <= MOST_JOINED_REPEATS:
        spread = concat((spread,) * times, axis + 1)
    else:
        wide = (*apart[: axis + 1], times, *apart[axis + 2 :])
        spread = call("clone", expand(spread, wide))
    return reshape_value(spread, tuple(joined))


def keep_layout(result: Tensor, input: Tensor) -> Any:
    """A fresh result in the order of dimensions of the input it came from, or that it is made of a part of, as PyTorch
    lays it out."""
    if input.strides is not None:
        result.strides = elementwise_strides(result._shape, [(result._shape, input.strides)])
    return result


def repeat(input: Tensor, *repeats: Tensor | int | Shape) -> Any:
    """The tensor side by side `repeats` times along each dimension; more numbers than dimensions add leading ones."""
    need_tensor("repeat", input)
    times = sizes(repeats, "repeat")
    lead = len(times) - len(input._shape)
    if lead < 0:
        raise ShapeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            expected=f"at least {len(input._shape)} numbers",
            got=str(list(times)),
            fix="pass 1 for them",
        )
    if min(times, default=0) < 0:
        made = [n * m for n, m in zip((1,) * lead + input._shape, times, strict=True)]
        raise ShapeError(
            f"Trying to create tensor with negative dimension {min(made)}: {made}",
            expected="numbers >= 0",
            got=str(list(times)),
            fix="pass 0 or more",
        )
    shape = (1,) * lead + input._shape
    spread, wide = [], []
    for size, count in zip(shape, times, strict=True):
        spread += [1, size]
        wide += [count, size]
    target = tuple([size * count for size, count in zip(shape, times, strict=True)])
    copied = call("clone", expand(reshape_value(input, tuple(spread)), tuple(wide)))
    return reshape_value(
        copied, target
    )  # of what is copied a view: the other way round is two copies


def tile(input: Tensor, *dims: int | tuple[Tensor | int, ...]) -> Any:
    """`repeat` with missing leading numbers taken as 1."""
    need_tensor("tile", input, "input", 1)
    times = sizes(dims, "tile")
    return repeat(input, (1,) * (len(input._shape) - len(times)) + times)


def flip(input: Tensor, *dims: int | Sequence[int], **named: Sequence[int]) -> Any:
    """The order along dimensions reversed (a copy)."""
    need_tensor("flip", input)
    if list(named) == ["dims"] and not dims:
        dims = (named["dims"],)
    if not dims:
        raise ArgumentTypeError(
            'flip() missing 1 required positional arguments: "dims"',
            expected="the dimensions to reverse",
            got="none",
            fix="name them, or pass () to reverse none",
        )
    axes = wrap_dims(sizes(dims, "flip"), len(input._shape))
    flipped = reverse(input, tuple(sorted(axes))) if axes and input._shape else input
    return keep_layout(call("clone", flipped), input)


def function_flip(input: Tensor, dims: Shape) -> Any:
    """The order along dimensions reversed (a copy)."""
    return flip(input, dims)


def fliplr(input: Tensor) -> Any:
    """Columns in reversed order."""
    need_rank("fliplr", input, 2)
    return flip(input, 1)


def flipud(input: Tensor) -> Any:
    """Rows in reversed order."""
    need_rank("flipud", input, 1)
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Turned by 90 degrees k times in the plane of two dimensions."""
    need_rank("rot90", input, 2)
    plane = tuple(dims)
    if len(plane) != 2:
        raise ArgumentError(
            f"expected total rotation dims == 2, but got dims = {len(plane)}",
            expected="two dimensions",
            got=str(list(plane)),
            fix="name the plane to turn in, such as (0, 1)",
        )
    if wrap_dim(plane[0], len(input._shape)) == wrap_dim(plane[1], len(input._shape)):
        raise ShapeError(
            f"expected rotation dims to be different, but got dim0 = {plane[0]} and dim1 = {plane[1]}",
            expected="two dimensions",
            got=str(list(plane)),
            fix="name the plane to turn in, such as (0, 1)",
        )
    first, second = wrap_dims(plane, len(input._shape))
    order = list(range(len(input._shape)))
    order[first], order[second] = second, first
    turns = k % 4
    if turns == 0:
        return call("clone", input)
    if turns == 2:
        return flip(input, (first, second))
    return permuted(flip(input, second if turns == 1 else first), tuple(order))


@composed_of_primitives
def roll(
    input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None
) -> Any:
    """Elements shifted along dimensions, in at the other end; without dims, in the flattened tensor."""
    need_tensor("roll", input)
    moves = sizes((shifts,))
    if dims is None or is_empty(dims):
        if len(moves) != 1:
            raise ShapeError(
                f"shifts and dimensions must align. shifts: {len(moves)}, dims:0"
                if moves
                else "`shifts` required",
                expected="one shift",
                got=str(moves),
                fix="pass dims=",
            )
        return reshape(roll(reshape(input, -1), moves, (0,)), input._shape)
    axes = per_dimension("dims", dims)
    if not input._shape:
        raise DimensionError(
            f"Dimension specified as {axes[0]} but tensor has no dimensions",
            expected="at least one dimension",
            got="a tensor of shape []",
            fix="leave dims out",
        )
    if len(axes) != len(moves):
        raise ShapeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
            if moves
            else "`shifts` required",
            expected="one shift per dimension",
            got=f"{moves}, {axes}",
            fix="pass as many of both",
        )
    result = input
    for shift, dim in zip(moves, axes, strict=True):
        result = _roll_one(result, shift, wrap_dim(dim, len(input._shape)))
    return result


def _roll_one(x: Tensor, shift: int, axis: int) -> Any:
    size = x._shape[axis]
    cut = shift % size if size else 0
    if cut == 0:
        return in_order(call("clone", x))
    pieces = (slice_axis(x, axis, size - cut, cut), slice_axis(x, axis, 0, size - cut))
    return like_channels(concat(pieces, axis), x)


# -- triangles and diagonals ---------------------------------------------------------------------------------------


def triangle(name: str, input: Tensor, diagonal: int) -> Any:
    need_tensor(name, input)
    shape = input._shape
    if len(shape) < 2:
        raise ShapeError(
            f"{name}: input tensor must have at least 2 dimensions",
            expected="a matrix",
            got=describe("input", input),
            fix="unsqueeze first",
        )
    rows = reshape_value(iota((shape[-2],)), (shape[-2], 1))
    columns = iota((shape[-1],))
    kept = columns <= rows + diagonal if name == "tril" else columns >= rows + diagonal
    result = where(kept, input, False if input._dtype.category == 0 else 0)
    result.strides = None
    return result


@composed_of_primitives
def tril(input: Tensor, diagonal: int = 0) -> Any:
    """The lower triangle of matrices, 0 above the diagonal."""
    return triangle("tril", input, diagonal)


@composed_of_primitives
def triu(input: Tensor, diagonal: int = 0) -> Any:
    """The upper triangle of matrices, 0 below the diagonal."""
    return triangle("triu", input, diagonal)


def diag(input: Tensor, diagonal: int = 0) -> Any:
    """The diagonal of a matrix, or a matrix with a vector on its diagonal."""
    need_tensor("diag", input)
    if len(input._shape) == 1:
        return diag_embed(input, diagonal)
    if len(input._shape) != 2:
        raise ShapeError(
            f"diag(): Supports 1D or 2D tensors. Got {len(input._shape)}D",
            expected="a vector or matrix",
            got=describe("input", input),
            fix="use diagonal or diag_embed",
        )
    return call("clone", _diagonal(input, diagonal))


_diagonal = diagonal


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension on a diagonal."""
    need_tensor("diag_embed", input)
    need_rank("diag_embed", input, 1)
    offset = need_integer("diag_embed", offset, "offset", -(2**30), 2**30)
    size = input._shape[-1] + abs(offset)
    rank = len(input._shape) + 1
    first, second = diagonal_dims(dim1, dim2, rank)
    if first > second:
        first, second, offset = second, first, -offset
    shape = list(input._shape[:-1])
    shape.insert(first, size)
    shape.insert(second, size)
    strides = contiguous_strides(tuple(shape))
    start = offset * strides[second] if offset >= 0 else -offset * strides[first]
    others = [step for axis, step in enumerate(strides) if axis not in (first, second)]
    return embed(input, tuple(shape), start, (*others, strides[first] + strides[second]))


def diagflat(input: Tensor, offset: int = 0) -> Any:
    """A matrix with all elements on its diagonal."""
    return diag_embed(reshape(input, -1), offset)


# -- ranks ---------------------------------------------------------------------------------------------------------


def _each(tensors: tuple[Tensor, ...], function: Callable[..., Tensor]) -> Any:
    if len(tensors) == 1:
        if not isinstance(tensors[0], (tuple, list)):
            return function(tensors[0])
        tensors = tensors[0]
    return tuple([function(tensor) for tensor in tensors])


def atleast_1d(*tensors: Tensor) -> Any:
    """Numbers as vectors of one element."""
    return _each(tensors, lambda x: x if x._shape else unsqueeze(x, 0))


def _two(x: Tensor) -> Any:
    return x if len(x._shape) > 1 else unsqueeze(atleast_1d(x), 0)


def atleast_2d(*tensors: Tensor) -> Any:
    """Vectors as matrices of one row."""
    return _each(tensors, _two)


def atleast_3d(*tensors: Tensor) -> Any:
    """Matrices with a last dimension of size 1."""
    return _each(tensors, lambda x: x if len(x._shape) > 2 else unsqueeze(_two(x), -1))


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        tile,
        fliplr,
        flipud,
        rot90,
        roll,
        tril,
        triu,
        diag,
        diag_embed,
        diagflat,
        atleast_1d,
        atleast_2d,
        atleast_3d,
    )
}
FUNCTIONS["flip"] = function_flip


def _reversed(self: Tensor) -> Any:
    """`reversed(tensor)`: the first dimension from its end; a tensor without dimensions itself."""
    return flip(self, 0) if self._shape else self


METHODS: dict[str, Any] = {
    "__reversed__": _reversed,
    **{
        name: FUNCTIONS[name]
        for name in (
            "fliplr",
            "flipud",
            "rot90",
            "roll",
            "tril",
            "triu",
            "diag",
            "diag_embed",
            "diagflat",
        )
    },
    "tile": tile,
    "repeat": repeat,
    "flip": flip,
}
__all__ = ["FUNCTIONS", "METHODS", "OPS"]
