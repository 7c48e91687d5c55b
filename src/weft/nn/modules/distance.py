"""Distances and similarities as modules."""

from __future__ import annotations

from weft import Tensor
from weft.nn import functional as F
from weft.nn.module.module import Module


class PairwiseDistance(Module):
    """The p-norm of the difference of two vectors."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The distance between the vectors of each pair.

        Args:
            x1: the first of each pair.
            x2: the second of each pair; broadcast to the first.

        Shape:
            (*, D), (*, D) -> (*).
        """
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between two vectors along a dimension."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The cosine of the angle between the vectors of each pair.

        Args:
            x1: the first of each pair.
            x2: the second of each pair; broadcast to the first.

        Shape:
            (*, D, *), (*, D, *) -> (*, *).
        """
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
