"""Bars of progress, by tqdm, for what takes long: reading files, compiling kernels, maps.

Nothing is shown unless `config.progress` asks for it (`WEFT_PROGRESS`), and on terminals alone unless it is "always".
What ends within a second has no bar. Without the package tqdm the work goes on, and a warning says so once.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from weft.config import config

DELAY_SECONDS = 1.0
Item = TypeVar("Item")


class Bar(Protocol):
    """A bar that is moved on."""

    def update(self, n: float | None = 1) -> bool | None:
        """Move on by n."""


class _Nothing:
    """The bar that nobody sees."""

    def update(self, n: float | None = 1) -> bool | None:
        return None


def is_wanted() -> bool:
    """True if bars are shown: where they are asked for, and on a terminal or always."""
    if not config.progress:
        return False
    return config.progress == "always" or bool(sys.stderr and sys.stderr.isatty())


@contextmanager
def bar(what: str, total: int | None, unit: str) -> Iterator[Bar]:
    """A bar for a block, of `total` units (None: not known)."""
    made = _made(what, total, unit) if is_wanted() else None
    if made is None:
        yield _Nothing()
        return
    with made:
        yield made


def shown(items: Iterable[Item], what: str, total: int | None, unit: str) -> Iterable[Item]:
    """The items, with a bar that moves on as they are taken; as they are where no bar is wanted."""
    return _moving(items, what, total, unit) if is_wanted() else items


def _moving(items: Iterable[Item], what: str, total: int | None, unit: str) -> Iterator[Item]:
    with bar(what, total, unit) as made:
        for item in items:
            yield item
            made.update(1)


def _made(what: str, total: int | None, unit: str) -> Any:
    """tqdm's bar; None where it is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        warnings.warn(
            "WEFT_PROGRESS: the package tqdm is not installed: pip install tqdm",
            RuntimeWarning,
            stacklevel=2,
        )
        config.progress = False
        return None

    class Quiet(tqdm):
        """Without tqdm's thread."""

        monitor_interval = 0

    is_bytes = unit == "B"
    return Quiet(
        desc=what,
        total=total,
        unit=unit,
        unit_scale=is_bytes,
        unit_divisor=1024 if is_bytes else 1000,
        delay=DELAY_SECONDS,
        leave=False,
        dynamic_ncols=True,
        file=sys.stderr,
    )
