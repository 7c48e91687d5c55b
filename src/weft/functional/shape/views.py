# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Views: other shapes and strides over the same memory, and what asks about strides.

A tensor and a shape come in; a handle of the same storage goes out, with PyTorch's strides and offset. Where no
strides can express the result, `reshape` copies and `view` raises. Rearrangements that always copy are in `shaping`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.views import logical_strides
from cython.cimports.weft.engine.frontend.views import view as record_view
from cython.cimports.weft.engine.ir.strides import contiguous_strides, expanded_strides

from weft._build.compiled import require
from weft._typing import Dims
from weft.engine.ir.dtype import DType
from weft.engine.ir.strides import reshape_strides
from weft.errors import ShapeError
from weft.functional.shape import bitcast
from weft.functional.support.variants import by_name
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape as reshape_value
from weft.ops.registry import named
from weft.tensor.arguments import (
    Shape,
    as_dtype,
    describe,
    need_rank,
    need_tensor,
    sizes,
    wrap_dim,
    wrap_dims,
)

if TYPE_CHECKING:
    from weft.engine.ir.primitive import Primitive


require(__name__, cython.compiled)

_VIEW, _PERMUTE, _EXPAND = OPS["view"], OPS["permute"], OPS["expand"]
_SQUEEZE, _SQUEEZE_DIM = named(_VIEW, "SqueezeBackward0"), named(_VIEW, "SqueezeBackward1")
_UNSQUEEZE = named(_VIEW, "UnsqueezeBackward0")
_TRANSPOSE, _T = named(_PERMUTE, "TransposeBackward0"), named(_PERMUTE, "TBackward0")


# -- shapes --------------------------------------------------------------------------------------------------------


def infer_shape(input: Tensor, shape: Shape) -> Shape:
    """A target shape with its -1 worked out. Errors: ShapeError where the number of elements differs."""
    have = math.prod(input._shape)
    if -1 not in shape:
        if math.prod(shape) != have or (shape and min(shape) < 0):
            raise _wrong_count(input, shape)
        return shape
    place = shape.index(-1)
    rest = math.prod(shape[:place]) * math.prod(shape[place + 1 :])
    if shape.count(-1) > 1:
        raise ShapeError(
            "only one dimension can be inferred",
            expected="at most one -1",
            got=str(list(shape)),
            fix="write the other sizes out",
        )
    if rest == 0 and have == 0:
        raise ShapeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous",
            expected="a size instead of -1",
            got=describe("input", input),
            fix="write the size out",
        )
    if rest <= 0 or have % rest:
        raise _wrong_count(input, shape)
    return (*shape[:place], have // rest, *shape[place + 1 :])


def _wrong_count(input: Tensor, shape: Shape) -> ShapeError:
    have = math.prod(input._shape)
    for place, size in enumerate(shape):
        if size < -1:
            return ShapeError(
                f"invalid shape dimension {size} at index {place} of shape {list(shape)}",
                expected="sizes >= 0, or -1 for one",
                got=f"{list(shape)} for {describe('input', input)}",
                fix="use -1 for one size to have it worked out",
            )
    return ShapeError(
        f"shape '{list(shape)}' is invalid for input of size {have}",
        expected=f"sizes whose product is {have}",
        got=f"{list(shape)} for {describe('input', input)}",
        fix="use -1 for one size to have it worked out",
    )


def view(input: Tensor, *shape: DType | int | Sequence[int], dtype: DType | None = None) -> Any:
    """Another shape over the same memory; or, with a dtype, its bytes as elements of that type, without a gradient.

    Errors: ShapeError where only a copy could do it; RuntimeError where a dtype does not fit sizes, strides or offset.
    """
    if dtype is None and len(shape) == 1 and isinstance(shape[0], (DType, type)):
        dtype, shape = shape[0], ()
    if dtype is not None and not shape:
        return _view_dtype(input, as_dtype(dtype))
    target = infer_shape(input, sizes(shape, "view"))
    result = view_or_none(input, target)
    if result is None:
        raise ShapeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension "
            "spans across two contiguous subspaces). Use .reshape(...) instead.",
            expected=f"strides that {list(target)} can be laid over",
            got=f"{describe('input', input)} with strides {list(logical_strides(input))}",
            fix="use .reshape(...), or .contiguous().view(...)",
        )
    return result


