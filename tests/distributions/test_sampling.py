"""Samplers follow their laws (Kolmogorov-Smirnov, moments); gradients of samples are those of expectations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft import distributions as d
from weft.distributions.sampling import gamma_slope

stats = pytest.importorskip("scipy.stats")
COUNT = 20_000
# Chance of a right sampler to fail one of these: below 1e-4 each, with a seed that does not change.
CONTINUOUS: list[tuple[Any, Any]] = [
    (lambda t: d.Normal(t(1.0), t(2.0)), stats.norm(1, 2)),
    (lambda t: d.Laplace(t(1.0), t(2.0)), stats.laplace(1, 2)),
    (lambda t: d.Cauchy(t(1.0), t(2.0)), stats.cauchy(1, 2)),
    (lambda t: d.Gumbel(t(1.0), t(2.0)), stats.gumbel_r(1, 2)),
    (lambda t: d.StudentT(t(3.0), t(1.0), t(2.0)), stats.t(3, 1, 2)),
    (lambda t: d.Uniform(t(-1.0), t(2.0)), stats.uniform(-1, 3)),
    (lambda t: d.Exponential(t(2.0)), stats.expon(scale=0.5)),
    (lambda t: d.Gamma(t(0.1), t(2.0)), stats.gamma(0.1, scale=0.5)),
    (lambda t: d.Gamma(t(0.9), t(2.0)), stats.gamma(0.9, scale=0.5)),
    (lambda t: d.Gamma(t(5.0), t(2.0)), stats.gamma(5.0, scale=0.5)),
    (lambda t: d.Gamma(t(200.0), t(2.0)), stats.gamma(200.0, scale=0.5)),
    (lambda t: d.Chi2(t(3.0)), stats.chi2(3)),
    (lambda t: d.InverseGamma(t(3.0), t(2.0)), stats.invgamma(3, scale=2)),
    (lambda t: d.Beta(t(0.4), t(2.5)), stats.beta(0.4, 2.5)),
    (lambda t: d.FisherSnedecor(t(3.0), t(7.0)), stats.f(3, 7)),
    (lambda t: d.LogNormal(t(0.3), t(0.5)), stats.lognorm(0.5, scale=math.exp(0.3))),
    (lambda t: d.HalfNormal(t(2.0)), stats.halfnorm(scale=2)),
    (lambda t: d.HalfCauchy(t(2.0)), stats.halfcauchy(scale=2)),
    (lambda t: d.Pareto(t(2.0), t(3.0)), stats.pareto(3, scale=2)),
    (lambda t: d.VonMises(t(0.0), t(2.0)), stats.vonmises(2)),
    (lambda t: d.VonMises(t(0.0), t(1e-6)), stats.uniform(-math.pi, 2 * math.pi)),
    (lambda t: d.GeneralizedPareto(t(1.0), t(2.0), t(0.4)), stats.genpareto(0.4, 1, 2)),
    (lambda t: d.GeneralizedPareto(t(1.0), t(2.0), t(-0.4)), stats.genpareto(-0.4, 1, 2)),
    (lambda t: d.ContinuousBernoulli(t(0.2)), stats.truncexpon(math.log(4), scale=1 / math.log(4))),
    (lambda t: d.Weibull(t(2.0), t(1.5)), stats.weibull_min(1.5, scale=2)),
]  # fmt: skip
DISCRETE: list[tuple[Any, Any]] = [
    (lambda t: d.Bernoulli(t(0.3)), stats.bernoulli(0.3)),
    (lambda t: d.Geometric(t(0.3)), stats.geom(0.3, loc=-1)),
    (lambda t: d.Binomial(20, t(0.3)), stats.binom(20, 0.3)),
    (lambda t: d.NegativeBinomial(5, t(0.3)), stats.nbinom(5, 0.7)),
    (lambda t: d.Poisson(t(0.7)), stats.poisson(0.7)),
    (lambda t: d.Poisson(t(300.0)), stats.poisson(300)),
    (lambda t: d.Categorical(t([0.2, 0.5, 0.3])), stats.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3]))),
]  # fmt: skip


def drawn(make: Any, dtype: Any) -> Any:
    weft.manual_seed(0)
    made = make(lambda value: weft.tensor(value, dtype=dtype))
    return np.asarray(made.sample((COUNT,)).double().numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", range(len(CONTINUOUS)))
def test_continuous_samples_follow_their_law(number: int, dtype: str) -> None:
    make, law = CONTINUOUS[number]
    values = drawn(make, getattr(weft, dtype))
    assert stats.kstest(values, law.cdf).pvalue > 1e-4


@pytest.mark.parametrize("number", range(len(DISCRETE)))
def test_discrete_samples_follow_their_law(number: int) -> None:
    make, law = DISCRETE[number]
    values = drawn(make, weft.float64)
    assert (values == np.round(values)).all() and values.min() >= 0
    low, high = int(law.ppf(0.001)), int(law.ppf(0.999))
    edges = np.unique(np.linspace(low, high + 1, 12).astype(int))
    seen = np.array(
        [np.sum((values >= a) & (values < b)) for a, b in zip(edges, edges[1:], strict=False)]
    )
    chance = law.cdf(edges[1:] - 1) - law.cdf(edges[:-1] - 1)
    seen, chance = np.append(seen, COUNT - seen.sum()), np.append(chance, 1 - chance.sum())
    kept = chance * COUNT > 1
    statistic = ((seen - chance * COUNT)[kept] ** 2 / (chance * COUNT)[kept]).sum()
    assert stats.chi2(max(kept.sum() - 1, 1)).sf(statistic) > 1e-4


def test_matrices_follow_their_law() -> None:
    weft.manual_seed(0)
    factor = weft.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=weft.float64, requires_grad=True)
    wishart = d.Wishart(weft.tensor(3.5, dtype=weft.float64), scale_tril=factor)
    values = wishart.rsample((COUNT,))
    assert weft.allclose(values.mean(0), wishart.mean, rtol=0.05)
    assert weft.allclose(values.var(0), wishart.variance, rtol=0.1)
    for side in ([1.0, 0.0], [0.0, 1.0], [1.0, -2.0]):  # along each vector it is chi-square
        along = np.array(side)
        spread = (
            values.detach().numpy()
            @ along
            @ along
            / (along @ wishart.covariance_matrix.detach().numpy() @ along)
        )
        assert stats.kstest(spread, stats.chi2(3.5).cdf).pvalue > 1e-4
    values.mean(0).sum().backward()
    got, factor.grad = factor.grad, None
    wishart = d.Wishart(weft.tensor(3.5, dtype=weft.float64), scale_tril=factor)
    wishart.mean.sum().backward()
    assert weft.allclose(got.tril(), factor.grad.tril(), rtol=0.05)
    factors = d.LKJCholesky(3, weft.tensor(1.5, dtype=weft.float64)).sample((COUNT,))
    matrices = (factors @ factors.mT).numpy()
    np.testing.assert_allclose(np.diagonal(matrices, axis1=1, axis2=2), 1, rtol=1e-9)
    for row, column in ((1, 0), (2, 0), (2, 1)):  # each correlation is beta on (-1, 1)
        law = stats.beta(2, 2, loc=-1, scale=2)
        assert stats.kstest(matrices[:, row, column], law.cdf).pvalue > 1e-4
    cov_factor = weft.tensor([[1.0], [0.5], [-1.0]])
    low = d.LowRankMultivariateNormal(weft.zeros(3), cov_factor, weft.tensor([0.5, 1.0, 2.0]))
    drawn_ones = low.sample((COUNT,)).numpy()
    np.testing.assert_allclose(np.cov(drawn_ones.T), low.covariance_matrix.numpy(), atol=0.08)
    for row in np.linalg.solve(np.linalg.cholesky(low.covariance_matrix.numpy()), drawn_ones.T):
        assert stats.kstest(row, "norm").pvalue > 1e-4


def test_vectors_follow_their_law() -> None:
    weft.manual_seed(0)
    shares = d.Dirichlet(weft.tensor([0.5, 2.0, 3.5])).sample((COUNT,)).numpy()
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-5)
    for place, a in enumerate((0.5, 2.0, 3.5)):
        assert stats.kstest(shares[:, place], stats.beta(a, 6 - a).cdf).pvalue > 1e-4
    counts = d.Multinomial(10, weft.tensor([0.2, 0.5, 0.3])).sample((COUNT,)).numpy()
    assert (counts.sum(-1) == 10).all()
    for place, chance in enumerate((0.2, 0.5, 0.3)):
        wanted = stats.binom(10, chance).pmf(np.arange(11)) * COUNT
        seen = np.bincount(counts[:, place].astype(int), minlength=11)
        kept = wanted > 1
        wanted = wanted[kept] * seen[kept].sum() / wanted[kept].sum()
        assert stats.chisquare(seen[kept], wanted).pvalue > 1e-4
    vectors = d.OneHotCategorical(weft.tensor([0.2, 0.5, 0.3])).sample((COUNT,)).numpy()
    assert (vectors.sum(-1) == 1).all()
    assert stats.chisquare(vectors.sum(0), np.array([0.2, 0.5, 0.3]) * COUNT).pvalue > 1e-4
    mixture = d.MixtureSameFamily(
        d.Categorical(weft.tensor([0.3, 0.7])),
        d.Normal(weft.tensor([-2.0, 3.0]), weft.tensor([1.0, 0.5])),
    )
    values = mixture.sample((COUNT,)).numpy()
    law = lambda x: 0.3 * stats.norm.cdf(x, -2, 1) + 0.7 * stats.norm.cdf(x, 3, 0.5)  # noqa: E731
    assert stats.kstest(values, law).pvalue > 1e-4


def test_relaxed_samples_follow_their_law() -> None:
    """What the temperature has bent, bent back, is logistic; the largest share is that of the categories."""
    weft.manual_seed(0)
    logit = lambda x: np.log(x) - np.log1p(-x)  # noqa: E731
    sure = lambda *values: weft.tensor(values, dtype=weft.float64)  # noqa: E731
    coin = d.RelaxedBernoulli(sure(0.7)[0], sure(0.3)[0]).rsample((COUNT,)).numpy()
    assert stats.kstest(0.7 * logit(coin) - logit(0.3), stats.logistic.cdf).pvalue > 1e-4
    chance = np.array([0.2, 0.5, 0.3])
    shares = d.RelaxedOneHotCategorical(sure(0.8)[0], sure(*chance)).rsample((COUNT,)).numpy()
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-12)
    assert stats.chisquare(np.bincount(shares.argmax(-1)), chance * COUNT).pvalue > 1e-4
    odds = 0.8 * np.log(shares[:, 0] / shares[:, 1]) - np.log(0.2 / 0.5)
    assert stats.kstest(odds, stats.logistic.cdf).pvalue > 1e-4
    through = d.OneHotCategoricalStraightThrough(sure(*chance)).rsample((COUNT,)).numpy()
    assert stats.chisquare(through.sum(0).round(), chance * COUNT).pvalue > 1e-4


def test_transformed_samples_follow_their_law() -> None:
    weft.manual_seed(0)
    sure = lambda *values: weft.tensor(values, dtype=weft.float64)  # noqa: E731
    bent = d.Kumaraswamy(sure(2.0), sure(3.0)).rsample((COUNT,)).numpy().reshape(-1)
    assert stats.kstest(bent, lambda x: 1 - (1 - x**2.0) ** 3.0).pvalue > 1e-4
    shares = d.LogisticNormal(sure(0.3, -0.2), sure(0.5, 1.5)).sample((COUNT,)).numpy()
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-12)
    broken = shares[:, 1] / (1 - shares[:, 0])  # of what is left of the stick
    for part, rest, law in (
        (shares[:, 0], 2, stats.norm(0.3, 0.5)),
        (broken, 1, stats.norm(-0.2, 1.5)),
    ):
        assert stats.kstest(np.log(part / (1 - part)) + np.log(rest), law.cdf).pvalue > 1e-4
    base, bend = d.Normal(sure(0.0), 1.0), d.ExpTransform()
    lower = d.TransformedDistribution(base, [d.AffineTransform(1.0, -2.0), bend]).sample((COUNT,))
    assert stats.kstest(lower.log().numpy().reshape(-1), stats.norm(1, 2).cdf).pvalue > 1e-4
    factor = np.array([[1.0, 0, 0], [0.5, 2.0, 0], [-1.0, 0.3, 0.7]])
    for kind, given in (
        ("scale_tril", factor),
        ("covariance_matrix", factor @ factor.T),
        ("precision_matrix", np.linalg.inv(factor @ factor.T)),
    ):
        normal = d.MultivariateNormal(sure(1.0, -2.0, 3.0), **{kind: sure(*given.tolist())})
        white = np.linalg.solve(factor, normal.rsample((COUNT,)).numpy().T - [[1.0], [-2.0], [3.0]])
        for row in white:
            assert stats.kstest(row, "norm").pvalue > 1e-4
        np.testing.assert_allclose(np.corrcoef(white), np.eye(3), atol=0.03)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_samples_of_few_digits(dtype: str) -> None:
    weft.manual_seed(0)
    t = lambda value: weft.tensor(value, dtype=getattr(weft, dtype))  # noqa: E731
    for made in (d.Normal(t(1.0), t(2.0)), d.Uniform(t(0.0), t(2.0)), d.Exponential(t(2.0)), d.Laplace(t(1.0), t(2.0)),
                 d.Gumbel(t(1.0), t(2.0)), d.LogNormal(t(0.0), t(0.5)), d.HalfNormal(t(1.0))):  # fmt: skip
        values = made.sample((COUNT,))
        assert values.dtype is getattr(weft, dtype)
        wide = values.double()
        assert bool(wide.isfinite().all())
        mean, deviation = made.mean.item(), made.stddev.item()
        assert abs(wide.mean().item() - mean) < 5 * deviation / COUNT**0.5 + 0.004 * abs(mean)
        assert abs(wide.std().item() / deviation - 1) < 0.05


def test_the_slope_of_gamma_samples_is_that_of_the_quantile() -> None:
    """By differences of the quantile in many digits."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 40
    for a in (0.05, 0.5, 1.0, 3.0, 40.0):
        for share in (0.01, 0.3, 0.7, 0.99):
            x = float(stats.gamma(a).ppf(share))
            h = mpmath.mpf(10) ** -12
            p = lambda s, x=x: mpmath.gammainc(s, 0, x, regularized=True)  # noqa: E731
            change = (p(mpmath.mpf(a) + h) - p(mpmath.mpf(a) - h)) / (2 * h)
            density = mpmath.mpf(x) ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)
            np.testing.assert_allclose(gamma_slope(x, a), float(-change / density), rtol=2e-5)


