# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Scaled dot product attention: one kernel where nothing but values is wanted, else two products and a softmax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython

from weft._build.compiled import require
from weft.engine.api.call_cache import ComposedPart
from weft.engine.dispatch.type_names import C_NAMES
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import elementwise_strides
from weft.engine.ir.tape import tape
from weft.errors import DTypeError, ShapeError
from weft.functional.linalg.products import product
from weft.functional.reductions.softmax import masked_softmax, softmax
from weft.nn.functional.activation import dropout
from weft.ops.contractions.attention import LARGEST, PLAIN, attend
from weft.ops.primitives import expand, iota, reshape, transpose, where
from weft.tensor.arguments import describe, need_tensor, widen

if TYPE_CHECKING:
    from weft._typing import Shape
    from weft.engine.ir.dtype import DType


require(__name__, cython.compiled)


def _shared_heads(x: Tensor, heads: int) -> Any:
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


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    named = (("query", query), ("key", key), ("value", value))
    for place, (name, tensor) in enumerate(named):
        need_tensor("scaled_dot_product_attention", tensor, name, place + 1)
    for name, tensor in named:
        if len(tensor._shape) < 2:
            raise ShapeError(
                "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
                f"{len(query._shape)} key.dim: {len(key._shape)} and value.dim: {len(value._shape)} instead.",
                expected="(..., length, size)",
                got=describe(name, tensor),
                fix="unsqueeze it",
            )
        if tensor._dtype is not query._dtype:
            types = [C_NAMES[x._dtype.name] for x in (query, key, value)]
            raise DTypeError(
                "Expected query, key, and value to have the same dtype, but got query.dtype: "
                f"{types[0]} key.dtype: {types[1]} and value.dtype: {types[2]} "
                "instead.",
                expected="one dtype",
                got=describe(name, tensor),
                fix="convert it",
            )


def _masked(scores: Tensor, attn_mask: Any, is_causal: bool) -> Any:
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


def _is_plain(q: Tensor, k: Tensor, v: Tensor, mask: object, enable_gqa: bool) -> bool:
    """True if shapes and dtypes are those of the kernels: equal leading dimensions (heads may be shared), sizes that
    registers hold, and a mask without a gradient."""
    if q._dtype is not dtypes.float32 and q._dtype is not dtypes.float64:
        return False
    lead, length, depth = q._shape[:-2], k._shape[-2], q._shape[-1]
    if k._shape != (*k._shape[:-2], length, depth) or v._shape[:-1] != k._shape[:-1]:
        return False
    if k._shape[:-2] != lead:
        groups = k._shape[-3] if len(k._shape) > 2 else 0
        if not enable_gqa or k._shape[:-2] != (*lead[:-1], groups) or groups == 0:
            return False
        if lead[-1] % groups:
            return False
    if not 0 < depth <= LARGEST or not 0 < v._shape[-1] <= LARGEST or 0 in q._shape or length == 0:
        return False
    return mask is None or _mask_fits(mask, (*lead, q._shape[-2], length))


def _mask_fits(mask: Tensor, scores: Shape) -> bool:
    shape = mask._shape
    if mask._dtype.category not in (0, 2) or len(shape) > len(scores):
        return False
    if mask._dtype.category == 2 and mask.requires_grad and tape().mode.grad:
        return False
    for have, want in zip(shape, scores[len(scores) - len(shape) :], strict=True):
        if have != want and have != 1:
            return False
    return True


def _in_four(x: Tensor) -> Any:
    """(..., H, L, E) with one leading dimension before the heads."""
    shape = (1, 1, *x._shape)[-4:] if len(x._shape) < 4 else x._shape
    count = 1
    for size in shape[:-3]:
        count *= size
    return reshape(x, (count, *shape[-3:]))


def _mask_in_four(mask: Tensor, dtype: DType, scores: Shape) -> Any:
    """The mask as what is added to scores, (B or 1, H or 1, L or 1, S)."""
    if mask._dtype is dtypes.bool_:
        mask = where(mask, 0.0, -math.inf)
    mask = cast(mask, dtype)
    shape = (*(1,) * (len(scores) - len(mask._shape)), *mask._shape)
    wide = (*shape[:-1], scores[-1])
    if len(shape) > 4 and any(size != 1 for size in shape[:-3]):
        wide = (*scores[:-3], *shape[-3:-1], scores[-1])
    return _in_four(expand(reshape(mask, shape), wide))


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: object, factor: float, is_causal: bool) -> Any:
    scores = (*q._shape[:-1], k._shape[-2])
    if mask is not None:
        mask = _mask_in_four(mask, q._dtype, scores)
    if len(q._shape) != 4:
        params = (factor, is_causal, PLAIN)
        result = attend(_in_four(q), _in_four(k), _in_four(v), mask, params)
        return reshape(result, (*q._shape[:-1], v._shape[-1]))
    order, strides = PLAIN, elementwise_strides(q._shape, [(q._shape, q.strides)])
    if strides is not None and strides[3] == 1:
        steps = strides
        order = tuple(sorted(PLAIN, key=lambda axis: -steps[axis]))
    result = attend(q, k, v, mask, (factor, is_causal, order))
    if order is not PLAIN and q._shape == result._shape:  # as PyTorch's kernel
        result.strides = strides
    return result


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    dropout_p: float = 0.0,
) -> Any:
    _check(query, key, value)
    q, k, v = widen(query), widen(key), widen(value)
    factor = 1 / math.sqrt(q._shape[-1]) if scale is None else scale
    if (
        dropout_p == 0
        and not (is_causal and attn_mask is not None)
        and _is_plain(q, k, v, attn_mask, enable_gqa)
    ):
        return cast(_fused(q, k, v, attn_mask, float(factor), bool(is_causal)), query._dtype)
    if enable_gqa:
        k, v = _shared_heads(k, q._shape[-3]), _shared_heads(v, q._shape[-3])
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


_certainly = ComposedPart(_attention)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query key^T scale + mask) value; a row whose keys are all masked gives zeros.

    Shapes: (..., L, E), (..., S, E), (..., S, V) -> (..., L, V). Cost: the L x S scores are not kept, but with dropout,
    with E or V above 256, with leading dimensions that broadcast, or with a mask that has a gradient.
    """
    if dropout_p == 0:
        return _certainly(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    return _attention(query, key, value, attn_mask, is_causal, scale, enable_gqa, dropout_p)


__all__ = ["scaled_dot_product_attention"]
