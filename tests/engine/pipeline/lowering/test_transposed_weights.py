"""A weight that many products of few rows read across is turned once for all of them, and no bit depends on it."""

from __future__ import annotations

import pytest

import weft
from weft.debug import stages
from weft.engine.devices.cpu.tuning import TUNING
from weft.nn import functional as F

OFTEN = TUNING.products.fewest_prepacked
FEWEST = TUNING.products.fewest_prepacked_rows
MOST = TUNING.products.most_prepacked_rows


def chain(times: int, rows: int, *, bias: bool, read: bool = False) -> weft.Tensor:
    """A recurrence of two products a turn, each of which needs the one before; with `read` turns are programs of their
    own."""
    weft.manual_seed(rows)
    up, down, hidden = weft.randn(64, 48), weft.randn(48, 64), weft.randn(rows, 48)
    shift = weft.randn(48) if bias else None
    weft.realize()
    for _ in range(times):
        hidden = F.linear(F.linear(hidden, up), down, shift).tanh()
        if read:
            hidden.sum().item()
    return hidden


def copies(times: int, rows: int, *, bias: bool = True) -> int:
    text = stages(lambda: chain(times, rows, bias=bias))["lower"]
    return sum(" copy_" in line for line in text.splitlines())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [FEWEST, 32, MOST])
def test_bits_are_those_of_single_products(rows: int, bias: bool) -> None:
    assert weft.equal(chain(OFTEN, rows, bias=bias), chain(OFTEN, rows, bias=bias, read=True))


@pytest.mark.parametrize("bias", [False, True])
def test_one_copy_of_each_serves_all(bias: bool) -> None:
    assert copies(OFTEN + 3, 32, bias=bias) == 2


def test_seldom_read_or_read_by_other_numbers_of_rows_it_stays() -> None:
    assert copies(OFTEN - 1, 32) == 0
    assert copies(OFTEN, FEWEST - 1) == 0
    assert copies(OFTEN, MOST + 1) == 0


def test_the_gradient_of_a_recurrence_agrees() -> None:
    """Backwards the same weight is read along the other axis; updates come after all copies."""

    def gradient(read: bool) -> weft.Tensor:
        weft.manual_seed(0)
        weight, hidden = weft.randn(48, 48).div(7).requires_grad_(), weft.randn(20, 48)
        for _ in range(OFTEN):
            hidden = F.linear(hidden, weight).tanh()
            if read:
                hidden.sum().item()
        hidden.square().sum().backward()
        with weft.no_grad():
            weight.sub_(weight.grad, alpha=0.1)
        return weight

    weft.testing.assert_close(gradient(False), gradient(True))


@pytest.mark.parametrize("alone", [0, 3])
def test_the_copy_comes_before_all_that_are_launched_together(alone: int) -> None:
    """Products of one group, of which the first does not read what is turned: it is not to pull others ahead of it."""

    def step(read: bool) -> list[weft.Tensor]:
        weft.manual_seed(3)
        plain, across = weft.randn(64, 64).div(9), weft.randn(64, 64).div(9)
        hidden = [weft.randn(rows, 64) for rows in (13, 12, 11, 14)]
        weft.realize()
        for _ in range(OFTEN):
            hidden = [
                (h @ (plain if i == alone else across.T)).tanh() for i, h in enumerate(hidden)
            ]
            if read:
                for h in hidden:
                    h.sum().item()
        weft.realize()
        return hidden

    together, one_by_one = step(False), step(True)
    assert all(map(weft.equal, together, one_by_one))
