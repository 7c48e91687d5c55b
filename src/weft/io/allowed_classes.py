"""The allow list of classes and functions that files may name, in addition to plain data and tensors.

`weft.serialization` fills the list for the caller; `weft.io.saving` reads it when it meets a pickle.
"""

from __future__ import annotations

from typing import Any

from weft.errors import ArgumentTypeError
from weft.io.safe_unpickler import KnownGlobal

entries: list[Any] = []  # classes, functions, or pairs of one and the name that files have for it


def name_in_files(entry: object) -> tuple[str, Any]:
    """The name that files have for something, and the thing. Errors: TypeError for what has none."""
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


def by_name_in_files() -> dict[str, KnownGlobal]:
    """The allowed classes and functions by the names that they have in files."""
    found = {}
    for entry in entries:
        path, value = name_in_files(entry)
        found[path] = KnownGlobal(value, value, own=isinstance(value, type))
    return found
