"""The laws of `nn.init` and of the numbers that layers start with (Kolmogorov-Smirnov against SciPy's, fixed seeds)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import weft
from weft import nn

LEAST = 1e-4
SHAPE = (100, 40, 5)  # 200 go in, 500 come out


def even(bound: float) -> Any:
    """Between -bound and bound."""
    return stats.uniform(-bound, 2 * bound)


LAWS: dict[str, tuple[Any, Any]] = {
    "uniform_": (lambda w: nn.init.uniform_(w, -1, 3), stats.uniform(-1, 4)),
    "normal_": (lambda w: nn.init.normal_(w, 2, 3), stats.norm(2, 3)),
    "trunc_normal_": (lambda w: nn.init.trunc_normal_(w, 1, 2, -1, 2), stats.truncnorm(-1, 0.5, 1, 2)),
    "trunc_normal_ far out": (lambda w: nn.init.trunc_normal_(w, 0, 1, 2, 3), stats.truncnorm(2, 3)),
    "xavier_uniform_": (lambda w: nn.init.xavier_uniform_(w, 2), even(2 * (6 / 700) ** 0.5)),
    "xavier_normal_": (lambda w: nn.init.xavier_normal_(w, 2), stats.norm(0, 2 * (2 / 700) ** 0.5)),
    "kaiming_uniform_": (lambda w: nn.init.kaiming_uniform_(w), even((6 / 200) ** 0.5)),
    "kaiming_uniform_ of slope 5**0.5": (
        lambda w: nn.init.kaiming_uniform_(w, math.sqrt(5)), even((1 / 200) ** 0.5),
    ),
    "kaiming_normal_ of what comes out": (
        lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), stats.norm(0, (2 / 500) ** 0.5),
    ),
    "kaiming_normal_ of tanh": (
        lambda w: nn.init.kaiming_normal_(w, nonlinearity="tanh"), stats.norm(0, 5 / 3 / 200**0.5),
    ),
}  # fmt: skip
STARTS: dict[str, tuple[Any, str, Any]] = {
    "Linear, weight": (lambda: nn.Linear(100, 200), "weight", 0.1),
    "Linear, bias": (lambda: nn.Linear(100, 9000), "bias", 0.1),
    "Conv2d, weight": (lambda: nn.Conv2d(20, 50, 5), "weight", 1 / 500**0.5),
    "Conv2d of groups, weight": (lambda: nn.Conv2d(20, 100, 5, groups=2), "weight", 1 / 250**0.5),
    "ConvTranspose1d, weight": (lambda: nn.ConvTranspose1d(100, 40, 5), "weight", 1 / 200**0.5),
    "LSTM, weight": (lambda: nn.LSTM(30, 64), "weight_hh_l0", 1 / 8),
    "GRUCell, weight": (lambda: nn.GRUCell(100, 64), "weight_ih", 1 / 8),
    "Bilinear, weight": (lambda: nn.Bilinear(25, 20, 30), "weight", 1 / 5),
    "MultiheadAttention, weight": (lambda: nn.MultiheadAttention(96, 4), "in_proj_weight", (6 / 384) ** 0.5),
    "Embedding, weight": (lambda: nn.Embedding(200, 50), "weight", None),
    "EmbeddingBag, weight": (lambda: nn.EmbeddingBag(200, 50), "weight", None),
}  # fmt: skip


@pytest.fixture(autouse=True)
def seed() -> None:
    weft.manual_seed(3)


def is_from(values: Any, law: Any) -> bool:
    flat = values.detach().to(weft.float64).numpy().reshape(-1)
    low, high = law.support()
    step = 1e-6 * max(1.0, abs(flat).max())
    assert flat.min() >= low - step and flat.max() <= high + step
    return bool(stats.kstest(flat, law.cdf).pvalue > LEAST)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LAWS)
def test_laws(name: str, dtype: str) -> None:
    fill, law = LAWS[name]
    assert is_from(fill(weft.empty(SHAPE, dtype=getattr(weft, dtype))), law)


@pytest.mark.parametrize("name", STARTS)
def test_layers_start_as_in_pytorch(name: str) -> None:
    make, parameter, bound = STARTS[name]
    law = stats.norm() if bound is None else even(bound)
    assert is_from(getattr(make(), parameter), law)


def test_orthogonal_matrices_are_equally_likely() -> None:
    """Of a matrix from Haar's measure, the square of an entry is beta(1/2, (n - 1)/2), on and off the diagonal."""
    made = [nn.init.orthogonal_(weft.empty(5, 3)).numpy() for _ in range(600)]
    np.testing.assert_allclose(made[0].T @ made[0], np.eye(3), atol=1e-5)
    for place in ((0, 0), (2, 1), (4, 2)):
        entries = np.array([matrix[place] for matrix in made])
        assert stats.kstest(entries**2, stats.beta(0.5, 2).cdf).pvalue > LEAST
        assert abs((entries > 0).mean() - 0.5) < 0.08


def test_sparse_columns_have_their_zeros_anywhere() -> None:
    matrix = nn.init.sparse_(weft.empty(200, 400), 0.3, std=0.5).numpy()
    assert ((matrix == 0).sum(0) == 60).all()
    rows = (matrix == 0).sum(1)
    assert stats.chisquare(rows).pvalue > LEAST
    assert stats.kstest(matrix[matrix != 0], stats.norm(0, 0.5).cdf).pvalue > LEAST


def test_orders_of_samplers() -> None:
    from weft.utils.data import RandomSampler, WeightedRandomSampler, random_split

    orders = np.array([list(RandomSampler(range(6))) for _ in range(600)])
    for place in range(6):
        assert stats.chisquare(np.bincount(orders[:, place], minlength=6)).pvalue > LEAST
    again = list(RandomSampler(range(6), replacement=True, num_samples=6000))
    assert stats.chisquare(np.bincount(again, minlength=6)).pvalue > LEAST
    drawn = np.bincount(list(WeightedRandomSampler([1.0, 2.0, 5.0], 8000)), minlength=3)
    assert stats.chisquare(drawn, [1000, 2000, 5000]).pvalue > LEAST
    first = [list(random_split(range(6), [2, 4])[0].indices) for _ in range(600)]
    assert stats.chisquare(np.bincount(np.array(first).reshape(-1))).pvalue > LEAST
