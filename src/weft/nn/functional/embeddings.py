# ruff: noqa: A001, A002 - PyTorch's names
"""Bags of embeddings: sums, means and maxima of rows of a table.

Indices and a table come in; sums, means or maxima of the rows of each bag go out. Offsets are read at the call, since
they say which rows form a bag.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, IndexRangeError, NotDefinedError, ShapeError
from weft.functional.indexing import bag_products
from weft.functional.support import host
from weft.functional.support.index_bounds import COUNTED, check_index
from weft.nn.functional import embedding_tables as tables
from weft.nn.functional.activation import embedding
from weft.ops.primitives import full, iota, reduce, reshape, take, take_add, where
from weft.tensor.arguments import describe, need_tensor, widen

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType

MODES = ("sum", "mean", "max")


def _refuse(text: str, expected: str, got: str, fix: str) -> ArgumentError:
    return ArgumentError(text, expected=expected, got=got, fix=fix)


def _left_out(padding_idx: int, count: int) -> int:
    """The row that bags leave out. Errors: RuntimeError for one that the table does not have."""
    if not -count <= padding_idx < count:
        raise _refuse(
            f"padding_idx must be within the number of embeddings, -{count} through {count - 1}, but got {padding_idx}",
            f"-{count} <= padding_idx < {count}",
            str(padding_idx),
            "choose a row of the table",
        )
    return padding_idx % count


def _starts(input: Tensor, offsets: Tensor | None, include_last: bool) -> Any:
    """The start of each bag and the end of the last one, as an array. Errors: ArgumentError, ShapeError."""
    if len(input._shape) == 2:
        if offsets is not None:
            raise _refuse(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
                f"fixed length sequences. However, found offsets of type {type(offsets)}",
                "no offsets with indices (B, N)",
                describe("offsets", offsets),
                "flatten the indices, or leave offsets out",
            )
        rows, length = input._shape
        return np.arange(rows + 1) * length
    if len(input._shape) != 1:
        raise ShapeError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {len(input._shape)}",
            expected="indices (N) with offsets, or (B, N)",
            got=describe("input", input),
            fix="reshape the indices",
        )
    if offsets is None or len(offsets._shape) != 1:
        raise _refuse(
            "offsets has to be a 1D Tensor but got None"
            if offsets is None
            else "offsets has to be a 1D Tensor",
            "one offset per bag",
            repr(offsets),
            "pass where each bag begins in the indices",
        )
    if offsets._dtype.category > 1:
        raise _refuse(
            f"expected offsets of type int64 or int32, but got {offsets._dtype.name}",
            "integer offsets",
            describe("offsets", offsets),
            "convert with .long()",
        )
    found = host.to_numpy(offsets).astype(np.int64)
    _check_offsets(found, input._shape[0], include_last)
    return found if include_last else np.append(found, input._shape[0])


def _check_offsets(offsets: np.ndarray, count: int, include_last: bool) -> None:
    if include_last and not offsets.size:
        raise _refuse(
            "include_last_offset: numBags should be at least 1",
            "at least the end of the last bag",
            "no offsets",
            "append the number of indices",
        )
    if offsets.size and offsets[0] != 0:
        raise _refuse(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {offsets[0]}",
            "0 first",
            str(offsets[0]),
            "drop the indices before the first bag",
        )
    if offsets.size and offsets[-1] > count:
        raise _refuse(
            f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {offsets[-1]}",
            f"offsets up to {count}",
            str(offsets[-1]),
            "check how the offsets were computed",
        )


def _layout(starts: np.ndarray) -> tuple[Any, Any]:
    """(bags, longest) positions of each bag's members, padded with 0, and the mask of the members."""
    lengths = np.diff(starts)
    steps = np.arange(max(int(lengths.max(initial=0)), 1))
    valid = steps < lengths[:, None]
    return np.where(valid, starts[:-1, None] + steps, 0), valid