@pytest.mark.parametrize("a", [0.4, 2.0, 9.0])
def test_gradients_of_samples_are_gradients_of_means(a: float) -> None:
    """d/da of E[x] = 1 for Gamma(a, 1); of E[x] = b / (a + b)^2 for Beta(a, b)."""
    weft.manual_seed(1)
    first = weft.tensor(a, dtype=weft.float64, requires_grad=True)
    d.Gamma(first, 1.0).rsample((COUNT,)).mean().backward()
    assert abs(first.grad.item() - 1) < 0.05
    first.grad = None
    d.Beta(first, 3.0).rsample((COUNT,)).mean().backward()
    assert abs(first.grad.item() - 3 / (a + 3) ** 2) < 0.02
    first.grad = None
    both = weft.stack([first, first + 1, first * 2])
    d.Dirichlet(both).rsample((COUNT,))[:, 0].mean().backward()
    assert abs(first.grad.item() - 1 / (4 * a + 1) ** 2) < 0.02


def test_samples_follow_the_seed_and_leave_no_graph() -> None:
    rate = weft.ones(3, requires_grad=True)
    for make in (d.Exponential, d.Poisson, lambda r: d.Gamma(r, r), d.HalfNormal):
        weft.manual_seed(5)
        first = make(rate).sample((4,))
        weft.manual_seed(5)
        assert first.tolist() == make(rate).sample((4,)).tolist()
        assert not first.requires_grad


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="Expected parameter scale .* GreaterThan"):
        d.Normal(weft.zeros(2), weft.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="within the support"):
        d.Exponential(weft.ones(2)).log_prob(weft.tensor([-1.0, 1.0]))
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        d.Bernoulli()
    with pytest.raises(ValueError, match="not broadcastable"):
        d.Normal(weft.zeros(2), 1.0).log_prob(weft.zeros(3))
    with pytest.raises(ValueError, match="low>= high"):
        d.Uniform(1.0, 0.0)
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\)"):
        d.kl_divergence(d.Poisson(1.0), d.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError):
        d.Poisson(1.0).rsample()
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    d.Distribution.set_default_validate_args(False)
    try:
        d.Normal(0.0, -1.0)
    finally:
        d.Distribution.set_default_validate_args(True)


