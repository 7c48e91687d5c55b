"""Attention over sequences of different lengths: items of like lengths run together, padded and masked.

It takes ragged query, key and value (items, heads, length, size), whose lengths may differ from one another, and
returns a ragged tensor with the lengths of the query. No item sees the padding of another, in value or gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.engine.frontend.tensor import Tensor
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
    function: object,
    query: NestedTensor,
    key: Any,
    value: NestedTensor,
    attn_mask: NestedTensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
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
    of_query: Padded, of_key: Padded, attn_mask: Any, edge: object, is_causal: bool, rank: int
) -> Any:
    """The mask of a bucket: padded keys, later keys, and the ragged mask; None if it is later keys alone."""
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


def multi_head_attention_forward(
    function: Callable[..., object] | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """Projections, attention of several heads, projection. Shapes: (B, j, E), (B, k, E), (B, k, E) -> (B, j, E) and the
    weights (B, j, k), or (B, heads, j, k); None where they are not needed."""
    given = (bias_k, bias_v, key_padding_mask, static_k, static_v)
    if add_zero_attn or any(one is not None for one in given):
        raise NotDefinedError(
            "multi-head attention of ragged sequences with padding masks or added keys",
            expected="no key_padding_mask (there is no padding), bias_k, bias_v, add_zero_attn, static_k or static_v",
            got=", ".join(str(one is not None) for one in (*given, add_zero_attn)),
            fix="leave them out",
        )
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    weights = separate if use_separate_proj_weight else in_proj_weight.chunk(3)
    biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    heads = [
        F.linear(one, weight, bias).unflatten(-1, (num_heads, -1)).transpose(1, 2)
        for one, weight, bias in zip((query, key, value), weights, biases, strict=True)
    ]
    rate = dropout_p if training else 0.0
    q, k, v = heads
    found = F.scaled_dot_product_attention(
        q, k, v, attn_mask, rate, is_causal and attn_mask is None
    )
    shown = _weights(heads, attn_mask, is_causal, average_attn_weights) if need_weights else None
    joined = found.transpose(1, 2).flatten(-2)
    return F.linear(joined, out_proj_weight, out_proj_bias), shown


def _weights(heads: list[NestedTensor], mask: Tensor | None, is_causal: bool, average: bool) -> Any:
    """softmax of the scores, as ragged matrices."""
    query, key, _ = heads
    scores = query @ key.transpose(2, 3) * query.size(-1) ** -0.5  # (B, heads, j, k)
    if mask is None and is_causal:
        mask = weft.ones_like(scores[:, :1]).cumsum(2) >= weft.ones_like(scores[:, :1]).cumsum(3)
    elif mask is not None and mask.ndim == 3:
        mask = mask.unsqueeze(1)
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -float("inf")) if mask.dtype is weft.bool else scores + mask
        )
    found = weft.softmax(scores, -1)
    return weft.mean(found, 1) if average else found


RULES = {
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "multi_head_attention_forward": multi_head_attention_forward,
}