def _view_dtype(input: Tensor, dtype: DType) -> Any:
    if dtype is input._dtype:
        return input.detach()
    return bitcast.view_dtype(input, dtype)


def view_or_none(input: Tensor, target: tuple[int, ...]) -> Any:
    """A view of a shape with the right number of elements, or None where it needs a copy."""
    if input.strides is None:
        return record_view(_VIEW, input, target, target, contiguous_strides(target), input.offset)
    strides = reshape_strides(input._shape, input.strides, target)
    if strides is None:
        return None
    return record_view(_VIEW, input, target, target, strides, input.offset)


def reshape(input: Tensor, *shape: int | Sequence[int]) -> Any:
    """Another shape: a view where strides allow it, a copy elsewhere."""
    if not isinstance(input, Tensor):
        need_tensor("reshape", input)
    target = infer_shape(input, sizes(shape, "reshape"))
    result = view_or_none(input, target)
    return reshape_value(input, target) if result is None else result


def function_reshape(input: Tensor, shape: Shape) -> Any:
    """Another shape: a view where strides allow it, a copy elsewhere."""
    return reshape(input, shape)


def view_as(input: object, other: Tensor) -> Any:
    """A view of the shape of another tensor."""
    need_tensor("view_as", other, "other", 2)
    return view(input, other._shape)


