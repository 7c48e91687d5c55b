"""Distributions say what PyTorch's say: densities, moments, entropies, divergences and the gradients of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

theirs = torch.distributions

HAS_CHOLESKY = hasattr(weft.linalg, "cholesky") and hasattr(weft.linalg, "solve_triangular")
needs_cholesky = pytest.mark.skipif(not HAS_CHOLESKY, reason="weft.linalg.cholesky is missing")
A, B, C = [0.5, 1.7, 3.2], [1.3, 0.4, 2.5], [4.5, 6.0, 9.0]
P = [0.2, 0.5, 0.9]
ROWS = [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]
FACTOR = [[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.5, 0.2, 1.5]]
# name, parameters, values
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("Normal", {"loc": A, "scale": B}, [0.1, 2.0, -3.0]),
    ("Laplace", {"loc": A, "scale": B}, [0.1, 2.0, -3.0]),
    ("Cauchy", {"loc": A, "scale": B}, [0.1, 2.0, -3.0]),
    ("Gumbel", {"loc": A, "scale": B}, [0.1, 2.0, -3.0]),
    ("StudentT", {"df": C, "loc": A, "scale": B}, [0.1, 2.0, -3.0]),
    ("Uniform", {"low": A, "high": C}, [0.6, 3.0, 8.0]),
    ("Exponential", {"rate": B}, [0.1, 2.0, 0.7]),
    ("Gamma", {"concentration": A, "rate": B}, [0.1, 2.0, 0.7]),
    ("Chi2", {"df": C}, [0.1, 2.0, 0.7]),
    ("InverseGamma", {"concentration": C, "rate": B}, [0.1, 2.0, 0.7]),
    ("Beta", {"concentration1": A, "concentration0": B}, [0.1, 0.2, 0.7]),
    ("Dirichlet", {"concentration": [A, C]}, ROWS),
    ("FisherSnedecor", {"df1": B, "df2": C}, [0.1, 2.0, 0.7]),
    ("LogNormal", {"loc": A, "scale": B}, [0.1, 2.0, 3.0]),
    ("HalfNormal", {"scale": B}, [0.1, 2.0, 3.0]),
    ("HalfCauchy", {"scale": B}, [0.1, 2.0, 3.0]),
    ("Pareto", {"scale": A, "alpha": C}, [0.7, 2.0, 4.0]),
    ("Weibull", {"scale": A, "concentration": B}, [0.1, 2.0, 0.7]),
    ("Kumaraswamy", {"concentration1": A, "concentration0": B}, [0.1, 0.2, 0.7]),
    ("LogisticNormal", {"loc": A[:2], "scale": B[:2]}, ROWS[0]),
    ("Bernoulli", {"probs": P}, [1.0, 0.0, 1.0]),
    ("Bernoulli", {"logits": A}, [1.0, 0.0, 1.0]),
    ("Geometric", {"probs": P}, [0.0, 3.0, 1.0]),
    ("Geometric", {"logits": A}, [0.0, 3.0, 1.0]),
    ("Binomial", {"total_count": 5, "probs": P}, [0.0, 3.0, 5.0]),
    ("Binomial", {"total_count": 5, "logits": A}, [0.0, 3.0, 5.0]),
    ("NegativeBinomial", {"total_count": 5, "probs": P}, [0.0, 3.0, 5.0]),
    ("Poisson", {"rate": B}, [0.0, 3.0, 5.0]),
    ("Categorical", {"probs": ROWS}, [0, 2]),
    ("Categorical", {"logits": [A, B]}, [0, 2]),
    ("OneHotCategorical", {"probs": ROWS}, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    ("Multinomial", {"total_count": 4, "probs": ROWS}, [[2.0, 1.0, 1.0], [0.0, 4.0, 0.0]]),
    ("RelaxedBernoulli", {"temperature": 0.7, "probs": P}, [0.1, 0.5, 0.8]),
    ("RelaxedOneHotCategorical", {"temperature": 0.7, "probs": ROWS}, ROWS),
    ("MultivariateNormal", {"loc": A, "scale_tril": FACTOR}, B),
    ("ContinuousBernoulli", {"probs": P}, [0.1, 0.5, 0.8]),
    ("ContinuousBernoulli", {"logits": A}, [0.1, 0.5, 0.8]),
    ("LowRankMultivariateNormal", {"loc": A, "cov_factor": [[1.0, 0.2], [0.3, -1.0], [0.5, 2.0]], "cov_diag": B}, B),
    ("LKJCholesky", {"dim": 3, "concentration": [1.5, 0.7]}, [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]),
]  # fmt: skip
MARKED = [
    pytest.param(
        *case, marks=[needs_cholesky] * (case[0] == "MultivariateNormal"), id=f"{case[0]}-{i}"
    )
    for i, case in enumerate(CASES)
]


def made(lib: Any, name: str, options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """A distribution, and its parameters as leaves."""
    leaves = []
    given = {}
    for key, value in options.items():
        if isinstance(value, list):
            value = lib.tensor(np.array(value), requires_grad=True)
            leaves.append(value)
        elif key == "temperature":
            value = lib.tensor(np.array(value))
        given[key] = value
    return getattr(lib.distributions, name)(**given), leaves


def array(value: Any) -> Any:
    return np.asarray(value.detach().numpy())


def close(mine: Any, other: Any) -> None:
    np.testing.assert_allclose(array(mine), array(other), rtol=1e-7, atol=1e-9)
    assert tuple(mine.shape) == tuple(other.shape)


def both(action: Any, mine: Any, other: Any) -> tuple[Any, Any] | None:
    """What both give; None where PyTorch gives nothing."""
    try:
        expected = action(other)
    except (NotImplementedError, RuntimeError):
        return None
    return action(mine), expected


@pytest.mark.parametrize(("name", "options", "values"), MARKED)
def test_densities_moments_and_gradients_agree(name: str, options: Any, values: Any) -> None:
    mine, leaves = made(weft, name, options)
    other, their_leaves = made(torch, name, options)
    assert (tuple(mine.batch_shape), tuple(mine.event_shape)) == (
        tuple(other.batch_shape), tuple(other.event_shape),
    )  # fmt: skip
    assert mine.has_rsample == other.has_rsample
    value, their_value = weft.tensor(np.array(values)), torch.tensor(np.array(values))
    found, expected = mine.log_prob(value), other.log_prob(their_value)
    close(found, expected)
    for leaf, their_leaf in zip(leaves, their_leaves, strict=True):
        (one,) = weft.autograd.grad(found.sum(), [leaf], retain_graph=True)
        (two,) = torch.autograd.grad(expected.sum(), [their_leaf], retain_graph=True)
        close(one, two)
    # PyTorch's mode of Kumaraswamy takes the logarithm of a negative number.
    for what in ("mean", "variance", "stddev", "mode")[: 3 if name == "Kumaraswamy" else 4]:
        pair = both(lambda d, what=what: getattr(d, what), mine, other)
        if pair is not None:
            close(*pair)
    pair = both(lambda d: d.entropy(), mine, other)
    if pair is not None:
        close(*pair)
    for draw in (mine.sample, mine.rsample if mine.has_rsample else mine.sample):
        assert tuple(draw((2, 5)).shape) == tuple(other.sample((2, 5)).shape)
        assert draw().dtype is (weft.int64 if name == "Categorical" else weft.float64)


@pytest.mark.parametrize(("name", "options", "values"), MARKED)
def test_distribution_functions_and_expansion_agree(name: str, options: Any, values: Any) -> None:
    mine, _ = made(weft, name, options)
    other, _ = made(torch, name, options)
    value, their_value = weft.tensor(np.array(values)), torch.tensor(np.array(values))
    if name not in ("Gamma", "Chi2", "InverseGamma") or hasattr(weft.special, "gammainc"):
        pair = both(lambda d: d.cdf(value if d is mine else their_value), mine, other)
        if pair is not None:
            close(*pair)
    pair = both(lambda d: d.icdf((weft if d is mine else torch).tensor(np.array(P))), mine, other)
    if pair is not None:
        close(*pair)
    wide = (4, *mine.batch_shape)
    mine, other = mine.expand(wide), other.expand(wide)
    assert tuple(mine.batch_shape) == wide and type(mine).__name__ == name
    close(mine.log_prob(value), other.log_prob(their_value))
    assert tuple(mine.sample((2,)).shape) == tuple(other.sample((2,)).shape)
    if other.has_enumerate_support:
        close(mine.enumerate_support(), other.enumerate_support())
        close(mine.enumerate_support(False), other.enumerate_support(False))


PAIRS = [
    ("Normal", "Normal"), ("Normal", "Laplace"), ("Laplace", "Normal"), ("Laplace", "Laplace"), ("Cauchy", "Cauchy"),
    ("Gumbel", "Gumbel"), ("Uniform", "Uniform"), ("Uniform", "Normal"), ("Uniform", "Exponential"),
    ("Exponential", "Exponential"), ("Exponential", "Gamma"), ("Gamma", "Exponential"), ("Gamma", "Gamma"),
    ("Gamma", "Normal"), ("Exponential", "Normal"), ("Beta", "Beta"), ("Beta", "Uniform"), ("Dirichlet", "Dirichlet"),
    ("Bernoulli", "Bernoulli"), ("Binomial", "Binomial"), ("Geometric", "Geometric"), ("Poisson", "Poisson"),
    ("Categorical", "Categorical"), ("OneHotCategorical", "OneHotCategorical"), ("LogNormal", "LogNormal"),
    ("HalfNormal", "HalfNormal"), ("Pareto", "Pareto"), ("Normal", "Uniform"), ("Laplace", "Gamma"),
    ("Exponential", "Uniform"), ("Chi2", "Gamma"),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_divergences_agree(pair: tuple[str, str]) -> None:
    found = []
    for lib in (weft, torch):
        options = {name: given for name, given, _ in reversed(CASES)}
        one, first = made(lib, pair[0], options[pair[0]])
        changed = {
            key: [[p + 0.05 for p in row] if isinstance(row, list) else row * 0.9 for row in value]
            if isinstance(value, list)
            else value
            for key, value in options[pair[1]].items()
        }
        two, second = made(lib, pair[1], changed)
        result = lib.distributions.kl_divergence(one, two)
        gradients = []
        if np.isfinite(array(result)).all():
            gradients = lib.autograd.grad(result.sum(), [*first, *second])
        found.append((result, gradients))
    (mine, slopes), (other, their_slopes) = found
    close(mine, other)
    for slope, their_slope in zip(slopes, their_slopes, strict=True):
        close(slope, their_slope)


@needs_cholesky
def test_multivariate_normals_agree() -> None:
    covariance = np.array(FACTOR) @ np.array(FACTOR).T
    found = []
    for lib in (weft, torch):
        make = lib.distributions.MultivariateNormal
        loc = lib.tensor(np.array(A))
        matrix = lib.tensor(covariance, requires_grad=True)
        one = make(loc, covariance_matrix=matrix)
        two = make(loc + 1, precision_matrix=matrix)
        value = lib.tensor(np.array([B, C]))
        results = [one.log_prob(value), two.log_prob(value), one.entropy(), two.variance]
        results += [two.covariance_matrix, one.precision_matrix]
        results.append(lib.distributions.kl_divergence(one, two))
        (slope,) = lib.autograd.grad(sum(r.sum() for r in results), [matrix])
        found.append([*results, slope + slope.mT])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(array(mine), array(other), rtol=1e-7)


def test_mixtures_agree() -> None:
    found = []
    for lib in (weft, torch):
        d = lib.distributions
        weights = d.Categorical(lib.tensor(np.array(ROWS)))
        parts = d.Normal(lib.tensor(np.array([A, B])), lib.tensor(np.array([B, A])))
        mixture = d.MixtureSameFamily(weights, parts)
        value = lib.tensor(np.array([0.3, 2.0]))
        found.append([mixture.log_prob(value), mixture.mean, mixture.variance, mixture.cdf(value)])
        one = d.Categorical(lib.tensor(np.array(ROWS[0])))
        vectors = d.MixtureSameFamily(one, d.Independent(parts.expand((3, 2, 3)), 2))
        values = lib.tensor(np.array([A, B]))
        found[-1] += [vectors.log_prob(values), vectors.mean]
        assert tuple(vectors.sample((4,)).shape) == (4, 2, 3)
    for mine, other in zip(*found, strict=True):
        close(mine, other)


TRANSFORMS: list[tuple[Any, Any]] = [
    (lambda d, t: d.ExpTransform(), [0.3, -1.0]),
    (lambda d, t: d.AffineTransform(t([1.0, 2.0]), t([-2.0, 0.5])), [0.3, -1.0]),
    (lambda d, t: d.AffineTransform(1.0, -2.0, event_dim=1), [0.3, -1.0]),
    (lambda d, t: d.PowerTransform(t(2.5)), [0.3, 1.0]),
    (lambda d, t: d.SigmoidTransform(), [0.3, -1.0]),
    (lambda d, t: d.SoftplusTransform(), [0.3, -1.0]),
    (lambda d, t: d.TanhTransform(), [0.3, -1.0]),
    (lambda d, t: d.StickBreakingTransform(), [[0.3, -1.0], [0.1, 0.2]]),
    (lambda d, t: d.CorrCholeskyTransform(), [0.3, -1.0, 0.5]),
    (lambda d, t: d.IndependentTransform(d.ExpTransform(), 1), [[0.3, -1.0], [0.1, 0.2]]),
    (lambda d, t: d.ReshapeTransform((2, 2), (4,)), [[0.3, -1.0], [0.1, 0.2]]),
    (lambda d, t: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.ExpTransform()]), [0.3, -1.0]),
    (lambda d, t: d.ComposeTransform([d.ExpTransform(), d.StickBreakingTransform()]), [0.3, -1.0]),
    (lambda d, t: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2]), [0.3, -1.0, 0.2]),
    (lambda d, t: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 0), [0.3, -1.0]),
    (lambda d, t: d.CumulativeDistributionTransform(d.Normal(t(0.5), t(2.0))), [0.3, -1.0]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TRANSFORMS)))
def test_transforms_agree(number: int) -> None:
    make, values = TRANSFORMS[number]
    found = []
    for lib in (weft, torch):
        transform = make(lib.distributions, lambda v, lib=lib: lib.tensor(np.array(v)))
        x = lib.tensor(np.array(values))
        y = transform(x)
        back = transform.inv(y)
        np.testing.assert_allclose(array(back), array(x), rtol=1e-6)
        parts = [
            y,
            back,
            transform.log_abs_det_jacobian(x, y),
            transform.inv.log_abs_det_jacobian(y, x),
        ]
        shapes = (tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape)))
        dims = (transform.domain.event_dim, transform.codomain.event_dim, transform.bijective)
        found.append((parts, shapes, dims))
    (mine, *rest), (other, *their_rest) = found
    for one, two in zip(mine, other, strict=True):
        close(one, two)
    assert rest == their_rest


CONSTRAINTS = [
    "real", "positive", "nonnegative", "unit_interval", "simplex", "real_vector", "corr_cholesky",
]  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_transforms_to_constraints_agree(name: str, registry: str) -> None:
    values = np.linspace(-1, 2, 9).reshape(3, 3)
    found = []
    for lib in (weft, torch):
        constraint = getattr(lib.distributions.constraints, name)
        transform = getattr(lib.distributions, registry)(constraint)
        y = transform(lib.tensor(values))
        assert bool(constraint.check(y).all())
        found.append(y)
    close(*found)
    d = weft.distributions
    bounded = getattr(d, registry)(d.constraints.interval(-1.0, 3.0))(weft.tensor(values))
    assert bounded.min() > -1 and bounded.max() < 3
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        getattr(d, registry)(d.constraints.boolean)


ENDS = {
    "LogNormal": lambda d, t: d.LogNormal(t([0.0, 1.0]), t([1.0, 2.0])),
    "Weibull": lambda d, t: d.Weibull(t([1.0, 2.0]), t([1.5, 2.0])),
    "InverseGamma": lambda d, t: d.InverseGamma(t([2.5, 3.0]), t([1.0, 2.0])),
    "ContinuousBernoulli": lambda d, t: d.ContinuousBernoulli(t([0.2, 0.7])),
}


@pytest.mark.parametrize("name", ENDS)
def test_probabilities_at_the_ends_of_the_support(name: str) -> None:
    found = [
        ENDS[name](lib.distributions, lib.tensor).cdf(lib.tensor([0.0, 1.0]))
        for lib in (weft, torch)
    ]
    close(*found)


def test_a_value_outside_of_the_support_has_no_probability() -> None:
    for lib in (weft, torch):
        made = ENDS["ContinuousBernoulli"](lib.distributions, lib.tensor)
        with pytest.raises(ValueError, match="to be within the support"):
            made.cdf(lib.tensor([0.5, 2.0]))


@pytest.mark.parametrize("name", ["log_cdf", "log_survival_function"])
def test_logarithms_of_pareto_probabilities(name: str) -> None:
    found = []
    for lib in (weft, torch):
        t = lib.tensor
        made = lib.distributions.GeneralizedPareto(t([0.0, 1.0]), t([1.0, 2.0]), t([0.1, 0.0]))
        found.append(getattr(made, name)(t([0.5, 3.0])))
    close(*found)


@pytest.mark.parametrize("name", ["symmetric", "positive_definite", "positive_semidefinite"])
@pytest.mark.parametrize("shape", [(2, 3), (2, 2), (4, 2, 2)])
def test_matrices_that_are_not_square_or_symmetric_fail(name: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    mine, theirs = (
        getattr(lib.distributions.constraints, name).check(lib.tensor(values))
        for lib in (weft, torch)
    )
    assert mine.tolist() == theirs.tolist() and not mine.any()


@pytest.mark.parametrize("shape, text", [((3,), "Too few"), ((4, 1), "Shape mismatch")])
def test_a_shape_that_does_not_fit_a_transform(shape: tuple[int, ...], text: str) -> None:
    for lib in (weft, torch):
        with pytest.raises(ValueError, match=text):
            lib.distributions.ReshapeTransform((3,), (3, 1)).inverse_shape(shape)
