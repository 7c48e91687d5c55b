"""Compressed layouts of sparse matrices: by rows or columns, of single elements (CSR, CSC) or of blocks (BSR, BSC).

A compressed tensor has its entries in the order of the lines that it is compressed along. What is kept is where each
entry is (`places`), as for all sparse tensors; where each line begins is computed from that when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, NotDefinedError, ShapeError
from weft.ops.primitives import take
from weft.sparse import blocks, structure
from weft.sparse.making import added, as_places, as_values, coalesced, of_dense, sparse_coo_tensor
from weft.sparse.tensor import SparseTensor, layout_name, layout_text, make

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


Indices = Tensor | list[int]
Values = Tensor | list[float] | list[list[list[float]]]


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
    """`crow_indices`, `col_indices`, `ccol_indices` or `row_indices` of a tensor. Errors: RuntimeError where its layout
    has no such part."""
    form = form_of(tensor)
    if form is None or name not in form[2:]:
        raise _wrong_layout(name, _KINDS[name], tensor)
    if name == form.positions:
        return tensor.places[1 - form.axis]
    size = blocks.block_size(tensor) or (1, 1)
    lines = structure.places_of(tensor.places)[form.axis]
    starts = structure.row_starts(lines, tensor.shape[form.axis] // size[form.axis])
    return structure.as_index(starts, len(lines) + 1)


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
            f"to_{name}: only matrices have compressed rows here",
            expected="two sparse dimensions",
            got=f"shape {list(tensor.shape)}, {tensor.sparse_dim()} of them sparse",
            fix="keep it as it is: weft.sparse_coo",
        )
    form, size = FORMS[name], blocks.block_size(tensor)
    if tensor.layout.name == name and (blocksize is None or tuple(blocksize) == size):
        return tensor
    plain = coalesced(by_elements(tensor))
    if form.is_blocked:
        return _in_blocks(plain, name, _checked_size(name, plain, blocksize or size))
    return _ordered(plain, name, tensor.shape)


def _ordered(plain: SparseTensor, name: str, shape: Shape) -> SparseTensor:
    """Entries in the order of a layout, of those that are in the order of rows."""
    layout = getattr(weft, name)
    if FORMS[name].axis == 0:
        return make(plain.places, plain.entries, shape, True, layout)
    places = structure.places_of(plain.places)
    order = np.argsort(places[1], kind="stable")
    entries = take(plain.entries, 0, structure.as_index(order, max(len(order), 1)))
    return make(structure.as_indices(places[:, order], len(order)), entries, shape, True, layout)


def _in_blocks(plain: SparseTensor, name: str, size: blocks.Size) -> SparseTensor:
    """The blocks that have entries, filled up with zeros."""
    rows, columns = structure.places_of(plain.places)
    down, across = plain.shape[0] // size[0], plain.shape[1] // size[1]
    block, inside = rows // size[0] * across + columns // size[1], rows % size[0] * size[1]
    found, number = np.unique(block, return_inverse=True)
    positions = number.reshape(-1) * (size[0] * size[1]) + inside + columns % size[1]
    entries = added(plain.entries, positions, len(found) * size[0] * size[1])
    places = structure.as_indices(structure.unflat(found, (down, across)), len(found))
    tiles = make(places, entries.reshape(len(found), *size), (down, across, *size), True)
    return _ordered(tiles, name, plain.shape)


def _checked_size(name: str, tensor: Tensor, blocksize: Shape | None) -> blocks.Size:
    """Errors: RuntimeError for what are no two sizes, and for blocks that do not fill the matrix."""
    sizes = tuple(blocksize) if isinstance(blocksize, (tuple, list)) else ()
    if (
        len(sizes) != 2
        or not all(isinstance(size, int) for size in sizes)
        or min(sizes) < 1
        or len(tensor.shape) != 2
    ):
        raise ArgumentError(
            f"to_{name}: blocksize needs to be a tuple of two positive sizes, of a matrix of numbers",
            expected="such as blocksize=(2, 2)",
            got=f"{blocksize} for shape {list(tensor.shape)}",
            fix=f"call .to_{name}((rows, columns))",
        )
    if tensor.shape[0] % sizes[0] or tensor.shape[1] % sizes[1]:
        raise ShapeError(
            f"to_{name}: tensor sparse size ({tensor.shape[0]}, {tensor.shape[1]}) must be divisible by given "
            f"blocksize ({sizes[0]}, {sizes[1]})",
            expected="blocks that fill the matrix",
            got=f"blocks of {list(sizes)} for {list(tensor.shape)}",
            fix="choose sizes that divide those of the matrix",
        )
    return int(sizes[0]), int(sizes[1])


def _name_of(layout: object) -> str:
    """The name of a layout; of what is none, no name."""
    return str(getattr(layout, "name", ""))


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Layout | None = None,
    blocksize: Shape | None = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """The entries that are not zero (in any of their dense dimensions) with their indices, or the blocks that have
    some; gradients flow back. A compressed tensor is given by coordinates where no layout is named.

    Cost: reads the tensor. Errors: RuntimeError for blocks in a layout that has none, NotDefinedError for another one.
    """
    name = "sparse_coo" if layout is None else _name_of(layout)
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
        return by_elements(self) if form is None else compress(self, name, blocksize)
    if form is not None and form.is_blocked:
        tiles = blocks.to_grid(self, _checked_size(name, self, blocksize))
        return _ordered(of_dense(tiles, 2), name, self.shape)
    made = of_dense(self, sparse_dim if form is None else 2)
    return made if form is None else compress(made, name)


# -- made of their parts -----------------------------------------------------------------------------------------------


def _made(
    function: str,
    name: str,
    starts: Indices,
    positions: Indices,
    values: Values,
    size: Shape | None,
    dtype: DType | None,
    requires_grad: bool,
) -> SparseTensor:
    """A compressed tensor of its parts, which are looked at. Errors: RuntimeError on what does not fit."""
    form = FORMS[name]
    begins = structure.places_of(as_places(starts, form.starts))
    within = structure.places_of(as_places(positions, form.positions))
    entries = as_values(values, dtype)
    if (
        begins.ndim != 1
        or within.ndim != 1
        or not len(begins)
        or entries.ndim < 1 + 2 * form.is_blocked
    ):
        raise ShapeError(
            f"{function}: only matrices are made here",
            expected=f"vectors of {form.starts} and {form.positions}, and values"
            + (" (blocks, rows, columns)" if form.is_blocked else ""),
            got=f"shapes {list(begins.shape)}, {list(within.shape)} and {list(entries.shape)}",
            fix="make batches of matrices one by one",
        )
    counts = np.diff(begins)
    if begins[0] != 0 or (counts < 0).any() or begins[-1] != len(within):
        raise ArgumentError(
            f"`{form.starts}` must begin with 0, not fall, and end with the number of {form.positions} given",
            expected=f"0, ..., {len(within)}",
            got=str(begins.tolist())[:60],
            fix="check how they were counted",
        )
    lines = np.repeat(np.arange(len(counts)), counts)
    places = np.stack([lines, within] if form.axis == 0 else [within, lines])
    block = tuple(entries.shape[1:3]) if form.is_blocked else (1, 1)
    least = [int(within.max(initial=-1)) + 1] * 2
    least[form.axis] = len(counts)
    shape = (
        tuple(size) if size is not None else tuple(n * b for n, b in zip(least, block, strict=True))
    )
    made = _of_places(function, form, places, entries, shape, block)
    flat = places if form.axis == 0 else places[::-1]
    sizes = tuple(made.shape[:2]) if form.axis == 0 else tuple(made.shape[1::-1])
    if structure.is_ascending(structure.flat(flat, sizes)):
        made = make(made.places, made.entries, made.shape, True, getattr(weft, name))
    elif name == "sparse_csr":  # kept as it is, as PyTorch does
        made = make(made.places, made.entries, made.shape, False, weft.sparse_csr)
    else:
        made = _ordered(coalesced(made), name, made.shape)
    if form.is_blocked:
        made = make(made.places, made.entries, shape, True, made.layout)
    return made.detach().requires_grad_() if requires_grad else made


def _of_places(
    function: str,
    form: Form,
    places: np.ndarray,
    entries: Tensor,
    shape: tuple[int, ...],
    block: tuple[int, ...],
) -> SparseTensor:
    """The tensor by coordinates, of elements or of whole blocks."""
    if not form.is_blocked:
        return sparse_coo_tensor(places, entries, (*shape, *entries.shape[1:])[: 1 + entries.ndim])
    if len(shape) != 2 or shape[0] % block[0] or shape[1] % block[1]:
        raise ShapeError(
            f"{function}: tensor sparse size {shape} must be divisible by given blocksize {block}",
            expected="blocks that fill the matrix",
            got=f"blocks of {list(block)} for {list(shape)}",
            fix="give a size of which each is a multiple of the block's",
        )
    return sparse_coo_tensor(places, entries, (shape[0] // block[0], shape[1] // block[1], *block))


def sparse_csr_tensor(
    crow_indices: Indices,
    col_indices: Indices,
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
    given = (crow_indices, col_indices, values, size, dtype, requires_grad)
    return _made("sparse_csr_tensor", "sparse_csr", *given)


def sparse_csc_tensor(
    ccol_indices: Indices,
    row_indices: Indices,
    values: Tensor | list[float],
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix by compressed columns: where each column begins, rows, values; gradients flow to `values`.

    Shapes: (n + 1), (k), (k) -> size, by default as large as the rows need. Errors: RuntimeError on what does not fit.
    """
    given = (ccol_indices, row_indices, values, size, dtype, requires_grad)
    return _made("sparse_csc_tensor", "sparse_csc", *given)


