"""Cotangents of the pieces of a split: joined where they fill the whole, added up where they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.debug import stages


def values(*shape: int, seed: int = 1) -> weft.Tensor:
    made = weft.randn(*shape, generator=weft.Generator().manual_seed(seed), dtype=weft.float64)
    weft.realize(made)
    return made


SPLITS: dict[str, tuple[tuple[int, ...], Callable[[Any], list[Any]], bool]] = {
    "chunks": ((3, 8), lambda x: list(x.chunk(4, -1)), True),
    "chunks of a vector": ((8,), lambda x: list(x.chunk(4)), True),
    "uneven pieces": ((3, 8), lambda x: list(x.split([1, 5, 2], 1)), True),
    "slices in another order": ((3, 8), lambda x: [x[:, 4:], x[:, :4]], True),
    "a piece is left out": ((3, 8), lambda x: list(x.chunk(4, 1))[1:], False),
    "pieces that overlap": ((3, 8), lambda x: [x[:, :5], x[:, 3:]], False),
    "a piece twice": ((3, 8), lambda x: [x[:, :4], x[:, :4], x[:, 4:]], False),
    "along the first dimension": ((4, 3), lambda x: list(x.chunk(2, 0)), True),
    "every other": ((3, 8), lambda x: [x[:, ::2], x[:, 1::2]], False),
}


def loss_of(pieces: list[Any]) -> Any:
    """Each piece in a way of its own."""
    parts = [(piece.sin() * (number + 1)).sum() for number, piece in enumerate(pieces)]
    return weft.stack(parts).sum()


@pytest.mark.parametrize("name", SPLITS)
def test_gradients_of_pieces(name: str) -> None:
    shape, split, _ = SPLITS[name]
    data = values(*shape)
    leaf = data.clone().requires_grad_()
    loss_of(split(leaf * 1)).backward()
    mask = weft.zeros(shape, dtype=weft.float64)
    for number, piece in enumerate(split(mask)):
        piece += number + 1
    assert np.allclose(leaf.grad.numpy(), (mask * data.cos()).numpy(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", SPLITS)
def test_pieces_that_fill_the_whole_are_joined(name: str) -> None:
    shape, split, joined = SPLITS[name]
    leaf = values(*shape).requires_grad_()
    text = stages(lambda: loss_of(split(leaf * 1)).backward())["collect"]
    assert ("= cat(" in text and "= put(" not in text) is joined


def test_a_second_derivative_through_pieces() -> None:
    weft.autograd.gradgradcheck(
        lambda x: loss_of(list((x * x).chunk(4, 1))), (values(2, 8).requires_grad_(),)
    )


def test_examples_in_batches_and_rows_in_order() -> None:
    found = []
    for alone in (False, True):
        leaves = [values(8, seed=n).requires_grad_() for n in range(6)]
        losses = [loss_of(list(leaf.tanh().chunk(4))) for leaf in leaves]
        for loss in losses if alone else [weft.stack(losses).sum()]:
            loss.backward()
        found.append([leaf.grad.numpy() for leaf in leaves])
    for one, other in zip(*found, strict=True):
        assert np.allclose(one, other, rtol=1e-13, atol=0)


@pytest.mark.parametrize("readers", [4, 5, 7])
def test_pieces_that_only_some_examples_use_are_joined_too(readers: int) -> None:
    """The last piece is read by some of the examples, in a batch of their own; others have zeros there."""
    table = values(9, 8).requires_grad_()
    weights = values(4, seed=2)

    def loss() -> Any:
        losses = []
        for number in range(9):
            first, second, last = (table[number] * 2).split([2, 2, 4])
            total = (first.sin() * second.cos()).sum()
            if number % 9 < readers:
                total = total + (last.exp() * weights).sum()
            losses.append(total)
        return weft.stack(losses).sum()

    text = stages(lambda: loss().backward())["collect"]
    assert "= cat(" in text
    assert "= put(" not in text
    first, second, last = table.detach().mul(2).split([2, 2, 4], 1)
    used = (weft.arange(9) < readers).unsqueeze(1)
    parts = [
        first.cos() * second.cos(),
        -first.sin() * second.sin(),
        weft.where(used, last.exp() * weights, 0.0),
    ]
    expected = 2 * weft.cat(parts, 1)
    assert np.allclose(table.grad.numpy(), expected.numpy(), rtol=1e-14, atol=0)
