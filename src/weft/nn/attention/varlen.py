"""Attention over sequences of different lengths that are concatenated.

It takes queries, keys and values of all sequences one behind the other, and the start of each, and returns the outputs
in the same form. Each sequence is attended to by itself; no score between two of them is computed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError, ArgumentTypeError, NotDefinedError
from weft.tensor.arguments import need_tensor


class AuxRequest(NamedTuple):
    """The output that is wanted in addition: the logarithm of the sum of exponentials of a query's scores.

    Args:
        lse: True: the logarithms of the sums of exponentials. Default: False.

    Example:
        >>> import weft
        >>> from weft.nn.attention.varlen import AuxRequest, varlen_attn
        >>> x = weft.ones(5, 1, 2)
        >>> bounds = weft.tensor([0, 2, 5], dtype=weft.int32)
        >>> _, lse = varlen_attn(x, x, x, bounds, bounds, 3, 3, return_aux=AuxRequest(lse=True))
        >>> lse.shape
        weft.Size([1, 5])
    """

    lse: bool = False


def _bounds(name: str, cumulative: Tensor | list[int], total: int) -> list[int]:
    """The start of each sequence, and the end of the last. Errors: ArgumentTypeError, ArgumentError."""
    if (
        not isinstance(cumulative, Tensor)
        or cumulative.is_floating_point()
        or cumulative.dim() != 1
    ):
        raise ArgumentTypeError(
            f"varlen_attn: {name} must be a 1-D Tensor of integers",
            expected="the beginning of each sequence, and the end of the last",
            got=type(cumulative).__name__,
            fix="for lengths 3 and 2, weft.tensor([0, 3, 5])",
        )
    bounds: list[int] = cumulative.tolist()
    if not bounds or bounds[0] != 0 or bounds[-1] != total or bounds != sorted(bounds):
        raise ArgumentError(
            f"varlen_attn: {name} must rise from 0 to {total}",
            expected=f"[0, ..., {total}]",
            got=str(bounds)[:80],
            fix="for lengths 3 and 2, weft.tensor([0, 3, 5])",
        )
    return bounds


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    """Errors: ArgumentTypeError, ArgumentError."""
    named = (("query", query), ("key", key), ("value", value))
    for position, (name, tensor) in enumerate(named, 1):
        need_tensor("varlen_attn", tensor, name, position)
    ranks = {tensor.dim() for tensor in (query, key, value)}
    shared = ranks == {3} and key.shape[:2] == value.shape[:2]
    if (
        not shared
        or query.shape[1] % key.shape[1]
        or query.shape[1] != key.shape[1]
        and not enable_gqa
    ):
        raise ArgumentError(
            "varlen_attn: query, key and value do not fit together",
            expected="(positions, heads, size) each; the heads of keys divide those of queries with enable_gqa=True",
            got=f"{list(query.shape)}, {list(key.shape)}, {list(value.shape)}",
            fix="reshape them, or pass enable_gqa=True",
        )


def _one(
    query: Tensor, key: Tensor, value: Tensor, scale: float, window: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """One sequence: (L, H, E), (S, H, E), (S, H, V) -> (L, H, V), (H, L). The last query stands at the last key."""
    working = query.dtype if query.dtype is weft.float64 else weft.float32
    scores = (query.transpose(0, 1) @ key.permute(1, 2, 0)).to(
        working
    ) * scale  # (H, L, E) @ (H, E, S)
    length, size = query.shape[0], key.shape[0]
    if window != (-1, -1):
        gap = weft.arange(size) - (weft.arange(length).unsqueeze(1) + (size - length))  # (L, S)
        inside = weft.ones(length, size, dtype=weft.bool)
        if window[0] >= 0:
            inside = inside & (gap >= -window[0])
        if window[1] >= 0:
            inside = inside & (gap <= window[1])
        scores = weft.where(inside, scores, -math.inf)
        some = inside.any(-1, keepdim=True)
        weights = weft.where(some, weft.where(some, scores, 0.0).softmax(-1), 0.0)
    else:
        weights = scores.softmax(-1)
    out = weights.to(query.dtype) @ value.transpose(0, 1)  # (H, L, S) @ (H, S, V)
    return out.transpose(0, 1), weft.logsumexp(scores, -1)


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """softmax(scale * query key^T) value within each sequence. `cu_seq_q` and `cu_seq_k` are where sequences begin and
    the last ends. `window_size` is how many keys before and after a query's place take part, -1 for all: (-1, 0) is
    causal. With `return_aux` a pair, of which the second part is the logarithms of the sums.

    Args:
        query: the queries of all sequences, joined: (T, H, E).
        key: the keys of all sequences, joined: (U, K, E).
        cu_seq_q: where the queries of each sequence begin, and the last end: (N + 1).
        cu_seq_k: the same of the keys, or None: as the queries.
        max_q: the length of the longest sequence of queries.
        max_k: the length of the longest sequence of keys.
        return_aux: what else to return; None: nothing.
        scale: the factor of the scores; None: 1 / sqrt(E).
        window_size: how many keys before and after a query take part, -1 for all. Default:
            (-1, -1).
        enable_gqa: True: groups of query heads share a key head. Default: False.
        seqused_k: how many keys of each sequence count, (N); None: all.
        block_table: for keys in pages: which page follows which; None: keys lie in order.
        num_splits: accepted, without effect; None: the same.

    Shape:
        (T, H, E), (U, K, E), (U, K, V), (N + 1), (N + 1) -> (T, H, V), (H, T).

    Raises:
        ArgumentTypeError, ArgumentError; NotDefinedError for pages of keys.

    Cost:
        the scores within sequences are held in memory.
    """
    _check(query, key, value, enable_gqa)
    if seqused_k is not None or block_table is not None:
        raise NotDefinedError(
            "varlen_attn with seqused_k or block_table",
            expected="keys and values one behind the other",
            got="pages of keys",
            fix="take the keys that are used before the call",
        )
    if key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    starts = _bounds("cu_seq_q", cu_seq_q, query.shape[0])
    others = starts if cu_seq_k is None else _bounds("cu_seq_k", cu_seq_k, key.shape[0])
    if len(starts) != len(others) or others[-1] != key.shape[0]:
        raise ArgumentError(
            "varlen_attn: cu_seq_q and cu_seq_k are of different numbers of sequences",
            expected=f"{len(starts)} bounds that end at {key.shape[0]}",
            got=str(others)[:80],
            fix="give each sequence of queries its keys",
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    lengths = [b - a for a, b in zip(starts, starts[1:], strict=False)]
    sizes = [b - a for a, b in zip(others, others[1:], strict=False)]
    pieces = zip(query.split(lengths), key.split(sizes), value.split(sizes), strict=True)
    found = [_one(*piece, factor, tuple(window_size)) for piece in pieces]  # type: ignore[arg-type]
    out = weft.cat([one for one, _ in found])
    if return_aux is not None and return_aux.lse:
        return out, weft.cat([sums for _, sums in found], -1)
    return out


__all__ = ["AuxRequest", "varlen_attn"]

publish(globals())
del publish
