# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Views of parts: slices, selections, splits, windows, diagonals."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.views import logical_strides, parts_of
from cython.cimports.weft.engine.frontend.views import view as record_view
from cython.cimports.weft.engine.ir.split_specs import (
    SplitSpec,
    keep_split_spec,
    known_split_spec,
    new_output_view,
    new_split_spec,
)

from weft._build.compiled import require
from weft.engine.dispatch.type_names import TYPE_NAMES
from weft.engine.ir import dtype as dtypes
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)
from weft.functional.shape.views import view
from weft.functional.support.variants import by_name
from weft.ops import OPS
from weft.ops.registry import named
from weft.tensor.arguments import describe, integer_of, need_rank, need_tensor, wrap_dim

if TYPE_CHECKING:
    from weft._typing import TensorArgument
    from weft.engine.ir.primitive import Primitive


require(__name__, cython.compiled)

MOST_SECTIONS = 1 << 20  # results of tensor_split: each is a tensor
_SLICE, _SELECT = OPS["slice"], OPS["select"]
_UNFOLD, _DIAGONAL = OPS["unfold"], OPS["diagonal"]
_UNBIND, _SPLIT = named(_SELECT, "UnbindBackward0"), named(_SLICE, "SplitBackward0")


@cython.ccall
def slice_view(
    input: Tensor,
    axis: cython.Py_ssize_t,
    start: cython.longlong,
    length: cython.longlong,
    step: cython.longlong = 1,
    op: Primitive = _SLICE,
) -> Any:
    """`length` elements along an axis, every `step`-th from `start` (in range)."""
    strides: tuple[int, ...] = logical_strides(input)
    stride: cython.longlong = strides[axis]
    return record_view(
        op,
        input,
        (axis, start, length, step),
        _replaced(input._shape, axis, length),
        strides if step == 1 else _replaced(strides, axis, stride * step),
        input.offset + start * stride,
    )


@cython.ccall
def select_view(
    input: Tensor, axis: cython.Py_ssize_t, index: cython.longlong, op: Primitive = _SELECT
) -> Any:
    """One index along an axis (both in range)."""
    strides: tuple[int, ...] = logical_strides(input)
    stride: cython.longlong = strides[axis]
    return record_view(
        op,
        input,
        (axis, index),
        input._shape[:axis] + input._shape[axis + 1 :],
        strides[:axis] + strides[axis + 1 :],
        input.offset + index * stride,
    )


@cython.cfunc
def _replaced(
    sizes: tuple[int, ...], axis: cython.Py_ssize_t, size: cython.longlong
) -> tuple[int, ...]:
    """A tuple of sizes with another one in the place of an axis."""
    parts: list[int] = list(sizes)
    parts[axis] = size
    return tuple(parts)


def select(input: TensorArgument, dim: SupportsIndex, index: SupportsIndex) -> Any:
    """One index along a dimension, which goes. Errors: TensorIndexError out of range."""
    need_tensor("select", input)
    shape = input._shape
    if not shape:
        raise TensorIndexError(
            "select() cannot be applied to a 0-dim tensor.",
            expected="at least one dimension",
            got=describe("input", input),
            fix="use .item()",
        )
    axis, place = wrap_dim(dim, len(shape)), operator.index(index)
    size = shape[axis]
    if not -size <= place < size:
        raise TensorIndexError(
            f"select(): index {place} out of range for tensor of size {list(shape)} at dimension {axis}",
            expected=f"-{size} <= index < {size}",
            got=str(place),
            fix="check the size of the dimension",
        )
    return select_view(input, axis, place + size if place < 0 else place)


