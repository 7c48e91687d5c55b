"""Histograms counted in blocks: as PyTorch's, whatever the size of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.functional.sorting import histograms

EDGES = {
    "equal": 7,
    "given": [-2.0, -0.5, 0.0, 0.1, 3.0],
    "twice": [-1.0, 0.0, 0.0, 0.5],
    "out of order": [-1.0, 0.7, 0.2, 1.5],
}


@pytest.fixture(params=[1, 7, 1 << 14], autouse=True)
def _block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histograms, "BLOCK", request.param)


def drawn(*shape: int) -> Any:
    """Sixteenths, some of them edges, and nan."""
    values = np.random.default_rng(3).integers(-40, 40, shape) / 16
    values.reshape(-1)[5] = np.nan
    return values


@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("edges", EDGES)
def test_one_dimension(edges: str, weighted: bool) -> None:
    values = drawn(60)
    both = []
    for lib in (weft, torch):
        bins = EDGES[edges]
        given = lib.tensor(bins, dtype=lib.float64) if isinstance(bins, list) else bins
        options: dict[str, Any] = {} if isinstance(bins, list) else {"range": (-2.0, 2.0)}
        if weighted:
            options["weight"] = lib.arange(60, dtype=lib.float64)
        both.append(lib.histogram(lib.tensor(values), given, **options).hist.numpy())
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("density", (False, True))
def test_two_dimensions(density: bool) -> None:
    values = drawn(50, 2)
    both = [
        lib.histogramdd(
            lib.tensor(values), [4, 3], range=[-2.0, 2.0, -1.0, 2.5], density=density
        ).hist.numpy()
        for lib in (weft, torch)
    ]
    np.testing.assert_allclose(*both, rtol=1e-15)


@pytest.mark.parametrize("dtype", ("float16", "float32", "float64"))
def test_counts_of_equal_intervals(dtype: str) -> None:
    values = np.floor(np.nan_to_num(drawn(60) * 8)).astype(dtype)
    found = weft.histc(weft.tensor(values), 5, 1, 21)
    counts, _ = np.histogram(values, 5, (1, 21))
    assert found.tolist() == counts.tolist()


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 2.0), (5.0, 5.0), (1.0, 3.0)])
def test_a_range_of_one_number_has_room_on_both_sides(bounds: tuple[float, float]) -> None:
    def counted(lib: Any) -> Any:
        values = lib.tensor([1.0, 2.0, 3.0])
        one = lib.histogram(values, 2, range=bounds)
        more = lib.histogramdd(values.reshape(3, 1), [2], range=list(bounds))
        return [
            one.hist.tolist(),
            one.bin_edges.tolist(),
            more.hist.tolist(),
            more.bin_edges[0].tolist(),
        ]

    assert counted(weft) == counted(torch)
