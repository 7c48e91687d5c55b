"""Slots that values of different sizes share."""

from __future__ import annotations

import weft
from pass_check import rounded
from weft.engine.devices.cpu import pool

WIDTHS = range(320, 240, -10)


def through(x: weft.Tensor, weights: list[weft.Tensor]) -> weft.Tensor:
    """Products whose results become smaller and smaller: no two of them are of one size."""
    for weight in weights:
        x = (x @ weight).tanh()
    return x.sum(dim=1)


@rounded
def test_values_that_shrink_share_slots() -> None:
    weft.manual_seed(0)
    widths = list(WIDTHS)
    weights = [weft.randn(a, b) / 16 for a, b in zip(widths, widths[1:], strict=False)]
    x = weft.randn(1024, widths[0])
    weft.realize(x, *weights)
    results = []
    for _ in range(3):
        before = pool.stats()["allocated"]
        pool.reset_peak()
        results.append(through(x, weights).numpy().tobytes())
        needed = pool.stats()["peak"] - before
    assert needed < 4 * x.nbytes
    assert len({*results}) == 1
