"""Sobol' sequences: unscrambled points are PyTorch's, scrambled ones keep what makes them even."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.quasirandom import SobolEngine


def engines(*arguments: Any, **keywords: Any) -> tuple[Any, Any]:
    return SobolEngine(*arguments, **keywords), torch.quasirandom.SobolEngine(
        *arguments, **keywords
    )


@pytest.mark.parametrize(
    ("dimension", "count"), [(1, 64), (2, 300), (37, 129), (1111, 40), (21201, 5)]
)
def test_points_are_pytorchs(dimension: int, count: int) -> None:
    ours, theirs = engines(dimension)
    assert ours.draw(count).tolist() == theirs.draw(count).tolist()


def test_state_moves_as_pytorchs_does() -> None:
    ours, theirs = engines(3)
    for step in (1, 3, 1, 7):
        assert ours.draw(step).tolist() == theirs.draw(step).tolist()
    for engine in (ours, theirs):
        engine.fast_forward(1000)
    assert ours.draw(4).tolist() == theirs.draw(4).tolist()
    assert ours.num_generated == theirs.num_generated == 1016
    for engine in (ours, theirs):
        engine.reset()
        with pytest.raises(ValueError, match="balance properties"):
            engine.draw(3) is None or engine.draw_base2(2)
        engine.reset()
    assert ours.draw_base2(5).tolist() == theirs.draw_base2(5).tolist()
    assert repr(SobolEngine(3, True, 2)) == repr(engines(3, True, 2)[1])


def test_types_and_out() -> None:
    engine = SobolEngine(2)
    assert engine.draw(4).dtype is weft.float32
    assert engine.draw(4, dtype=weft.float64).dtype is weft.float64
    out = weft.empty(0)
    assert engine.draw(4, out=out) is out
    assert out.shape == (4, 2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scrambled_points_fill_every_elementary_interval_once(seed: int) -> None:
    """Of 2 ** m points one lies in each of 2 ** m equal parts, in each dimension, after scrambling too."""
    points = SobolEngine(5, scramble=True, seed=seed).draw(256, dtype=weft.float64).numpy()
    for column in points.T:
        assert sorted(np.floor(column * 256).astype(int)) == list(range(256))


def test_scrambling_follows_its_seed() -> None:
    one, again = (SobolEngine(4, scramble=True, seed=7).draw(16).tolist() for _ in range(2))
    assert one == again
    assert one != SobolEngine(4, scramble=True, seed=8).draw(16).tolist()
    assert SobolEngine(4, scramble=True).draw(16).min().item() >= 0


@pytest.mark.parametrize("dimension", [0, -1, 21202])
def test_other_dimensions_are_refused(dimension: int) -> None:
    with pytest.raises(ValueError, match="Supported range of dimensionality"):
        SobolEngine(dimension)
