"""The marks of functions in PyTorch's packages, without effect: `torch.fx._compatibility`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that leaves what it marks."""
    return lambda marked: marked