def narrow(
    input: TensorArgument, dim: SupportsIndex, start: SupportsIndex, length: SupportsIndex
) -> Any:
    """`length` elements from `start` along a dimension. Errors: ShapeError, DimensionError out of range."""
    need_tensor("narrow", input)
    need_rank("narrow", input, 1)
    axis = wrap_dim(dim, len(input._shape))
    if isinstance(start, Tensor) and (start._shape or start._dtype.category != 1):
        raise ArgumentError(
            "start must be an 0-dim integral Tensor.",
            expected="an int, or an integer tensor without dimensions",
            got=describe("start", start),
            fix="pass a number",
        )
    size, begin, length = input._shape[axis], operator.index(start), operator.index(length)
    if length < 0:
        raise ArgumentError(
            "narrow(): length must be non-negative.",
            expected="length >= 0",
            got=str(length),
            fix="swap start and end",
        )
    if not -size <= begin <= size:
        raise DimensionError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {begin})",
            expected=f"-{size} <= start <= {size}",
            got=str(begin),
            fix="check the size",
        )
    begin += size if begin < 0 else 0
    if begin + length > size:
        raise ShapeError(
            f"start ({begin}) + length ({length}) exceeds dimension size ({size}).",
            expected=f"start + length <= {size}",
            got=f"{begin} + {length}",
            fix="shorten the length",
        )
    return slice_view(input, axis, begin, length)


@cython.cfunc
@cython.inline
def _axis(dim: SupportsIndex, rank: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """`wrap_dim` for what is right as a rule."""
    if type(dim) is int:
        axis: cython.Py_ssize_t = dim
        if 0 <= axis < rank:
            return axis
    return cython.cast(cython.Py_ssize_t, wrap_dim(dim, rank))


@cython.cfunc
def _slices(input: Tensor, axis: cython.Py_ssize_t, key: object, lengths: list[int]) -> SplitSpec:
    """Neighbouring parts along an axis; those of one length share their shape."""
    strides: tuple[int, ...] = logical_strides(input)
    stride: cython.longlong = strides[axis]
    start: cython.longlong = 0
    before: cython.longlong = -1
    shape: tuple[int, ...] = ()
    regions: list[Any] = []
    length: cython.longlong
    for length in lengths:
        if length != before:
            shape, before = _replaced(input._shape, axis, length), length
        params: tuple[int, ...] = (axis, start, length, 1)
        regions.append(new_output_view(_SPLIT, params, shape, strides, start * stride))
        start += length
    return _learnt(input, new_split_spec(_SPLIT, input._shape, axis, key, regions))


@cython.cfunc
def _selections(input: Tensor, axis: cython.Py_ssize_t) -> SplitSpec:
    """Each index along an axis, which goes."""
    strides: tuple[int, ...] = logical_strides(input)
    stride: cython.longlong = strides[axis]
    shape: tuple[int, ...] = input._shape[:axis] + input._shape[axis + 1 :]
    rest: tuple[int, ...] = strides[:axis] + strides[axis + 1 :]
    count: cython.longlong = input._shape[axis]
    index: cython.longlong
    regions: list[Any] = []
    for index in range(count):
        regions.append(new_output_view(_UNBIND, (axis, index), shape, rest, index * stride))
    return _learnt(input, new_split_spec(_UNBIND, input._shape, axis, None, regions))


@cython.cfunc
def _learnt(input: Tensor, cut: SplitSpec) -> SplitSpec:
    """A cut, remembered where it holds for all tensors of the shape."""
    if input.strides is None:
        keep_split_spec(cut)
    return cut


@cython.cfunc
@cython.inline
def _known(op: Primitive, input: Tensor, axis: cython.Py_ssize_t, key: object) -> SplitSpec:
    return None if input.strides is not None else known_split_spec(op, input._shape, axis, key)


def unbind(input: TensorArgument, dim: SupportsIndex = 0) -> tuple[Any, ...]:
    """All slices along a dimension."""
    if not isinstance(input, Tensor):
        need_tensor("unbind", input)
    if not input._shape:
        raise DimensionError(
            "Dimension specified as 0 but tensor has no dimensions",
            expected="a dimension",
            got=describe("input", input),
            fix="use .item()",
        )
    axis: cython.Py_ssize_t = _axis(dim, len(input._shape))
    cut: SplitSpec = _known(_UNBIND, input, axis, None)
    return parts_of(input, _selections(input, axis) if cut is None else cut)


def iterate(input: TensorArgument) -> Iterator[Any]:
    """`iter(tensor)`: the slices along the first dimension. Errors: TypeError for a 0-d tensor."""
    if not input._shape:
        raise ArgumentTypeError(
            "iteration over a 0-d tensor",
            expected="at least one dimension",
            got=describe("input", input),
            fix="use .item(), or unsqueeze(0) first",
        )
    return iter(unbind(input))


def split(
    input: TensorArgument,
    split_size_or_sections: Any,
    dim: SupportsIndex = 0,
) -> tuple[Any, ...]:
    """Pieces of one size (the last may be smaller), or of the sizes in a list."""
    if not isinstance(input, Tensor):
        need_tensor("split", input)
    axis: cython.Py_ssize_t = _axis(dim, len(input._shape))
    if not input._shape:
        raise ShapeError(
            "split expects at least a 1-dimensional tensor",
            expected="a dimension to split",
            got=describe("input", input),
            fix="unsqueeze first",
        )
    whole: bool = isinstance(split_size_or_sections, int)
    if whole or getattr(split_size_or_sections, "ndim", 1) == 0:
        return _split_evenly(input, axis, operator.index(split_size_or_sections))
    parts = [operator.index(part) for part in split_size_or_sections]
    size = input._shape[axis]
    if sum(parts) != size or min(parts, default=0) < 0:
        raise ShapeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={parts}"
            if min(parts, default=0) < 0
            else f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at "
            f"dimension {axis}), but got split_sizes={parts}",
            expected=f"sizes that sum to {size}",
            got=str(parts),
            fix="adjust the sizes",
        )
    key = tuple(parts)
    cut: SplitSpec = _known(_SPLIT, input, axis, key)
    return parts_of(input, _slices(input, axis, key, parts) if cut is None else cut)


