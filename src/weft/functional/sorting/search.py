# ruff: noqa: A002 - PyTorch's names
"""Searches in an order: searchsorted and bucketize. Nothing is read but a sorter."""

from __future__ import annotations

from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ShapeError
from weft.functional.support import host
from weft.functional.support.sorted_search import places
from weft.functional.support.variants import by_name
from weft.ops.primitives import full, gather
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor


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
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{TYPE_NAMES[sorter._dtype.name]}"
            if sorter._dtype is not dtypes.int64
            else "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{list(edges._shape)} and got sorter tensor {list(sorter._shape)}",
            expected=f"int64{list(edges._shape)}",
            got=f"{sorter._dtype.name}{list(sorter._shape)}",
            fix="pass sorted_sequence.argsort()",
        )
    order = host.to_numpy(sorter)
    if order.size and not 0 <= order.min() <= order.max() < edges._shape[-1]:
        raise ArgumentError(
            "torch.searchsorted(): sorter index out of range",
            expected=f"0 <= index < {edges._shape[-1]}",
            got=f"{order.min()} to {order.max()}",
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
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({rank}) and input value's dim(0) numel(1)"
            if number
            else "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, but we got boundaries tensor {list(edges._shape)} "
            f"and input value tensor {list(shape)}",
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
