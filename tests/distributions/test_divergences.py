"""Divergences between distributions of different families, against PyTorch and against integrals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.distributions import kl

# Two of each: the first of a pair and the second differ in every parameter.
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "Beta": [
        {"concentration1": [1.3, 2.0], "concentration0": [2.1, 0.7]},
        {"concentration1": [1.7, 2.5], "concentration0": [1.6, 0.9]},
    ],
    "Bernoulli": [{"probs": [0.3, 0.9]}, {"probs": [0.4, 0.8]}],
    "ContinuousBernoulli": [{"probs": [0.2, 0.7]}, {"probs": [0.3, 0.6]}],
    "Exponential": [{"rate": [0.6, 2.0]}, {"rate": [0.8, 1.5]}],
    "Gamma": [
        {"concentration": [1.4, 0.6], "rate": [2.0, 0.9]},
        {"concentration": [1.1, 0.8], "rate": [1.5, 1.2]},
    ],
    "Gumbel": [
        {"loc": [0.3, -1.0], "scale": [1.2, 0.8]},
        {"loc": [0.5, -0.6], "scale": [1.5, 1.1]},
    ],
    "Laplace": [{"loc": [0.3, 1.0], "scale": [1.0, 2.0]}, {"loc": [0.1, 1.2], "scale": [1.3, 1.5]}],
    "Normal": [{"loc": [0.3, 1.0], "scale": [1.0, 2.0]}, {"loc": [0.1, 1.2], "scale": [1.3, 1.5]}],
    "Pareto": [
        {"scale": [0.05, 0.06], "alpha": [3.0, 2.5]},
        {"scale": [0.04, 0.03], "alpha": [2.2, 3.1]},
    ],
    "Poisson": [{"rate": [1.0, 2.0]}, {"rate": [1.3, 1.8]}],
    "Uniform": [{"low": [0.1, 0.2], "high": [0.6, 0.95]}, {"low": [0.0, 0.1], "high": [0.8, 1.2]}],
    "LowRankMultivariateNormal": [
        {"loc": [0.1, 0.2], "cov_factor": [[1.0], [0.3]], "cov_diag": [0.5, 0.6]},
        {"loc": [0.3, 0.1], "cov_factor": [[0.8], [0.5]], "cov_diag": [0.7, 0.4]},
    ],
    "MultivariateNormal": [
        {"loc": [0.1, 0.2], "scale_tril": [[1.0, 0.0], [0.3, 0.7]]},
        {"loc": [0.3, 0.1], "scale_tril": [[0.8, 0.0], [0.5, 0.9]]},
    ],
}
NAMED = [(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY]
PAIRS = [pair for pair in NAMED if PARAMETERS.keys() >= set(pair)]


def _made(lib: Any, name: str, which: int) -> tuple[Any, list[Any]]:
    given = {
        key: lib.tensor(value, dtype=lib.float64, requires_grad=True)
        for key, value in PARAMETERS[name][which].items()
    }
    return getattr(lib.distributions, name)(**given), list(given.values())


def test_every_pair_of_pytorch_is_here():
    mine = {(p.__name__, q.__name__) for p, q in kl._KL_REGISTRY}
    assert set(NAMED) - mine == {("ExponentialFamily", "ExponentialFamily")}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_divergences_and_their_gradients_agree(pair: tuple[str, str]):
    found = []
    for lib in (weft, torch):
        (one, first), (two, second) = _made(lib, pair[0], 0), _made(lib, pair[1], 1)
        result = lib.distributions.kl_divergence(one, two)
        slopes: Any = []
        if np.isfinite(result.detach().numpy()).all():
            slopes = lib.autograd.grad(result.sum(), [*first, *second], allow_unused=True)
        found.append((result, slopes))
    (mine, slopes), (other, others) = found
    np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-9)
    for slope, expected in zip(slopes, others, strict=True):
        zero = np.zeros(())
        pulled = zero if slope is None else slope.numpy()
        np.testing.assert_allclose(
            pulled, zero if expected is None else expected.numpy(), rtol=1e-7, atol=1e-12
        )


def test_divergences_from_uniform_numbers_are_their_integrals():
    """Also where the first fills the second's interval, which PyTorch calls infinite for a ContinuousBernoulli."""
    d = weft.distributions
    places = (weft.arange(20000, dtype=weft.float64) + 0.5) / 20000
    low, high = weft.tensor(0.0, dtype=weft.float64), weft.tensor(1.0, dtype=weft.float64)
    unit, half = d.Uniform(low, high), weft.tensor(0.3, dtype=weft.float64)
    for other in (d.ContinuousBernoulli(half), d.Gumbel(half, half + 1)):
        expected = -other.log_prob(places).mean()
        assert weft.allclose(d.kl_divergence(unit, other), expected, rtol=1e-6)
    one, two = half + 1, half + 2  # the mean of log x over (0, 1) is -1
    expected = weft.lgamma(one) + weft.lgamma(two) - weft.lgamma(one + two) + one + two - 2
    assert weft.allclose(d.kl_divergence(unit, d.Beta(one, two)), expected, rtol=1e-12)
    skewed = d.ContinuousBernoulli(half)
    expected = (skewed.log_prob(places).exp() * skewed.log_prob(places)).mean()
    assert weft.allclose(d.kl_divergence(skewed, unit), expected, rtol=1e-6)


def test_vectors_of_different_sizes_are_refused():
    normal = weft.distributions.MultivariateNormal(weft.zeros(3), weft.eye(3))
    with pytest.raises(ValueError, match="different event shapes"):
        weft.distributions.kl_divergence(_made(weft, "LowRankMultivariateNormal", 0)[0], normal)


def test_wishart_by_its_samples() -> None:
    """PyTorch's formula does not agree with the mean of its own log densities; this one does."""
    first = [[1.5, 0.2], [0.2, 0.7]], [5.0, 6.0]
    second = [[2.5, -0.2], [-0.2, 0.9]], [4.5, 3.0]
    weft.manual_seed(3)
    p, q = (
        weft.distributions.Wishart(
            weft.tensor(df, dtype=weft.float64), weft.tensor(scale, dtype=weft.float64)
        )
        for scale, df in (first, second)
    )
    drawn = p.sample((40_000,))
    ratios = p.log_prob(drawn) - q.log_prob(drawn)
    error = 5 * ratios.std(0) / 200
    found = weft.distributions.kl_divergence(p, q)
    assert ((found - ratios.mean(0)).abs() < error).all()
    assert weft.distributions.kl_divergence(p, p).abs().max().item() < 1e-12


def test_subclasses_without_the_parameters_of_their_base() -> None:
    q = weft.distributions.Chi2(weft.ones(2))
    for p in (weft.distributions.Normal(0.0, 1.0), weft.distributions.Laplace(0.0, 1.0)):
        assert weft.distributions.kl_divergence(p, q).tolist() == [float("inf")] * 2
