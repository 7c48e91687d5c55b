"""Attention with functions of the user for scores and mask: PyTorch's values, sums and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import submodule, torch
from weft.nn.attention import flex_attention as ours

theirs = submodule("torch.nn.attention.flex_attention")

rng = np.random.default_rng(0)
BIAS = rng.standard_normal((4, 5, 6))
DOCUMENTS = np.array([0, 0, 1, 1, 1, 2])
LIBRARIES = ((weft, ours), (torch, theirs))


def score_mods(library: Any, bias: Any) -> dict[str, Any]:
    documents = library.tensor(DOCUMENTS)
    return {
        "none": None,
        "relative": lambda s, b, h, q, k: s + (q - k) * 0.1,
        "by head": lambda s, b, h, q, k: s * (h + 1) - b,
        "table": lambda s, b, h, q, k: s + bias[h, q, k],
        "table in steps": lambda s, b, h, q, k: s + bias[h][q][k] * 2,
        "soft cap": lambda s, b, h, q, k: 2 * library.tanh(s / 2),
        "documents": lambda s, b, h, q, k: library.where(
            documents[q] == documents[k], s, -float("inf")
        ),
    }


def mask_mods(module: Any, library: Any) -> dict[str, Any]:
    lengths = library.tensor([3, 6])

    def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
        return q >= k

    def window(b: Any, h: Any, q: Any, k: Any) -> Any:
        return q - k <= 1

    return {
        "causal": causal,
        "window": module.and_masks(causal, window),
        "either": module.or_masks(lambda b, h, q, k: k < 1, lambda b, h, q, k: q < k),
        "lengths": lambda b, h, q, k: k < lengths[b],
        "heads": lambda b, h, q, k: (q + k) % 4 != h,
        "rows without any": lambda b, h, q, k: q + k * 0 > 2,
    }


def tensors(library: Any, heads: int = 4) -> list[Any]:
    draw = np.random.default_rng(1)
    shapes = ((2, 4, 5, 8), (2, heads, 6, 8), (2, heads, 6, 3))
    return [library.tensor(draw.standard_normal(shape)) for shape in shapes]


def same(found: list[list[Any]], tolerance: float = 1e-10) -> None:
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=tolerance)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", score_mods(torch, None))
def test_scores_are_changed_as_by_pytorch(name: str) -> None:
    found = []
    for library, module in LIBRARIES:
        mod = score_mods(library, library.tensor(BIAS))[name]
        found.append([module.flex_attention(*tensors(library), mod)])
    same(found)


def test_gradients_reach_queries_keys_values_and_what_the_functions_hold() -> None:
    """The rows that no key reaches have none."""
    draw = np.random.default_rng(2)
    query, key, value, bias = (
        weft.tensor(draw.standard_normal(shape), requires_grad=True)
        for shape in ((1, 2, 4, 3), (1, 1, 3, 3), (1, 1, 3, 2), (2, 4, 3))
    )
    mask = ours.create_block_mask(lambda b, h, q, k: q > k, None, None, 4, 3, BLOCK_SIZE=2)

    def attend(query: Any, key: Any, value: Any, bias: Any) -> Any:
        def mod(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
            return score * 2 + bias[h, q, k]

        return ours.flex_attention(query, key, value, mod, mask, enable_gqa=True, return_lse=False)

    assert weft.autograd.gradcheck(attend, (query, key, value, bias))
    attend(query, key, value, bias).sum().backward()
    assert (query.grad[:, :, 0] == 0).all() and (bias.grad[:, 0] == 0).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", mask_mods(theirs, torch))
@pytest.mark.parametrize("block", [(3, 2), 128])
def test_masks_and_their_blocks_are_those_of_pytorch(name: str, block: Any) -> None:
    found, masks = [], []
    for library, module in LIBRARIES:
        mod = mask_mods(module, library)[name]
        mask = module.create_block_mask(mod, 2, 4, 5, 6, device="cpu", BLOCK_SIZE=block)
        given = tensors(library)
        out, sums = module.flex_attention(*given, block_mask=mask, return_lse=True)
        dense = module.create_mask(mod, 2, 4, 5, 6, device="cpu")
        found.append([out, sums, mask.to_dense(), dense])
        masks.append(mask)
    same(found)
    assert masks[0].shape == tuple(masks[1].shape)
    assert masks[0].sparsity() == pytest.approx(masks[1].sparsity())
    for part in ("kv", "q", "full_kv", "full_q"):
        for kind in ("num_blocks", "indices"):
            mine, other = (getattr(mask, f"{part}_{kind}") for mask in masks)
            np.testing.assert_array_equal(mine.numpy(), other.numpy())


@pytest.mark.filterwarnings("ignore")
def test_heads_are_shared_and_the_scale_is_given() -> None:
    found = []
    for library, module in LIBRARIES:
        given = tensors(library, heads=2)
        out = module.flex_attention(*given, scale=0.3, enable_gqa=True)
        _, more = module.flex_attention(
            *given, enable_gqa=True, return_aux=module.AuxRequest(lse=True)
        )
        assert more.max_scores is None
        found.append([out, more.lse])
    same(found)


@pytest.mark.filterwarnings("ignore")
def test_a_mask_of_given_blocks() -> None:
    found = []
    for library, module in LIBRARIES:
        counts, columns = (
            library.tensor([[[1, 2, 1]]]),
            library.tensor([[[[1, 0, 2], [2, 0, 1], [0, 1, 2]]]]),
        )
        mask = module.BlockMask.from_kv_blocks(
            counts.int(), columns.int(), BLOCK_SIZE=2, seq_lengths=(5, 6)
        )
        found.append([mask.to_dense(), mask.q_num_blocks, mask.q_indices])
        if library is weft:
            wanted = mask.to_dense().bool().repeat_interleave(2, -2).repeat_interleave(2, -1)
            assert (mask.allowed() == wanted[..., :5, :6]).all()
    same(found)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda g: {"query": g[0][0]}, ValueError, "4D tensors"),
        (lambda g: {"key": g[1][:, :3], "value": g[2][:, :3]}, ValueError, "enable_gqa=True"),
        (lambda g: {"block_mask": weft.ones(5, 6)}, TypeError, "must be BlockMask, not"),
        (lambda g: {"score_mod": 3}, TypeError, "must be callable, not int"),
        (
            lambda g: {"block_mask": ours.create_block_mask(ours.noop_mask, None, None, 4, 6)},
            ValueError,
            "q_len=5 and kv_len=6",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change: Any, error: type, text: str) -> None:
    given = tensors(weft)
    arguments = dict(zip(("query", "key", "value"), given, strict=True)) | change(given)
    with pytest.raises(error, match=text) as caught:
        ours.flex_attention(**arguments)
    assert isinstance(caught.value, weft.errors.WeftError)
