# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""`x[index]` and `x[index] = value` for every kind of index.

Integers, slices, None and `...` make true views. Tensors, lists, arrays and masks gather: several of them are
broadcast and joined into one linear index, so that one `take` (or `take_put`) does the work. Integers are checked
here; indices in tensors when the kernel runs, those in lists and arrays here again. Placement follows PyTorch:
adjacent index tensors keep their place, others come first, and plain integers count as selections.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import cython
import numpy as np
from cython.cimports.weft.engine.frontend.resolve import needs_grad
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.views import logical_strides
from cython.cimports.weft.engine.frontend.views import view as record_view
from cython.cimports.weft.engine.ir.tape import current_tape
from cython.cimports.weft.functional.indexing.index import PySlice_AdjustIndices, PySlice_Unpack
from cython.cimports.weft.functional.shape.slicing import select_view, slice_view

from weft._build.compiled import require
from weft.engine.frontend.inplace import mutate
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import value_of
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, TensorIndexError
from weft.functional.elementwise.comparison import fill_value
from weft.functional.indexing.advanced_index import ResolvedIndex, gather_rows
from weft.functional.indexing.assignment import assign_region
from weft.functional.indexing.overlapping_writes import set_indexed, shows_twice
from weft.functional.indexing.positions import coordinates, positions
from weft.functional.shape.views import unsqueeze
from weft.functional.support import host
from weft.functional.support.memory_formats import columns_first
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, flip, reshape, where
from weft.tensor.arguments import describe, need_tensor
from weft.tensor.reading.values import position_in_memory

if TYPE_CHECKING:
    from weft._typing import Array, Index, IndexItem, TensorArgument, TensorLike
    from weft.engine.ir.dtype import DType


require(__name__, cython.compiled)

_VIEW = OPS["view"]
DONE = 1


# -- reading an index ----------------------------------------------------------------------------------------------


def _too_many(x: Tensor) -> TensorIndexError:
    return TensorIndexError(
        f"too many indices for tensor of dimension {len(x._shape)}",
        expected=f"at most {len(x._shape)} indices",
        got=describe("input", x),
        fix="leave indices out, or add dimensions with unsqueeze",
    )


def _no_slices(x: Tensor) -> TensorIndexError:
    return TensorIndexError(
        "slice() cannot be applied to a 0-dim tensor.",
        expected="no index, None or ...",
        got=describe("input", x),
        fix="use .item() for the number",
    )


@cython.cfunc
def _select(x: Tensor, axis: cython.Py_ssize_t, index: int, dim: int) -> Any:
    """One index along an axis; errors call the axis `dim`, its number before other indices took effect."""
    shape = x._shape
    if not shape:
        raise TensorIndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number",
            expected="no index",
            got=str(index),
            fix="use .item()",
        )
    size = shape[axis]
    place = index + size if index < 0 else index
    if not 0 <= place < size:
        raise TensorIndexError(
            f"index {index} is out of bounds for dimension {dim} with size {size}",
            expected=f"-{size} <= index < {size}",
            got=describe("input", x),
            fix="check the size of the dimension",
        )
    return select_view(x, axis, place)


@cython.cfunc
def _slice(x: Tensor, axis: cython.Py_ssize_t, part: slice) -> Any:
    step = 1 if part.step is None else operator.index(part.step)
    if step <= 0:
        raise ArgumentError(
            "step must be greater than zero",
            expected="a step other than 0",
            got=str(step),
            fix="give the distance from one element to the next",
        )
    size: cython.longlong = x._shape[axis]
    start: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t = 0
    pace: cython.Py_ssize_t = 1
    PySlice_Unpack(part, cython.address(start), cython.address(stop), cython.address(pace))
    length = PySlice_AdjustIndices(size, cython.address(start), cython.address(stop), pace)
    if start == 0 and length == size and pace == 1:
        return x
    return slice_view(x, axis, start, length, pace)


def _is_array_index(item: IndexItem) -> bool:
    return isinstance(item, (Tensor, list, np.ndarray, range)) or (
        hasattr(item, "__array__") and not isinstance(item, np.generic)
    )


def _as_index(item: object) -> Any:
    """A tensor, or an ndarray of int64 or bool for what is known on the host."""
    if isinstance(item, Tensor):
        if item._dtype.category > 1:
            raise _bad_index(item._dtype.name)
        if item._dtype is dtypes.uint8:
            _warn_of_bytes()
        return item
    if isinstance(item, (list, tuple)) and any(isinstance(part, Tensor) for part in item):
        from weft.functional.shape.concat import stack

        return stack(
            [
                part if isinstance(part, Tensor) else host.from_numpy(np.asarray(part))
                for part in item
            ]
        )
    array = np.asarray(item)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "bui":
        raise _bad_index(str(array.dtype))
    if array.dtype == np.uint8:
        _warn_of_bytes()
        return array.astype(bool)
    return array if array.dtype.kind == "b" else array.astype(np.int64)


