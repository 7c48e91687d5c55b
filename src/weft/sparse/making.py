"""Making sparse tensors, and dense ones of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, NotDefinedError, ShapeError
from weft.functional.support import host
from weft.ops.primitives import full, reshape, take, take_add
from weft.sparse import structure
from weft.sparse.tensor import SparseTensor, layout_name, like, make
from weft.tensor.arguments import describe, sizes, widen

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


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
    entries = _as_values(values, dtype)
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


def _as_places(given: Tensor | list[list[int]] | np.ndarray, what: str) -> Tensor:
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


def _as_values(
    given: Tensor | list[float | list[float]] | list[float], dtype: DType | None
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


def coalesced(tensor: SparseTensor) -> SparseTensor:
    """The entries in order of their places, those of one place added up in the order that they had; in the same
    layout."""
    if tensor.coalesced:
        return tensor
    sizes = tuple(tensor.shape[: tensor.sparse_dim()])
    positions = structure.flat(structure.places_of(tensor.places), sizes)
    if structure.is_ascending(positions):
        return make(tensor.places, tensor.entries, tensor.shape, True, tensor.layout)
    unique, groups = np.unique(positions, return_inverse=True)
    entries = added(tensor.entries, groups.reshape(-1), len(unique))
    indices = structure.as_indices(structure.unflat(unique, sizes), len(unique))
    return make(indices, entries, tensor.shape, True, tensor.layout)


def first_of_places(tensor: SparseTensor) -> SparseTensor:
    """The first entry of each place, in order of the places."""
    sizes = tuple(tensor.shape[: tensor.sparse_dim()])
    places = structure.flat(structure.places_of(tensor.places), sizes)
    unique, first = np.unique(places, return_index=True)
    entries = tensor.entries[structure.as_index(first, len(places))]
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
    sizes = tensor.shape[: tensor.sparse_dim()]
    if len(sizes) == 1:
        return tensor.places[0]
    found = full((tensor.places.shape[1],), 0, weft.int64)
    for row, size in enumerate(sizes):
        found = found * size + tensor.places[row]
    return found  # type: ignore[no-any-return]


def dense(tensor: SparseTensor, dtype: DType | None = None) -> Tensor:
    """Zeros, with the entries added at their places. Shapes: as the tensor's."""
    rank = tensor.sparse_dim()
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
    rank = mask.sparse_dim()
    rows = reshape(input, (math.prod(mask.shape[:rank]), *mask.shape[rank:]))
    return like(mask, take(rows, 0, positions(mask)))


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Layout | None = None,
    blocksize: object = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """The entries that are not zero (in any of their dense dimensions) with their indices; gradients flow back.

    Cost: reads the tensor. Errors: NotDefinedError for a layout other than sparse_coo and sparse_csr, and for blocks.
    """
    if blocksize is not None:
        raise NotDefinedError(
            f"to_sparse: blocks of {blocksize}",
            expected="entries by coordinates or by rows: weft.sparse_coo or weft.sparse_csr",
            got=f"blocksize={blocksize}",
            fix="leave blocksize out",
        )
    if not any(layout is known for known in (None, weft.sparse_coo, weft.sparse_csr)):
        raise NotDefinedError(
            f"to_sparse: layout {layout}",
            expected="weft.sparse_coo or weft.sparse_csr",
            got=str(layout),
            fix="leave layout out",
        )
    csr = isinstance(self, SparseTensor) and self.is_sparse_csr
    if not isinstance(self, SparseTensor):
        made = _of_dense(self, 2 if layout is weft.sparse_csr else sparse_dim)
    else:
        made = make(self.places, self.entries, self.shape, self.coalesced) if csr else self
    return as_rows(made) if layout is weft.sparse_csr else made


def _of_dense(tensor: Tensor, sparse_dim: int | None) -> SparseTensor:
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


