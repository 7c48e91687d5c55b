"""How tensors are printed, by the names that libraries import from PyTorch."""

from __future__ import annotations

from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.tensor.printing import get_printoptions, number_block

__all__ = ["PRINT_OPTS"]


class _InForce:
    """The options in force: `threshold`, `precision`, ..."""

    def __getattr__(self, name: str) -> Any:
        return getattr(get_printoptions(), name)


PRINT_OPTS = _InForce()


def _tensor_str(tensor: Tensor, indent: int) -> str:
    """The numbers in their brackets, lines after the first `indent` columns in."""
    return number_block(tensor, indent)