def sparse_bsr_tensor(
    crow_indices: Indices,
    col_indices: Indices,
    values: Tensor | list[list[list[float]]],
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix of blocks by compressed rows: where each row of blocks begins, their columns, the blocks.

    Shapes: (m / b + 1), (k), (k, b, c) -> size (m, n). Errors: RuntimeError on what does not fit.
    """
    given = (crow_indices, col_indices, values, size, dtype, requires_grad)
    return _made("sparse_bsr_tensor", "sparse_bsr", *given)


def sparse_bsc_tensor(
    ccol_indices: Indices,
    row_indices: Indices,
    values: Tensor | list[list[list[float]]],
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix of blocks by compressed columns: where each column of blocks begins, their rows, the blocks.

    Shapes: (n / c + 1), (k), (k, b, c) -> size (m, n). Errors: RuntimeError on what does not fit.
    """
    given = (ccol_indices, row_indices, values, size, dtype, requires_grad)
    return _made("sparse_bsc_tensor", "sparse_bsc", *given)


def sparse_compressed_tensor(
    compressed_indices: Indices,
    plain_indices: Indices,
    values: Tensor | list[float],
    size: Shape | None = None,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix in one of the compressed layouts, of the parts that `sparse_csr_tensor` and its like take.

    Shapes: theirs. Errors: RuntimeError without a compressed layout, and on what does not fit.
    """
    if layout is None or _name_of(layout) not in FORMS:
        raise ArgumentError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            + ("none" if layout is None else layout_text(_name_of(layout) or str(layout))),
            expected=", ".join(f"weft.{name}" for name in FORMS),
            got=str(layout),
            fix="pass layout=weft.sparse_csr",
        )
    given = (compressed_indices, plain_indices, values, size, dtype, requires_grad)
    return _made("sparse_compressed_tensor", layout.name, *given)


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
    form = FORMS.get(layout) if isinstance(layout, str) else None
    if form is not None and form.is_blocked and values.ndim == 3 and isinstance(shape, list):
        array, size = structure.places_of(places), tuple(values.shape[1:])
        tiles = _of_places("load", form, array, values, tuple(shape), size)
        made = make(tiles.places, tiles.entries, shape, True, getattr(weft, str(layout)))
        made = compress(by_elements(made), str(layout), size)
    else:
        made = sparse_coo_tensor(places, values, shape)
        sizes = tuple(made.shape[: made.sparse_dim()])
        positions_in_order = structure.flat(structure.places_of(made.places), sizes)
        made.coalesced = bool(coalesced) and structure.is_ascending(positions_in_order)
        if form is not None:
            made = compress(made, str(layout))
    return made.requires_grad_() if wanted else made


# -- functions -----------------------------------------------------------------------------------------------------


def transposed(tensor: SparseTensor) -> SparseTensor:
    """A compressed matrix with rows and columns exchanged: its lines lie as they did, in the other direction."""
    entries = tensor.entries.transpose(1, 2) if blocks.block_size(tensor) else tensor.entries
    shape = (tensor.shape[1], tensor.shape[0], *tensor.shape[2:])
    layout = getattr(weft, _TRANSPOSED[tensor.layout.name])
    return make(tensor.places.flip(0), entries, shape, tensor.coalesced, layout)


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
