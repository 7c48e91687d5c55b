"""The printing of tensors, by the names that libraries import from PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.tensor.reading.printing import get_printoptions, number_block, set_printoptions

__all__ = ["PRINT_OPTS", "printoptions"]


class _InForce:
    """The options in force: `threshold`, `precision`, ..."""

    def __getattr__(self, name: str) -> Any:
        return getattr(get_printoptions(), name)


PRINT_OPTS = _InForce()


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """A block in which tensors are printed otherwise; options as of `set_printoptions`."""
    before = get_printoptions()._asdict()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def _tensor_str(tensor: Tensor, indent: int) -> str:
    """The numbers in their brackets, lines after the first `indent` columns in."""
    return number_block(tensor, indent)
