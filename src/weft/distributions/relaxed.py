"""Relaxed discrete distributions: values between the discrete ones, with gradients (Maddison, Mnih, Teh 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft.distributions import constraints
from weft.distributions.categories import Categorical, OverCategories
from weft.distributions.counts import _WithOdds
from weft.distributions.distribution import broadcast_all, clamp_probs
from weft.distributions.transformed import TransformedDistribution
from weft.distributions.transforms.elementwise import ExpTransform, SigmoidTransform
from weft.engine.frontend.tensor import Tensor


class LogitRelaxedBernoulli(_WithOdds):
    """The log odds of a relaxed coin (Maddison, Mnih, Teh 2017)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        (given,) = self._take(probs, logits)
        super().__init__(given.size(), validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with gradients."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniform = clamp_probs(weft.rand(shape, dtype=probs.dtype))
        odds = uniform.log() - (-uniform).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Tensor) -> Any:
        """The logarithm of the density."""
        self._validated(value)
        logits, value = broadcast_all(self.logits, value)
        moved = logits - value * self.temperature
        log_t = weft.as_tensor(self.temperature, dtype=moved.dtype).log()
        return log_t + moved - 2 * moved.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A coin that shows values between 0 and 1, with gradients."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class ExpRelaxedCategorical(OverCategories):
    """The logarithm of a relaxed one-hot vector (Maddison, Mnih, Teh 2017)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: Any = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with gradients."""
        shape = self._extended_shape(sample_shape)
        uniform = clamp_probs(weft.rand(shape, dtype=self.logits.dtype))
        scores = (self.logits - (-uniform.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Any:
        """The logarithm of the density."""
        self._validated(value)
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = weft.as_tensor(self.temperature, dtype=logits.dtype)
        norm = math.lgamma(count) + (count - 1) * temperature.log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + norm


class RelaxedOneHotCategorical(TransformedDistribution):
    """A category as a vector that is nearly one-hot, with gradients."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)
