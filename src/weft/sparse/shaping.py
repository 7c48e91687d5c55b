# ruff: noqa: A002 - PyTorch's names
"""Other shapes and parts of sparse tensors: transposes, indices, joins.

The result is a sparse tensor over the same values, or a dense one if no sparse dimension is left. Sparse dimensions
and those of the values stay apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft import Tensor
from weft.errors import ArgumentError, IndexRangeError, NotDefinedError, ShapeError
from weft.ops.primitives import take
from weft.sparse import structure
from weft.sparse.compressed import form_of, turned, with_rows
from weft.sparse.tensor import SparseTensor, like, make
from weft.tensor.arguments import wrap_dim, wrap_dims

if TYPE_CHECKING:
    from weft.nested.tensor import NestedTensor


def permute(function: object, input: SparseTensor, *dims: Any) -> Any:
    """Dimensions in another order: sparse ones among themselves, those of the values among themselves."""
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order, rank = wrap_dims(list(given), len(input.shape)), input.indexed_dim
    batches = input.batch_dim
    if (
        len(order) != len(input.shape)
        or any(axis >= rank for axis in order[:rank])
        or any(axis >= batches for axis in order[:batches])
    ):
        raise ArgumentError(
            "permute: batches, sparse dimensions and those of the values stay apart",
            expected=f"an order of {len(input.shape)} dimensions in which those up to {rank} are sparse",
            got=str(list(given)),
            fix="use .to_dense() first",
        )
    if form_of(input) is not None:
        return input if [*order] == [*range(len(order))] else turned(input, order)
    rows = weft.stack([input.places[axis] for axis in order[:rank]]) if rank else input.places
    entries = input.entries.permute(0, *(axis - rank + 1 for axis in order[rank:]))
    same = input.coalesced and order[:rank] == tuple(range(rank))
    return make(rows, entries, [input.shape[axis] for axis in order], same)


def broadcast_to(function: object, input: SparseTensor, size: Sequence[int]) -> SparseTensor:
    """`broadcast` as a function."""
    return broadcast(input, tuple(size))


def transpose(function: object, input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    rank = len(input.shape)
    first, second = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
    order = list(range(rank))
    order[first], order[second] = second, first
    return permute(function, input, order) if rank else input


def t(function: Callable[..., Tensor], input: SparseTensor) -> Any:
    """A matrix transposed; a vector as it is."""
    if len(input.shape) > 2:
        dense = input.dense_dim()
        raise ArgumentError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{input.indexed_dim} sparse and {dense} dense dimensions",
            expected="a matrix",
            got=str(list(input.shape)),
            fix="use .transpose(dim0, dim1)",
        )
    return transpose(function, input, 0, 1) if len(input.shape) == 2 else input


def unsqueeze(function: object, input: Any, dim: int) -> Any:
    """A new dimension of size 1, sparse up to the last sparse one."""
    axis, rank = wrap_dim(dim, len(input.shape) + 1), input.indexed_dim
    shape = [*input.shape[:axis], 1, *input.shape[axis:]]
    if axis > rank:
        return like(input, input.entries.unsqueeze(axis - rank + 1), shape)
    row = input.places[:1] * 0 if rank else weft.zeros(1, input.entry_count, dtype=weft.int64)
    places = weft.cat([input.places[:axis], row, input.places[axis:]])
    return make(places, input.entries, shape, input.coalesced)


def squeeze(function: Callable[..., Tensor], input: NestedTensor, dim: int | None = None) -> Any:
    """Without dimensions of size 1: all, or those given."""
    rank = input.indexed_dim
    chosen = range(len(input.shape)) if dim is None else wrap_dims(dim, len(input.shape))
    gone = [axis for axis in chosen if input.shape[axis] == 1]
    kept = [axis for axis in range(rank) if axis not in gone]
    entries = input.entries.squeeze([axis - rank + 1 for axis in gone if axis >= rank])
    shape = [size for axis, size in enumerate(input.shape) if axis not in gone]
    if not kept and rank:
        return entries.sum(0)
    return make(input.places[kept], entries, shape, input.coalesced)


def broadcast(input: SparseTensor, shape: tuple[int, ...]) -> SparseTensor:
    """A tensor by coordinates, with new first dimensions and its entries repeated along those of size 1. Errors:
    ShapeError where the sizes do not fit."""
    ahead = len(shape) - len(input.shape)
    sizes = (1,) * ahead + tuple(input.shape)
    if ahead < 0 or any(size not in (1, new) for size, new in zip(sizes, shape, strict=True)):
        raise ShapeError(
            f"the size of the tensor {list(input.shape)} does not broadcast to {list(shape)}",
            expected="sizes that are equal, or 1",
            got=f"{list(input.shape)} for {list(shape)}",
            fix="check the sizes",
        )
    rank = input.indexed_dim + ahead
    factors = tuple(new if old == 1 else 1 for old, new in zip(sizes[:rank], shape, strict=False))
    places, copies = structure.places_of(input.places), math.prod(factors)
    extra = structure.unflat(np.arange(copies), factors)  # -> (indexed dimensions, copies)
    rows = np.zeros((rank, places.shape[1], copies), np.int64) + extra[:, None]
    rows[ahead:] += places[:, :, None]
    number = np.repeat(np.arange(places.shape[1]), copies)
    entries = take(input.entries, 0, structure.as_index(number, max(places.shape[1], 1)))
    found = rows.reshape(rank, places.shape[1] * copies)
    order = structure.flat(found, shape[:rank])
    return make(
        structure.as_indices(found, found.shape[1]),
        entries.expand(-1, *shape[rank:]),
        shape,
        input.coalesced and structure.is_ascending(order),
    )


# -- parts ---------------------------------------------------------------------------------------------------------


def _chosen(
    input: SparseTensor, found: Any, rows: np.ndarray, shape: Sequence[int]
) -> SparseTensor:
    """Some of the entries, at other places."""
    entries = take(input.entries, 0, structure.as_index(found, max(input.entry_count, 1)))
    return make(structure.as_indices(rows, len(found)), entries, shape)


def select(function: object, input: Any, dim: int, index: Any) -> Any:
    """One slice of a dimension; dense where it was the last sparse one."""
    axis = wrap_dim(dim, len(input.shape))
    of_batch = axis < input.batch_dim
    input = input if of_batch else with_rows(input)
    size, place, rank = input.shape[axis], int(index), input.indexed_dim
    if not -size <= place < size:
        raise IndexRangeError(
            f"select(): index {place} out of range for tensor of size {list(input.shape)} at dimension {axis}",
            expected=f"an index from {-size} to {size - 1}",
            got=str(place),
            fix="check the sizes",
        )
    if axis >= rank:
        shape = [*input.shape[:axis], *input.shape[axis + 1 :]]
        return like(input, input.entries.select(axis - rank + 1, place), shape)
    places = structure.places_of(input.places)
    found = np.flatnonzero(places[axis] == place % size)
    rest = np.delete(places, axis, 0)[:, found]
    shape = [*input.shape[:axis], *input.shape[axis + 1 :]]
    made = _chosen(input, found, rest, shape)
    if rank == 1:
        return made.entries.sum(0)
    if of_batch:
        return make(
            made.places, made.entries, shape, input.coalesced, input.layout, input.index_dtype
        )
    made.coalesced = input.coalesced
    return made


def index_select(
    function: Callable[..., Tensor], input: Any, dim: int, index: Tensor, *, out: object = None
) -> Any:
    """Slices of a dimension by index, in its order."""
    axis, rank = wrap_dim(dim, len(input.shape)), input.indexed_dim
    wanted = index.reshape(-1)
    shape = [*input.shape[:axis], len(wanted), *input.shape[axis + 1 :]]
    if axis >= rank:
        return like(input, input.entries.index_select(axis - rank + 1, wanted), shape)
    array, places = structure.places_of(wanted), structure.places_of(input.places)
    size = input.shape[axis]
    if len(array) and (array.min() < -size or array.max() >= size):
        raise IndexRangeError(
            "index_select(): index out of range",
            expected=f"indices below {size}",
            got=f"{int(array.min())} to {int(array.max())}",
            fix="check the indices",
        )
    found, order = structure.matches(places[axis], array % max(size, 1))
    rows = places[:, found]
    rows[axis] = order
    return _chosen(input, found, rows, shape)


def narrow(function: object, input: Any, dim: int, start: int, length: int) -> Any:
    """A range of a dimension."""
    axis, rank = wrap_dim(dim, len(input.shape)), input.indexed_dim
    start = start + input.shape[axis] if start < 0 else start
    if length < 0 or not 0 <= start <= start + length <= input.shape[axis]:
        raise ArgumentError(
            f"start ({start}) + length ({length}) exceeds dimension size ({input.shape[axis]}).",
            expected=f"a range within {input.shape[axis]}",
            got=f"start={start}, length={length}",
            fix="check the sizes",
        )
    shape = [*input.shape[:axis], length, *input.shape[axis + 1 :]]
    if axis >= rank:
        return like(input, input.entries.narrow(axis - rank + 1, start, length), shape)
    places = structure.places_of(input.places)
    found = np.flatnonzero((places[axis] >= start) & (places[axis] < start + length))
    rows = places[:, found]
    rows[axis] -= start
    made = _chosen(input, found, rows, shape)
    made.coalesced = input.coalesced
    return made


def get(tensor: SparseTensor, index: object) -> Any:
    """`x[...]`: numbers and ranges on sparse dimensions, anything on those of the values."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [part for part in parts if not isinstance(part, Tensor)]:
        where = next(n for n, part in enumerate(parts) if part is Ellipsis)
        parts[where : where + 1] = [slice(None)] * (len(tensor.shape) - len(parts) + 1)
    found: Any = tensor if tensor.batch_dim else with_rows(tensor)
    axis = 0
    for place, part in enumerate(parts):
        if not isinstance(found, SparseTensor):
            return found[(*[slice(None)] * axis, *parts[place:])]
        if axis >= found.batch_dim:
            found = with_rows(found)
        if axis >= found.indexed_dim:
            return _of_values(found, axis, parts[place:])
        if isinstance(part, slice) and part.step in (None, 1):
            start, stop, _ = part.indices(found.shape[axis])
            if (start, stop) != (0, found.shape[axis]):
                found = narrow(None, found, axis, start, max(stop - start, 0))
            axis += 1
        elif (
            hasattr(part, "__index__")
            and not isinstance(part, bool)
            and not getattr(part, "shape", ())
        ):
            found = select(None, found, axis, part)
        else:
            raise NotDefinedError(
                "indexing a sparse dimension",
                expected="numbers and ranges of step 1",
                got=repr(part)[:60],
                fix="use index_select(dim, index), or .to_dense()",
            )
    return found