def test_ones_own_divergence_and_distribution() -> None:
    class Shifted(d.Normal):
        """A normal with a rule of its own."""

    @d.register_kl(Shifted, d.Normal)
    def _(p: Any, q: Any) -> Any:
        return weft.full_like(p.loc, 7.0)

    p, q = Shifted(weft.zeros(2), 1.0), d.Normal(weft.zeros(2), 1.0)
    assert d.kl_divergence(p, q).tolist() == [7.0, 7.0]
    assert d.kl_divergence(q, p).tolist() == [0.0, 0.0]
    assert repr(d.Normal(0.0, weft.ones(2))) == "Normal(loc: weft.Size([2]), scale: weft.Size([2]))"


def test_laws_that_pytorch_has_in_single_precision_only() -> None:
    """PyTorch's VonMises, GeneralizedPareto and the triangle of its Wishart are held against SciPy instead."""
    tensor = lambda *values: weft.tensor(values, dtype=weft.float64, requires_grad=True)  # noqa: E731
    loc, size = tensor(0.3, -1.0), tensor(0.7, 60.0)
    x = weft.tensor([0.5, -2.0], dtype=weft.float64)
    circle, law = d.VonMises(loc, size), stats.vonmises([0.7, 60.0], [0.3, -1.0])
    np.testing.assert_allclose(circle.log_prob(x).detach(), law.logpdf(x.numpy()), rtol=1e-9)
    assert weft.autograd.gradcheck(lambda m, k: d.VonMises(m, k).log_prob(x), (loc, size))
    for shape in (0.4, -0.4, 0.0):
        heavy, law = (
            d.GeneralizedPareto(loc, size, tensor(shape)),
            stats.genpareto(shape, [0.3, -1], [0.7, 60]),
        )
        x = weft.tensor([0.9, 3.0], dtype=weft.float64)
        for mine, wanted in (
            (heavy.log_prob(x), law.logpdf(x.numpy())),
            (heavy.cdf(x), law.cdf(x.numpy())),
            (heavy.icdf(heavy.cdf(x)), x.numpy()),
            (heavy.mean, law.mean()),
            (heavy.variance, law.var()),
            (heavy.entropy(), law.entropy()),
        ):
            np.testing.assert_allclose(mine.detach().numpy(), wanted, rtol=1e-9)
    factor = tensor([1.0, 0.0], [0.5, 2.0])
    wishart = d.Wishart(tensor(3.5)[0], scale_tril=factor)
    law = stats.wishart(3.5, (factor @ factor.mT).detach().numpy())
    x = weft.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=weft.float64)
    np.testing.assert_allclose(wishart.log_prob(x).item(), law.logpdf(x.numpy()), rtol=1e-9)
    np.testing.assert_allclose(wishart.entropy().item(), law.entropy(), rtol=1e-9)
    np.testing.assert_allclose(wishart.variance.detach().numpy(), law.var(), rtol=1e-9)
    density = lambda df, lower: d.Wishart(df, scale_tril=lower.tril()).log_prob(x)  # noqa: E731
    assert weft.autograd.gradcheck(density, (tensor(3.5)[0].detach().requires_grad_(), factor))
