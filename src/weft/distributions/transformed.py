"""Distributions made of one other: Independent, TransformedDistribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft._build.subscripted import subscripted
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.distribution import Distribution, sum_rightmost
from weft.distributions.transforms.elementwise import ComposeTransform, Transform
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError


class Independent(Distribution):
    """A distribution of which batch dimensions on the right count as one value."""

    __class_getitem__ = subscripted

    arg_constraints: Any = {}

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        have = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > have:
            raise ArgumentError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {have}",
                expected=f"at most {have}",
                got=str(reinterpreted_batch_ndims),
                fix="expand the distribution first",
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        split = have - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:split], shape[split:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        kept = self._event_shape[: self.reinterpreted_batch_ndims]
        made.base_dist = self.base_dist.expand((*batch_shape, *kept))
        return made

    has_rsample = property(lambda self: self.base_dist.has_rsample)  # type: ignore[assignment]

    @property
    def has_enumerate_support(self) -> Any:  # type: ignore[override]
        """True if all values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, over more dimensions."""
        found, more = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(found, more) if more else found

    mean = property(lambda self: self.base_dist.mean)  # type: ignore[assignment]
    mode = property(lambda self: self.base_dist.mode)  # type: ignore[assignment]
    variance = property(lambda self: self.base_dist.variance)  # type: ignore[assignment]

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Any:
        """The base's, added up.

        Args:
            value: values, broadcast with batch_shape + event_shape.
        """
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """The base's, added up."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of the base.

        Args:
            expand: True: repeat them for each distribution of the batch; False: the batch has
                size 1. Default: True.
        """
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


def _listed(transforms: object | Tensor | list[Tensor]) -> list[Any]:
    """One transform or several as a list. Errors: ValueError on anything else."""
    listed = [transforms] if isinstance(transforms, Transform) else transforms
    if not isinstance(listed, list | tuple) or not all(isinstance(t, Transform) for t in listed):
        raise ArgumentError(
            "transforms must be a Transform or a list of Transforms",
            expected="transforms of weft.distributions",
            got=f"{transforms!r:.100}",
            fix="derive a class from Transform",
        )
    return list(listed)


class TransformedDistribution(Distribution):
    """The distribution of a base distribution's values after transforms."""

    arg_constraints: Any = {}

    def __init__(
        self,
        base_distribution: Any,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = _listed(transforms)
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims = len(base_distribution.event_shape)
        image = whole.forward_shape(shape)
        expanded = whole.inverse_shape(image)
        if tuple(expanded) != tuple(shape):
            batch = expanded[: len(expanded) - base_dims]
            base_distribution = base_distribution.expand(batch)
        more = whole.domain.event_dim - base_dims
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        change = whole.codomain.event_dim - whole.domain.event_dim
        dims = max(whole.codomain.event_dim, base_dims + change)
        split = len(image) - dims
        super().__init__(image[:split], image[split:], validate_args)

    def expand(
        self, batch_shape: Shape | Sequence[int], _instance: Distribution | None = None
    ) -> Any:
        made = self._expanded(batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        rank = len(shape) - len(self.base_dist.event_shape)
        made.base_dist = self.base_dist.expand(shape[:rank])
        return made

    has_rsample = property(lambda self: self.base_dist.has_rsample)  # type: ignore[assignment]

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self._event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with weft.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._through(self.base_dist.rsample(sample_shape))

    def _through(self, value: Tensor) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value

    def log_prob(self, value: Tensor) -> Any:
        """The base's log density where the value comes from, less the logarithm of the stretch.

        Args:
            value: values, broadcast with batch_shape + event_shape.
        """
        self._validated(value)
        dims, found, image = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            before = transform.inv(image)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            stretch = transform.log_abs_det_jacobian(before, image)
            found = found - sum_rightmost(stretch, dims - transform.domain.event_dim)
            image = before
        base = sum_rightmost(self.base_dist.log_prob(image), dims - len(self.base_dist.event_shape))
        return found + base

    def _monotone(self, probability: Tensor) -> Any:
        sign = math.prod((t.sign for t in self.transforms), start=1)
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:  # at the ends of the support the base's values may be infinite
            self.base_dist._validate_sample(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Any:
        return self._through(self.base_dist.icdf(self._monotone(value)))