def _check_bags(
    input: Tensor, weight: Tensor, mode: str, weights: Tensor | None, sparse: bool
) -> None:
    need_tensor("embedding_bag", input)
    need_tensor("embedding_bag", weight, "weight", 2)
    if input._dtype.name not in ("int64", "int32"):
        raise DTypeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.type()} instead (while checking arguments for embedding_bag)",
            expected="integer indices",
            got=describe("input", input),
            fix="convert with .long()",
        )
    if mode not in MODES:
        raise _refuse(
            "mode has to be one of sum, mean or max", "sum, mean or max", repr(mode), "choose one"
        )
    if sparse and mode == "max":
        raise _refuse(
            "max mode does not support sparse weights",
            "mode='sum' or 'mean' with sparse=True",
            "mode='max'",
            "leave sparse out",
        )
    if weights is None:
        return
    if mode != "sum":
        raise NotDefinedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub.",
            expected="mode='sum' with per_sample_weights",
            got=f"mode={mode!r}",
            fix="divide the sum yourself",
        )
    if tuple(weights._shape) != tuple(input._shape):
        raise _refuse(
            f"embedding_bag: If per_sample_weights ({weights.shape}) is not None, then it must have the same shape as "
            f"the input ({input.shape})",
            f"weights {list(input._shape)}",
            describe("per_sample_weights", weights),
            "give one weight per index",
        )


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum of the table's rows in each bag; empty bags give zeros, `padding_idx` is left out.

    Shapes: indices (B, N), or (M) with offsets (B); table (n, d) -> (B, d). Errors: ArgumentError, ShapeError.
    """
    input, weight = _in_today_order(input, weight)
    _check_bags(input, weight, mode, per_sample_weights, sparse)
    starts = _starts(input, offsets, include_last_offset)
    if include_last_offset and (mode == "max" or padding_idx is not None):
        starts[-1] = input.numel()  # as in PyTorch, which takes the last bag to the end here
    _check_rows(input, weight._shape[0])
    place = None if padding_idx is None else _left_out(padding_idx, weight._shape[0])
    flat = reshape(input, (input.numel(),))
    options = (max_norm, norm_type, scale_grad_by_freq, sparse)
    if not flat._shape[0]:
        nothing = full((len(starts) - 1, weight._shape[1]), 0, weight._dtype)
        rows = embedding(flat, weight, None, *options)
        if per_sample_weights is not None:
            rows = rows * reshape(per_sample_weights, (0, 1))
        return nothing + cast(rows, weight._dtype).sum(0)
    kept = None
    if padding_idx is not None:
        kept = cast(flat, dtypes.int64) != place
    found: Any
    if not sparse and _is_large(flat._shape[0], weight):
        table = tables.prepared(flat, weight, *options[:3])
        found = _multiplied(flat, widen(table), kept, per_sample_weights, starts, mode)
    else:
        rows = widen(
            embedding(flat, weight, place if sparse else None, *options)
        )  # (M), (n, d) -> (M, d)
        found = _gathered(rows, kept, per_sample_weights, starts, mode)
    if mode == "mean":
        found = found / _counts(kept, starts, found._dtype)
    return cast(found, weight._dtype)


def _check_rows(index: Tensor, size: int) -> None:
    """Errors: IndexRangeError for a row that the table does not have, where the indices are known."""
    try:
        check_index("embedding_bag", index, size, 0, False)
    except IndexRangeError as error:
        values = host.to_numpy(index)
        worst = values[(values < 0) | (values >= size)][0]
        raise IndexRangeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {worst}",
            expected=error.expected,
            got=error.got,
            fix=error.fix,
        ) from None


def _in_today_order(input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and table, which very old programs give the other way round."""
    given = isinstance(input, Tensor) and isinstance(weight, Tensor)
    if given and input._dtype.category == 2 and weight._dtype.name == "int64":
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=3,
        )
        return weight, input
    return input, weight


def _is_large(count: int, weight: Tensor) -> bool:
    """True if the rows of `count` positions are not to be gathered; where that would need a wider table, only if they
    outnumber its rows."""
    size, width = weight._shape
    wide = weight._dtype.name in ("float32", "float64")
    return count * width > bag_products.GATHERED_ELEMENTS and (wide or count >= size)


