"""Divergences of Kullback and Leibler: the formulas of common pairs; the others are in `kl_pairs`."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft.distributions import kl_pairs  # noqa: F401 - it registers what it holds
from weft.distributions.categories import Categorical, OneHotCategorical
from weft.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from weft.distributions.distribution import EULER, special, sum_rightmost
from weft.distributions.gammas import Beta, Dirichlet, Gamma
from weft.distributions.images import HalfNormal, LogNormal, Pareto
from weft.distributions.kl_registry import _KL_REGISTRY, kl_divergence, register_kl
from weft.distributions.multivariate import (
    MultivariateNormal,
    half_log_det,
    solve_lower,
    squared_distance,
)
from weft.distributions.real import Cauchy, Exponential, Gumbel, Laplace, Normal, Uniform
from weft.distributions.transformed import Independent, TransformedDistribution
from weft.engine.frontend.tensor import Tensor

__all__ = ["_KL_REGISTRY", "kl_divergence", "register_kl"]


def _infinite(like: Tensor) -> Any:
    return weft.full_like(like, math.inf)


def _x_log_x(value: Tensor) -> Any:
    return special.xlogy(value, value)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Any:
    softplus = weft.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one = weft.where(p.probs == 0, 0.0, weft.where(q.probs == 0, math.inf, one))
    other = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    other = weft.where(p.probs == 1, 0.0, weft.where(q.probs == 1, math.inf, other))
    return one + other


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    found = p.total_count * (
        p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    )
    return weft.where(p.total_count > q.total_count, math.inf, found)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Any:
    return -p.entropy() - weft.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = weft.where(q.probs == 0, math.inf, terms)
    return weft.where(p.probs == 0, 0.0, terms).expand_as(p.probs).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Any:
    above = ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log()
    return above - (4 * p.scale * q.scale).log()


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Any:
    ratio = p.scale / q.scale
    first, second = q.loc / q.scale, p.loc / q.scale
    tail = (first + (1 + ratio).lgamma() - second).exp()
    return ratio.log() * -1 - first + second + ratio * EULER + tail - (1 + EULER)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return weft.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Any:
    return (
        q.concentration * (p.rate / q.rate).log()
        + weft.lgamma(q.concentration)
        - weft.lgamma(p.concentration)
        + (p.concentration - q.concentration) * weft.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Any) -> Any:
    total, other = p.concentration.sum(-1), q.concentration.sum(-1)
    norms = total.lgamma() - other.lgamma()
    parts = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    slopes = p.concentration.digamma() - total.digamma().unsqueeze(-1)
    return norms - parts + ((p.concentration - q.concentration) * slopes).sum(-1)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Any:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return weft.where(p.scale < q.scale, math.inf, found)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    mine, theirs = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    spread = solve_lower(theirs, mine).square().sum((-2, -1))
    distance = squared_distance(theirs, q.loc - p.loc)
    logs = half_log_det(theirs) - half_log_det(mine)
    return logs + 0.5 * (spread + distance - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Any:
    away = (p.loc - q.loc) / p.scale
    near = math.sqrt(2 / math.pi) * (-0.5 * away.square()).exp()
    found = near + away * weft.erf(math.sqrt(0.5) * away)
    logs = (p.scale / q.scale).log() + 0.5 * math.log(math.pi / 2) + 0.5
    return -logs + p.scale / q.scale * found


@register_kl(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Any:
    variance = q.scale.square()
    ratio = p.scale.square() / variance
    away = 0.5 * (p.loc - q.loc).square() / variance
    return -0.5 * ratio.log() + ratio + away - 1 + 0.5 * math.log(0.5 * math.pi)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Any:
    width = p.high - p.low
    logs = (math.sqrt(2 * math.pi) * q.scale / width).log()
    inside = width.square() / 12 + ((p.high + p.low - 2 * q.loc) / 2).square()
    return logs + 0.5 * inside / q.scale.square()


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Any:
    found = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return weft.where(p.low < 0, math.inf, found)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Any:
    ratio = q.rate / p.rate
    logs = -q.concentration * ratio.log()
    return logs + ratio + q.concentration.lgamma() + q.concentration * EULER - (1 + EULER)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Any:
    variance, square = q.scale.square(), p.rate.square()
    logs = 0.5 * (square * variance * 2 * math.pi).log()
    moments = 1 / square - q.loc / p.rate + q.loc.square() / 2
    return logs - 1 + moments / variance


@register_kl(Gamma, Normal)
def _gamma_normal(p: Gamma, q: Normal) -> Any:
    variance, a = q.scale.square(), p.concentration
    norms = 0.5 * (p.rate.square() * variance * 2 * math.pi).log() - a - a.lgamma()
    mean = a / p.rate
    away = (mean - q.loc).square() + mean / p.rate
    return norms + (a - 1) * a.digamma() + 0.5 * away / variance


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Any:
    found = -p.entropy() + (q.high - q.low).log()
    return weft.where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(Normal, Uniform)
@register_kl(Laplace, Uniform)
@register_kl(Gumbel, Uniform)
@register_kl(Cauchy, Uniform)
@register_kl(Normal, Gamma)
@register_kl(Normal, Exponential)
@register_kl(Normal, Beta)
@register_kl(Laplace, Gamma)
@register_kl(Laplace, Exponential)
@register_kl(Laplace, Beta)
def _outside(p: Normal | Laplace | Gumbel | Cauchy, q: Uniform | Gamma | Exponential | Beta) -> Any:
    """Values that q never gives."""
    return _infinite(p.loc + weft.zeros(q.batch_shape))


@register_kl(Gamma, Uniform)
@register_kl(Gamma, Beta)
@register_kl(Exponential, Uniform)
@register_kl(Exponential, Beta)
@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _outside_of_rates(
    p: Gamma | Exponential | Poisson, q: Uniform | Beta | Bernoulli | Binomial
) -> Any:
    """Values that q never gives."""
    return _infinite(p.rate + weft.zeros(q.batch_shape))
