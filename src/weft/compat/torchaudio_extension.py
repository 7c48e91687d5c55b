"""torchaudio's `_extension` without its compiled part, which is built against PyTorch and which torchaudio, unlike
torchvision, needs when it is imported: its Python functions run, the others raise where they are called.

In: the names that torchaudio asks for, `_IS_..._AVAILABLE`, `_load_lib` and `fail_if_no_...`. Out: False, and
decorators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable


def _refused(function: Callable[..., object]) -> Callable[..., object]:
    """The function of the compiled part as one that raises. Errors: OSError where it is called."""

    @functools.wraps(function)
    def raises(*args: object, **kwargs: object) -> object:
        raise OSError(f"{function.__name__}: operations compiled for PyTorch do not run here")

    return raises


def _load_lib(name: str) -> bool:
    """True if a library of the compiled part was loaded: none is."""
    return False


def __getattr__(name: str) -> object:
    if name.startswith("_IS_") and name.endswith("_AVAILABLE"):
        return False
    if name.startswith("fail_if_no_"):
        return _refused
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
