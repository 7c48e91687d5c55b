"""Discrete distributions of numbers: Bernoulli, Geometric, Binomial, NegativeBinomial, Poisson."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import weft
from weft import Tensor
from weft.distributions import constraints
from weft.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    as_logits,
    broadcast_all,
    lazy_property,
    special,
)
from weft.distributions.sampling import standard_gamma
from weft.errors import ArgumentError

_Given = TypeVar("_Given")


def need_one(probs: _Given | None, logits: _Given | None) -> _Given:
    """The given one of the two forms of probabilities. Errors: ValueError for both or none."""
    if probs is not None and logits is None:
        return probs
    if logits is not None and probs is None:
        return logits
    raise ArgumentError(
        "Either `probs` or `logits` must be specified, but not both.",
        expected="probs or logits",
        got="both" if probs is not None else "none",
        fix="pass one of them",
    )


class _WithOdds(Distribution):
    """A chance of success as `probs` or `logits`; the other is computed when it is asked for."""

    def _take(
        self, probs: Tensor | float | None, logits: Tensor | float | None, *others: Tensor | float
    ) -> tuple[Tensor, ...]:
        given = broadcast_all(need_one(probs, logits), *others)
        self.__dict__["logits" if probs is None else "probs"] = given[0]
        return tuple(given)

    @lazy_property
    def logits(self) -> Any:
        """The log odds."""
        return as_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probability."""
        return weft.sigmoid(self.logits)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._batch_shape


class Bernoulli(_WithOdds, ExponentialFamily):
    """One with probability `probs`, else zero."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (given,) = self._take(probs, logits)
        super().__init__(given.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The more probable value; nan where both are alike."""
        found = (self.probs >= 0.5).to(self.probs.dtype)
        return weft.where(self.probs == 0.5, float("nan"), found)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Zeros and ones.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            return weft.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        logits, value = broadcast_all(self.logits, value)
        return -weft.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        """The entropy in nats."""
        return weft.nn.functional.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )

    def enumerate_support(self, expand: bool = True) -> Any:
        """Zero and one.

        Args:
            expand: True: repeat them for each distribution of the batch; False: the batch has
                size 1. Default: True.
        """
        values = weft.arange(2, dtype=self.probs.dtype).view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(_WithOdds):
    """The number of failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (given,) = self._take(probs, logits)
        super().__init__(given.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ArgumentError(
                f"Expected parameter probs of distribution {self!r} to be positive but found invalid "
                f"values:\n{self.probs}",
                expected="probabilities above 0",
                got="values at 0",
                fix="clamp them",
            )

    @property
    def mean(self) -> Any:
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return weft.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        """The variance."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts, by inversion.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            shape = self._extended_shape(sample_shape)
            uniform = weft.rand(shape, dtype=self.probs.dtype)
            uniform = uniform.clamp(min=weft.finfo(uniform.dtype).tiny)
            return (uniform.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        value, probs = broadcast_all(value, self.probs)
        failures = weft.where((probs == 1) & (value == 0), 0.0, (-probs).log1p() * value)
        return failures + self.probs.log()

    def entropy(self) -> Any:
        """The entropy in nats."""
        crossed = weft.nn.functional.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )
        return crossed / self.probs


class Binomial(_WithOdds):
    """The number of successes in `total_count` trials."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | float = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given, self.total_count = self._take(probs, logits, total_count)
        self.total_count = self.total_count.to(given.dtype)
        super().__init__(given.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """From 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts. Reads the parameters.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            shape = self._extended_shape(sample_shape)
            return weft.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        n = self.total_count
        ways = weft.lgamma(n + 1) - weft.lgamma(value + 1) - weft.lgamma(n - value + 1)
        norm = weft.logaddexp(self.logits, weft.zeros_like(self.logits))
        return ways + value * self.logits - n * norm

    def entropy(self) -> Any:
        """The entropy in nats. Errors: NotImplementedError where numbers of trials differ."""
        if self.total_count.min() != self.total_count.max():
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        """From 0 to the number of trials. Reads it.

        Args:
            expand: True: repeat them for each distribution of the batch; False: the batch has
                size 1. Default: True.
        """
        most = int(self.total_count.max())
        if self.total_count.min() != most:
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        values = weft.arange(1 + most, dtype=self.total_count.dtype)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class NegativeBinomial(_WithOdds):
    """The number of successes before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given, self.total_count = self._take(probs, logits, total_count)
        self.total_count = self.total_count.to(given.dtype)
        super().__init__(given.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.mean / weft.sigmoid(-self.logits)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts: Poisson at rates of a gamma law. Reads the parameters.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            shape = self._extended_shape(sample_shape)
            return weft.poisson(standard_gamma(self.total_count.expand(shape)) * self.logits.exp())

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        log_sigmoid = weft.nn.functional.logsigmoid
        chance = self.total_count * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits)
        ways = (
            -weft.lgamma(self.total_count + value)
            + weft.lgamma(1.0 + value)
            + weft.lgamma(self.total_count)
        )
        return chance - weft.where(self.total_count + value == 0.0, 0.0, ways)


class Poisson(ExponentialFamily):
    """The number of events that come at a rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: object, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts. Reads the rate.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            return weft.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        return special.xlogy(value, self.rate) - self.rate - weft.lgamma(value + 1)
