# ruff: noqa: A002 - PyTorch's names
"""Searches in an order: searchsorted and bucketize, composed of primitives, so that nothing is read.

Few boundaries are all compared with each value, and those before it counted. Among many, a place is found bit by bit,
the highest first: a binary search without branches, of all values at once in one kernel.
"""

from __future__ import annotations

from typing import Any

from weft.engine.api.call_cache import Part
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ShapeError
from weft.functional.support import host
from weft.functional.support.index_bounds import trusted
from weft.functional.support.variants import by_name
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, gather, reduce, reshape, where
from weft.tensor.arguments import describe, need_tensor

MOST_COMPARED = 128  # boundaries with which each value is compared


def _is_right(side: str | None, right: bool) -> bool:
    """True if a value is inserted behind the boundaries that equal it. Errors: ArgumentError."""
    if side not in (None, "left", "right"):
        raise ArgumentError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}",
            expected="'left' or 'right'",
            got=repr(side),
            fix="leave side out, or pass right=True",
        )
    if right and side == "left":
        raise ArgumentError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
            expected="one of them",
            got="side='left', right=True",
            fix="leave right out",
        )
    return right or side == "right"


def _sorted_by(edges: Tensor, sorter: Tensor) -> Any:
    """Boundaries in the order that places name, which are read. Errors: ArgumentError."""
    need_tensor("searchsorted", sorter, "sorter")
    if sorter._shape != edges._shape or sorter._dtype is not dtypes.int64:
        raise ArgumentError(
            "torch.searchsorted(): boundary and sorter must have the same size, and sorter be of int64",
            expected=f"int64{list(edges._shape)}",
            got=f"{sorter._dtype.name}{list(sorter._shape)}",
            fix="pass sorted_sequence.argsort()",
        )
    places = host.to_numpy(sorter)
    if places.size and not 0 <= places.min() <= places.max() < edges._shape[-1]:
        raise ArgumentError(
            "torch.searchsorted(): sorter index out of range",
            expected=f"0 <= index < {edges._shape[-1]}",
            got=f"{places.min()} to {places.max()}",
            fix="pass sorted_sequence.argsort()",
        )
    return gather(edges, len(edges._shape) - 1, sorter)


def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | float,
    *,
    right: bool = False,
    side: str | None = None,
    out_int32: bool = False,
    sorter: Tensor | None = None,
) -> Any:
    """The positions at which to insert values into ascending sequences (the last dimension)."""
    behind = _is_right(side, right)
    edges = need_tensor("searchsorted", sorted_sequence, "sorted_sequence").detach()
    if sorter is not None and edges.numel():
        edges = _sorted_by(edges, sorter)
    values = input.detach() if isinstance(input, Tensor) else _beside(edges, input)
    number, shape = not isinstance(input, Tensor), values._shape
    rank = len(edges._shape)
    if rank != 1 and (number or rank == 0 or edges._shape[:-1] != shape[:-1]):
        raise ShapeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(edges._shape)} and input "
            f"value tensor {list(shape)}",
            expected=f"values of shape {[*edges._shape[:-1], '*']}" if rank else "boundaries",
            got=f"boundaries {list(edges._shape)}, values {list(shape)}",
            fix="use one vector of boundaries",
        )
    return places(edges, values, behind, dtypes.int32 if out_int32 else dtypes.int64)


def _beside(edges: Tensor, number: float) -> Any:
    """A number in the type in which it is compared with boundaries."""
    if edges._dtype.is_floating_point:
        return full((), number, edges._dtype)
    return full((), number, dtypes.get_default() if isinstance(number, float) else dtypes.int64)


@Part
def places(edges: Tensor, values: Tensor, behind: bool, wanted: DType) -> Any:
    """The places of values before or behind ascending boundaries. Shapes: (*, n), (*, m) -> (*, m)."""
    shape, count = values._shape, edges._shape[-1]
    if not count or not values.numel():
        return full(shape, 0, wanted)
    if len(edges._shape) == 1:
        values = reshape(values, (values.numel(),))
    find = _counted if count <= MOST_COMPARED else _bit_by_bit
    return reshape(find(edges, values, "le" if behind else "lt", wanted), shape)


def _counted(edges: Tensor, values: Tensor, before: str, wanted: DType) -> Any:
    """The number of boundaries before each value. Shapes: (*, n), (*, m) -> (*, m)."""
    *rows, count = edges._shape
    lines = reshape(values, (*rows, 1, values._shape[-1]))
    passed = _passed(reshape(edges, (*rows, count, 1)), lines, before)
    found = reduce("sum", cast(passed, dtypes.int32), (len(rows),))
    return trusted(cast(found, wanted), count + 1)


def _bit_by_bit(edges: Tensor, values: Tensor, before: str, wanted: DType) -> Any:
    """The same, of boundaries in order: as many as can be passed, the largest power of two first."""
    axis, count = len(edges._shape) - 1, edges._shape[-1]
    place = full(values._shape, 0, dtypes.int64)
    for bit in reversed(range(count.bit_length())):
        further = place + (1 << bit)
        last = trusted(call("minimum", further, count) - 1, count)
        passed = _passed(gather(edges, axis, last), values, before)
        place = where(call("logical_and", further <= count, passed), further, place)
    return trusted(cast(place, wanted), count + 1)


def _passed(edges: Tensor, values: Tensor, before: str) -> Any:
    """True where boundaries stand before values; nan stands behind all."""
    passed = call(before, edges, values)
    if values._dtype.is_floating_point:
        passed = call("logical_or", passed, call("isnan", values))
    return passed


def bucketize(
    input: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Any:
    """The bucket of each value between ascending boundaries."""
    if isinstance(boundaries, Tensor) and len(boundaries._shape) != 1:
        raise ShapeError(
            f"boundaries tensor must be 1 dimension, but got dim({len(boundaries._shape)})",
            expected="one vector of boundaries",
            got=describe("boundaries", boundaries),
            fix="use searchsorted for boundaries by row",
        )
    return searchsorted(boundaries, input, right=right, out_int32=out_int32)


FUNCTIONS: dict[str, Any] = by_name(searchsorted, bucketize)
METHODS: dict[str, Any] = {}
