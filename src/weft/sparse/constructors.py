"""Compressed sparse tensors of their parts: `sparse_csr_tensor` and its like, and those that files hold.

They take starts of lines, positions and values (of each batch), look at whether these fit each other, and give a tensor
whose entries are in the order of its layout.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ShapeError
from weft.sparse import blocks, structure
from weft.sparse.compressed import FORMS, Form, even, name_of, ordered
from weft.sparse.making import as_places, as_values, coalesced, positions_of, sparse_coo_tensor
from weft.sparse.tensor import SparseTensor, layout_text, make
from weft.tensor.arguments import sizes

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


Indices = Tensor | list[int]
Values = Tensor | list[float] | list[list[list[float]]]


class _Parts(NamedTuple):
    """The parts of a compressed tensor, as arrays, and the sizes of a block."""

    begins: np.ndarray
    within: np.ndarray
    entries: Tensor
    block: tuple[int, ...]


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
    form, kind = FORMS[name], _index_dtype(starts, positions)
    begins = structure.places_of(as_places(starts, form.starts))
    within = structure.places_of(as_places(positions, form.positions))
    entries = as_values(values, dtype)
    _need_ranks(function, form, begins, within, entries)
    batch, count = begins.shape[:-1], begins.shape[-1] - 1
    block = tuple(entries.shape[len(batch) + 1 : len(batch) + 3]) if form.is_blocked else (1, 1)
    parts = _Parts(begins, within, entries.flatten(0, len(batch)) if batch else entries, block)
    _need_starts(form, begins, within)
    shape = _least_shape(form, parts) if size is None else sizes((size,), function)
    _need_count(function, form, count, shape[len(batch) :], block)
    places = _places(form, parts)
    made = _of_places(function, form, places, parts.entries, shape, block)
    order = [*range(len(batch)), -2, -1] if form.axis == 0 else [*range(len(batch)), -1, -2]
    lines = tuple(made.shape[: len(places)][axis] for axis in order)
    layout = getattr(weft, name)
    if structure.is_ascending(structure.flat(places[order], lines)):
        made = make(made.places, made.entries, shape, True, layout, kind)
    elif name == "sparse_csr":  # kept as it is, as PyTorch does
        made = make(made.places, made.entries, shape, False, layout, kind)
    else:
        made = ordered(coalesced(made), name, shape)
        made.index_dtype = kind
    return made.detach().requires_grad_() if requires_grad else made


def _index_dtype(starts: Indices, positions: Indices) -> DType:
    """The type of the indices of a compressed tensor: int32 if both were given so, else int64."""
    given = {part.dtype for part in (starts, positions) if isinstance(part, (Tensor, np.ndarray))}
    return weft.int32 if given in ({weft.int32}, {np.dtype(np.int32)}) else weft.int64


def _need_ranks(
    function: str, form: Form, begins: np.ndarray, within: np.ndarray, entries: Tensor
) -> None:
    """Errors: RuntimeError where the ranks and batches of the parts do not fit each other."""
    batch = begins.shape[:-1]
    if (
        begins.ndim < 1
        or within.ndim != begins.ndim
        or within.shape[:-1] != batch
        or not begins.shape[-1]
        or entries.ndim < within.ndim + 2 * form.is_blocked
        or tuple(entries.shape[: within.ndim]) != within.shape
    ):
        raise ShapeError(
            f"{function}: {form.starts}, {form.positions} and values do not fit each other",
            expected="(*batch, lines + 1), (*batch, entries) and (*batch, entries, "
            + ("rows, columns, *dense)" if form.is_blocked else "*dense)"),
            got=f"shapes {list(begins.shape)}, {list(within.shape)} and {list(entries.shape)}",
            fix="give as many values as positions, in batches of one shape",
        )


def _need_starts(form: Form, begins: np.ndarray, within: np.ndarray) -> None:
    """Errors: RuntimeError for starts of lines that are none."""
    count = within.shape[-1]
    if (
        (begins[..., 0] != 0).any()
        or (np.diff(begins) < 0).any()
        or (begins[..., -1] != count).any()
    ):
        raise ArgumentError(
            f"`{form.starts}` must begin with 0, not fall, and end with the number of {form.positions} given",
            expected=f"0, ..., {count}",
            got=str(begins.tolist())[:60],
            fix="check how they were counted",
        )


def _least_shape(form: Form, parts: _Parts) -> tuple[int, ...]:
    """The least shape that holds all positions."""
    least = [int(parts.within.max(initial=-1)) + 1] * 2
    least[form.axis] = parts.begins.shape[-1] - 1
    matrix = (n * b for n, b in zip(least, parts.block, strict=True))
    return *parts.begins.shape[:-1], *matrix, *parts.entries.shape[1 + 2 * form.is_blocked :]


def _need_count(
    function: str, form: Form, count: int, matrix: tuple[int, ...], block: tuple[int, ...]
) -> None:
    """Errors: RuntimeError for another number of lines than a size has."""
    lines = matrix[form.axis] // max(block[form.axis], 1) if len(matrix) > 1 else count
    if lines != count:
        raise ShapeError(
            f"{function}: {form.starts}.shape[-1] must be equal to the number of lines plus one: {lines + 1}, but got "
            f"{count + 1}",
            expected=f"{lines + 1} starts",
            got=str(count + 1),
            fix="give a start for each line, and the end of the last",
        )


def _places(form: Form, parts: _Parts) -> np.ndarray:
    """The indices of all entries, batch after batch. Shapes: (batch dimensions + 2, entries)."""
    batch, per_batch = parts.begins.shape[:-1], parts.within.shape[-1]
    counts = np.diff(parts.begins).reshape(math.prod(batch), parts.begins.shape[-1] - 1)
    lines = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), counts.reshape(-1))
    numbers = np.repeat(np.arange(len(counts)), per_batch)
    pair = [lines, parts.within.reshape(-1)]
    return np.stack([*structure.unflat(numbers, batch), *(pair if form.axis == 0 else pair[::-1])])


def _of_places(
    function: str,
    form: Form,
    places: np.ndarray,
    entries: Tensor,
    shape: tuple[int, ...],
    block: tuple[int, ...],
) -> SparseTensor:
    """The tensor by coordinates, of elements or of whole blocks."""
    indices = structure.as_indices(places, places.shape[1])
    if not form.is_blocked:
        return sparse_coo_tensor(indices, entries, shape)
    batches = len(places) - 2
    matrix = shape[batches : batches + 2]
    if len(matrix) != 2 or 0 in block or matrix[0] % block[0] or matrix[1] % block[1]:
        raise ShapeError(
            f"{function}: tensor sparse size {matrix} must be divisible by given blocksize {block}",
            expected="blocks that fill the matrix",
            got=f"blocks of {list(block)} for {list(shape)}",
            fix="give a size of which each is a multiple of the block's",
        )
    return sparse_coo_tensor(indices, entries, blocks.tiled(shape, (block[0], block[1]), batches))


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
    """A matrix by compressed rows: where each row begins, columns, values; gradients flow to `values`. Matrices come
    in batches, each with as many entries, and elements have dense dimensions, where the parts have these.

    Shapes: (*batch, m + 1), (*batch, n), (*batch, n, *dense) -> size, by default as large as the columns need.
    Errors: RuntimeError on what does not fit.
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

    Shapes: (*batch, n + 1), (*batch, k), (*batch, k, *dense) -> size, by default as large as the rows need.
    Errors: RuntimeError on what does not fit.
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

    Shapes: (*batch, m / b + 1), (*batch, k), (*batch, k, b, c, *dense) -> size.
    Errors: RuntimeError on what does not fit.
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

    Shapes: (*batch, n / c + 1), (*batch, k), (*batch, k, b, c, *dense) -> size.
    Errors: RuntimeError on what does not fit.
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
    if layout is None or name_of(layout) not in FORMS:
        raise ArgumentError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            + ("none" if layout is None else layout_text(name_of(layout) or str(layout))),
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
    index_dtype: object = "int64",
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
    if form is None:
        made = sparse_coo_tensor(places, values, shape)
        made.coalesced = bool(coalesced) and structure.is_ascending(positions_of(made))
    else:
        made = _checked_compressed(str(layout), form, places, values, shape, bool(coalesced))
        made.index_dtype = weft.int32 if index_dtype == "int32" else weft.int64
    return made.requires_grad_() if wanted else made


def _checked_compressed(
    name: str, form: Form, places: Tensor, values: Tensor, shape: object, is_coalesced: bool
) -> SparseTensor:
    """A compressed tensor of parts from a file, its entries put in order."""
    block = tuple(values.shape[1:3]) if form.is_blocked else (1, 1)
    size = sizes((shape,), "load")
    made = _of_places("load", form, structure.places_of(places), values, size, block)
    in_order = is_coalesced and structure.is_ascending(positions_of(made))
    if name == "sparse_csr" and not in_order:
        return even(make(made.places, made.entries, size, False, weft.sparse_csr))
    return even(ordered(coalesced(made), name, size))
