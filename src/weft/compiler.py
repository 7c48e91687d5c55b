"""`weft.compiler`: what programs ask of a compiler. Every graph is compiled when it runs; nothing is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, which runs as ordinary Python anyway; also a decorator with options."""
    return (lambda function: function) if fn is None else fn


def is_compiling() -> bool:
    """Whether a function is being traced: never."""
    return False


def is_dynamo_compiling() -> bool:
    """Whether a function is being traced: never."""
    return False


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return fn


def reset() -> None:
    """Nothing: no trace is kept."""
