"""Transforms of matrices, and transforms of pieces: Cholesky factors, concatenation, stacks, distribution functions."""

from __future__ import annotations

from typing import Any

import weft
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.distribution import Distribution, linalg
from weft.distributions.transforms.elementwise import ComposeTransform, Transform
from weft.engine.frontend.tensor import Tensor


class LowerCholeskyTransform(Transform):
    """A matrix to a lower triangular one with positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """A matrix to a positive definite one."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """A vector of n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Tensor) -> Any:
        count = self._size(x.shape[-1])
        rows, columns = weft.tril_indices(count, count, -1)
        eps = weft.finfo(x.dtype).eps
        partial = weft.tanh(x).clamp(min=eps - 1, max=1 - eps)
        place = (rows * count + columns).expand(partial.shape)
        flat = partial.new_zeros((*x.shape[:-1], count * count)).scatter(-1, place, partial)
        lower = flat.reshape((*x.shape[:-1], count, count))
        left = (1 - lower.square()).sqrt().cumprod(-1)
        left = weft.nn.functional.pad(left[..., :-1], [1, 0], value=1)
        return (lower + weft.eye(count, dtype=x.dtype)) * left

    def _inverse(self, y: Tensor) -> Any:
        count = y.shape[-1]
        left = (1 - (y * y).cumsum(-1)).clamp(min=weft.finfo(y.dtype).tiny).sqrt()
        left = weft.nn.functional.pad(left[..., :-1], [1, 0], value=1)
        rows, columns = weft.tril_indices(count, count, -1)
        return (y / left)[..., rows, columns].atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: the stretch of the rows and that of tanh.

        Args:
            x: a value.
            y: its image.
        """
        squares = (y * y).cumsum(-1)
        count = y.shape[-1]
        rows, columns = weft.tril_indices(count, count, -2)
        left = (1 - squares)[..., rows, columns].clamp(min=weft.finfo(y.dtype).tiny)
        stretch = 0.5 * left.log().sum(-1)
        tanh = -2 * (x + weft.nn.functional.softplus(-2 * x) - 0.6931471805599453).sum(-1)
        return stretch + tanh

    @staticmethod
    def _size(length: int) -> int:
        return round((0.25 + 2 * length) ** 0.5 + 0.5)

    def forward_shape(self, shape: Shape) -> Any:
        """The shape of the image: a square matrix.

        Args:
            shape: the shape of a value.
        """
        count = self._size(shape[-1])
        return weft.Size((*shape[:-1], count, count))

    def inverse_shape(self, shape: Shape) -> Any:
        """The shape of the value: a vector.

        Args:
            shape: the shape of an image.
        """
        return weft.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class CatTransform(Transform):
    """Transforms of pieces along a dimension."""

    def __init__(
        self,
        tseq: list[Transform],
        dim: int = 0,
        lengths: list[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.transforms = [part.with_cache(cache_size) for part in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))  # type: ignore[assignment]

    @property
    def event_dim(self) -> int:
        """The number of dimensions of one value."""
        return max(part.codomain.event_dim for part in self.transforms)

    @property
    def domain(self) -> Any:
        """The parts'."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        """The parts'."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _pieces(self, value: Tensor) -> Any:
        return zip(self.transforms, value.split(self.lengths, self.dim), strict=True)

    def _call(self, x: Tensor) -> Any:
        return weft.cat([part(piece) for part, piece in self._pieces(x)], self.dim)

    def _inverse(self, y: Tensor) -> Any:
        return weft.cat([part.inv(piece) for part, piece in self._pieces(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: the parts', side by side.

        Args:
            x: a value.
            y: its image.
        """
        images = y.split(self.lengths, self.dim)
        found = [
            part.log_abs_det_jacobian(piece, image)
            for (part, piece), image in zip(self._pieces(x), images, strict=True)
        ]
        return weft.cat(found, self.dim)


class StackTransform(Transform):
    """Transforms of slices along a dimension."""

    def __init__(self, tseq: list[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [part.with_cache(cache_size) for part in tseq]
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))  # type: ignore[assignment]

    @property
    def domain(self) -> Any:
        """The parts'."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        """The parts'."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _slices(self, value: Tensor) -> Any:
        return zip(self.transforms, value.unbind(self.dim), strict=True)

    def _call(self, x: Tensor) -> Any:
        return weft.stack([part(piece) for part, piece in self._slices(x)], self.dim)

    def _inverse(self, y: Tensor) -> Any:
        return weft.stack([part.inv(piece) for part, piece in self._slices(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: the parts', side by side.

        Args:
            x: a value.
            y: its image.
        """
        images = y.unbind(self.dim)
        found = [
            part.log_abs_det_jacobian(piece, image)
            for (part, piece), image in zip(self._slices(x), images, strict=True)
        ]
        return weft.stack(found, self.dim)


class CumulativeDistributionTransform(Transform):
    """A value to the probability of values up to it."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1  # type: ignore[assignment]

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The support of the distribution."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: the log density.

        Args:
            x: a value.
            y: its image.
        """
        return self.distribution.log_prob(x)


identity_transform = ComposeTransform([])
