"""Making sparse tensors, and dense ones of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError
from weft.functional.support import host
from weft.ops.primitives import full, reshape, take, take_add
from weft.sparse import structure
from weft.sparse.blocks import block_size, from_grid, grid, to_grid
from weft.sparse.tensor import SparseTensor, like, make
from weft.tensor.arguments import describe, sizes, widen


def sparse_coo_tensor(
    indices: Any = None,
    values: Tensor | list[float | list[float]] | None = None,
    size: Any = None,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor of indices and values; places that occur several times are summed. Gradients flow to `values`.

    Shapes: (m, n), (n, *dense) -> size, by default as large as the indices need. `sparse_coo_tensor(size)` is empty.
    Errors: RuntimeError where the parts do not fit, or an index is out of range.
    """
    if values is None:
        return _empty(indices if size is None else size, dtype, requires_grad)
    entries = as_values(values, dtype)
    places = weft.as_tensor(indices).detach().to(weft.int64)  # other numbers are cut, as in PyTorch
    if places.ndim != 2:
        raise ShapeError(
            f"indices must be sparse_dim x nnz, but got: {list(places.shape)}",
            expected="a matrix: a row per sparse dimension, a column per entry",
            got=describe("indices", places),
            fix="reshape the indices",
        )
    if entries.ndim == 0:
        entries = entries.reshape(1)
    _check_counts(places, entries)
    array = structure.places_of(places)
    shape = _shape(size, array, tuple(entries.shape[1:]))
    _check_ranges(array, shape)
    made = make(places, entries.detach() if requires_grad else entries, shape, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def as_places(given: Tensor | list[int] | list[list[int]] | np.ndarray, what: str) -> Tensor:
    """Indices as integers of 64 bits. Errors: TypeError on other numbers."""
    places = weft.as_tensor(given)
    if places.numel() and (places.is_floating_point() or places.is_complex()):
        raise ArgumentTypeError(
            f"{what} must be an int64 tensor, but got {places.dtype.name}",
            expected="whole numbers",
            got=describe(what, places),
            fix="convert them with .long()",
        )
    return places.detach().to(weft.int64)


def as_values(
    given: Tensor | list[float | list[float]] | list[float] | list[list[list[float]]],
    dtype: DType | None,
) -> Tensor:
    """Values that share no handle with what the caller holds: flags may be set on them."""
    entries = weft.as_tensor(given, dtype=dtype)
    if entries.requires_grad:
        return entries.view_as(entries)
    return entries.detach()


def _check_counts(places: Tensor, entries: Tensor) -> None:
    if places.shape[1] != entries.shape[0]:
        raise ShapeError(
            f"indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, "
            f"nnz from values: {entries.shape[0]}",
            expected=f"{places.shape[1]} values",
            got=describe("values", entries),
            fix="give one value per column of the indices",
        )


def _shape(size: object, places: np.ndarray, dense: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that was asked for, or the least that holds the indices. Errors: RuntimeError where it does not fit."""
    if size is None:
        if not places.shape[1]:
            return (*(0,) * places.shape[0], *dense)
        return (*(int(row.max()) + 1 for row in places), *dense)
    shape = sizes((size,), "sparse_coo_tensor")
    if len(shape) != len(places) + len(dense):
        raise ShapeError(
            f"number of dimensions must be sparse_dim ({len(places)}) + dense_dim ({len(dense)}), but got "
            f"{len(shape)}",
            expected=f"{len(places) + len(dense)} sizes",
            got=str(list(shape)),
            fix="give a size for each row of the indices and each dimension of the values after the first",
        )
    if shape[len(places) :] != dense:
        raise ShapeError(
            f"values has incorrect size, expected {[places.shape[1], *shape[len(places) :]]}, got "
            f"{[places.shape[1], *dense]}",
            expected=f"dense sizes {list(shape[len(places) :])}",
            got=str(list(dense)),
            fix="make the last sizes those of the values",
        )
    return shape


def _check_ranges(places: np.ndarray, shape: tuple[int, ...]) -> None:
    """Errors: RuntimeError for an index that is negative or too large."""
    if not places.shape[1]:
        return
    for dim, row in enumerate(places):
        low, high = int(row.min()), int(row.max())
        if low < 0 or high >= shape[dim]:
            wrong = (
                f"found negative index {low} for dim {dim}"
                if low < 0
                else f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found index {high}"
            )
            raise ArgumentError(
                wrong,
                expected=f"indices from 0 to {shape[dim] - 1} in row {dim}",
                got=str(low if low < 0 else high),
                fix="give a larger size, or correct the indices",
            )


def _empty(
    size: Shape | Tensor | list[list[int]] | None, dtype: DType | None, requires_grad: bool
) -> SparseTensor:
    if size is None:
        raise ArgumentTypeError(
            "sparse_coo_tensor() needs indices and values, or a size",
            expected="sparse_coo_tensor(indices, values) or sparse_coo_tensor(size)",
            got="neither",
            fix="pass the shape of an empty tensor",
        )
    shape = sizes((size,), "sparse_coo_tensor")
    made = empty(shape, len(shape), dtype or weft.get_default_dtype())
    return made.requires_grad_() if requires_grad else made


def empty(shape: tuple[int, ...], sparse_dim: int, dtype: DType) -> SparseTensor:
    """A sparse tensor without entries."""
    entries = weft.empty((0, *shape[sparse_dim:]), dtype=dtype)
    return make(structure.as_indices([[]] * sparse_dim, 0), entries, shape, coalesced=True)


def positions_of(tensor: SparseTensor) -> np.ndarray:
    """The places of a tensor's entries, each as one number in row-major order. Shapes: (entries,)."""
    sizes = tuple(tensor.shape[: tensor.indexed_dim])
    return structure.flat(structure.places_of(tensor.places), sizes)


def coalesced(tensor: SparseTensor) -> SparseTensor:
    """The entries in order of their places, those of one place added up in the order that they had; in the same
    layout."""
    if tensor.coalesced:
        return tensor
    sizes = tuple(tensor.shape[: tensor.indexed_dim])
    positions = positions_of(tensor)
    kind = tensor.layout, tensor.index_dtype
    if structure.is_ascending(positions):
        return make(tensor.places, tensor.entries, tensor.shape, True, *kind)
    unique, groups = np.unique(positions, return_inverse=True)
    entries = added(tensor.entries, groups.reshape(-1), len(unique))
    indices = structure.as_indices(structure.unflat(unique, sizes), len(unique))
    return make(indices, entries, tensor.shape, True, *kind)


def first_of_places(tensor: SparseTensor) -> SparseTensor:
    """The first entry of each place, in order of the places."""
    sizes = tuple(tensor.shape[: tensor.indexed_dim])
    positions = positions_of(tensor)
    unique, first = np.unique(positions, return_index=True)
    entries = tensor.entries[structure.as_index(first, len(positions))]
    indices = structure.as_indices(structure.unflat(unique, sizes), len(unique))
    return make(indices, entries, tensor.shape, True, tensor.layout)


def added(entries: Tensor, groups: np.ndarray, count: int) -> Tensor:
    """The sums of the entries of each group. Shapes: (n, *dense) -> (count, *dense)."""
    if entries.dtype is weft.bool:
        return added(entries.int(), groups, count) != 0
    wide = widen(entries)
    start = full((count, *entries.shape[1:]), 0, wide.dtype)
    return take_add(start, 0, structure.as_index(groups, count), wide).to(entries.dtype)  # type: ignore[no-any-return]


def positions(tensor: SparseTensor) -> Tensor:
    """The row-major place of each entry among the sparse dimensions, computed without reading anything."""
    sizes = tensor.shape[: tensor.indexed_dim]
    if len(sizes) == 1:
        return tensor.places[0]
    found = full((tensor.places.shape[1],), 0, weft.int64)
    for row, size in enumerate(sizes):
        found = found * size + tensor.places[row]
    return found  # type: ignore[no-any-return]


def dense(tensor: SparseTensor, dtype: DType | None = None) -> Tensor:
    """Zeros, with the entries added at their places. Shapes: as the tensor's."""
    if block_size(tensor) is not None:
        return from_grid(dense(grid(tensor), dtype), tensor.batch_dim)
    rank = tensor.indexed_dim
    rows, inner = math.prod(tensor.shape[:rank]), tuple(tensor.shape[rank:])
    entries = tensor.entries if dtype is None else tensor.entries.to(dtype)
    if entries.dtype is weft.bool:
        return dense(like(tensor, entries.int())) != 0
    wide = widen(entries)
    found = take_add(full((rows, *inner), 0, wide.dtype), 0, positions(tensor), wide)
    return reshape(found, tuple(tensor.shape)).to(entries.dtype)  # type: ignore[no-any-return]


def sparse_mask(input: Tensor, mask: SparseTensor) -> SparseTensor:  # noqa: A002
    """The values of a dense tensor at the places of a sparse one. Shapes: two of one shape -> the same."""
    if tuple(input.shape) != tuple(mask.shape):
        raise ShapeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(input.shape)} but mask has size "
            f"{list(mask.shape)}",
            expected=f"a mask of shape {list(input.shape)}",
            got=str(list(mask.shape)),
            fix="make the mask with the tensor's shape",
        )
    if isinstance(input, SparseTensor):
        input = input.to_dense()
    size = block_size(mask)
    if size is not None:
        tiles = to_grid(input, size, mask.batch_dim)
        return like(mask, sparse_mask(tiles, grid(mask)).entries, mask.shape)
    rank = mask.indexed_dim
    rows = reshape(input, (math.prod(mask.shape[:rank]), *mask.shape[rank:]))
    return like(mask, take(rows, 0, positions(mask)))


def of_dense(tensor: Tensor, sparse_dim: int | None) -> SparseTensor:
    """The entries of a dense tensor that are not zero, by their first dimensions. Cost: reads it."""
    rank = len(tensor.shape) if sparse_dim is None else sparse_dim
    if not 0 <= rank <= len(tensor.shape) or (tensor.shape and rank == 0):
        raise ArgumentError(
            f"to_sparse: sparse_dim argument must be in >0 and <= {len(tensor.shape)}, but got {rank}",
            expected=f"1 to {len(tensor.shape)}",
            got=str(rank),
            fix="leave sparse_dim out to index all dimensions",
        )
    array = host.to_numpy(tensor)
    some = (
        (array != 0).any(axis=tuple(range(rank, array.ndim))) if array.ndim > rank else array != 0
    )
    found = np.flatnonzero(some)
    sizes, inner = tuple(tensor.shape[:rank]), tuple(tensor.shape[rank:])
    places = structure.as_indices(structure.unflat(found, sizes), len(found))
    rows = tensor.reshape(math.prod(sizes), *inner)
    entries = take(rows, 0, structure.as_index(found, max(len(rows), 1)))
    return make(places, entries, tensor.shape, coalesced=True)
