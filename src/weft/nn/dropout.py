"""Dropout layers: zero elements at random while training (Srivastava et al. 2014)."""

from __future__ import annotations

from weft import Tensor
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn.module import Module


class Dropout(Module):
    """Each element is zero with probability `p`, the others grow by 1 / (1 - p); nothing in
    evaluation.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ArgumentError(
                f"dropout probability has to be between 0 and 1, but got {p}",
                expected="0 <= p <= 1",
                got=repr(p),
                fix="pass the share of elements to zero",
            )
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
