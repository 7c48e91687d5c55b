"""Distributions of real numbers: Normal, Laplace, Cauchy, Gumbel, StudentT, Uniform, Exponential."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.distribution import (
    EULER,
    LOG_SQRT_TAU,
    Distribution,
    ExponentialFamily,
    broadcast_all,
)
from weft.distributions.sampling import standard_gamma
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType


class _LocationScale(Distribution):
    """`loc + scale * standard value`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: object, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self.loc

    def _standard(self, shape: Shape, dtype: DType) -> Any:
        raise NotImplementedError

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.loc + self._standard(shape, self.loc.dtype) * self.scale

    def _scaled(self, value: Tensor) -> Any:
        self._validated(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale.square()

    def _standard(self, shape: Shape, dtype: DType) -> Any:
        return weft.randn(shape, dtype=dtype)

    def log_prob(self, value: Tensor) -> Any:
        return -0.5 * self._scaled(value).square() - self.scale.log() - LOG_SQRT_TAU

    def cdf(self, value: Tensor) -> Any:
        return 0.5 * (1 + weft.erf(self._scaled(value) / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Any:
        return self.loc + self.scale * weft.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        """The entropy in nats."""
        return 0.5 + LOG_SQRT_TAU + self.scale.log()


def _centred(shape: Shape, dtype: DType) -> Any:
    """Uniform numbers in (-1, 1)."""
    eps = weft.finfo(dtype).eps
    return (weft.rand(shape, dtype=dtype) * 2 - 1).clamp(min=eps - 1)


class Laplace(_LocationScale):
    """The double exponential distribution."""

    @property
    def variance(self) -> Any:
        """The variance."""
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return math.sqrt(2) * self.scale

    def _standard(self, shape: Shape, dtype: DType) -> Any:
        uniform = _centred(shape, dtype)
        return -uniform.sign() * weft.log1p(-uniform.abs())

    def log_prob(self, value: Tensor) -> Any:
        return -self._scaled(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Any:
        scaled = self._scaled(value)
        return 0.5 - 0.5 * scaled.sign() * weft.expm1(-scaled.abs())

    def icdf(self, value: Tensor) -> Any:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * weft.log1p(-2 * centred.abs())

    def entropy(self) -> Any:
        """The entropy in nats."""
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The ratio of two normal numbers; it has no mean."""

    @property
    def mean(self) -> Any:
        """Not a number."""
        return weft.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Any:
        """Infinite."""
        return weft.full_like(self.loc, math.inf)

    def _standard(self, shape: Shape, dtype: DType) -> Any:
        return weft.tan(_centred(shape, dtype) * (math.pi / 2))

    def log_prob(self, value: Tensor) -> Any:
        return -math.log(math.pi) - self.scale.log() - self._scaled(value).square().log1p()

    def cdf(self, value: Tensor) -> Any:
        return weft.atan(self._scaled(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Any:
        return weft.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        """The entropy in nats."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The distribution of the largest of many."""

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc + self.scale * EULER

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.stddev.square()

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return math.pi / math.sqrt(6) * self.scale

    def _standard(self, shape: Shape, dtype: DType) -> Any:
        limits = weft.finfo(dtype)
        uniform = weft.rand(shape, dtype=dtype).clamp(limits.tiny, 1 - limits.eps)
        return -(-uniform.log()).log()

    def log_prob(self, value: Tensor) -> Any:
        below = -self._scaled(value)
        return below - below.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Any:
        return (-(-self._scaled(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Any:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        """The entropy in nats."""
        return self.scale.log() + (1 + EULER)


class StudentT(Distribution):
    """Student's distribution of `df` degrees of freedom, moved and stretched."""

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean, where there is one."""
        return weft.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance, where there is one."""
        df = self.df.clamp(min=2.0)
        finite = weft.where(self.df > 2, self.scale.square() * df / (df - 2), math.inf)
        return weft.where(self.df > 1, finite, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        normal = weft.randn(shape, dtype=self.df.dtype)
        chi2 = 2 * standard_gamma((self.df / 2).expand(shape))
        return self.loc + self.scale * normal * weft.rsqrt(chi2 / self.df)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        scaled = (value - self.loc) / self.scale
        norm = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + weft.lgamma(0.5 * self.df)
            - weft.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * weft.log1p(scaled.square() / self.df) - norm

    def entropy(self) -> Any:
        """The entropy in nats."""
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = weft.lgamma(half) + math.lgamma(0.5) - weft.lgamma(more)
        digammas = weft.digamma(more) - weft.digamma(half)
        return self.scale.log() + more * digammas + 0.5 * self.df.log() + log_beta


class Uniform(Distribution):
    """All values from `low` to `high` alike; `high` is left out."""

    has_rsample = True

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """`low` stays below `high`."""
        return {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(
        self, low: object, high: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Between the bounds."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        """Not a number."""
        return math.nan * self.high

    @property
    def variance(self) -> Any:
        """The variance."""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.low + weft.rand(shape, dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Any:
        self._validated(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        """The entropy in nats."""
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """Waiting times at a rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return weft.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with gradients to the rate.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        shape = self._extended_shape(sample_shape)
        return -weft.log1p(-weft.rand(shape, dtype=self.rate.dtype)) / self.rate

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Any:
        self._validated(value)
        return -weft.expm1(-self.rate * value)

    def icdf(self, value: Tensor) -> Any:
        return -weft.log1p(-value) / self.rate

    def entropy(self) -> Any:
        """The entropy in nats."""
        return 1.0 - self.rate.log()