def reshape_as(input: object, other: Tensor) -> Any:
    """`reshape` to the shape of another tensor."""
    need_tensor("reshape_as", other, "other", 2)
    return reshape(input, other._shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from start_dim to end_dim joined into one."""
    need_tensor("flatten", input)
    rank = len(input._shape)
    start, end = wrap_dim(start_dim, rank), wrap_dim(end_dim, rank)
    if start > end:
        raise ShapeError(
            "flatten() has invalid args: start_dim cannot come after end_dim",
            expected="start <= end",
            got=f"start_dim={start_dim}, end_dim={end_dim}",
            fix="swap them",
        )
    if rank == 0:
        return reshape(input, 1)
    if start == end:
        return input
    return reshape(
        input,
        (*input._shape[:start], math.prod(input._shape[start : end + 1]), *input._shape[end + 1 :]),
    )


def ravel(input: Tensor) -> Any:
    """One dimension with all elements."""
    flat = reshape(input, -1)
    if flat.strides is None:
        return flat
    flat = call("clone", flat)
    flat.strides = None
    return flat


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Any:
    """One dimension split into several."""
    need_tensor("unflatten", input)
    axis = wrap_dim(dim, len(input._shape))
    need_rank("unflatten", input, 1)
    shape = tuple(sizes)
    if -1 in shape:
        place = shape.index(-1)
        rest = math.prod(shape[:place]) * math.prod(shape[place + 1 :])
        shape = (*shape[:place], input._shape[axis] // (rest or 1), *shape[place + 1 :])
    if math.prod(shape) != input._shape[axis]:
        raise ShapeError(
            "unflatten: sizes must be non-empty"
            if not sizes
            else f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} "
            f"({input._shape[axis]}) in the input tensor",
            expected=f"a product of {input._shape[axis]}",
            got=str(list(sizes)),
            fix="use -1 for one of them",
        )
    return reshape(input, (*input._shape[:axis], *shape, *input._shape[axis + 1 :]))


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Any:
    """Without dimensions of size 1 (all, or those named)."""
    need_tensor("squeeze", input)
    shape, strides = input._shape, logical_strides(input)
    axes = range(len(shape)) if dim is None else wrap_dims(dim, len(shape))
    kept = [axis for axis, size in enumerate(shape) if size != 1 or axis not in axes]
    target = tuple([shape[axis] for axis in kept])
    op = _SQUEEZE if dim is None else _SQUEEZE_DIM
    return record_view(
        op, input, target, target, tuple([strides[axis] for axis in kept]), input.offset
    )


def unsqueeze(input: Tensor, dim: int) -> Any:
    """With a new dimension of size 1 at `dim`."""
    if not isinstance(input, Tensor):
        need_tensor("unsqueeze", input)
    x: Tensor = input
    shape: tuple[int, ...] = x._shape
    strides: tuple[int, ...] = logical_strides(x)
    axis: cython.Py_ssize_t = wrap_dim(dim, len(shape) + 1)
    step = strides[axis] * shape[axis] if axis < len(shape) else 1
    target: tuple[int, ...] = shape[:axis] + (1,) + shape[axis:]
    places: tuple[int, ...] = strides[:axis] + (step,) + strides[axis:]
    return record_view(_UNSQUEEZE, x, target, target, places, x.offset)


# -- order of dimensions -------------------------------------------------------------------------------------------


def permuted(input: Tensor, order: tuple[int, ...], op: Primitive = _PERMUTE) -> Any:
    shape: tuple[int, ...] = input._shape
    strides: tuple[int, ...] = logical_strides(input)
    return record_view(
        op,
        input,
        order,
        tuple([shape[axis] for axis in order]),
        tuple([strides[axis] for axis in order]),
        input.offset,
    )


def permute(input: Tensor, *dims: int | Sequence[int]) -> Any:
    """The dimensions in another order."""
    need_tensor("permute", input)
    order = sizes(dims, "permute")
    rank = len(input._shape)
    if len(order) != rank:
        raise ShapeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(order)}".replace(
                "(sparse_coo)", ""
            ),
            expected=f"{rank} dimensions",
            got=str(list(order)),
            fix="name every dimension once",
        )
    found = tuple([wrap_dim(dim, rank) for dim in order])
    if len(set(found)) != rank:
        raise ShapeError(
            "permute(): duplicate dims are not allowed.",
            expected="distinct dimensions",
            got=str(list(order)),
            fix="name every dimension once",
        )
    return permuted(input, found)


def function_permute(input: Tensor, dims: int | Sequence[int]) -> Any:
    """The dimensions in another order."""
    return permute(input, dims)


def transpose(input: Tensor, dim0: int, dim1: int) -> Any:
    """Two dimensions swapped."""
    if not isinstance(input, Tensor):
        need_tensor("transpose", input)
    rank = len(input._shape)
    first, second = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
    order = list(range(rank))
    if rank:
        order[first], order[second] = second, first
    return permuted(input, tuple(order), _TRANSPOSE)


def t(input: Tensor) -> Any:
    """The transpose of a matrix; vectors and numbers as they are. Errors: ShapeError above two dimensions."""
    need_tensor("t", input)
    rank = len(input._shape)
    if rank > 2:
        raise ShapeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {rank}D",
            expected="a matrix",
            got=describe("input", input),
            fix="use .mT or .transpose(dim0, dim1)",
        )
    return permuted(input, tuple(range(rank))[::-1], _T)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Any:
    """`transpose` under NumPy's name."""
    return transpose(input, axis0, axis1)


def mT(input: Tensor) -> Any:
    """The last two dimensions swapped, a number as it is. Errors: ShapeError on a vector."""
    if len(input._shape) == 1:
        raise ShapeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {len(input._shape)}-D tensor.",
            expected="at least two dimensions",
            got=describe("input", input),
            fix="use unsqueeze first",
        )
    if not input._shape:
        warn_of_number("Tensor.mT", _IDENTITY)
        return permuted(input, ())
    return transpose(input, -2, -1)


_IDENTITY = "This function is the identity in these cases."


def warn_of_number(name: str, advice: str) -> None:
    """Give PyTorch's warning about transposes of a number."""
    warnings.warn(
        f"{name} is deprecated on 0-D tensors. {advice}",
        UserWarning,
        stacklevel=1,  # compiled functions have no frames
    )


def _reversed(input: Tensor) -> Any:
    """All dimensions in reversed order (`.T`)."""
    rank = len(input._shape)
    if rank == 0:
        warn_of_number("Tensor.T", _IDENTITY)
    elif rank != 2:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*weft.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
            UserWarning,
            stacklevel=1,  # compiled functions have no frames
        )
    return permuted(input, tuple(range(len(input._shape)))[::-1])


def _listed(dims: object) -> Any:
    return list(dims) if isinstance(dims, (tuple, list)) else [dims]


