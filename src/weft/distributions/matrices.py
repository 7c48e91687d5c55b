"""Laws of matrices, Wishart and LKJCholesky, and ContinuousBernoulli."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.distribution import (
    Distribution,
    as_logits,
    broadcast_all,
    clamp_probs,
    lazy_property,
    linalg,
)
from weft.distributions.gammas import Beta, Chi2
from weft.distributions.multivariate import MultivariateNormal, half_log_det, solve_lower
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError


class Wishart(Distribution):
    """Covariance matrices of `df` normal vectors. Source of the sampler: Bartlett (1933).

    Shapes: df (*), one of covariance_matrix, precision_matrix, scale_tril (*, p, p); df > p - 1.
    """

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        size = given[0].shape[-1] if given else 1
        zeros = weft.zeros(size, dtype=given[0].dtype if given else None)
        self._normal = MultivariateNormal(
            zeros, covariance_matrix, precision_matrix, scale_tril, validate_args
        )
        df = df if isinstance(df, weft.Tensor) else weft.tensor(df, dtype=zeros.dtype)
        if (df <= size - 1).any():
            raise ArgumentError(
                f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.",
                expected=f"df > {size - 1}",
                got=str(df.min().item()),
                fix="pass at least as many degrees of freedom as the matrix has rows",
            )
        batch = weft.broadcast_shapes(df.shape, self._normal.batch_shape)
        self.df, self._normal = df.expand(batch), self._normal.expand(batch)
        super().__init__(batch, (size, size), validate_args)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Any:
        return Wishart(
            self.df.expand(batch_shape), scale_tril=self._normal.expand(batch_shape).scale_tril
        )

    @property
    def scale_tril(self) -> Any:
        """A Cholesky factor of the scale matrix."""
        return self._normal.scale_tril

    @property
    def covariance_matrix(self) -> Any:
        """The scale matrix."""
        return self._normal.covariance_matrix

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the scale matrix."""
        return self._normal.precision_matrix

    @property
    def _wide_df(self) -> Any:
        return self.df.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._wide_df * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """The most probable matrix; nan where it is none."""
        factor = self._wide_df - self._event_shape[0] - 1
        return weft.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        """The variances of the elements."""
        scale = self.covariance_matrix
        diagonal = scale.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._wide_df * (scale.square() + products)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Matrices with gradients to the parameters.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        shape = self._extended_shape(sample_shape)
        below = weft.randn(shape, dtype=self.df.dtype).tril(-1)
        freedom = self.df.unsqueeze(-1) - weft.arange(shape[-1], dtype=self.df.dtype)
        scales = Chi2(freedom, validate_args=False).rsample(sample_shape).sqrt()
        factor = self.scale_tril @ (below + scales.diag_embed())
        return factor @ factor.mT

    def _log_scale(self) -> Any:
        """The logarithm of what the density is divided by."""
        size = self._event_shape[0]
        halves = half_log_det(self.scale_tril) + 0.5 * size * math.log(2)
        return self.df * halves + weft.mvlgamma(self.df / 2, size)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        factor = linalg.cholesky(value)
        exponent = self.df - self._event_shape[0] - 1
        trace = solve_lower(self.scale_tril, factor).square().sum((-2, -1))
        return exponent * half_log_det(factor) - 0.5 * trace - self._log_scale()

    def entropy(self) -> Any:
        """The entropy in nats."""
        size = self._event_shape[0]
        places = weft.arange(size, dtype=self.df.dtype)
        digammas = weft.digamma((self.df.unsqueeze(-1) - places) / 2).sum(-1)
        log_det = digammas + size * math.log(2) + 2 * half_log_det(self.scale_tril)
        exponent = self.df - size - 1
        return self._log_scale() - 0.5 * exponent * log_det + 0.5 * self.df * size


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices; their determinant has the power `concentration` - 1 in the density.

    Shapes: concentration (*) -> (*, dim, dim). Source: Lewandowski, Kurowicka, Joe (2009), the onion method.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ArgumentError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.",
                expected="dim >= 2",
                got=str(dim),
                fix="a correlation matrix of one variable is 1",
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.size(), (dim, dim), validate_args)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Any:
        return LKJCholesky(self.dim, self.concentration.expand(batch_shape), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Factors, row by row: a direction and a length.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.
        """
        with weft.no_grad():
            shape, dtype = self._extended_shape(sample_shape), self.concentration.dtype
            place = weft.arange(1, self.dim, dtype=dtype)
            rest = self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 1 - place)
            squares = Beta((0.5 * place).expand(rest.shape), rest).sample(sample_shape)
            normal = weft.randn(shape, dtype=dtype)[..., 1:, :].tril(0)
            rows = normal / linalg.vector_norm(normal, dim=-1, keepdim=True)
            rows = rows * squares.sqrt().unsqueeze(-1)
            below = weft.cat([weft.zeros((*shape[:-2], 1, self.dim), dtype=dtype), rows], -2)
            left = 1 - below.square().sum(-1)
            return below + left.clamp(min=weft.finfo(dtype).tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        count = self.dim - 1
        logs = value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()
        order = weft.arange(2, self.dim + 1, dtype=logs.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        alpha = self.concentration + 0.5 * count
        scale = weft.mvlgamma(alpha - 0.5, count) - weft.lgamma(alpha) * count
        return (order * logs).sum(-1) - 0.5 * count * math.log(math.pi) - scale


class ContinuousBernoulli(Distribution):
    """Numbers in [0, 1] of density proportional to p^x (1 - p)^(1 - x). Source: Loaiza-Ganem, Cunningham (2019)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ArgumentError(
                "Either `probs` or `logits` must be specified, but not both.",
                expected="one of them",
                got="none" if probs is None else "both",
                fix="pass one of them",
            )
        if probs is not None:
            (given,) = broadcast_all(probs)
            self.probs = clamp_probs(given)
        else:
            (given,) = broadcast_all(logits)
            self.logits = given
        self._lims = lims
        super().__init__(given.size(), (), validate_args)

    @lazy_property
    def probs(self) -> Any:
        """The parameter as a probability."""
        return clamp_probs(weft.sigmoid(self.logits))

    @lazy_property
    def logits(self) -> Any:
        """The parameter as a logarithm of odds."""
        return as_logits(self.probs, is_binary=True)

    def _split(self) -> tuple[Any, Any, Any]:
        """(where p is far from a half, p with a safe value elsewhere, the distance from a half)."""
        low, high = self._lims
        far = (self.probs <= low) | (self.probs > high)
        return far, weft.where(far, self.probs, low), self.probs - 0.5

    def _log_scale(self) -> Any:
        """The logarithm of what the density is multiplied by; near a half by its Taylor series."""
        far, p, x = self._split()
        exact = (2 * weft.atanh(1 - 2 * p) / (1 - 2 * p)).log()
        near = math.log(2) + (4 / 3 + 104 / 45 * x.square()) * x.square()
        return weft.where(far, exact, near)

    @property
    def mean(self) -> Any:
        """The mean."""
        far, p, x = self._split()
        exact = p / (2 * p - 1) + 1 / (2 * weft.atanh(1 - 2 * p))
        return weft.where(far, exact, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def variance(self) -> Any:
        """The variance."""
        far, p, x = self._split()
        angle = 2 * weft.atanh(1 - 2 * p)
        exact = p * (p - 1) / (1 - 2 * p).square() + 1 / angle.square()
        square = x.square()
        return weft.where(far, exact, 1 / 12 - (1 / 15 - 128 / 945 * square) * square)

    def log_prob(self, value: Tensor) -> Any:
        self._validated(value)
        p = self.probs
        return value * p.log() + (1 - value) * weft.log1p(-p) + self._log_scale()

    def cdf(self, value: Tensor) -> Any:
        self._validated(value)
        far, p, _ = self._split()
        inside = value.clamp(0, 1)
        exact = (p**inside * (1 - p) ** (1 - inside) + p - 1) / (2 * p - 1)
        return weft.where(far, exact, inside)

    def icdf(self, value: Tensor) -> Any:
        far, p, _ = self._split()
        exact = weft.log1p(value * (2 * p - 1) / (1 - p)) / (p.log() - weft.log1p(-p))
        return weft.where(far, exact, value)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.icdf(weft.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def entropy(self) -> Any:
        """The entropy in nats."""
        p = self.probs
        odds = weft.log1p(-p) - p.log()
        return self.mean * odds - self._log_scale() - weft.log1p(-p)
