"""Probabilities and deviations outside their limits are refused: at the call, or when what is drawn is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch

DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "bernoulli": lambda T, p: T.bernoulli(p),
    "bernoulli_": lambda T, p: T.zeros(3).bernoulli_(p),
    "normal": lambda T, p: T.normal(0.0, p),
    "normal, both": lambda T, p: T.normal(T.zeros(3), p),
}
OUTSIDE = {"negative": [0.5, -0.25, 1.0], "large": [0.5, 1.25, 1.0], "nan": [0.5, float("nan"), 1]}


def _fails(T: Any, draw: Callable[[Any, Any], Any], values: Any) -> bool:
    try:
        draw(T, values).tolist()
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("kind", OUTSIDE)
@pytest.mark.parametrize("name", DRAWS)
def test_limits_hold_as_in_pytorch(name: str, kind: str, pending: bool) -> None:
    def values(T: Any) -> Any:
        made = T.tensor(OUTSIDE[kind])
        return made * 2 / 2 if pending else made

    draw = DRAWS[name]
    assert _fails(weft, draw, values(weft)) == _fails(torch, draw, values(torch))


def test_only_the_draw_fails() -> None:
    x = weft.tensor([0.5, 3.0])
    p = x * 1.0
    coins = weft.bernoulli(p)
    assert p.tolist() == [0.5, 3.0]
    with pytest.raises(RuntimeError, match=r"p_in >= 0 && p_in <= 1") as caught:
        coins.tolist()
    assert "1 of 2 elements" in str(caught.value)


def test_numbers_are_the_same_whether_the_probabilities_are_known() -> None:
    p = weft.rand(64)
    weft.manual_seed(3)
    known = weft.bernoulli(p)
    weft.manual_seed(3)
    pending = weft.bernoulli(p * 1.0)
    assert known.tolist() == pending.tolist()
    weft.manual_seed(3)
    known = weft.normal(0.0, p)
    weft.manual_seed(3)
    pending = weft.normal(0.0, p * 1.0)
    assert known.tolist() == pending.tolist()


def test_deviations_have_their_gradient() -> None:
    s = weft.tensor([1.0, 2.0], requires_grad=True)
    std = s * 2
    out = weft.normal(weft.zeros(2), std)
    assert not out.requires_grad or out.grad_fn is not None


def test_examples_of_a_batch_fail_alone() -> None:
    rows = [weft.tensor([0.25]) * k for k in range(1, 8)]
    coins = [weft.bernoulli(row) for row in rows]
    for k, coin in enumerate(coins, 1):
        if k <= 4:
            assert coin.item() in (0.0, 1.0)
        else:
            with pytest.raises(RuntimeError, match="between 0 and 1"):
                coin.item()


@pytest.mark.parametrize("kind", ["int64", "bool", "complex64"])
def test_probabilities_are_floats(kind: str) -> None:
    for T in (weft, torch):
        with pytest.raises(RuntimeError, match="not implemented"):
            T.bernoulli(T.ones(2, dtype=getattr(T, kind)))