def _moved(name: str, dims: Dims, rank: int) -> Shape:
    """The dimensions of one argument of `movedim`, each once."""
    if not isinstance(dims, (tuple, list)):
        return (wrap_dim(dims, rank),)
    wrapped = tuple([wrap_dim(dim, rank) for dim in dims])
    if len(set(wrapped)) != len(wrapped):
        raise ShapeError(
            f"movedim: repeated dim in `{name}` ({list(dims)})",
            expected="distinct dimensions",
            got=str(list(dims)),
            fix="name each dimension once",
        )
    return wrapped


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Dimensions moved to other places; the others keep their order."""
    rank = len(input._shape)
    sources, targets = _moved("source", source, rank), _moved("destination", destination, rank)
    if len(sources) != len(targets):
        raise ShapeError(
            f"movedim: Invalid source or destination dims: source ({_listed(source)} dims) should contain the "
            f"same number of dims as destination ({_listed(destination)} dims)",
            expected="as many destinations as sources",
            got=f"{source}, {destination}",
            fix="name one destination per source",
        )
    if not rank:
        return permuted(input, ())
    order = [-1] * rank
    for origin, target in zip(sources, targets, strict=True):
        order[target] = origin
    rest = iter([axis for axis in range(rank) if axis not in sources])
    return permuted(input, tuple([next(rest) if axis == -1 else axis for axis in order]))


# -- repetition without copies -------------------------------------------------------------------------------------


def expand(input: Tensor, *size: int | Sequence[int], implicit: bool = False) -> Any:
    """Dimensions of size 1 (and new leading ones) repeated without copying; -1 keeps a size. `implicit` changes
    nothing."""
    if not isinstance(input, Tensor):
        need_tensor("expand", input)
    wanted = sizes(size, "expand")
    shape, strides = input._shape, logical_strides(input)
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise ShapeError(
            f"expand({input.type()}{{{list(shape)}}}, size={list(wanted)}): the number of sizes provided "
            f"({len(wanted)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})",
            expected=f"at least {len(shape)} sizes",
            got=str(list(wanted)),
            fix="keep the last sizes, use -1",
        )
    target = list(wanted)
    for place, want in enumerate(wanted):
        if place < lead:
            if want < 0:
                raise ShapeError(
                    f"The expanded size of the tensor ({want}) isn't allowed in a leading, non-existing "
                    f"dimension {place}",
                    expected="a size",
                    got=str(list(wanted)),
                    fix="write it out",
                )
            continue
        have = shape[place - lead]
        if want < -1:
            raise ShapeError(
                f"numel: integer multiplication overflow: the expanded size of dimension {place} is {want}",
                expected="sizes of 0 or more, or -1",
                got=str(list(wanted)),
                fix="pass -1 to keep a size",
            )
        if want in (-1, have):
            target[place] = have
        elif have != 1:
            raise _cannot_expand(input, wanted, place, want, have)
    new_shape = tuple(target)
    steps = expanded_strides(shape, strides, new_shape)
    return record_view(_EXPAND, input, new_shape, new_shape, steps, input.offset)


def _cannot_expand(input: Tensor, wanted: Shape, place: int, want: int, have: int) -> ShapeError:
    return ShapeError(
        f"The expanded size of the tensor ({want}) must match the existing size ({have}) at non-singleton dimension "
        f"{place}.  Target sizes: {list(wanted)}.  Tensor sizes: {list(input._shape)}",
        expected="size 1 in every dimension that is expanded",
        got=describe("input", input),
        fix="unsqueeze or repeat the tensor first",
    )


def expand_as(input: object, other: Tensor) -> Any:
    """`expand` to the shape of another tensor."""
    need_tensor("expand_as", other, "other", 2)
    return expand(input, other._shape)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Any:
    """`expand` to a shape."""
    return expand(input, tuple(size))


FUNCTIONS = by_name(
    flatten, ravel, unflatten, squeeze, unsqueeze, transpose, t, movedim, broadcast_to
)
FUNCTIONS.update(
    reshape=function_reshape,
    permute=function_permute,
    moveaxis=movedim,
    swapaxes=swapaxes,
    swapdims=transpose,
)
METHODS: dict[str, Any] = {
    **FUNCTIONS,
    **by_name(view, reshape, permute, view_as, reshape_as, expand, expand_as),
}
METHODS.update(mT=property(mT), T=property(_reversed))
