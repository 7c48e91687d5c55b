"""Distributions that are another one's image: LogNormal, HalfNormal, HalfCauchy, InverseGamma, Pareto, Weibull,
Kumaraswamy, LogisticNormal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.distribution import EULER, Distribution, broadcast_all
from weft.distributions.gammas import Gamma
from weft.distributions.real import Cauchy, Exponential, Normal, Uniform
from weft.distributions.transformed import TransformedDistribution
from weft.distributions.transforms.elementwise import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    Transform,
)
from weft.distributions.transforms.simplex import StickBreakingTransform
from weft.engine.frontend.tensor import Tensor


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive  # type: ignore[assignment]

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        """The variance."""
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        """The entropy in nats."""
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The size of values of a symmetric distribution."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative  # type: ignore[assignment]
    _base: Any

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(self._base(0, scale, validate_args=False), AbsTransform(), validate_args)
        if self._validate_args:
            self._check_parameter("scale")

    scale = property(lambda self: self.base_dist.scale)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return weft.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Any:
        """The logarithm of the density.

        Args:
            value: values, broadcast with batch_shape + event_shape.
        """
        self._validated(value)
        value = weft.as_tensor(value)
        found = self.base_dist.log_prob(value) + math.log(2)
        return weft.where(value >= 0, found, -math.inf)

    def cdf(self, value: Tensor) -> Any:
        """The probability of values up to this one.

        Args:
            value: values, broadcast with batch_shape.
        """
        self._validated(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Any:
        """The quantile: the value below which the given probability lies.

        Args:
            value: probabilities.
        """
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        """The entropy in nats."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The size of normal numbers."""

    _base = Normal

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The size of Cauchy numbers; it has no mean."""

    _base = Cauchy

    @property
    def mean(self) -> Any:
        """Infinite."""
        return weft.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        """Infinite."""
        return weft.full_like(self.scale, math.inf)


class InverseGamma(TransformedDistribution):
    """The inverse of gamma numbers."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive  # type: ignore[assignment]

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        negative = -weft.ones((), dtype=base.rate.dtype)
        super().__init__(base, PowerTransform(negative), validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)

    @property
    def mean(self) -> Any:
        """The mean; infinite if it does not exist."""
        found = self.rate / (self.concentration - 1)
        return weft.where(self.concentration > 1, found, math.inf)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """The variance; infinite if it does not exist."""
        a = self.concentration
        found = self.rate.square() / ((a - 1).square() * (a - 2))
        return weft.where(a > 2, found, math.inf)

    def entropy(self) -> Any:
        """The entropy in nats."""
        a = self.concentration
        return a + self.rate.log() + weft.lgamma(a) - (1 + a) * weft.digamma(a)


class Pareto(TransformedDistribution):
    """Numbers above `scale` whose tail falls with the power `alpha`."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        parts = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, parts, validate_args)

    def expand(
        self, batch_shape: Shape | Sequence[int], _instance: Distribution | None = None
    ) -> Any:
        """The same distribution with a larger batch.

        Args:
            batch_shape: the shape of the batch of the result, to which that of this one is
                broadcast.
        """
        made = super().expand(batch_shape, _instance)
        made.transforms = [ExpTransform(), AffineTransform(loc=0, scale=made.scale)]
        return made

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Values above the scale."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        """The mean; infinite if it does not exist."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self.scale

    @property
    def variance(self) -> Any:
        """The variance; infinite if it does not exist."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Any:
        """The entropy in nats."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """Times of failure; the rate of failing is a power of the time."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive  # type: ignore[assignment]

    def __init__(
        self,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(weft.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args)

    def _parts(self) -> list[Transform]:
        power = PowerTransform(self.concentration.reciprocal())
        return [power, AffineTransform(loc=0, scale=self.scale)]

    def expand(
        self, batch_shape: Shape | Sequence[int], _instance: Distribution | None = None
    ) -> Any:
        """The same distribution with a larger batch.

        Args:
            batch_shape: the shape of the batch of the result, to which that of this one is
                broadcast.
        """
        made = super().expand(batch_shape, _instance)
        made.transforms = made._parts()
        return made

    def _moment(self, order: int) -> Any:
        return weft.exp(weft.lgamma(1 + order / self.concentration))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Any:
        """The entropy in nats."""
        inverse = self.concentration.reciprocal()
        return EULER * (1 - inverse) + weft.log(self.scale * inverse) + 1


class Kumaraswamy(TransformedDistribution):
    """Shares between 0 and 1, much like Beta."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval  # type: ignore[assignment]

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = weft.zeros_like(self.concentration0)
        base = Uniform(zeros, zeros + 1, validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args)

    def _parts(self) -> list[Transform]:
        first, last = (
            PowerTransform(c.reciprocal()) for c in (self.concentration0, self.concentration1)
        )
        return [first, AffineTransform(loc=1.0, scale=-1.0), last]

    def expand(
        self, batch_shape: Shape | Sequence[int], _instance: Distribution | None = None
    ) -> Any:
        """The same distribution with a larger batch.

        Args:
            batch_shape: the shape of the batch of the result, to which that of this one is
                broadcast.
        """
        made = super().expand(batch_shape, _instance)
        made.transforms = made._parts()
        return made

    def _moment(self, order: int) -> Any:
        a, b = self.concentration1, self.concentration0
        arg = 1 + order / a
        return weft.exp(weft.lgamma(arg) + weft.lgamma(b) - weft.lgamma(arg + b)) * b

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Any:
        """The most probable value, where there is one inside."""
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return weft.where((a < 1) | (b < 1), math.nan, found)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Any:
        """The entropy in nats."""
        a, b = self.concentration1, self.concentration0
        harmonic = weft.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Points of the simplex from normal vectors with one number less."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex  # type: ignore[assignment]

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)
