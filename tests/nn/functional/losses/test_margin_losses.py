"""Margins of several labels: rows are compared some at a time, which nobody sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.nn.functional.losses import margin


def losses(lib: Any, reduction: str) -> list[Any]:
    """The losses of five rows of six classes, and the gradient."""
    made = np.random.default_rng(0)
    x = lib.tensor(made.standard_normal((5, 6)), requires_grad=True)
    labels = lib.tensor(
        [[3, 0, -1, 1, 1, 1], [-1, 0, 0, 0, 0, 0], [5, 4, 3, 2, 1, 0], [2] * 6, [0, -1] * 3]
    )
    found = lib.nn.functional.multilabel_margin_loss(x, labels, reduction=reduction)
    found.sum().backward()
    return [found.detach().numpy(), x.grad.numpy()]


@pytest.mark.parametrize("pairs", [1, 36, 80, 1 << 20])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_rows_at_a_time_give_pytorchs_losses(
    monkeypatch: pytest.MonkeyPatch, pairs: int, reduction: str
) -> None:
    monkeypatch.setattr(margin, "PAIRS_AT_ONCE", pairs)
    for mine, theirs in zip(losses(weft, reduction), losses(torch, reduction), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-12, 1e-12)


def test_no_rows_have_no_losses() -> None:
    nothing = weft.nn.functional.multilabel_margin_loss(
        weft.ones(0, 3), weft.ones(0, 3).long(), reduction="none"
    )
    assert tuple(nothing.shape) == (0,)


@pytest.mark.parametrize("pairs", [36, 1 << 20])
def test_derivatives_of_any_order_and_mode(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    monkeypatch.setattr(margin, "PAIRS_AT_ONCE", pairs)
    labels = weft.tensor([[3, 0, -1, 1, 1], [2, 2, 2, 2, 2], [-1, 0, 0, 0, 0]])

    def each(x: weft.Tensor) -> weft.Tensor:
        return weft.nn.functional.multilabel_margin_loss(x, labels, reduction="none")

    x = weft.tensor(np.random.default_rng(1).standard_normal((3, 5)), requires_grad=True)
    assert weft.autograd.gradcheck(each, (x,), check_forward_ad=True)
    assert weft.autograd.gradgradcheck(each, (x,))
    single = weft.func.vmap(
        lambda row, own: weft.nn.functional.multilabel_margin_loss(row, own, reduction="none")
    )
    np.testing.assert_array_equal(single(x.detach(), labels).numpy(), each(x.detach()).numpy())


def test_a_gradient_keeps_no_pairs() -> None:
    kept: list[int] = []

    def note(x: weft.Tensor) -> weft.Tensor:
        kept.append(x.numel())
        return x

    x = weft.ones(3, 64, requires_grad=True)
    with weft.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        weft.nn.functional.multilabel_margin_loss(x, weft.arange(192).reshape(3, 64) % 64)
    assert max(kept, default=0) <= x.numel()