@cython.cfunc
def _split_evenly(input: Tensor, axis: cython.Py_ssize_t, each: int) -> tuple[Any, ...]:
    cut: SplitSpec = _known(_SPLIT, input, axis, each)
    if cut is None:
        cut = _slices(input, axis, each, _even_parts(input._shape[axis], each))
    return parts_of(input, cut)


def _even_parts(size: int, part: int) -> list[int]:
    if part < 0 or (part == 0 and size):
        raise ShapeError(
            f"split expects split_size be non-negative, but got split_size={part}"
            if part < 0
            else f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}",
            expected="split_size > 0",
            got=str(part),
            fix="pass a positive size",
        )
    if size == 0:
        return [0]
    return [min(part, size - start) for start in range(0, size, part)]


def chunk(input: TensorArgument, chunks: SupportsIndex, dim: SupportsIndex = 0) -> tuple[Any, ...]:
    """At most `chunks` pieces of equal size (the last may be smaller)."""
    chunks = operator.index(chunks)
    if chunks <= 0:
        raise ArgumentError(
            f"chunk expects `chunks` to be greater than 0, got: {chunks}",
            expected="chunks > 0",
            got=str(chunks),
            fix="pass a positive number",
        )
    axis = wrap_dim(dim, len(input._shape))
    size = input._shape[axis] if input._shape else 1
    if size == 0:
        return split(input, [0] * chunks, dim)
    return split(input, -(-size // chunks), dim)


def _read_cuts(given: Tensor) -> Any:
    """The sections or indices that a tensor holds. Errors: DTypeError, ShapeError on tensors of other kinds."""
    if given._dtype is not dtypes.int64:
        raise DTypeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{TYPE_NAMES[given._dtype.name]}",
            expected="int64",
            got=describe("tensor_indices_or_sections", given),
            fix="convert with .long()",
        )
    if len(given._shape) > 1:
        raise ShapeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
            f"but got a tensor with {len(given._shape)} dims",
            expected="a number or a vector",
            got=describe("tensor_indices_or_sections", given),
            fix="flatten it",
        )
    return given.tolist()


