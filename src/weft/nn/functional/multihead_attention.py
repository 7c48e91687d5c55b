# ruff: noqa: A001, A002 - PyTorch's names
"""Multi-head attention: projections, heads, masks, attention, and the output projection.

It takes queries, keys and values (length, batch, features), and returns the attended values and, if asked for, the
weights. Scores and their softmax are those of `scaled_dot_product_attention`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from weft._typing import Shape
from weft.engine.api.deprecation import user_level
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import AssertedError, ShapeError
from weft.functional.linalg.products import linear, product
from weft.functional.reductions.softmax import softmax
from weft.functional.shape.concat import cat
from weft.nn.functional.activation import dropout
from weft.nn.functional.attention import scaled_dot_product_attention
from weft.ops.primitives import (
    expand,
    full,
    pad,
    permute,
    reduce,
    reshape,
    slice_axis,
    transpose,
    where,
)
from weft.tensor.arguments import describe, need_tensor


def canonical_mask(
    mask: Tensor | None, name: str, other: Tensor | None, other_name: str, dtype: DType
) -> Any:
    """A mask as numbers to add: where it is True, -inf. Warns where another mask has another type. Errors:
    DTypeError."""
    if mask is None:
        return None
    need_tensor("multi_head_attention_forward", mask, name)
    if other is not None and other._dtype is not mask._dtype:
        text = f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead."
        warnings.warn(text, UserWarning, stacklevel=user_level())
    if mask._dtype is dtypes.bool_:
        return where(mask, full((), -math.inf, dtype), full((), 0, dtype))
    if mask._dtype.category != 2:
        raise AssertedError(
            f"only bool and floating types of {name} are supported",
            expected="a boolean or floating-point mask",
            got=describe(name, mask),
            fix="convert with .bool()",
        )
    return mask


def _check_ranks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    mask: Tensor | None,
    heads: int,
) -> bool:
    """True if there is a batch dimension. Errors: ShapeError."""
    rank = len(query._shape)
    if rank not in (2, 3):
        raise AssertedError(
            f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor",
            expected="(L, E) or (L, N, E)",
            got=describe("query", query),
            fix="reshape the query",
        )
    kind = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    both = f"`key` and `value` to be {rank}-D"
    for name, tensor, want, expected in (
        ("key", key, rank, both),
        ("value", value, rank, both),
        (
            "key_padding_mask",
            padding,
            rank - 1,
            f"`key_padding_mask` to be `None` or {rank - 1}-D",
        ),
    ):
        if tensor is not None and len(tensor._shape) != want:
            raise AssertedError(
                f"For {kind} `query`, expected {expected} but found {len(tensor._shape)}-D tensor for `{name}` instead",
                expected=f"{want} dimensions",
                got=describe(name, tensor),
                fix=f"reshape {name}",
            )
    if mask is not None and len(mask._shape) not in (2, 3):
        raise AssertedError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{len(mask._shape)}-D tensor instead",
            expected="(L, S) or (N * heads, L, S)",
            got=describe("attn_mask", mask),
            fix="reshape attn_mask",
        )
    return rank == 3


def _packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Any,
    bias: Tensor | None,
) -> tuple[Any, Any, Any]:
    """The three projections, in one product where the operands are one tensor."""
    size = query._shape[-1]
    if query is key and key is value:
        both = linear(query, weight, bias)  # (L, N, E) @ (E, 3 E)
        return tuple(slice_axis(both, len(both._shape) - 1, i * size, size) for i in range(3))  # type: ignore[return-value]
    weights = [slice_axis(weight, 0, i * size, size) for i in range(3)]
    return _separate(query, key, value, tuple(weights), bias)


def _separate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: tuple[Any, ...],
    bias: Tensor | None,
) -> tuple[Any, Any, Any]:
    size = query._shape[-1]
    biases = [None] * 3 if bias is None else [slice_axis(bias, 0, i * size, size) for i in range(3)]
    return tuple(  # type: ignore[return-value]
        linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
    )


def _heads(x: Tensor, batch: int, heads: int) -> Any:
    """(L, N, E) -> (N heads, L, E / heads)."""
    length = x._shape[0]
    return permute(reshape(x, (length, batch * heads, x._shape[-1] // heads)), (1, 0, 2))


def _grown(mask: Tensor) -> Any:
    """A mask with a column for one more key, which every query may see."""
    if mask is None:
        return None
    return pad(mask, (*((0, 0),) * (len(mask._shape) - 1), (0, 1)), 0)


def _check_sizes(
    query: Tensor, key: Tensor, value: Tensor, embed: int, heads: int, separate: bool
) -> None:
    if query._shape[-1] != embed:
        raise AssertedError(
            f"was expecting embedding dimension of {embed}, but got {query._shape[-1]}",
            expected=f"queries of {embed} features",
            got=describe("query", query),
            fix="build the layer with embed_dim as the size of the last dimension",
        )
    if embed % heads:
        raise AssertedError(
            f"embed_dim {embed} not divisible by num_heads {heads}",
            expected=f"embed_dim divisible by {heads}",
            got=str(embed),
            fix="choose another number of heads",
        )
    fits = key._shape[:2] == value._shape[:2] if separate else key._shape == value._shape
    if not fits:
        raise AssertedError(
            f"key's sequence and batch dims {list(key._shape[:2])} do not match value's "
            f"{list(value._shape[:2])}"
            if separate
            else f"key shape {list(key._shape)} does not match value shape {list(value._shape)}",
            expected="keys and values of one length and batch",
            got=f"{describe('key', key)}, {describe('value', value)}",
            fix="pass one value per key",
        )


def _shaped_mask(mask: Tensor, batch: int, heads: int, length: int, keys: int) -> Any:
    """The mask as (1 or N heads, L, S). Errors: ShapeError."""
    if mask is None:
        return None
    want = (length, keys) if len(mask._shape) == 2 else (batch * heads, length, keys)
    if tuple(mask._shape) != want:
        raise ShapeError(
            f"The shape of the {len(mask._shape)}D attn_mask is {mask.shape}, but should be "
            f"{want}.",
            expected=f"attn_mask {list(want)}",
            got=describe("attn_mask", mask),
            fix="reshape attn_mask",
        )
    return reshape(mask, (1, length, keys)) if len(want) == 2 else mask


def _merged(mask: object, padding: Tensor | None, batch: int, heads: int, keys: int) -> Any:
    """Both masks in one."""
    if padding is None:
        return mask
    if tuple(padding._shape) != (batch, keys):
        raise AssertedError(
            f"Expected key_padded_mask.shape[0] to be {batch}, but got {padding._shape[0]}"
            if padding._shape[:1] != (batch,)
            else f"Expected key_padded_mask.shape[1] to be {keys}, but got {padding._shape[1]}",
            expected=f"key_padding_mask {[batch, keys]}",
            got=describe("key_padding_mask", padding),
            fix="give one row per example",
        )
    wide = expand(reshape(padding, (batch, 1, 1, keys)), (batch, heads, 1, keys))
    wide = reshape(wide, (batch * heads, 1, keys))
    return wide if mask is None else mask + wide


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor,
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
    """Attention of several heads over projected queries, keys and values (Vaswani et al., 2017).

    Shapes: (L, N, E), (S, N, E), (S, N, E) -> (L, N, E) and weights (N, L, S), or (N, heads, L, S) where they are not
    averaged; all without N likewise. Masks are True where a key is not to be seen, or numbers to add. Errors:
    AssertedError, ShapeError.
    """
    has_batch = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    _check_hint(is_causal, attn_mask)
    if not has_batch:
        query, key, value, key_padding_mask = _batched(query, key, value, key_padding_mask)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    length, batch = query._shape[:2]
    padding = canonical_mask(
        key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query._dtype
    )
    mask = canonical_mask(attn_mask, "attn_mask", None, "", query._dtype)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    if use_separate_proj_weight:
        q, k, v = _separate(query, key, value, weights, in_proj_bias)
    else:
        q, k, v = _packed(query, key, value, in_proj_weight, in_proj_bias)
    mask = _shaped_mask(mask, batch, num_heads, length, k._shape[0])
    if bias_k is not None and bias_v is not None:
        k = cat([k, expand(bias_k, (1, batch, bias_k._shape[-1]))])
        v = cat([v, expand(bias_v, (1, batch, bias_v._shape[-1]))])
        mask, padding = _grown(mask), _grown(padding)
    q = _heads(q, batch, num_heads)
    k = _heads(k, batch, num_heads) if static_k is None else static_k
    v = _heads(v, batch, num_heads) if static_v is None else static_v
    if add_zero_attn:
        k, v = (pad(x, ((0, 0), (0, 1), (0, 0)), 0) for x in (k, v))
        mask, padding = _grown(mask), _grown(padding)
    keys = k._shape[1]
    mask = _merged(mask, padding, batch, num_heads, keys)
    chance = dropout_p if training else 0.0
    if not need_weights:
        attended = _attend_unseen(q, k, v, mask, chance, (batch, num_heads))
        return _joined(attended, out_proj_weight, out_proj_bias, num_heads, has_batch), None
    attended, scores = _attend(q, k, v, mask, chance)
    out = _joined(attended, out_proj_weight, out_proj_bias, num_heads, has_batch)
    scores = reshape(scores, (batch, num_heads, length, keys))
    if average_attn_weights:
        scores = reduce("sum", scores, (1,)) / num_heads
    return out, scores if has_batch else scores.squeeze(0)


def _joined(attended: Tensor, weight: Tensor, bias: Tensor, heads: int, has_batch: bool) -> Any:
    """The outputs of the heads concatenated and projected. Shapes: (N heads, L, D) -> (L, N, E), or (L, E)."""
    parts, length, size = attended._shape
    lines = reshape(permute(attended, (1, 0, 2)), (length, parts // heads, heads * size))
    out = linear(lines, weight, bias)  # (L, N, E) @ (E, E) -> (L, N, E)
    return out if has_batch else reshape(out, (length, out._shape[2]))


def _check_hint(is_causal: bool, mask: Tensor | None) -> None:
    if is_causal and mask is None:
        raise ShapeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask.",
            expected="attn_mask with is_causal",
            got="none",
            fix="pass Transformer.generate_square_subsequent_mask(length)",
        )


def _batched(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None
) -> tuple[Any, Any, Any, Any]:
    """The same with a batch of one; equal tensors stay one."""
    same = query is key and key is value
    query, key, value = (reshape(x, (x._shape[0], 1, x._shape[1])) for x in (query, key, value))
    if padding is not None:
        padding = reshape(padding, (1, *padding._shape))
    return (key, key, key, padding) if same else (query, key, value, padding)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, chance: float) -> tuple[Any, Any]:
    """The attended values and the weights."""
    scores = product(q * (1.0 / math.sqrt(q._shape[-1])), transpose(k), "bmm")
    weights = softmax(scores if mask is None else scores + cast(mask, scores._dtype), -1)
    weights = dropout(weights, chance) if chance > 0 else weights
    return product(weights, v, "bmm"), weights


def _attend_unseen(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, chance: float, lead: Shape
) -> Any:
    q4, k4, v4 = (reshape(x, (*lead, *x._shape[1:])) for x in (q, k, v))
    if mask is not None and mask._shape[0] != 1:
        mask = reshape(mask, (*lead, *mask._shape[1:]))
    result = scaled_dot_product_attention(q4, k4, v4, mask, chance)
    return reshape(result, (q._shape[0], *result._shape[2:]))


__all__ = ["multi_head_attention_forward"]