def _of_values(tensor: SparseTensor, axis: int, parts: list[object]) -> SparseTensor:
    entries = tensor.entries[(slice(None), *[slice(None)] * (axis - tensor.indexed_dim), *parts)]
    return like(tensor, entries, [*tensor.shape[: tensor.indexed_dim], *entries.shape[1:]])


def unbind(function: Callable[..., object], input: Tensor, dim: int = 0) -> Any:
    """The slices of a dimension."""
    count = input.shape[wrap_dim(dim, len(input.shape))]
    return tuple(select(None, input, dim, number) for number in range(count))


# -- joins ---------------------------------------------------------------------------------------------------------


def cat(function: object, tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Any:
    """Sparse tensors one after the other along a sparse dimension."""
    first = tensors[0]
    axis, rank = wrap_dim(dim, len(first.shape)), 0
    for tensor in tensors:
        if not isinstance(tensor, SparseTensor):
            raise _mixed("cat", tensor)
        rank = tensor.indexed_dim
        sizes = [list(x.shape[:axis]) + list(x.shape[axis + 1 :]) for x in (first, tensor)]
        if axis >= rank or rank != first.indexed_dim or sizes[0] != sizes[1]:
            raise ArgumentError(
                "cat: sparse tensors are joined along a sparse dimension, and agree in all others",
                expected=f"shapes like {list(first.shape)} with {first.indexed_dim} sparse dimensions",
                got=f"{list(tensor.shape)} with {rank}, along {axis}",
                fix="use .to_dense() first",
            )
    start, rows = 0, []
    for tensor in tensors:
        offset = np.zeros((rank, 1), np.int64)
        offset[axis] = start
        rows.append(tensor.places + weft.from_numpy(offset))
        start += tensor.shape[axis]
    entries = weft.cat([tensor.entries for tensor in tensors])
    shape = [*first.shape[:axis], start, *first.shape[axis + 1 :]]
    same = axis == 0 and all(tensor.coalesced for tensor in tensors)
    return make(weft.cat(rows, 1), entries, shape, same)


def stack(
    function: Callable[..., object], tensors: Sequence[Tensor], dim: int = 0, *, out: object = None
) -> Any:
    """Sparse tensors along a new sparse dimension."""
    for tensor in tensors:
        if not isinstance(tensor, SparseTensor):
            raise _mixed("stack", tensor)
    return cat(function, [unsqueeze(None, tensor, dim) for tensor in tensors], dim)


def _mixed(name: str, tensor: Tensor) -> ArgumentError:
    return ArgumentError(
        f"{name}: sparse and dense tensors together",
        expected="sparse tensors",
        got=f"a {type(tensor).__name__} among them",
        fix="convert all of them with .to_sparse(), or with .to_dense()",
    )


TURNING = "transpose swapaxes swapdims permute t"
RULES: dict[str, Any] = {
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), transpose),
    **dict.fromkeys(("cat", "concat", "concatenate"), cat),
    "broadcast_to": broadcast_to,
    "permute": permute,
    "t": t,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "select": select,
    "index_select": index_select,
    "narrow": narrow,
    "narrow_copy": narrow,
    "unbind": unbind,
    "stack": stack,
}
