"""Quantiles and integrals of odd values: nan, infinities, nothing, integers whose sums leave their type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

NAN, INF = float("nan"), float("inf")
LINES = {
    "nan": [[NAN, 1.0, -INF, INF, 0.5], [2.0, 2.0, 1.0, 3.0, 1.5]],
    "nan in each": [[NAN, 1.0, 2.0], [1.0, NAN, NAN]],
    "infinities": [[-INF, 2.0], [1.0, INF], [-INF, INF]],
    "all nan": [[NAN, NAN]],
    "numbers": [[3.0, 1.0, 2.0], [5.0, 5.0, 4.0]],
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "half": lambda T, x: T.quantile(x, 0.5),
    "each line": lambda T, x: T.quantile(x, 0.3, dim=1),
    "several": lambda T, x: T.quantile(x, T.tensor([0.0, 0.3, 0.75, 1.0]), dim=0, keepdim=True),
    "lower": lambda T, x: T.quantile(x, 0.6, dim=1, interpolation="lower"),
    "midpoint": lambda T, x: T.quantile(x, 0.6, dim=1, interpolation="midpoint"),
    "without nan": lambda T, x: T.nanquantile(x, 0.5, dim=0),
    "all without nan": lambda T, x: T.nanquantile(x, T.tensor([0.1, 0.9])),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lines", LINES)
def test_quantiles(name: str, lines: str) -> None:
    found = CALLS[name](weft, weft.tensor(LINES[lines]))
    expected = CALLS[name](torch, torch.tensor(LINES[lines]))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_nothing_has_no_quantiles(name: str, shape: tuple[int, ...]) -> None:
    for T in (weft, torch):
        with pytest.raises(RuntimeError, match="non-empty"):
            getattr(T, name)(T.zeros(shape), 0.5)


def test_quantiles_have_the_gradient_of_what_they_lie_between() -> None:
    def gradient(T: Any) -> Any:
        x = T.tensor([[3.0, 1.0, 2.0], [5.0, 7.0, 4.0]], requires_grad=True)
        T.quantile(x, T.tensor([0.2, 0.6, 1.0]), dim=1).sum().backward()
        return x.grad.numpy()

    np.testing.assert_allclose(gradient(weft), gradient(torch), rtol=1e-6)


@pytest.mark.parametrize("kind", ["int16", "int32", "uint8", "int64"])
def test_integrals_of_integers_stay_in_range(kind: str) -> None:
    info = np.iinfo(kind)
    values = np.array([info.max // 2, info.max, 5, 3], kind)
    expected = np.trapezoid(values.astype(np.float64))
    assert weft.trapezoid(weft.from_numpy(values)).item() == pytest.approx(expected, rel=1e-6)
    running = weft.cumulative_trapezoid(weft.from_numpy(values))[-1].item()
    assert running == pytest.approx(expected, rel=1e-6)


def test_truth_values_have_no_integral() -> None:
    for T in (weft, torch):
        with pytest.raises(RuntimeError, match="bool"):
            T.trapezoid(T.tensor([True, False]))
