"""Marks for Intel's VTune, as PyTorch has them: nobody reads them here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def is_available() -> bool:
    """False: there is no such tool."""
    return False


def range_push(msg: str) -> None:
    """Nothing: nobody reads marks."""


def range_pop() -> None:
    """Nothing: nobody reads marks."""


def mark(msg: str) -> None:
    """Nothing: nobody reads marks."""


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:  # noqa: A001 - PyTorch's name
    """A context that changes nothing."""
    yield
