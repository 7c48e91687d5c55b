"""Attention over sequences of different lengths: items of like lengths run together, padded and masked.

In come ragged query, key and value (items, heads, length, size), whose lengths may differ from one another; out goes a
ragged tensor with the lengths of the query. No item sees the padding of another, in value or gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.errors import NotDefinedError, ShapeError
from weft.nested.padding import Buckets, Padded, anchored, pad, with_edge
from weft.nested.tensor import NestedTensor, shape_text
from weft.nn import functional as F
from weft.ops.primitives import take


def _refuse(what: str, expected: str, tensors: list[Any], fix: str) -> ShapeError:
    return ShapeError(
        f"scaled_dot_product_attention: {what}",
        expected=expected,
        got=", ".join(
            shape_text(one) if isinstance(one, NestedTensor) else str(list(one.shape))
            for one in tensors
        ),
        fix=fix,
    )


def _check(tensors: list[Any]) -> None:
    if not all(isinstance(one, NestedTensor) for one in tensors):
        raise _refuse(
            "some of query, key and value are ragged and some dense",
            "all three ragged",
            tensors,
            "make ragged ones with weft.nested.as_nested_tensor(list(dense.unbind()), layout=weft.jagged)",
        )
    query, key, value = tensors
    rank = query.ndim
    if any(one.dims != (rank - 2,) or one.ndim != rank for one in tensors) or rank not in (3, 4):
        raise _refuse(
            "the length is not the only ragged dimension, next to last",
            "(items, heads, length, size), or (items, length, size)",
            tensors,
            "split heads with unflatten(-1, [heads, size]).transpose(1, 2)",
        )
    if key.rows is not value.rows or len(query) != len(key):
        raise _refuse(
            "lengths differ", "equal lengths of key and value", tensors, "check the lengths"
        )


def scaled_dot_product_attention(
    function: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(query key^T scale + mask) value in each item. Masks are ragged too: (items, [heads,] length, length)."""
    _check([query, key, value])
    if attn_mask is not None and not isinstance(attn_mask, NestedTensor):
        raise NotDefinedError(
            "scaled_dot_product_attention: a dense mask for ragged sequences",
            expected="a ragged mask, bool or added to the scores, or is_causal=True",
            got=f"a mask of shape {list(attn_mask.shape)}",
            fix="make one with weft.nested.as_nested_tensor([mask of each item], layout=weft.jagged)",
        )
    buckets = query.rows.kept(
        ("buckets", None if key.rows is query.rows else key.rows),
        lambda: Buckets(query.rows, key.rows),
    )
    edges = [with_edge(one, 0) for one in (query, key, value)]
    mask_edge = None if attn_mask is None else with_edge(attn_mask, 0)
    parts = []
    for of_query, of_key in buckets.parts:
        mask = _mask(of_query, of_key, attn_mask, mask_edge, is_causal, query.ndim)
        found = F.scaled_dot_product_attention(
            pad(query, edges[0], of_query),
            pad(key, edges[1], of_key),
            pad(value, edges[2], of_key),
            attn_mask=mask,
            dropout_p=dropout_p,
            is_causal=is_causal and mask is None,
            scale=scale,
            enable_gqa=enable_gqa,
        )
        parts.append(found.movedim(-2, 1).flatten(0, 1))  # (items, *, L, E) -> (items * L, *, E)
    index, _ = buckets.back(query.rows, [part[0].sizes for part in buckets.parts])
    inner = parts[0].shape[1:] if parts else query.packed.shape[1:-1] + value.packed.shape[-1:]
    nothing = weft.zeros((1, *inner), dtype=query.dtype)  # of queries without keys
    parts.append(nothing if parts else anchored(nothing, query, key, value))
    return NestedTensor(take(weft.cat(parts), 0, index), query.rows, query.dims)


def _mask(
    of_query: Padded, of_key: Padded, attn_mask: Any, edge: Any, is_causal: bool, rank: int
) -> Any:
    """What a bucket masks: padded keys, later keys, and what the ragged mask says; None for nothing but later keys."""
    if attn_mask is not None:
        if is_causal:
            raise _refuse(
                "both a mask and is_causal", "one of the two", [attn_mask], "leave one out"
            )
        return _given_mask(of_query, of_key, attn_mask, edge, rank)
    if of_key.full:
        return None
    length, keys = of_query.sizes[0], of_key.sizes[0]
    seen = of_key.real[:, None, :]
    if is_causal:
        seen = seen & np.tri(length, keys, dtype=bool)
    mask = weft.from_numpy(np.ascontiguousarray(seen))
    return mask if rank == 3 else mask.unsqueeze(1)


def _given_mask(of_query: Padded, of_key: Padded, mask: NestedTensor, edge: Any, rank: int) -> Any:
    """A ragged mask, padded; padded keys are masked too."""
    bucket = Padded(mask.rows, of_query.items)
    if bucket.sizes != [of_query.sizes[0], of_key.sizes[0]] or mask.ndim > rank:
        raise _refuse(
            "the mask has other lengths",
            "(items, [heads,] queries, keys)",
            [mask],
            "check the mask",
        )
    found = pad(mask, edge, bucket)
    if mask.ndim < rank:
        found = found.unsqueeze(1)
    seen = of_key.mask[:, None, :] if rank == 3 else of_key.mask[:, None, None, :]
    if mask.dtype is weft.bool:
        return found & seen
    return weft.where(seen, found, -float("inf"))


RULES = {"scaled_dot_product_attention": scaled_dot_product_attention}
