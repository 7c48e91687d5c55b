"""Flatten and Unflatten: dimensions merged and split."""

from __future__ import annotations

from collections.abc import Sequence

from weft import Tensor
from weft.errors import ArgumentTypeError
from weft.nn.module.module import Module


class Flatten(Module):
    """Merges a range of dimensions into one. Shapes: (N, *) -> (N, prod(*)) by default."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The input with fewer dimensions.

        Args:
            input: what the layer is applied to.
        """
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


def _check_sizes(sizes: object) -> None:
    """Errors: TypeError where the sizes of dimensions are no tuple of integers."""
    if not isinstance(sizes, tuple | list):
        text = f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}"
        wrong = sizes
    else:
        wrong = next((size for size in sizes if not isinstance(size, int)), None)
        if wrong is None:
            return
        text = (
            f"unflattened_size must be tuple of ints, but found element of type {type(wrong).__name__} at pos "
            f"{list(sizes).index(wrong)}"
        )
    raise ArgumentTypeError(
        text, expected="a tuple of ints", got=type(wrong).__name__, fix="pass such as (2, 3)"
    )


class Unflatten(Module):
    """Splits one dimension into several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        _check_sizes(unflattened_size)
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """The input with more dimensions.

        Args:
            input: what the layer is applied to.
        """
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
