"""MultivariateNormal, and mixtures of one family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft.distributions import constraints
from weft.distributions.categories import Categorical
from weft.distributions.distribution import LOG_SQRT_TAU, Distribution, lazy_property, linalg
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError


def solve_lower(factor: Tensor, right: Tensor) -> Any:
    """X of `factor @ X = right`, for a lower triangular factor; batches are broadcast."""
    batch = weft.broadcast_shapes(factor.shape[:-2], right.shape[:-2])
    factor = factor.expand((*batch, *factor.shape[-2:]))
    right = right.expand((*batch, *right.shape[-2:]))
    return linalg.solve_triangular(factor, right, upper=False)


def squared_distance(factor: Tensor, difference: Tensor) -> Any:
    """The squared Mahalanobis distance of differences (..., n) under a Cholesky factor (..., n, n)."""
    return solve_lower(factor, difference.unsqueeze(-1)).squeeze(-1).square().sum(-1)


def _applied(matrix: object, vector: Any) -> Any:
    """Matrices (..., n, m) times vectors (..., m); batches are broadcast."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def half_log_det(factor: Tensor) -> Any:
    """Half the log determinant of the matrix of a Cholesky factor."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _factor_of_precision(precision: Tensor) -> Any:
    """The Cholesky factor of the inverse, from that of the matrix turned around."""
    turned = linalg.cholesky(precision.flip((-2, -1)))
    inverse = turned.flip((-2, -1)).mT
    eye = weft.eye(precision.shape[-1], dtype=precision.dtype)
    return solve_lower(inverse, eye)


class MultivariateNormal(Distribution):
    """Normal vectors of a mean and a covariance, a precision, or a Cholesky factor of the covariance."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ArgumentError(
                "loc must be at least one-dimensional.",
                expected="a vector",
                got="a number",
                fix="use Normal, or pass loc.unsqueeze(0)",
            )
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(given) != 1:
            raise ArgumentError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
                expected="one of them",
                got=", ".join(given) or "none",
                fix="pass one of them",
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ArgumentError(
                f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions",
                expected="a matrix (..., n, n)",
                got=str(list(matrix.shape)),
                fix="pass .diag_embed() of standard deviations",
            )
        batch = weft.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = _scale_tril(name, matrix)

    @lazy_property
    def scale_tril(self) -> Any:
        """A Cholesky factor of the covariance."""
        factor = self._unbroadcasted_scale_tril
        return factor.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        eye = weft.eye(self._event_shape[0], dtype=self.loc.dtype)
        inverse = solve_lower(self.scale_tril, eye)
        return inverse.mT @ inverse

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
        return self.scale_tril.square().sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        normal = weft.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ normal.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        distance = squared_distance(self._unbroadcasted_scale_tril, value - self.loc)
        norm = self._event_shape[0] * LOG_SQRT_TAU + half_log_det(self._unbroadcasted_scale_tril)
        return -0.5 * distance - norm

    def entropy(self) -> Any:
        """The entropy in nats."""
        found = half_log_det(self._unbroadcasted_scale_tril)
        found = found + self._event_shape[0] * 0.5 * (1 + math.log(2 * math.pi))
        return found.expand(self._batch_shape)


def _scale_tril(name: str, matrix: Tensor) -> Any:
    if name == "scale_tril":
        return matrix
    return linalg.cholesky(matrix) if name == "covariance_matrix" else _factor_of_precision(matrix)


class MixtureSameFamily(Distribution):
    """A mixture: the last batch dimension of `component_distribution` is over the components."""

    arg_constraints: Any = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture, self._component = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical) or not isinstance(
            component_distribution, Distribution
        ):
            raise ValueError(
                "The Mixture distribution needs to be an instance of Categorical, its components a Distribution"
            )
        count, batch = mixture_distribution.param_shape[-1], component_distribution.batch_shape
        if not batch or batch[-1] != count:
            raise ArgumentError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({batch[-1] if batch else None})",
                expected=f"{count} components",
                got=str(list(batch)),
                fix="put the components into the last batch dimension",
            )
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        made._component = self._component.expand((*batch_shape, self._num_component))
        made._mixture = self._mixture.expand(batch_shape)
        return made

    mixture_distribution = property(lambda self: self._mixture)
    component_distribution = property(lambda self: self._component)

    @constraints.dependent_property
    def support(self) -> Any:
        """The support of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component.support)

    def _weights(self) -> Any:
        shape = self._mixture.probs.shape
        return self._mixture.probs.reshape((*shape, *[1] * self._event_ndims))

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self._weights() * self._component.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        """The variance: within the components and between them."""
        weights, place = self._weights(), -1 - self._event_ndims
        within = (weights * self._component.variance).sum(place)
        away = (self._component.mean - self.mean.unsqueeze(place)).square()
        return within + (weights * away).sum(place)

    def cdf(self, x: Tensor) -> Any:
        """The probability of values up to this one.

        Args:
            x: values, broadcast with batch_shape.
        """
        return (self._component.cdf(self._padded(x)) * self._mixture.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Any:
        """The logarithm of the density, or of the probability.

        Args:
            x: values, broadcast with batch_shape + event_shape.
        """
        if self._validate_args:
            self._validate_sample(x)
        found = self._component.log_prob(self._padded(x))
        return weft.logsumexp(found + weft.log_softmax(self._mixture.logits, -1), -1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values. Reads the weights of the components.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            place = -1 - self._event_ndims
            chosen = self._mixture.sample(sample_shape)
            chosen = chosen.reshape((*chosen.shape, 1, *[1] * self._event_ndims))
            values = self._component.sample(sample_shape)
            chosen = chosen.expand((*chosen.shape[:place], 1, *self._event_shape))
            return values.gather(values.dim() + place, chosen).squeeze(place)

    def _padded(self, x: Tensor) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture!r},\n  {self._component!r})"
