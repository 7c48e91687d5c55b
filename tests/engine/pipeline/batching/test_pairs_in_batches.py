"""Where two examples of a batch go on longer than the others, they show what each shows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.config import config

pytestmark = pytest.mark.usefixtures("verified")


def run(width: int, lengths: list[int], batched: bool = True) -> tuple[list[Any], Any]:
    """Vectors that go through one layer as often as their lengths say: the results, the weight's gradient."""
    weft.manual_seed(0)
    layer = weft.nn.Linear(width, width, dtype=weft.float64)
    vectors = [weft.randn(width, dtype=weft.float64) for _ in lengths]
    before, config.batch = config.batch, batched
    try:
        for number, length in enumerate(lengths):
            for _ in range(length):
                vectors[number] = layer(vectors[number]).tanh()
        weft.stack(vectors).square().sum().backward()
        return [vector.numpy(force=True) for vector in vectors], layer.weight.grad.numpy()
    finally:
        config.batch = before


@pytest.mark.parametrize("lengths", [[3, 2, 3], [1, 2, 4, 4], [5, 1, 3, 5, 2]])
def test_pairs_show_what_each_shows_alone(lengths: list[int]) -> None:
    values, gradient = run(8, lengths)
    alone, gradient_alone = run(8, lengths, batched=False)
    for value, other in zip(values, alone, strict=True):
        np.testing.assert_array_equal(value, other)
    np.testing.assert_allclose(gradient, gradient_alone, 1e-12, 1e-12)
