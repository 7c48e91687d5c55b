"""Divergences between distributions of different families, and of those with few parameters for large covariances.

Most are the cross entropy of the second, which is a sum of moments of the first, less the entropy of the first.
Importing the module registers them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import weft
from weft.distributions.counts import Bernoulli, Poisson
from weft.distributions.distribution import LOG_SQRT_TAU, special
from weft.distributions.gammas import Beta, Gamma
from weft.distributions.images import Pareto
from weft.distributions.kl_registry import register_kl
from weft.distributions.matrices import ContinuousBernoulli, Wishart
from weft.distributions.multivariate import MultivariateNormal, half_log_det, solve_lower
from weft.distributions.rare import LowRankMultivariateNormal
from weft.distributions.real import Exponential, Gumbel, Laplace, Normal, Uniform
from weft.engine.frontend.tensor import Tensor

if TYPE_CHECKING:
    from weft.distributions.distribution import Distribution


# -- cross entropies: minus the mean of the second's log density ---------------------------------------------------


def _normal_cross(p: Distribution, q: Any) -> Any:
    spread = p.variance + (p.mean - q.loc).square()
    return LOG_SQRT_TAU + q.scale.log() + 0.5 * spread / q.scale.square()


def _exponential_cross(p: Distribution, q: Any) -> Any:
    return q.rate * p.mean - q.rate.log()


def _gamma_cross(p: Distribution, q: Any, log_mean: Tensor) -> Any:
    a = q.concentration
    return q.rate * p.mean - (a - 1) * log_mean - a * q.rate.log() + a.lgamma()


def _gumbel_cross(p: Distribution, q: Any, log_transform: Tensor) -> Any:
    """`log_transform` is the logarithm of the mean of exp(-x / scale)."""
    return q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale + log_transform).exp()


def _continuous_cross(p: Distribution, q: Any) -> Any:
    return -p.mean * q.logits - weft.log1p(-q.probs) - q._log_scale()


def _pareto_cross(q: Any, log_mean: Tensor) -> Any:
    return (q.alpha + 1) * log_mean - q.alpha.log() - q.alpha * q.scale.log()


# -- means of logarithms -------------------------------------------------------------------------------------------


def _beta_log_mean(p: Any) -> Any:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


def _uniform_log_mean(low: Tensor, high: Tensor) -> Any:
    return (special.xlogy(high, high) - special.xlogy(low, low)) / (high - low) - 1


# -- values in the unit interval -----------------------------------------------------------------------------------


@register_kl(Beta, ContinuousBernoulli)
@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Beta | ContinuousBernoulli, q: ContinuousBernoulli) -> Any:
    return _continuous_cross(p, q) - p.entropy()


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
def _to_exponential(p: Beta | ContinuousBernoulli, q: Exponential) -> Any:
    return _exponential_cross(p, q) - p.entropy()


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Gumbel, Normal)
def _to_normal(p: Beta | ContinuousBernoulli | Gumbel, q: Normal) -> Any:
    return _normal_cross(p, q) - p.entropy()


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Any:
    return _gamma_cross(p, q, _beta_log_mean(p)) - p.entropy()


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Any:
    found = (q.high - q.low).log() - p.entropy()
    return weft.where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Any:
    return q.rate - p.probs * q.rate.log() - p.entropy()


# -- intervals -----------------------------------------------------------------------------------------------------


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Any:
    one, other = q.concentration1, q.concentration0
    logs = (one - 1) * _uniform_log_mean(p.low, p.high)
    logs = logs + (other - 1) * _uniform_log_mean(1 - p.high, 1 - p.low)
    found = one.lgamma() + other.lgamma() - (one + other).lgamma() - logs - p.entropy()
    return weft.where((p.low < 0) | (p.high > 1), math.inf, found)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Any:
    found = _continuous_cross(p, q) - p.entropy()
    return weft.where((p.low < 0) | (p.high > 1), math.inf, found)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Any:
    found = _gamma_cross(p, q, _uniform_log_mean(p.low, p.high)) - p.entropy()
    return weft.where(p.low < 0, math.inf, found)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Any:
    found = _pareto_cross(q, _uniform_log_mean(p.low, p.high)) - p.entropy()
    return weft.where(p.low < q.scale, math.inf, found)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Any:
    width = (p.high - p.low) / q.scale
    transform = -p.low / q.scale + (-weft.expm1(-width) / width).log()
    return _gumbel_cross(p, q, transform) - p.entropy()


# -- half lines and lines ------------------------------------------------------------------------------------------


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Any:
    return _gumbel_cross(p, q, -weft.log1p(1 / (p.rate * q.scale))) - p.entropy()


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Any:
    transform = -p.concentration * weft.log1p(1 / (p.rate * q.scale))
    return _gumbel_cross(p, q, transform) - p.entropy()


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Any:
    transform = 0.5 * (p.scale / q.scale).square() - p.loc / q.scale
    return _gumbel_cross(p, q, transform) - p.entropy()


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Any:
    return weft.where(p.alpha <= 1, math.inf, _exponential_cross(p, q) - p.entropy())


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Any:
    found = _gamma_cross(p, q, p.scale.log() + p.alpha.reciprocal()) - p.entropy()
    return weft.where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Any:
    return weft.where(p.alpha <= 2, math.inf, _normal_cross(p, q) - p.entropy())


_OUTSIDE = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (ContinuousBernoulli, Pareto),
    Gamma: (ContinuousBernoulli, Pareto),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto),
    Laplace: (ContinuousBernoulli, Pareto),
    Normal: (ContinuousBernoulli, Pareto),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
}


def _outside(p: Distribution, q: Distribution) -> Any:
    """The first has values that the second never gives."""
    return weft.full_like(p.mean + 0 * q.mean, math.inf)


for _first, _seconds in _OUTSIDE.items():
    for _second in _seconds:
        register_kl(_first, _second)(_outside)


# -- vectors -------------------------------------------------------------------------------------------------------


def _whitened(q: Any, columns: Tensor) -> Any:
    """The squared lengths of columns by the inverse of q's covariance, summed. Shapes: (*, n, k) -> (*)."""
    if isinstance(q, MultivariateNormal):
        return solve_lower(q._unbroadcasted_scale_tril, columns).square().sum((-2, -1))
    scaled = columns / q.cov_diag.unsqueeze(-1)
    inner = solve_lower(q._capacitance_tril, q.cov_factor.mT @ scaled)
    return (columns * scaled).sum((-2, -1)) - inner.square().sum((-2, -1))


