"""VonMises, GeneralizedPareto, and normal vectors of a low-rank covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft
from weft.distributions import constraints
from weft.distributions.distribution import (
    LOG_SQRT_TAU,
    Distribution,
    broadcast_all,
    lazy_property,
    linalg,
    special,
)
from weft.distributions.multivariate import half_log_det, solve_lower
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.functional.support import host


class VonMises(Distribution):
    """Angles around `loc`, the normal distribution of the circle. Source of the sampler: Best and Fisher (1979)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(
        self, loc: object, concentration: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The most probable angle."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        distance = weft.cos(value - self.loc) - 1
        scale = math.log(2 * math.pi) + special.i0e(self.concentration).log()
        return self.concentration * distance - scale

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Angles in [-pi, pi). Reads the parameters; draws until every proposal is accepted.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        shape = self._extended_shape(sample_shape)
        with weft.no_grad():
            kappa = np.asarray(host.to_numpy(self.concentration.double().expand(shape))).copy()
            angle = weft.tensor(_angles(kappa), dtype=self.loc.dtype)
            return (angle + math.pi + self.loc) % (2 * math.pi) - math.pi


def _angles(kappa: np.ndarray) -> Any:
    """Angles around 0 of each concentration."""
    root = 1 + np.sqrt(1 + 4 * kappa**2)
    with np.errstate(all="ignore"):
        rho = (root - np.sqrt(2 * root)) / (2 * kappa)
        bound = np.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))
    result, waiting = np.empty_like(kappa), np.ones(kappa.shape, bool)
    while waiting.any():
        u, v, side = host.to_numpy(weft.rand(3, *kappa.shape, dtype=weft.float64))
        z = np.cos(math.pi * u)
        cosine = (1 + bound * z) / (bound + z)
        c = kappa * (bound - cosine)
        with np.errstate(all="ignore"):
            accepted = waiting & ((c * (2 - c) > v) | (np.log(c / v) + 1 - c >= 0))
        found = np.where(side < 0.5, -1.0, 1.0) * np.arccos(np.clip(cosine, -1, 1))
        result[accepted] = found[accepted]
        waiting &= ~accepted
    return result


class GeneralizedPareto(Distribution):
    """The excess over a threshold `loc`: bounded, exponential or heavy-tailed by the sign of `concentration`."""

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self,
        loc: object,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def support(self) -> Any:
        """From `loc`, to where the density ends if the concentration is negative."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, weft.where(self.concentration < 0, end, math.inf))

    def _curved(self) -> tuple[Any, Any]:
        """(where the concentration is not 0, a concentration that can be divided by)."""
        flat = weft.isclose(self.concentration, weft.zeros_like(self.concentration))
        return ~flat, weft.where(flat, 1.0, self.concentration)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.icdf(weft.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def _hazard(self, value: object) -> Any:
        """-log of the probability of more."""
        self._validated(value)
        scaled = (value - self.loc) / self.scale
        curved, safe = self._curved()
        return weft.where(curved, weft.log1p(safe * scaled) / safe, scaled)

    def log_prob(self, value: Tensor) -> Any:
        return -(1 + self.concentration) * self._hazard(value) - self.scale.log()

    def cdf(self, value: Tensor) -> Any:
        return -weft.expm1(-self._hazard(value))

    def log_cdf(self, value: Tensor) -> Any:
        """The logarithm of the probability of values up to this one.

        Args:
            value: values, broadcast with batch_shape.
        """
        return weft.log1p(-weft.exp(-self._hazard(value)))

    def log_survival_function(self, value: Tensor) -> Any:
        """The logarithm of the probability of more.

        Args:
            value: values, broadcast with batch_shape.
        """
        return -self._hazard(value)

    def icdf(self, value: Tensor) -> Any:
        hazard = -weft.log1p(-value)
        curved, safe = self._curved()
        return self.loc + self.scale * weft.where(curved, weft.expm1(safe * hazard) / safe, hazard)

    @property
    def mean(self) -> Any:
        """The mean; infinite from concentration 1 on."""
        found = self.loc + self.scale / (1 - self.concentration)
        return weft.where(self.concentration < 1, found, math.inf)

    @property
    def variance(self) -> Any:
        """The variance; infinite from concentration 0.5 on."""
        k = self.concentration
        found = self.scale.square() / ((1 - k).square() * (1 - 2 * k))
        return weft.where(k < 0.5, found, math.inf)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self.loc

    def entropy(self) -> Any:
        """The entropy in nats."""
        return self.scale.log() + self.concentration + 1


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance `cov_factor @ cov_factor.mT + cov_diag.diag()`; no n x n matrix is factored.

    Shapes: loc (*, n), cov_factor (*, n, m), cov_diag (*, n).
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        size = loc.shape[-1] if loc.dim() else None
        if size is None or cov_factor.dim() < 2 or cov_factor.shape[-2] != size:
            raise ArgumentError(
                f"cov_factor must be a batch of matrices with shape {size} x m",
                expected="loc (*, n) and cov_factor (*, n, m)",
                got=f"{list(loc.shape)} and {list(cov_factor.shape)}",
                fix="pass one row of the factor for each component of loc",
            )
        if cov_diag.dim() < 1 or cov_diag.shape[-1] != size:
            raise ArgumentError(
                f"cov_diag must be a batch of vectors with shape ({size},)",
                expected="cov_diag (*, n)",
                got=str(list(cov_diag.shape)),
                fix="pass one variance for each component of loc",
            )
        batch = weft.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = (t.expand((*batch, size)) for t in (loc, cov_diag))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        super().__init__(batch, (size,), validate_args)

    @lazy_property
    def _capacitance_tril(self) -> Any:
        """The Cholesky factor of I + W^T D^-1 W. (*, m, m)"""
        factor = self.cov_factor
        inner = factor.mT @ (factor / self.cov_diag.unsqueeze(-1))
        return linalg.cholesky(inner + weft.eye(factor.shape[-1], dtype=factor.dtype))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variances of the components."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Any:
        """A Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        scaled = (self.cov_factor / self.cov_diag.unsqueeze(-1)).mT
        part = solve_lower(self._capacitance_tril, scaled)
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        few = weft.randn((*shape[:-1], self.cov_factor.shape[-1]), dtype=self.loc.dtype)
        spread = (self.cov_factor @ few.unsqueeze(-1)).squeeze(-1)
        return self.loc + spread + self.cov_diag.sqrt() * weft.randn(shape, dtype=self.loc.dtype)

    def _half_log_det(self) -> Any:
        return half_log_det(self._capacitance_tril) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        difference = value - self.loc
        scaled = difference / self.cov_diag
        inner = (self.cov_factor.mT @ scaled.unsqueeze(-1)).squeeze(-1)
        part = solve_lower(self._capacitance_tril, inner.unsqueeze(-1)).squeeze(-1)
        distance = (difference * scaled).sum(-1) - part.square().sum(-1)
        return -0.5 * distance - self._half_log_det() - LOG_SQRT_TAU * self._event_shape[0]

    def entropy(self) -> Any:
        """The entropy in nats."""
        return self._event_shape[0] * (0.5 + LOG_SQRT_TAU) + self._half_log_det()
