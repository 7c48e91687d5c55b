"""The number of threads of NumPy's and SciPy's linear algebra: as many as Weft's, and one for matrices of few rows.

The OpenBLAS that their wheels bring along (one each) starts as many threads as there are cores, which spin while they
wait for each other: when the machine has other work, a factorization takes a hundred times as long as with one thread.
If there is no such library, nothing is set.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock  # `threading` is not imported for a lock
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft._build.lazy import later

_pool = later("weft.engine.devices.cpu.threads")
FEW = 256  # rows of a matrix that one thread factors about as fast as several
TINY = 32  # rows up to which OpenBLAS takes one thread by itself, but in these routines
THREADED = ("potri", "trtrs")
_MODULES = ("numpy.linalg", "scipy.linalg")
_lock = allocate_lock()
_inside: list[int] = []  # what calls on their way have asked for
_before: list[tuple[Any, int]] = []  # what was set before the first of them


@cache
def _setter(module: str) -> Callable[[int], int] | None:
    """The function that sets the number of threads of a package's OpenBLAS and returns the previous one, or None."""
    import ctypes
    import importlib.util
    from pathlib import Path

    package = module.partition(".")[0]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    for file in (Path(spec.origin).parent.parent / f"{package}.libs").glob("*openblas*"):
        found = getattr(ctypes.CDLL(str(file)), "openblas_set_num_threads_local", None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def _enter(count: int) -> None:
    """Set a number of threads; calls of several threads at a time share what the first one sets."""
    with _lock:
        if not _inside:
            setters = [_setter(module) for module in _MODULES if module in sys.modules]
            _before[:] = [(each, each(count)) for each in setters if each is not None]
        _inside.append(count)


def _leave() -> None:
    """Set what was set before, after the last call."""
    with _lock:
        _inside.pop()
        if not _inside:
            for each, previous in _before:
                each(previous)


def limited(function: Callable[..., object], tiny: int = TINY) -> Callable[..., Any]:
    """A function of matrices, its first argument, that takes as many threads as these are worth; with up to `tiny` rows
    it takes one by itself."""

    def within(matrix: np.ndarray, *rest: object, **options: object) -> Any:
        rows = max(matrix.shape[-2:], default=0)
        if rows <= tiny:
            return function(matrix, *rest, **options)
        _enter(1 if rows <= FEW else _pool.get_num_threads())
        try:
            return function(matrix, *rest, **options)
        finally:
            _leave()

    return within


class _Limited:
    """`numpy.linalg`, each function within `limited`."""

    def __getattr__(self, name: str) -> Any:
        self.__dict__[name] = limited(getattr(np.linalg, name))
        return self.__dict__[name]


linalg = _Limited()