def _root(p: Any) -> Any:
    """A matrix whose product with its transpose is the covariance."""
    if isinstance(p, MultivariateNormal):
        return p._unbroadcasted_scale_tril
    return weft.cat([p.cov_factor, p.cov_diag.sqrt().diag_embed()], -1)


def _log_det(p: Any) -> Any:
    if isinstance(p, MultivariateNormal):
        return half_log_det(p._unbroadcasted_scale_tril)
    return p._half_log_det()


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _vectors(
    p: LowRankMultivariateNormal | MultivariateNormal,
    q: LowRankMultivariateNormal | MultivariateNormal,
) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed"
        )
    distance = _whitened(q, (q.loc - p.loc).unsqueeze(-1))
    return _log_det(q) - _log_det(p) + 0.5 * (_whitened(q, _root(p)) + distance - p.event_shape[0])


# -- matrices ----------------------------------------------------------------------------------------------------------


@register_kl(Wishart, Wishart)
def _wishart_wishart(p: Wishart, q: Wishart) -> Any:
    size = p.event_shape[0]
    ratio = half_log_det(q.scale_tril) - half_log_det(p.scale_tril)
    trace = solve_lower(q.scale_tril, p.scale_tril).square().sum((-2, -1))
    halves = p.df.unsqueeze(-1) / 2 - weft.arange(size) / 2
    shape_terms = (q.df / 2).mvlgamma(size) - (p.df / 2).mvlgamma(size)
    return (
        q.df * ratio
        + 0.5 * p.df * (trace - size)
        + shape_terms
        + 0.5 * (p.df - q.df) * halves.digamma().sum(-1)
    )
