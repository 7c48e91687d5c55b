"""What only a later kernel needs is computed there if that moves no more memory; bits do not depend on it."""

from __future__ import annotations

from collections.abc import Callable

import weft
from weft import Tensor
from weft.debug import stages


def kernels(run: Callable[[], Tensor]) -> list[str]:
    """What each kernel computes and stores, without sizes."""
    lines = stages(run)["fuse"].splitlines()
    return [line.split(": ")[1].replace("[8, 8]", "") for line in lines]


def values(count: int) -> list[Tensor]:
    weft.manual_seed(count)
    made = [weft.randn(8, 8) for _ in range(count)]
    weft.realize()
    return made


def test_a_chain_of_operations_sinks() -> None:
    x, w = values(2)

    def step() -> Tensor:
        shown = x.sigmoid()
        slope = shown * (1 - shown)
        return (shown @ w) * slope

    assert kernels(step) == [
        "sigmoid -> sigmoid",
        "matmul -> matmul",
        "sub mul mul -> mul",
    ]
    shown = x.sigmoid()
    slope = shown * (1 - shown)
    slope.sum().item()
    assert weft.equal(step(), (shown @ w) * slope)


def test_what_two_kernels_read_stays() -> None:
    x, w = values(2)

    def step() -> Tensor:
        shown = x.sigmoid()
        slope = shown * (1 - shown)
        once = (shown @ w) * slope
        return (once @ w) * slope

    assert kernels(step)[0] == "sigmoid sub mul -> sigmoid, mul"


def test_what_is_needed_here_too_stays() -> None:
    """1 - shown is read by what does not go: it would have to be stored for the chain."""
    x, w = values(2)

    def step() -> Tensor:
        shown = x.sigmoid()
        rest = 1 - shown
        slope = shown * rest
        return ((shown @ w) * slope) @ rest.exp()

    assert kernels(step)[0] == "sigmoid sub exp mul -> sigmoid, exp, mul"


def test_what_would_read_more_stays() -> None:
    """One value is stored and read instead of four that nobody else needs later."""
    a, b, c, d, w = values(5)

    def step() -> Tensor:
        shown = a.exp()
        mixed = (shown + b) * (c - d) / (b + c + d)
        return ((shown @ w) @ w) * mixed

    assert "div" in kernels(step)[0].split(" -> ")[1]