def tensor_split(
    input: TensorArgument,
    indices_or_sections: TensorArgument | int | Iterable[int],
    dim: SupportsIndex = 0,
) -> tuple[Any, ...]:
    """Pieces as even as possible, or cut at indices: slices, each with a gradient record of its own."""
    need_tensor("tensor_split", input)
    need_rank("tensor_split", input, 1)
    axis = wrap_dim(dim, len(input._shape))
    size = input._shape[axis]
    if isinstance(indices_or_sections, Tensor):  # a number of sections, or indices
        indices_or_sections = _read_cuts(indices_or_sections)
    indices: Any = indices_or_sections
    sections = integer_of(indices)
    if sections is not None:
        if not 0 < sections <= MOST_SECTIONS:
            raise ArgumentError(
                f"number of sections must be larger than 0, got {sections}",
                expected=f"0 < sections <= {MOST_SECTIONS}",
                got=str(sections),
                fix="pass the number of pieces",
            )
        each, extra = divmod(size, sections)
        indices = [each * number + min(number, extra) for number in range(1, sections)]
    cuts = [0] + [max(min(cut + size if cut < 0 else cut, size), 0) for cut in indices] + [size]
    return tuple(
        [slice_view(input, axis, a, max(b - a, 0)) for a, b in zip(cuts, cuts[1:], strict=False)]
    )


def unfold(
    input: TensorArgument, dimension: SupportsIndex, size: SupportsIndex, step: SupportsIndex
) -> Any:
    """All windows of `size` elements, `step` apart; the window becomes the last dimension."""
    size, step = operator.index(size), operator.index(step)
    rank = len(input._shape)
    axis = wrap_dim(dimension, rank)
    have = input._shape[axis] if rank else 1
    if size > have or size < 0:
        text = f"maximum size for tensor at dimension {axis} is {have} but size is {size}"
        raise ShapeError(
            text if size > have else f"size is {size} but must be >= 0",
            expected=f"0 <= size <= {have}",
            got=str(size),
            fix="shorten the window",
        )
    if step <= 0:
        raise ArgumentError(
            f"step is {step} but must be > 0",
            expected="step > 0",
            got=str(step),
            fix="pass 1 or more",
        )
    if not rank:
        row = view(input, 1)
        return row if size else row[:0]
    params = (axis, size, step)
    shape, strides = _UNFOLD.shape(params, input._shape), logical_strides(input)
    new, offset = _UNFOLD.strides(params, input._shape, strides, input.offset)
    return record_view(_UNFOLD, input, params, shape, new, offset)


def diagonal_dims(dim1: SupportsIndex, dim2: SupportsIndex, rank: int) -> tuple[int, int]:
    """The two dimensions of a diagonal. Errors: DimensionError; ShapeError where they are one."""
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise ShapeError(
            f"diagonal dimensions cannot be identical {dim1}, {dim2}",
            expected="two dimensions",
            got=f"{dim1}, {dim2}",
            fix="name two different dimensions",
        )
    return first, second


def diagonal(
    input: TensorArgument,
    offset: SupportsIndex = 0,
    dim1: SupportsIndex = 0,
    dim2: SupportsIndex = 1,
) -> Any:
    """The diagonal of two dimensions, as a new last dimension."""
    need_tensor("diagonal", input)
    rank = len(input._shape)
    first, second = diagonal_dims(dim1, dim2, rank)
    params = (operator.index(offset), first, second)
    shape = _DIAGONAL.shape(params, input._shape)
    strides, start = _DIAGONAL.strides(params, input._shape, logical_strides(input), input.offset)
    return record_view(
        _DIAGONAL, input, params, shape, strides, start if 0 not in shape else input.offset
    )


FUNCTIONS = by_name(select, narrow, unbind, split, chunk, tensor_split, diagonal)
METHODS: dict[str, Any] = {**FUNCTIONS, "unfold": unfold}
HOOKS = {"iterate": iterate}