def checked(
    layout: str | Tensor | bool | list[int],
    places: object,
    entries: object,
    shape: object,
    coalesced: object,
) -> SparseTensor:
    """A sparse tensor of parts from a file, leaf or not as its values are. Errors: ValueError where they do not fit."""
    if not isinstance(places, Tensor) or not isinstance(entries, Tensor):
        raise ArgumentError(
            "a sparse tensor without indices or values",
            expected="two tensors",
            got=f"{type(places).__name__} and {type(entries).__name__}",
            fix="write the file again",
        )
    wanted, values = entries.requires_grad, entries.detach()
    made = sparse_coo_tensor(places, values, shape)
    sizes = tuple(made.shape[: made.sparse_dim()])
    positions_in_order = structure.flat(structure.places_of(made.places), sizes)
    made.coalesced = bool(coalesced) and structure.is_ascending(positions_in_order)
    if layout == "sparse_csr":
        made = as_rows(made)
    return made.requires_grad_() if wanted else made


# -- compressed rows -----------------------------------------------------------------------------------------------


def need_csr(name: str, tensor: SparseTensor) -> SparseTensor:
    """Errors: RuntimeError for a tensor of another layout."""
    if isinstance(tensor, SparseTensor) and tensor.is_sparse_csr:
        return tensor
    raise ArgumentError(
        f"{name} expected sparse row compressed tensor layout but got {layout_name(tensor)}",
        expected="a tensor of layout weft.sparse_csr",
        got=str(tensor.layout),
        fix="convert it with .to_sparse_csr()",
    )


def as_rows(tensor: SparseTensor) -> SparseTensor:
    """A sparse matrix with compressed rows. Errors: RuntimeError for other ranks."""
    if tensor.sparse_dim() != 2:
        raise ShapeError(
            "to_sparse_csr: only matrices have compressed rows here",
            expected="two sparse dimensions",
            got=f"shape {list(tensor.shape)}, {tensor.sparse_dim()} of them sparse",
            fix="keep it as it is: weft.sparse_coo",
        )
    tensor = tensor if tensor.is_sparse_csr else coalesced(tensor)
    return make(tensor.places, tensor.entries, tensor.shape, True, weft.sparse_csr)


def compressed_rows(tensor: SparseTensor) -> Tensor:
    """The start of each row, and the end of the last (CSR). Shapes: (m, n) -> (m + 1)."""
    rows = structure.places_of(need_csr("crow_indices", tensor).places)[0]
    starts = structure.row_starts(rows, tensor.shape[0])
    return structure.as_index(starts, len(rows) + 1)


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Tensor | list[float],
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix by compressed rows: where each row begins, columns, values; gradients flow to `values`.

    Shapes: (m + 1), (n), (n) -> size, by default as large as the columns need. Errors: RuntimeError on what does not
    fit.
    """
    starts = structure.places_of(_as_places(crow_indices, "crow_indices"))
    columns = structure.places_of(_as_places(col_indices, "col_indices"))
    entries = _as_values(values, dtype)
    if starts.ndim != 1 or columns.ndim != 1 or not len(starts) or entries.ndim < 1:
        raise ShapeError(
            "sparse_csr_tensor: only matrices are made here",
            expected="vectors of row starts and columns, and values",
            got=f"shapes {list(starts.shape)}, {list(columns.shape)} and {list(entries.shape)}",
            fix="make batches of matrices one by one",
        )
    counts = np.diff(starts)
    if starts[0] != 0 or (counts < 0).any() or starts[-1] != len(columns):
        raise ArgumentError(
            "`crow_indices` must begin with 0, not fall, and end with the number of columns given",
            expected=f"0, ..., {len(columns)}",
            got=str(starts.tolist())[:60],
            fix="check how the rows were counted",
        )
    rows = np.repeat(np.arange(len(counts)), counts)
    shape = size if size is not None else (len(counts), int(columns.max(initial=-1)) + 1)
    made = sparse_coo_tensor(
        np.stack([rows, columns]), entries, (*shape, *entries.shape[1:])[: 1 + entries.ndim]
    )
    ordered = structure.is_ascending(
        structure.flat(np.stack([rows, columns]), tuple(made.shape)[:2])
    )
    made = make(made.places, made.entries, made.shape, ordered, weft.sparse_csr)
    return made.detach().requires_grad_() if requires_grad else made