def _warn_of_bytes() -> None:
    warnings.warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
        UserWarning,
        stacklevel=1,  # compiled functions have no frames
    )


def _bad_index(kind: str) -> TensorIndexError:
    return TensorIndexError(
        "tensors used as indices must be long, int, byte or bool tensors",
        expected="integer or bool indices",
        got=kind,
        fix="convert with .long()",
    )


@cython.cfunc
def _consumed(item: object) -> cython.Py_ssize_t:
    """The dimensions that an item is about."""
    if type(item) is int or type(item) is slice:
        return 1
    if item is None or item is ... or isinstance(item, (bool, np.bool_)):
        return 0
    if isinstance(item, Tensor):
        return len(item._shape) if item._dtype in (dtypes.bool_, dtypes.uint8) else 1
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype.kind == "b" else 1
    return 1


def _normalise(index: Index) -> list[Any]:
    """The index as a list of int, slice, None, Ellipsis, bool, Tensor and ndarray."""
    items = list(index) if isinstance(index, tuple) else [index]
    for place, item in enumerate(items):
        if item is None or item is Ellipsis or isinstance(item, (int, slice)):
            continue
        if isinstance(item, Tensor) and item._shape == () and _counts_rows(item._dtype):
            continue
        if _is_array_index(item) or isinstance(item, tuple):
            items[place] = _mask_of_all(_as_index(item))
        else:
            items[place] = _integer(item)
    return items


def _mask_of_all(item: Tensor | Array) -> Any:
    """A mask without dimensions as a bool: it is read, and takes all or nothing."""
    if isinstance(item, np.ndarray):
        return bool(item) if item.dtype.kind == "b" and item.ndim == 0 else item
    alone = item._shape == () and item._dtype in (dtypes.bool_, dtypes.uint8)
    return bool(host.to_numpy(item)) if alone else item


def _integer(item: object) -> int:
    try:
        return operator.index(item)
    except TypeError as error:
        raise TensorIndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(item).__name__})",
            expected="an index",
            got=repr(item),
            fix="convert it with int()",
        ) from error


@cython.cfunc
def _apply_basic(x: Tensor, items: Sequence[Any]) -> tuple[Any, list[tuple[int, Any]]]:
    """The views of the basic parts, and the (dimension, index) pairs that are left to gather."""
    rank: cython.Py_ssize_t = len(x._shape)
    consumed: cython.Py_ssize_t = 0
    for item in items:
        consumed += _consumed(item)
    if consumed > rank:
        raise _too_many(x)
    spanned: cython.Py_ssize_t = rank - consumed  # dimensions of the first `...`
    axis: cython.Py_ssize_t = 0
    selected: cython.Py_ssize_t = 0  # dimensions that have gone, less those that have come
    pairs: list[tuple[int, Any]] = []
    for item in items:
        if type(item) is slice:
            x = _slice(x, axis, item)
            axis += 1
        elif item is None:
            x = unsqueeze(x, axis)
            axis, selected = axis + 1, selected - 1
        elif item is ...:
            axis, spanned = axis + spanned, 0
        elif type(item) is int or (isinstance(item, int) and not isinstance(item, bool)):
            x = _select(x, axis, item, axis + selected)
            selected += 1
        elif isinstance(item, (bool, np.bool_)):
            x = unsqueeze(x, axis)
            pairs.append((axis, np.zeros(int(item), np.int64)))
            axis, selected = axis + 1, selected - 1
        else:
            pairs.append((axis, item))
            axis += _consumed(item)
    return x, pairs


@cython.cfunc
def _items(x: Tensor, index: object) -> Any:
    """An index as int, slice, None, Ellipsis, bool, Tensor and ndarray; one without tensors, arrays and masks as it
    is."""
    if type(index) is tuple and _is_plain(index):
        return index
    if type(index) is slice and not x._shape:
        raise _no_slices(x)
    if type(index) is slice or type(index) is int or index is None or index is ...:
        return (index,)
    if isinstance(index, list):
        index = tuple(index) if _is_nested_index(index) else _as_index(index)
    return _scalars_to_select(x, _normalise(index))


@cython.cfunc
def _is_plain(index: tuple[object, ...]) -> cython.bint:
    """True if an index is of numbers, slices, None and `...` alone."""
    plain: cython.bint = True
    for item in index:
        plain = plain and (type(item) is int or type(item) is slice or item is None or item is ...)
    return plain


