"""What a seed means: integers, orders and numbers in place are the ones that the generator's 32 bits give."""

from __future__ import annotations

import numpy as np
import pytest

import weft

SEEDS = (0, 7, 2**63 + 5)


def bits(seed: int, offset: int, count: int) -> np.ndarray:
    """Numbers of a seed's sequence from `offset` on."""
    source = weft.Generator().manual_seed(seed)
    source.set_offset(offset)
    return source.bits((count,)).numpy()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3, 4), (5, 2**31 + 5), (-128, 128)])
def test_integers_of_a_short_span(seed: int, low: int, high: int) -> None:
    weft.manual_seed(seed)
    drawn = weft.randint(low, high, (40, 25)).numpy().reshape(-1)
    np.testing.assert_array_equal(drawn, (bits(seed, 0, 1000) * (high - low) >> 32) + low)
    assert weft.random.default_generator.get_offset() == 1000


@pytest.mark.parametrize("seed", SEEDS)
def test_integers_of_a_long_span(seed: int) -> None:
    weft.manual_seed(seed)
    wide = (bits(seed, 0, 100) >> 1) * 2**32 + bits(seed, 100, 100)
    drawn = weft.randint(-5, 2**40, (100,)).numpy()
    np.testing.assert_array_equal(drawn, wide % (2**40 + 5) - 5)


@pytest.mark.parametrize("count", [0, 1, 50, 3000])
def test_an_order_is_that_of_wide_integers(count: int) -> None:
    weft.manual_seed(3)
    wide = (bits(3, 0, count) >> 1) * 2**32 + bits(3, count, count)
    drawn = weft.randperm(count).numpy()
    np.testing.assert_array_equal(drawn, np.argsort(wide, kind="stable"))


def test_numbers_in_place_are_those_of_new_tensors() -> None:
    weft.manual_seed(1)
    uniform, normal = weft.rand(100), weft.randn(100)
    for scale, shift in ((1.0, 0.0), (2.0, 0.0), (1.0, 3.0), (0.5, -1.0)):
        weft.manual_seed(1)
        x = weft.empty(10, 10).t().uniform_(shift, shift + scale)
        y = weft.empty(100).normal_(shift, scale)
        assert weft.equal(x.reshape(-1), uniform * scale + shift)
        assert weft.equal(y, normal * scale + shift)


def test_examples_drawn_together_are_those_drawn_alone() -> None:
    weft.manual_seed(5)
    together = [weft.randint(0, 9, (4,)) + weft.randperm(4) for _ in range(6)]
    weft.realize(*together)
    weft.manual_seed(5)
    for drawn in together:
        alone = weft.randint(0, 9, (4,)) + weft.randperm(4)
        assert alone.tolist() == drawn.tolist()
