"""Poisson counts: of low rates, which are walked to, and of high ones."""

import numpy as np
import pytest
from scipy import stats

import weft
from weft.functional.random.poisson import MOST_RATE, walked


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.3, 4.0, 63.9, MOST_RATE])
def test_counts_are_quantiles(rate):
    """The smallest count whose distribution function reaches the number."""
    uniform = np.random.default_rng(0).random(2000)
    uniform[:3] = 0.0, 1 - 1e-12, 2.0**-53
    counts = walked(np.full(2000, rate), uniform)
    wanted = stats.poisson.ppf(uniform, rate) if rate else np.zeros(2000)
    wanted[uniform == 0] = 0
    assert (counts == wanted).mean() > 0.999  # a number may lie beside a step
    assert np.abs(counts - wanted).max() <= 1


@pytest.mark.parametrize("rate", [0.5, 20.0, 64.5, 1000.0])
def test_counts_have_mean_and_variance_of_their_rate(rate):
    weft.manual_seed(1)
    counts = weft.poisson(weft.full((200, 200), rate)).double()
    assert abs(counts.mean().item() - rate) < 5 * (rate / 40000) ** 0.5
    assert abs(counts.var().item() / rate - 1) < 0.1


def test_rates_may_be_mixed():
    rates = weft.tensor([[0.0, 1.0], [100.0, 5000.0]])
    counts = weft.poisson(rates)
    assert counts[0, 0].item() == 0
    assert (counts == counts.round()).all().item()
    assert abs(counts[1, 1].item() - 5000) < 500


@pytest.mark.parametrize("rate", [3.0, 300.0])
def test_a_rate_without_dimensions_has_a_count_without(rate):
    assert weft.poisson(weft.tensor(rate)).shape == ()
    law = weft.distributions.NegativeBinomial(rate, weft.tensor(0.3))
    assert law.sample().shape == () and law.sample((2,)).shape == (2,)
