"""Attention over sequences in one line is attention over each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.nn.attention.varlen import AuxRequest, varlen_attn

LENGTHS, SIZES = [3, 1, 4], [3, 5, 4]


def line(sizes: list[int], heads: int, width: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((sum(sizes), heads, width))


def bounds(sizes: list[int]) -> Any:
    return weft.tensor([0, *np.cumsum(sizes).tolist()], dtype=weft.int32)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 0), (0, 2)])
@pytest.mark.parametrize("heads", [4, 2])
def test_each_sequence_is_attended_to_by_itself(window: tuple[int, int], heads: int) -> None:
    arrays = [line(LENGTHS, 4, 6, 0), line(SIZES, heads, 6, 1), line(SIZES, heads, 5, 2)]
    ours = [weft.tensor(array, requires_grad=True) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    marks, options = (
        (bounds(LENGTHS), bounds(SIZES), 4, 5),
        {"window_size": window, "enable_gqa": True},
    )
    out, sums = varlen_attn(*ours, *marks, return_aux=AuxRequest(lse=True), **options)
    pieces, logs = [], []
    for q, k, v in zip(
        *(x.split(s) for x, s in zip(theirs, (LENGTHS, SIZES, SIZES), strict=True)), strict=True
    ):
        places = np.arange(len(q))[:, None] + len(k) - len(q)
        gap = np.arange(len(k))[None] - places
        inside = (gap >= -window[0] if window[0] >= 0 else gap == gap) & (
            gap <= window[1] if window[1] >= 0 else gap == gap
        )
        mask = torch.tensor(inside)
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        attend = torch.nn.functional.scaled_dot_product_attention
        pieces.append(attend(q, k, v, attn_mask=mask, enable_gqa=True).transpose(0, 1))
        scores = q @ k.repeat_interleave(4 // heads, 0).mT / 6**0.5
        logs.append(scores.masked_fill(~mask, -np.inf).logsumexp(-1))
    wanted = torch.cat(pieces)
    np.testing.assert_allclose(out.detach().numpy(), wanted.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(
        sums.detach().numpy(), torch.cat(logs, -1).detach().numpy(), atol=1e-12
    )
    wanted.square().sum().backward()
    out.square().sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-11)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cu_seq_q": [0, 8]}, TypeError),
        ({"cu_seq_q": weft.tensor([0, 4, 3, 8])}, ValueError),
        ({"cu_seq_k": weft.tensor([0, 12])}, ValueError),
        ({"query": weft.ones(8, 3, 6)}, ValueError),
        ({"key": None}, TypeError),
        ({"block_table": weft.ones(1)}, NotImplementedError),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], error: type) -> None:
    right = {
        "query": weft.ones(8, 4, 6), "key": weft.ones(12, 4, 6), "value": weft.ones(12, 4, 5),
        "cu_seq_q": bounds(LENGTHS), "cu_seq_k": bounds(SIZES), "max_q": 4, "max_k": 5,
    }  # fmt: skip
    with pytest.raises(error) as caught:
        varlen_attn(**(right | change))
    assert isinstance(caught.value, weft.errors.WeftError)
