"""Compressed layouts of sparse matrices: by rows or columns, of single elements (CSR, CSC) or of blocks (BSR, BSC).

Matrices may come in batches, whose dimensions are indexed before rows and columns; each has as many entries. A
compressed tensor has its entries in the order of the lines that it is compressed along. What is kept is where each
entry is (`places`), as for all sparse tensors; where each line begins is computed from that when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft
from weft import Tensor
from weft._typing import Shape
from weft.errors import ArgumentError, NotDefinedError, ShapeError
from weft.ops.primitives import take
from weft.sparse import blocks, structure
from weft.sparse.making import added, coalesced, of_dense
from weft.sparse.tensor import SparseTensor, layout_name, layout_text, make

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


class Form(NamedTuple):
    """The way that a layout is compressed: along rows (0) or columns (1), of elements or of blocks; the names of the
    starts of its lines, and of the positions within these."""

    axis: int
    is_blocked: bool
    starts: str
    positions: str


_ROWS, _COLUMNS = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
FORMS = {
    "sparse_csr": Form(0, False, *_ROWS),
    "sparse_csc": Form(1, False, *_COLUMNS),
    "sparse_bsr": Form(0, True, *_ROWS),
    "sparse_bsc": Form(1, True, *_COLUMNS),
}
_TRANSPOSED = {
    "sparse_csr": "sparse_csc",
    "sparse_csc": "sparse_csr",
    "sparse_bsr": "sparse_bsc",
    "sparse_bsc": "sparse_bsr",
}
_KINDS = {
    "crow_indices": "row",
    "col_indices": "row",
    "ccol_indices": "column",
    "row_indices": "column",
}


def form_of(tensor: SparseTensor) -> Form | None:
    """The form of a compressed tensor; None for one by coordinates."""
    return FORMS.get(tensor.layout.name)


def need_csr(name: str, tensor: SparseTensor) -> SparseTensor:
    """Errors: RuntimeError for a tensor of another layout."""
    if isinstance(tensor, SparseTensor) and tensor.is_sparse_csr:
        return tensor
    raise _wrong_layout(name, "row", tensor)


def _wrong_layout(name: str, kind: str, tensor: SparseTensor) -> ArgumentError:
    return ArgumentError(
        f"{name} expected sparse {kind} compressed tensor layout but got {layout_name(tensor)}",
        expected=f"a tensor of layout weft.sparse_{'csr' if kind == 'row' else 'csc'}",
        got=str(tensor.layout),
        fix=f"convert it with .to_sparse_{'csr' if kind == 'row' else 'csc'}()",
    )


# -- what it consists of ---------------------------------------------------------------------------------------------


def part(tensor: SparseTensor, name: str) -> Tensor:
    """`crow_indices`, `col_indices`, `ccol_indices` or `row_indices` of a tensor, batch by batch. Errors: RuntimeError
    where its layout has no such part."""
    form = form_of(tensor)
    if form is None or name not in form[2:]:
        raise _wrong_layout(name, _KINDS[name], tensor)
    batch = tuple(tensor.shape[: tensor.batch_dim])
    if name == form.positions:
        found: Any = tensor.places[len(batch) + 1 - form.axis]
        found = found.reshape(*batch, tensor._nnz()) if batch else found
    else:
        size = blocks.block_size(tensor) or (1, 1)
        count = tensor.shape[len(batch) + form.axis] // size[form.axis]
        places = structure.places_of(tensor.places)
        starts = structure.starts_of_lines(places, form.axis, batch, count)
        found = structure.as_index(starts, places.shape[1] + 1)
    return found.to(tensor.index_dtype)  # type: ignore[no-any-return]


# -- from one layout to another ----------------------------------------------------------------------------------------


def by_elements(tensor: SparseTensor) -> SparseTensor:
    """The same entries by coordinates; those of blocks one by one."""
    form = form_of(tensor)
    if form is None:
        return tensor
    if form.is_blocked:
        return coalesced(blocks.elements(tensor))
    made = make(tensor.places, tensor.entries, tensor.shape, tensor.coalesced and form.axis == 0)
    return made if form.axis == 0 else coalesced(made)


def as_rows(tensor: SparseTensor) -> SparseTensor:
    """A sparse matrix with compressed rows. Errors: RuntimeError for other ranks."""
    return compress(tensor, "sparse_csr")


def compress(tensor: SparseTensor, name: str, blocksize: Shape | None = None) -> SparseTensor:
    """A sparse matrix in one of the compressed layouts, of blocks of a size where it has some.

    Errors: RuntimeError for other ranks, and for blocks that do not fill the matrix."""
    if tensor.sparse_dim() != 2:
        raise ShapeError(
            f"to_sparse: conversion from {layout_name(tensor)} to {layout_text(name)} for input tensors with "
            f"sparse_dim()!=2 is not supported",
            expected="two sparse dimensions",
            got=f"shape {list(tensor.shape)}, {tensor.sparse_dim()} of them sparse",
            fix="keep it as it is: weft.sparse_coo",
        )
    size = blocks.block_size(tensor)
    if tensor.layout.name == name and (blocksize is None or _pair(blocksize) == size):
        return tensor
    plain, batches = coalesced(by_elements(tensor)), tensor.batch_dim
    if FORMS[name].is_blocked:
        wanted = _checked_size(name, tuple(plain.shape), blocksize or size, batches)
        made = _in_blocks(plain, name, wanted, batches)
    else:
        made = ordered(plain, name, tensor.shape)
    made.index_dtype = tensor.index_dtype
    return even(made)


def even(tensor: SparseTensor) -> SparseTensor:
    """A compressed tensor, as it is. Errors: RuntimeError where batches have different numbers of entries."""
    batch = tuple(tensor.shape[: tensor.batch_dim])
    if batch and not structure.is_even(structure.places_of(tensor.places), batch):
        raise ShapeError(
            "Expect the same number of specified elements per batch.",
            expected="as many entries, or blocks, in each matrix of a batch",
            got=f"others in a batch of shape {list(batch)}",
            fix="keep it by coordinates (weft.sparse_coo), or convert matrices one by one",
        )
    return tensor


def ordered(plain: SparseTensor, name: str, shape: Shape) -> SparseTensor:
    """Entries in the order of a layout, of those that are in the order of batches and rows."""
    layout, kind = getattr(weft, name), plain.index_dtype
    if FORMS[name].axis == 0:
        return make(plain.places, plain.entries, shape, True, layout, kind)
    places = structure.places_of(plain.places)
    batch = structure.flat(places[:-2], tuple(shape)[: len(places) - 2])
    order = np.lexsort((places[-1], batch))
    entries = take(plain.entries, 0, structure.as_index(order, max(len(order), 1)))
    indices = structure.as_indices(places[:, order], len(order))
    return make(indices, entries, shape, True, layout, kind)


def _in_blocks(plain: SparseTensor, name: str, size: blocks.Size, batches: int) -> SparseTensor:
    """The blocks that have entries, filled up with zeros."""
    places = structure.places_of(plain.places)
    rows, columns = places[-2:]
    shape = blocks.tiled(tuple(plain.shape), size, batches)
    sizes = shape[: batches + 2]
    block = structure.flat(np.stack([*places[:-2], rows // size[0], columns // size[1]]), sizes)
    found, number = np.unique(block, return_inverse=True)
    inside = rows % size[0] * size[1] + columns % size[1]
    positions = number.reshape(-1) * (size[0] * size[1]) + inside
    entries = added(plain.entries, positions, len(found) * size[0] * size[1])
    indices = structure.as_indices(structure.unflat(found, sizes), len(found))
    tiles = entries.reshape(len(found), *size, *plain.entries.shape[1:])
    return ordered(make(indices, tiles, shape, True), name, plain.shape)


def _pair(blocksize: object) -> tuple[int, ...]:
    """The sizes of a block as they were given; one number stands for both."""
    if isinstance(blocksize, int):
        return blocksize, blocksize
    return tuple(blocksize) if isinstance(blocksize, (tuple, list)) else ()


def _checked_size(
    name: str, shape: tuple[int, ...], blocksize: Shape | None, batches: int
) -> blocks.Size:
    """Errors: RuntimeError for what are no two sizes, and for blocks that do not fill the matrix."""
    sizes = _pair(blocksize)
    if len(sizes) != 2 or not all(isinstance(size, int) for size in sizes) or min(sizes) < 1:
        raise ArgumentError(
            f"to_{name}: blocksize needs to be a tuple of two positive sizes, of a matrix of numbers",
            expected="such as blocksize=(2, 2)",
            got=f"{blocksize} for shape {list(shape)}",
            fix=f"call .to_{name}((rows, columns))",
        )
    matrix = shape[batches : batches + 2]
    if matrix[0] % sizes[0] or matrix[1] % sizes[1]:
        raise ShapeError(
            f"to_{name}: tensor sparse size ({matrix[0]}, {matrix[1]}) must be divisible by given "
            f"blocksize ({sizes[0]}, {sizes[1]})",
            expected="blocks that fill the matrix",
            got=f"blocks of {list(sizes)} for {list(matrix)}",
            fix="choose sizes that divide those of the matrix",
        )
    return int(sizes[0]), int(sizes[1])


def name_of(layout: object) -> str:
    """The name of a layout; of what is none, no name."""
    return str(getattr(layout, "name", ""))


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Layout | None = None,
    blocksize: Shape | None = None,
    dense_dim: int | None = None,
) -> Any:
    """The entries that are not zero (in any of their dense dimensions) with their indices, or the blocks that have
    some; gradients flow back. A compressed tensor is given by coordinates where no layout is named. Dimensions before
    the matrices of a compressed layout are batches.

    Cost: reads the tensor. Errors: RuntimeError for blocks in a layout that has none, NotDefinedError for another one.
    """
    name = "sparse_coo" if layout is None else name_of(layout)
    if name == "strided":
        return self.to_dense()
    if name not in ("sparse_coo", *FORMS):
        raise NotDefinedError(
            f"to_sparse: layout {layout}",
            expected="weft.sparse_coo, or one of sparse_csr, sparse_csc, sparse_bsr, sparse_bsc",
            got=str(layout),
            fix="leave layout out",
        )
    form = FORMS.get(name)
    if blocksize is not None and (form is None or not form.is_blocked):
        raise ArgumentError(
            f"to_sparse: conversion to {layout_text(name)} does not use specified blocksize",
            expected="a blocksize with weft.sparse_bsr or weft.sparse_bsc",
            got=f"blocksize={blocksize}",
            fix="leave blocksize out",
        )
    if isinstance(self, SparseTensor):
        _need_same_dims(self, sparse_dim, dense_dim)
        return by_elements(self) if form is None else compress(self, name, blocksize)
    if form is None:
        return of_dense(self, sparse_dim)
    return _compressed_of_dense(self, name, blocksize, dense_dim or 0)


def _compressed_of_dense(
    tensor: Tensor, name: str, blocksize: Shape | None, dense_dim: int
) -> SparseTensor:
    """A dense tensor in a compressed layout, its first dimensions batches."""
    shape = tuple(tensor.shape)
    batches = len(shape) - 2 - dense_dim
    if len(shape) < 2 or not 0 <= dense_dim <= len(shape) - 2:
        raise ShapeError(
            f"dense_to_{name}: dense_dim argument must be in [0,{len(shape) - 2}] range, but {dense_dim} is given",
            expected="a matrix, or batches of matrices whose elements may have dense dimensions",
            got=f"shape {list(shape)}, dense_dim={dense_dim}",
            fix="give fewer dense dimensions, or add one with .unsqueeze(0)",
        )
    if not math.prod(shape[:batches]):
        raise ShapeError(
            f"to_{name}: Expected product of batch dimensions to be non-zero.",
            expected="a matrix, or at least one in a batch",
            got=str(list(shape)),
            fix=f"make it of its parts, which say how many entries there are: weft.{name}_tensor(...)",
        )
    if not FORMS[name].is_blocked:
        return even(ordered(of_dense(tensor, batches + 2), name, tensor.shape))
    size = _checked_size(name, shape, blocksize, batches)
    tiles = blocks.to_grid(tensor, size, batches)
    return even(ordered(of_dense(tiles, batches + 2), name, tensor.shape))


def _need_same_dims(tensor: SparseTensor, sparse_dim: int | None, dense_dim: int | None) -> None:
    """Errors: RuntimeError for other numbers of sparse and dense dimensions than those of a sparse tensor."""
    if sparse_dim is not None and sparse_dim != tensor.sparse_dim():
        own = "self.sparse_dim()" if tensor.is_sparse else "2"
        raise ArgumentError(
            f"to_sparse: conversion from {layout_name(tensor)} to Sparse with sparse_dim argument !={own} is not "
            "supported",
            expected=f"sparse_dim={tensor.sparse_dim()}",
            got=str(sparse_dim),
            fix="leave sparse_dim out, or use .to_dense() first",
        )
    if dense_dim is not None and dense_dim != tensor.dense_dim():
        raise ArgumentError(
            "to_sparse: conversion of a sparse tensor does not change its dense_dim",
            expected=f"dense_dim={tensor.dense_dim()}",
            got=str(dense_dim),
            fix="leave dense_dim out, or use .to_dense() first",
        )


# -- functions -----------------------------------------------------------------------------------------------------


def turned(tensor: SparseTensor, order: Sequence[int]) -> SparseTensor:
    """A compressed tensor with its dimensions in another order: batches among themselves, rows and columns, those of
    the values among themselves. Its lines lie as they did; with rows and columns exchanged, in the other direction."""
    rank, batches = tensor.indexed_dim, tensor.batch_dim
    swapped = order[batches] != batches
    within = [1, 2] if blocks.block_size(tensor) else []
    inner = len(within)
    axes = [
        0,
        *(within[::-1] if swapped else within),
        *(n - rank + 1 + inner for n in order[rank:]),
    ]
    layout = getattr(weft, _TRANSPOSED[tensor.layout.name]) if swapped else tensor.layout
    places, entries = tensor.places[list(order[:rank])], tensor.entries.permute(axes)
    shape = [tensor.shape[axis] for axis in order]
    if list(order[:batches]) != list(range(batches)):
        batch = structure.places_of(places)[:batches]
        by_batch = np.argsort(structure.flat(batch, tuple(shape[:batches])), kind="stable")
        index = structure.as_index(by_batch, max(len(by_batch), 1))
        places, entries = take(places, 1, index), take(entries, 0, index)
    return make(places, entries, shape, tensor.coalesced, layout, tensor.index_dtype)


_OF_ENTRIES = frozenset(
    ["add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide"]
)


def through_rows(
    rule: Callable[..., object],
    name: str,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Any:
    """The result of a rule for tensors by rows on others that are compressed: their elements by rows take part. What
    goes entry by entry keeps the first one's layout."""
    first = next(one for one in args if isinstance(one, SparseTensor))
    found = rule(function, *map(with_rows, args), **{k: with_rows(v) for k, v in kwargs.items()})
    if name in _OF_ENTRIES and isinstance(found, SparseTensor) and form_of(first) is not None:
        return compress(found, first.layout.name, blocks.block_size(first))
    return found


def with_rows(value: object) -> Any:
    """An argument, or a list of them, as most rules know it: by rows where it is compressed otherwise."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(with_rows, value))
    return as_rows(value) if isinstance(value, SparseTensor) and is_other(value) else value


def is_other(value: object) -> bool:
    """True for a compressed tensor by columns or of blocks, which most rules do not know."""
    if not isinstance(value, SparseTensor):
        return False
    return value.layout is not weft.sparse_coo and value.layout is not weft.sparse_csr
