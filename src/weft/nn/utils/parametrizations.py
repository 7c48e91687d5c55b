"""Parametrizations to use: weight norm and spectral norm.

Each registers itself on a parameter by `parametrize.register_parametrization`.
"""

from __future__ import annotations

import weft
from weft import Tensor
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn.module import Module
from weft.nn.utils import parametrize
from weft.nn.utils.hooked import norm_except_dim


class _WeightNorm(Module):
    """g v / |v| (Salimans and Kingma 2016)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Magnitudes and directions -> weights."""
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Weights -> magnitudes and directions."""
        return norm_except_dim(weight, 2, self.dim), weight.clone()


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Split a weight into magnitude (`original0`) and direction (`original1`)."""
    return parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """W / its largest singular value, estimated by power iteration while training (Miyato et al. 2018)."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ArgumentError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}",
                expected="n_power_iterations > 0",
                got=str(n_power_iterations),
                fix="use 1",
            )
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps, self.n_power_iterations = eps, n_power_iterations
        if weight.dim() > 1:
            matrix = self._matrix(weight.detach())
            rows, columns = matrix.shape
            u = weft.randn(rows, dtype=weight.dtype)
            v = weft.randn(columns, dtype=weight.dtype)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            others = [axis for axis in range(weight.dim()) if axis != self.dim]
            weight = weight.permute(self.dim, *others)
        return weight.flatten(1)

    def _power_method(self, matrix: Tensor, count: int) -> None:
        with weft.no_grad():
            u, v = self._u, self._v
            for _ in range(count):
                u = F.normalize(matrix @ v, dim=0, eps=self.eps)
                v = F.normalize(matrix.T @ u, dim=0, eps=self.eps)
            self._u.copy_(u)
            self._v.copy_(v)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight, normalised."""
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / (u * (matrix @ v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        """Taken as it is."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value."""
    weight = getattr(module, name)
    if dim is None:
        dim = 1 if getattr(module, "transposed", False) else 0
    part = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, part)
