"""Causal masks by name: attention with them, and what they are as operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


@pytest.mark.parametrize("name", ["causal_lower_right", "causal_upper_left"])
@pytest.mark.parametrize("sizes", [(3, 5), (4, 4), (1, 6)])
def test_attention_as_in_pytorch(name: str, sizes: tuple[int, int]) -> None:
    assert torch.__version__  # else it is skipped: what follows imports parts of PyTorch
    queries, keys = sizes
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 2, n, 8)).astype(np.float32) for n in (queries, keys, keys)]

    def told(T: Any) -> Any:
        bias = getattr(__import__(f"{T.__name__}.nn.attention.bias", fromlist=[name]), name)(*sizes)
        q, k, v = (T.tensor(x, requires_grad=True) for x in arrays)
        out = T.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        out.square().sum().backward()
        grads = [x.grad.numpy() for x in (q, k, v)]
        return bias._materialize().tolist(), [out.detach().numpy(), *grads]

    (mask, ours), (expected, theirs) = told(weft), told(torch)
    assert mask == expected
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_refusals_and_operands() -> None:
    from weft.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right

    bias = causal_lower_right(2, 3)
    assert isinstance(bias, CausalBias)
    assert bias.variant is CausalVariant.LOWER_RIGHT
    assert type(bias.float()) is weft.Tensor
    assert bias.float().tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    assert repr(bias).startswith("tensor(")
    q, k = weft.ones(1, 1, 2, 4), weft.ones(1, 1, 3, 4)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        weft.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=bias, is_causal=True)
    with pytest.raises(AssertionError):
        causal_lower_right(3)