def _multiplied(
    flat: Tensor,
    table: Tensor,
    kept: Tensor | None,
    weights: Tensor | None,
    starts: np.ndarray,
    mode: str,
) -> Any:
    """Sums or maxima of bags, without their rows in memory. Shapes: (M), (n, d) -> (B, d)."""
    index = cast(flat, dtypes.int64)
    if check_index("embedding_bag", flat, table._shape[0], 0, False) is not COUNTED:
        index = take(iota((table._shape[0],)), 0, index)  # which checks it
    if kept is not None:
        index = where(kept, index, -1)
    if weights is not None:
        weights = cast(reshape(weights, flat._shape), table._dtype)
    bags = len(starts) - 1
    length = int(starts[-1]) // max(bags, 1)
    largest = mode == "max"
    if length * bags != flat._shape[0] or (np.diff(starts) != length).any():
        return bag_products.of_any_length(table, index, weights, starts, largest)
    shares = None if weights is None else reshape(weights, (bags, length))
    return bag_products.of_one_length(table, reshape(index, (bags, length)), shares, largest)


def _gathered(
    rows: Tensor, kept: Tensor | None, weights: Tensor | None, starts: np.ndarray, mode: str
) -> Any:
    """Sums or maxima of bags of gathered rows. Shapes: (M, d) -> (B, d)."""
    if mode == "max":
        return _largest(rows, kept, starts)
    column = (rows._shape[0], 1)
    if weights is not None:
        rows = rows * reshape(weights, column)
    if kept is not None:
        rows = where(reshape(kept, column), rows, 0)
    return _added(rows, starts)


def _added(values: Tensor, starts: np.ndarray) -> Any:
    """The sums of values by bag. Shapes: (M, *) -> (B, *)."""
    bags, ends = len(starts) - 1, int(starts[-1])
    rest = values._shape[1:]
    length = ends // max(bags, 1)
    if ends == values._shape[0] and (np.diff(starts) == length).all():
        return reduce("sum", reshape(values, (bags, length, *rest)), (1,))
    bag = host.from_numpy(np.repeat(np.arange(bags), np.diff(starts)))
    values = values[:ends] if ends != values._shape[0] else values
    return take_add(full((bags, *rest), 0, values._dtype), 0, bag, values)


def _counts(kept: Tensor | None, starts: np.ndarray, dtype: DType) -> Any:
    """The divisors of sums for means, at least 1. Shapes: (M) or None -> (B, 1), or a number for all."""
    if kept is not None:
        return reshape(_added(cast(kept, dtype), starts).clamp(min=1), (len(starts) - 1, 1))
    lengths = np.maximum(np.diff(starts), 1)
    if (lengths == lengths[:1]).all():
        return int(lengths[0]) if lengths.size else 1
    return reshape(host.from_numpy(lengths, dtype), (len(lengths), 1))


def _largest(rows: Tensor, kept: Tensor | None, starts: np.ndarray) -> Any:
    """The maxima of bags, 0 of empty ones. Shapes: (M, d) -> (B, d)."""
    bags = len(starts) - 1
    length = rows._shape[0] // max(bags, 1)
    if kept is None and length * bags == rows._shape[0] > 0 and (np.diff(starts) == length).all():
        return weft.max(reshape(rows, (bags, length, *rows._shape[1:])), 1).values
    places, valid = _layout(starts)
    index = host.from_numpy(places)
    member = host.from_numpy(valid)
    if kept is not None:
        member = member & take(kept, 0, index)
    table = take(rows, 0, index)  # (M, d) -> (B, longest, d)
    lowest = where(reshape(member, (*member._shape, 1)), table, -float("inf"))
    values = weft.max(lowest, 1).values
    some = reshape(reduce("any", member, (1,)), (member._shape[0], 1))
    return where(some, values, 0)


__all__ = ["embedding_bag"]
