"""Distributions over categories: Categorical, OneHotCategorical and its straight-through form, Multinomial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.counts import need_one
from weft.distributions.distribution import Distribution, as_logits, lazy_property
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError


class Categorical(Distribution):
    """The number of a category; the last dimension of `probs` or `logits` is over categories."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = need_one(probs, logits)
        if given.dim() < 1:
            name = "logits" if probs is None else "probs"
            raise ArgumentError(
                f"`{name}` parameter must be at least one-dimensional.",
                expected="one number for each category",
                got="a number",
                fix=f"pass weft.stack of the {name}",
            )
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self) -> Any:
        """Log probabilities."""
        return as_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return weft.softmax(self.logits, -1)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The numbers of the categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return weft.Size((*self._batch_shape, self._num_events))

    @property
    def mean(self) -> Any:
        """Not a number."""
        return weft.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype)

    @property
    def mode(self) -> Any:
        """The most probable category."""
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        """Not a number."""
        return weft.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Numbers of categories. Reads the probabilities.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        wanted = weft.Size(sample_shape)
        with weft.no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = weft.multinomial(rows, wanted.numel(), True).T
            return drawn.reshape(self._extended_shape(wanted))

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        value = value.long().unsqueeze(-1)
        value, logits = weft.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        """The entropy in nats."""
        least = weft.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All numbers.

        Args:
            expand: True: repeat them for each distribution of the batch; False: the batch has
                size 1. Default: True.
        """
        values = weft.arange(self._num_events).view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OverCategories(Distribution):
    """A distribution that is drawn through a category: `_categorical` has the probabilities."""

    _categorical: Categorical

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Log probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape


class OneHotCategorical(OverCategories):
    """A category as a vector with one 1."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def __repr__(self) -> str:
        return repr(self._categorical).replace("Categorical", type(self).__name__, 1)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The most probable category."""
        return self._vectors(self.probs.argmax(-1))

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.probs * (1 - self.probs)

    def _vectors(self, numbers: Tensor) -> Any:
        made = weft.nn.functional.one_hot(numbers, self._categorical._num_events)
        return made.to(self.probs.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Vectors with one 1. Reads the probabilities.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        """The entropy in nats."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        """All vectors with one 1.

        Args:
            expand: True: repeat them for each distribution of the batch; False: the batch has
                size 1. Default: True.
        """
        count = self._categorical._num_events
        values = weft.eye(count, dtype=self.probs.dtype)
        values = values.view((count, *[1] * len(self._batch_shape), count))
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot values whose gradient is that of the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with gradients to the probabilities.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OverCategories):
    """The counts of each category in `total_count` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: Tensor | float = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that add up to the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts. Reads the probabilities.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            count = self._categorical._num_events
            return weft.nn.functional.one_hot(drawn, count).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        logits, value = weft.broadcast_tensors(self.logits, value)
        ways = weft.lgamma(value.sum(-1) + 1) - weft.lgamma(value + 1).sum(-1)
        impossible = (value == 0) & (logits == float("-inf"))
        return ways + (weft.where(impossible, 0.0, logits) * value).sum(-1)

    def entropy(self) -> Any:
        """The entropy in nats, by sums over counts."""
        n = weft.tensor(float(self.total_count), dtype=self.probs.dtype)
        counts = weft.arange(2, self.total_count + 1, dtype=self.probs.dtype)
        counts = counts.view((-1, *[1] * self.probs.dim()))
        ways = weft.lgamma(n + 1) - weft.lgamma(counts + 1) - weft.lgamma(n - counts + 1)
        logs = ways + counts * self.logits + (n - counts) * (-self.probs).log1p()
        spread = (logs.exp() * weft.lgamma(counts + 1)).sum((0, -1))
        return n * self._categorical.entropy() - weft.lgamma(n + 1) + spread
