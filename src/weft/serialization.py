"""Which classes of the caller's own files may name, under PyTorch's path, with `save` and `load`.

A file is read without running anything. What is added here may be made and filled from a file: only add classes that
do no harm with any state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from weft.errors import ArgumentTypeError
from weft.graph.public import publish
from weft.serialize import load, save
from weft.unpickling import Known

__all__ = [
    "add_safe_globals", "clear_safe_globals", "get_default_load_endianness", "get_safe_globals", "load",
    "safe_globals", "save",
]  # fmt: skip

MAP_LOCATION: TypeAlias = Any  # what `load` takes as map_location, in annotations
_safe: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow classes and functions in files; each may be a pair with the name that files have for it."""
    for entry in safe_globals:
        _path(entry)
        _safe.append(entry)


def clear_safe_globals() -> None:
    """Allow none any more."""
    _safe.clear()


def get_safe_globals() -> list[Any]:
    """What has been allowed."""
    return list(_safe)


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Allow classes and functions within a block."""
    before = get_safe_globals()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before


def get_default_load_endianness() -> None:
    """None: files say in what order their bytes are."""


def _path(entry: Any) -> tuple[str, Any]:
    """The name that files have for something. Errors: TypeError for what has none."""
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], str):
        return entry[1], entry[0]
    name = getattr(entry, "__qualname__", None)
    if name is None or not callable(entry):
        raise ArgumentTypeError(
            "add_safe_globals: neither a class nor a function",
            expected="a class, a function, or a pair of one and its name in files",
            got=repr(entry)[:80],
            fix="pass [MyClass], or [(MyClass, 'old.path.MyClass')]",
        )
    return f"{entry.__module__}.{name}", entry


def allowed() -> dict[str, Known]:
    """What has been allowed, by the names that files have."""
    found = {}
    for entry in _safe:
        path, value = _path(entry)
        found[path] = Known(value, value, own=isinstance(value, type))
    return found


publish(globals())
del publish
