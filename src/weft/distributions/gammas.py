"""The gamma family: Gamma, Chi2, Beta, Dirichlet, FisherSnedecor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.distribution import Distribution, ExponentialFamily, broadcast_all, special
from weft.distributions.sampling import standard_gamma
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and inverse scale `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(
        self, concentration: object, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with (implicit) gradients to the parameters.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        shape = self._extended_shape(sample_shape)
        return standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        return (
            special.xlogy(self.concentration, self.rate)
            + special.xlogy(self.concentration - 1, value)
            - self.rate * value
            - weft.lgamma(self.concentration)
        )

    def entropy(self) -> Any:
        """The entropy in nats."""
        a = self.concentration
        return a - self.rate.log() + weft.lgamma(a) + (1.0 - a) * weft.digamma(a)

    def cdf(self, value: Tensor) -> Any:
        self._validated(value)
        return special.gammainc(self.concentration, self.rate * value)


class Chi2(Gamma):
    """The sum of `df` squared normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Any:
        return self._expanded(batch_shape, _instance, ("concentration", "rate"))

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Probabilities that add up to one."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ArgumentError(
                "`concentration` parameter must be at least one-dimensional.",
                expected="a vector of concentrations",
                got="a number",
                fix="pass weft.tensor([a, b])",
            )
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with (implicit) gradients: gamma numbers over their sum.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        parts = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return parts / parts.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        a = self.concentration
        return (
            special.xlogy(a - 1.0, value).sum(-1) + weft.lgamma(a.sum(-1)) - weft.lgamma(a).sum(-1)
        )

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        above = (self.concentration - 1).clamp(min=0.0)
        found = above / above.sum(-1, True)
        inside = (self.concentration < 1).all(dim=-1, keepdim=True)
        largest = weft.nn.functional.one_hot(
            self.concentration.argmax(-1), self.concentration.shape[-1]
        )
        return weft.where(inside, largest.to(found.dtype), found)

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def entropy(self) -> Any:
        """The entropy in nats."""
        a, count = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (
            weft.lgamma(a).sum(-1)
            - weft.lgamma(total)
            - (count - total) * weft.digamma(total)
            - ((a - 1.0) * weft.digamma(a)).sum(-1)
        )


class Beta(ExponentialFamily):
    """A share between 0 and 1."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        both = weft.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=False)
        self.concentration1, self.concentration0 = both[..., 0], both[..., 1]
        super().__init__(both.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        made._dirichlet = self._dirichlet.expand(batch_shape)
        return made

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with (implicit) gradients to the parameters.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        return self._dirichlet.log_prob(weft.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        """The entropy in nats."""
        return self._dirichlet.entropy()


class FisherSnedecor(Distribution):
    """The ratio of two mean squares, of `df1` and `df2` degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean, where there is one."""
        df2 = weft.where(self.df2 > 2, self.df2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        """The most probable value, where there is one."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return weft.where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Any:
        """The variance, where there is one."""
        df2 = weft.where(self.df2 > 4, self.df2, math.nan)
        above = 2 * df2.square() * (self.df1 + df2 - 2)
        return above / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with (implicit) gradients to the parameters.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        shape = self._extended_shape(sample_shape)
        above, below = (
            standard_gamma((df / 2).expand(shape)) / (df / 2) for df in (self.df1, self.df2)
        )
        tiny = weft.finfo(above.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        one, two = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        norm = weft.lgamma(one + two) - weft.lgamma(one) - weft.lgamma(two)
        shape = one * ratio.log() + (one - 1) * value.log()
        return norm + shape - (one + two) * weft.log1p(ratio * value)
