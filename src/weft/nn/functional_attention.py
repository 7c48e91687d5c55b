# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Scaled dot product attention, composed of two products and a softmax."""

from __future__ import annotations

import math
from typing import Any

import cython

from weft._compiled import require
from weft.errors import DTypeError, ShapeError
from weft.functional.arguments import describe, need_tensor, widen
from weft.functional.linalg import product
from weft.functional.softmax import masked_softmax, softmax
from weft.graph import dtype as dtypes
from weft.graph.recording import cast
from weft.nn.functional_activation import dropout
from weft.ops.primitives import expand, iota, reshape, transpose, where

require(__name__, cython.compiled)


def _shared_heads(x: Any, heads: int) -> Any:
    """Each key or value head serves heads / its own number of query heads."""
    have = x._shape[-3]
    if have == heads:
        return x
    if heads % have:
        raise ShapeError(
            "Number of heads in key and value must divide the number of heads in query",
            expected=f"a divisor of {heads}",
            got=describe("key", x),
            fix="choose another head number",
        )
    lead = x._shape[:-3]
    wide = reshape(x, (*lead, have, 1, *x._shape[-2:]))
    wide = expand(wide, (*lead, have, heads // have, *x._shape[-2:]))
    return reshape(wide, (*lead, heads, *x._shape[-2:]))


def _check(query: Any, key: Any, value: Any) -> None:
    named = (("query", query), ("key", key), ("value", value))
    for place, (name, tensor) in enumerate(named):
        need_tensor("scaled_dot_product_attention", tensor, name, place + 1)
    for name, tensor in named:
        if len(tensor._shape) < 2:
            raise ShapeError(
                "scaled_dot_product_attention: Expected query, key, and value to all be  at least 2 "
                f"dimensional, but got {name}.dim: {len(tensor._shape)} instead.",
                expected="(..., length, size)",
                got=describe(name, tensor),
                fix="unsqueeze it",
            )
        if tensor._dtype is not query._dtype:
            raise DTypeError(
                "Expected query, key, and value to have the same dtype, but got query.dtype: "
                f"{query._dtype.name} key.dtype: {key._dtype.name} and value.dtype: {value._dtype.name} "
                "instead.",
                expected="one dtype",
                got=describe(name, tensor),
                fix="convert it",
            )


def _masked(scores: Any, attn_mask: Any, is_causal: bool) -> Any:
    if is_causal:
        if attn_mask is not None:
            raise ShapeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
                expected="one of the two",
                got="both",
                fix="leave one out",
            )
        rows, columns = scores._shape[-2:]
        future = iota((columns,)) > reshape(iota((rows,)), (rows, 1))
        return where(future, -math.inf, scores)
    if attn_mask._dtype is dtypes.bool_:
        return where(attn_mask, scores, -math.inf)
    return scores + cast(attn_mask, scores._dtype)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query key^T scale + mask) value; a row whose keys are all masked gives zeros.

    Shapes: (..., L, E), (..., S, E), (..., S, V) -> (..., L, V). Cost: the L x S scores are held in memory.
    """
    _check(query, key, value)
    if enable_gqa:
        key, value = _shared_heads(key, query._shape[-3]), _shared_heads(value, query._shape[-3])
    q, k, v = widen(query), widen(key), widen(value)
    factor = 1 / math.sqrt(q._shape[-1]) if scale is None else scale
    scores = (
        product(q, transpose(k), "scaled_dot_product_attention") * factor
    )  # (..., L, E) @ (..., E, S)
    if is_causal or attn_mask is not None:
        weights = masked_softmax(_masked(scores, attn_mask, is_causal))
    else:
        weights = softmax(scores, -1)
    if dropout_p > 0:
        weights = dropout(weights, dropout_p)
    return cast(
        product(weights, v, "scaled_dot_product_attention"), query._dtype
    )  # (..., L, S) @ (..., S, V)


__all__ = ["scaled_dot_product_attention"]
