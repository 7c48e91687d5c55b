"""Flexible attention: scores and mask are functions of the user.

It takes queries, keys and values; `score_mod(score, batch, head, query, key)`, written for one score and its indices;
and a block mask, made from `mask_mod(batch, head, query, key)`. The result is that of attention with the scores
changed and the masked ones left out. Both functions are recorded once for all scores, by `vmap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError, ArgumentTypeError, class_name
from weft.nn.attention.block_mask import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    of_indices,
    or_masks,
)
from weft.tensor.arguments import need_tensor

FlexKernelOptions = dict[
    str, Any
]  # what PyTorch's kernels are tuned by; nothing here depends on it


_DEFAULT_SPARSE_BLOCK_SIZE = 128  # the multiple to which models pad lengths


class AuxRequest(NamedTuple):
    """The outputs that are wanted in addition to the attended values.

    Args:
        lse: True: the logarithms of the sums of exponentials. Default: False.
        max_scores: True: the largest scores. Default: False.

    Example:
        >>> import weft
        >>> from weft.nn.attention.flex_attention import AuxRequest, flex_attention
        >>> x = weft.ones(1, 1, 4, 2)
        >>> _, more = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
        >>> more.lse.shape
        weft.Size([1, 1, 4])
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The logarithm of the sum of exponentials of a query's scores, and the largest; None where not asked for.

    Args:
        lse: the logarithms, (B, H, L); None: not asked for.
        max_scores: the largest scores, (B, H, L); None: not asked for.

    Example:
        >>> import weft
        >>> from weft.nn.attention.flex_attention import AuxRequest, flex_attention
        >>> x = weft.ones(1, 1, 4, 2)
        >>> _, more = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
        >>> more.lse.shape
        weft.Size([1, 1, 4])
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    """Errors: ArgumentTypeError, ArgumentError."""
    named = (("query", query), ("key", key), ("value", value))
    for position, (name, tensor) in enumerate(named, 1):
        need_tensor("flex_attention", tensor, name, position)
        if tensor.dim() != 4 or tensor.dtype is not query.dtype:
            raise ArgumentError(
                "flex_attention: query, key, and value must be 4D tensors of one dtype",
                expected=f"(batch, heads, length, size) in {query.dtype}",
                got=f"{name} {list(tensor.shape)} in {tensor.dtype}",
                fix="unsqueeze or convert it",
            )
    heads, other = query.shape[1], key.shape[1]
    if heads != other and (not enable_gqa or heads % other):
        raise ArgumentError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={other}. "
            "Try setting enable_gqa=True for GQA."
            if not enable_gqa
            else f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and "
            f"Hkv={other}.",
            expected=f"{other} query heads, or a multiple with enable_gqa=True",
            got=str(heads),
            fix="pass enable_gqa=True",
        )
    if key.shape[0] not in (1, query.shape[0]) or key.shape[:3] != value.shape[:3]:
        raise ArgumentError(
            "Expect query and key/value to have the same batch size, and key and value the same length",
            expected=f"batches of {query.shape[0]}",
            got=f"key {list(key.shape)}, value {list(value.shape)}",
            fix="expand the batch",
        )


def _allowed(block_mask: object, query: Tensor, key: Tensor) -> Tensor | None:
    """The mask of scores that take part: (batch or 1, heads or 1, queries, keys). Errors: ArgumentTypeError,
    ArgumentError."""
    if block_mask is None:
        return None
    if not isinstance(block_mask, BlockMask):
        raise ArgumentTypeError(
            f"flex_attention(): argument 'block_mask' must be BlockMask, not {class_name(block_mask)}",
            expected="a BlockMask",
            got=type(block_mask).__name__,
            fix="make it with create_block_mask",
        )
    lengths = (query.shape[-2], key.shape[-2])
    batches, heads = block_mask.shape[:2]
    if batches not in (1, query.shape[0]) or heads not in (1, query.shape[1]):
        what = f"for {batches} examples and {heads} heads"
    elif any(have < want for have, want in zip(block_mask.seq_lengths, lengths, strict=True)):
        what = f"for block_mask.shape={block_mask.shape}"
    else:
        return block_mask.allowed()[..., : lengths[0], : lengths[1]]
    raise ArgumentError(
        f"block_mask was created {what} but got q_len={lengths[0]} and kv_len={lengths[1]}",
        expected=f"a mask of {[*query.shape[:2], *lengths]}",
        got=str(list(block_mask.shape)),
        fix="create a new block mask",
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(scale * query key^T)) value over the scores that the mask allows; a query without any gets
    zeros. With `return_lse` or `return_aux` a pair, of which the second part is the logarithms of the sums, or an
    AuxOutput.

    Args:
        query: (B, H, L, E).
        key: (B, K, S, E).
        score_mod: a function (score, batch, head, query, key) of a score and its indices,
            that gives another score; None: scores stay.
        block_mask: which scores take part, as `create_block_mask` makes it; None: all.
        scale: the factor of the scores; None: 1 / sqrt(E).
        enable_gqa: True: groups of query heads share a key head. Default: False.
        return_lse: True: also return the logarithms of the sums. Default: False.
        kernel_options: accepted, without effect; None: none.
        return_aux: what else to return; None: nothing.

    Shape:
        (B, H, L, E), (B, K, S, E), (B, K, S, V) -> (B, H, L, V), (B, H, L); K is H, or
        divides it with `enable_gqa`.

    Raises:
        ArgumentTypeError, ArgumentError.

    Cost:
        the L x S scores are held in memory.
    """
    _check(query, key, value, enable_gqa)
    if key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    working = query.dtype if query.dtype is weft.float64 else weft.float32
    scores = (query @ key.mT).to(working) * factor  # (B, H, L, E) @ (B, H, E, S)
    if score_mod is not None:
        scores = of_indices(score_mod, tuple(scores.shape), scores).to(working)
    allowed = _allowed(block_mask, query, key)
    if allowed is not None:
        scores = weft.where(allowed, scores, -math.inf)
    some = scores.detach().amax(-1, keepdim=True) > -math.inf
    weights = weft.where(some, weft.where(some, scores, 0.0).softmax(-1), 0.0)
    out = weights.to(query.dtype) @ value  # (B, H, L, S) @ (B, H, S, V)
    if return_aux is not None:
        sums = weft.logsumexp(scores, -1) if return_aux.lse else None
        return out, AuxOutput(sums, scores.amax(-1) if return_aux.max_scores else None)
    return (out, weft.logsumexp(scores, -1)) if return_lse else out


__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

publish(globals())
del publish