@cython.cfunc
def _has_backward(items: Sequence[Any]) -> cython.bint:
    """True if a slice goes backwards."""
    found: cython.bint = False
    for item in items:
        found = found or (type(item) is slice and _is_backward(item))
    return found


@cython.cfunc
def _is_backward(item: object) -> cython.bint:
    return isinstance(item, slice) and item.step is not None and operator.index(item.step) < 0


def _turned(x: Tensor, items: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """The dimensions that slices go through backwards, and the items over the tensor that is flipped along them."""
    axes, forward, axis = [], list(items), 0
    for place, item in enumerate(items):
        if item is Ellipsis:
            axis = max(len(x._shape) - _left(items, item), axis)
        elif _is_backward(item) and axis < len(x._shape):
            size = x._shape[axis]
            start, stop, step = item.indices(size)
            forward[place] = slice(size - 1 - start, size - 1 - stop, -step)
            axes.append(axis)
        axis += _consumed(item)
    return axes, forward


def _left(items: Sequence[Any], ellipsis: EllipsisType) -> int:
    """The dimensions that the items behind the ellipsis consume."""
    place = next(i for i, item in enumerate(items) if item is ellipsis)
    return sum([_consumed(item) for item in items[place + 1 :]])


# -- reading ---------------------------------------------------------------------------------------


def getitem(x: Tensor, index: Index) -> Any:
    """`x[index]`: a view for basic indices, a gather for the others, a copy where a slice goes backwards."""
    if isinstance(index, int) and not isinstance(index, bool):
        return _select(x, 0, index, 0)
    if isinstance(index, Tensor) and _counts_rows(index._dtype) and x._shape:
        if index._shape:
            return gather_rows(x, index)
        number = None if _is_tracked(x) else position_in_memory(index)
        if number is not None:
            return _select(x, 0, number, 0)
    items = _items(x, index)
    if _has_backward(items):
        axes, items = _turned(x, items)
        x = flip(x, tuple(axes))
    viewed, pairs = _apply_basic(x, items)
    if not pairs:
        return _alias(x) if viewed is x else viewed
    return ResolvedIndex("x[index]", viewed, pairs).values(viewed)


def _counts_rows(dtype: DType) -> bool:
    """True if indices of a type are positions, not a mask."""
    return dtype.category == 1 and dtype is not dtypes.uint8


def _is_nested_index(index: list[object]) -> bool:
    """True if a list stands for a tuple of indices: it has sequences, tensors, slices, None or `...`."""
    return len(index) < 32 and any(
        item is None
        or item is Ellipsis
        or isinstance(item, (slice, list, tuple, range, Tensor, np.ndarray))
        for item in index
    )


def _scalars_to_select(x: Tensor, items: list[Any]) -> list[Any]:
    """0-d integer tensors as integers, as PyTorch reads them; a pending one that stands alone gathers instead, so that
    nothing has to run."""
    scalars = [
        place
        for place, item in enumerate(items)
        if isinstance(item, Tensor) and item._shape == () and _counts_rows(item._dtype)
    ]
    if not scalars:
        return items
    others = sum([isinstance(item, (Tensor, np.ndarray)) for item in items])
    items = list(items)
    for place in scalars:
        number = None if _is_tracked(x) else position_in_memory(items[place])
        if number is None and others == 1 and value_of(items[place]).state != DONE:
            return items
        items[place] = int(host.to_numpy(items[place])) if number is None else number
    return items


@cython.cfunc
def _is_tracked(x: Tensor) -> cython.bint:
    """True if gradients follow lookups in a tensor: then they are gathers, whose gradients are added up in one
    scatter."""
    return current_tape().mode.grad and needs_grad(x)


def _alias(x: Tensor) -> Any:
    """The whole tensor as a view (`x[:]`, `x[...]`)."""
    return record_view(_VIEW, x, x._shape, x._shape, logical_strides(x), x.offset)


# -- writing -------------------------------------------------------------------------------------------------------


def setitem(x: Tensor, index: Index, new: object) -> None:
    """`x[index] = new`."""
    if isinstance(index, Tensor) and index._shape == () and _counts_rows(index._dtype):
        number = None if _is_tracked(x) else position_in_memory(index)
        index = index if number is None else number
    if not isinstance(new, Tensor) and not isinstance(new, (int, float, complex)):
        new = _to_tensor(x, new)
    items = _items(x, index)
    if _has_backward(items):
        axes, items = _turned(x, items)
        turned = flip(x, tuple(axes))
        setitem(turned, tuple(items), new)
        mutate(x, flip(turned, tuple(axes)))
        return
    mask = items[0] if len(items) == 1 else None
    if isinstance(mask, Tensor) and mask._dtype is dtypes.bool_ and _fill_masked(x, mask, new):
        return
    viewed, pairs = _apply_basic(x, items)
    if not pairs:
        assign_region(_alias(x) if viewed is x else viewed, new)
        return
    _assign_gathered(viewed, pairs, new, False)


def _to_tensor(x: Tensor, value: object) -> Any:
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = None
    if array is None or array.dtype.kind not in "biufc":
        raise ArgumentTypeError(
            f"can't assign a {type(value).__name__} to a {x.type()}",
            expected="a number, a tensor, or nested lists of one length at each level",
            got=f"{value!r:.100}",
            fix="convert it with weft.tensor(...)",
        )
    return host.from_numpy(array)


def _fill_masked(x: Tensor, mask: Tensor, new: TensorLike) -> bool:
    """`x[mask] = number`, without looking at the mask."""
    one = not isinstance(new, Tensor) or new._shape in ((), (1,))
    if not one or shows_twice(x) or mask._shape != x._shape[: len(mask._shape)]:
        return False
    wide = reshape(mask, mask._shape + (1,) * (len(x._shape) - len(mask._shape)))
    value = (
        cast(reshape(new, ()), x._dtype) if isinstance(new, Tensor) else fill_value(x._dtype, new)
    )
    mutate(x, where(wide, value, x))
    return True


def _assign_gathered(
    x: Tensor, pairs: list[tuple[int, Any]], new: TensorLike, accumulate: bool
) -> None:
    gather = ResolvedIndex("x[index] = value", x, pairs)
    if shows_twice(x):
        set_indexed(x, gather.values, new, accumulate)
    else:
        gather.assign(x, new, accumulate)


def index_put_(
    input: TensorArgument,
    indices: Iterable[IndexItem],
    values: TensorLike,
    accumulate: bool = False,
) -> Any:
    """Store (or add) values at a tuple of index tensors, in place."""
    items = [slice(None) if item is None else _as_index(item) for item in indices]
    if not any(isinstance(item, Tensor) for item in items):
        raise ArgumentError(
            "index_put_(): at least one index tensor is needed",
            expected="a tuple of tensors, with None for whole dimensions",
            got=repr(indices),
            fix="use x[...] = values for slices",
        )
    viewed, pairs = _apply_basic(input, items)
    _assign_gathered(viewed, pairs, values, accumulate)
    return input


def index_put(
    input: TensorArgument,
    indices: Iterable[IndexItem],
    values: TensorLike,
    accumulate: bool = False,
) -> Any:
    """A copy with values stored (or added) at a tuple of index tensors."""
    return index_put_(call("clone", input), indices, values, accumulate)


def nonzero(
    input: TensorArgument, *, as_tuple: bool = False, out: TensorArgument | None = None
) -> Any:
    """The indices of the elements that are not 0, one row each (or one vector per dimension). Reads the values."""
    need_tensor("nonzero", input)
    array = host.to_numpy(input)
    if array.ndim == 1 and array.size < host.LONG:
        places = positions(array)
        return (places,) if as_tuple else unsqueeze(places, 1)
    if as_tuple:
        columns = coordinates(array) if array.ndim else (np.zeros(int(bool(array)), np.int64),)
        return tuple([host.from_numpy(column) for column in columns])
    if not array.ndim:
        return host.from_numpy(np.zeros((int(bool(array)), 0), np.int64))
    return columns_first(host.from_numpy(coordinates(array).T))


def argwhere(input: TensorArgument) -> Any:
    """The indices of the elements that are not 0, one row per element. Reads the values."""
    return nonzero(input)


def masked_select(
    input: TensorArgument, mask: TensorArgument, *, out: TensorArgument | None = None
) -> Any:
    """The elements where the mask holds, as a vector. Reads the mask."""
    need_tensor("masked_select", mask, "mask", 2)
    if mask._dtype.name != "bool":
        raise DTypeError(
            "masked_select: expected BoolTensor for mask",
            expected="a mask of bool",
            got=describe("mask", mask),
            fix="compare, or convert it with .bool()",
        )
    shape = broadcast_shapes([input._shape, mask._shape], "masked_select") or (1,)
    input, mask = [x if x._shape == shape else expand(x, shape) for x in (input, mask)]
    return getitem(input, mask)


FUNCTIONS: dict[str, Any] = {
    "nonzero": nonzero,
    "argwhere": argwhere,
    "masked_select": masked_select,
    "index_put": index_put,
}
METHODS: dict[str, Any] = {**FUNCTIONS, "index_put_": index_put_}
HOOKS = {"getitem": getitem, "setitem": setitem}
__all__ = ["FUNCTIONS", "HOOKS", "METHODS"]
