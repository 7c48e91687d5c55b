"""Hooks as a subject of their own: the handle that removes one, and hooks that files do without.

Registering hooks is left to tensors, records and modules.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from weft.engine.api.api_function import publish
from weft.engine.backward.hooks import RemovableHandle
from weft.engine.frontend.tensor import Tensor
from weft.tensor.copying import hooks_to_lose


def unserializable_hook(f: Callable[..., object]) -> Callable[..., Any]:
    """Mark a hook as one that is not missed where its tensor is pickled: no warning says that it is lost."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook that pickling a tensor would lose."""
    for text in hooks_to_lose(tensor):
        warnings.warn(text, UserWarning, stacklevel=2)


__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

publish(globals())
