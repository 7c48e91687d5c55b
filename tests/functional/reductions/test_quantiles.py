"""Quantiles as PyTorch has them: gradients with respect to the shares too, strides, what is refused; and differences
of order 0."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import weft
from oracle import torch

DATA = [[0.5, 3.0, -1.0, 2.0], [4.0, 0.0, 1.5, -2.0], [1.0, 1.0, 7.0, 0.25]]


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_values_strides_and_both_gradients(name: str, dim: Any, keepdim: bool) -> None:
    found = []
    for t in (weft, torch):
        x = t.tensor(DATA, dtype=t.float64, requires_grad=True)
        q = t.tensor([0.2, 0.75], dtype=t.float64, requires_grad=True)
        result = getattr(t, name)(x, q, dim=dim, keepdim=keepdim)
        result.square().sum().backward()
        steps = [s for s, n in zip(result.stride(), result.shape, strict=True) if n > 1]
        found.append((result.detach(), x.grad, q.grad, steps, tuple(result.shape)))
    for mine, theirs in zip(found[0][:3], found[1][:3], strict=True):
        torch.testing.assert_close(torch.from_numpy(mine.numpy().copy()), theirs.contiguous())
    assert found[0][3:] == found[1][3:]


@pytest.mark.parametrize("q", [1.5, -0.1, [0.5, 2.0], float("nan")])
def test_shares_are_checked(q: Any) -> None:
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        weft.quantile(weft.rand(5), weft.tensor(q))
    with pytest.raises(RuntimeError, match="same dtype"):
        weft.quantile(weft.rand(5), weft.tensor(0.5, dtype=weft.float64))


def test_differences_of_order_0_are_the_input() -> None:
    x, end = weft.arange(4), weft.tensor([9])
    assert weft.diff(x, 0, 0, end, end).tolist() == [0, 1, 2, 3]


def test_functions_by_the_names_of_graphs() -> None:
    aten = weft.ops.aten
    x = weft.tensor([[-float("inf")] * 2, [0.0, 0.0]], requires_grad=True)
    shares = aten._safe_softmax.default(x, 1)
    assert shares.tolist() == [[0.0, 0.0], [0.5, 0.5]]
    (shares * weft.tensor([1.0, 0.0])).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.25, -0.25]]
    assert aten.add.Tensor(weft.ones(2), 1).tolist() == [2.0, 2.0]
    for name in ("no_such", "given"):
        with pytest.raises(AttributeError, match=name):
            getattr(aten, name)


def test_graphs_have_the_weight_of_an_embedding_first() -> None:
    """Also where nobody has asked for `weft.embedding` before."""
    program = "import weft; weft.ops.aten.embedding(weft.ones(5, 2), weft.tensor([1]))"
    subprocess.run([sys.executable, "-c", program], check=True)
