"""The error inputs of all three databases, without the rest of what their entries are checked for.

An entry is one of a database's that has error inputs, as `operators: add`. Its one column is that of errors: the class
of each error, and PyTorch's own words in it.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

COLUMNS = ("errors",)
DATABASES = {
    "operators": "error_inputs_func",
    "modules": "module_error_inputs_func",
    "optimizers": "optim_error_inputs_func",
}  # and where an entry of it keeps its error inputs


def _database(name: str) -> ModuleType:
    return import_module(f"conformance.{name}")


def entries() -> dict[str, Any]:
    """All entries with error inputs."""
    return {
        f"{database}: {name}": info
        for database, field in DATABASES.items()
        for name, info in _database(database).entries().items()
        if getattr(info, field) is not None
    }


def check(name: str, most: int = 0) -> dict[str, Any]:
    """The errors of one entry; there are few of each, so all are run."""
    database, _, entry = name.partition(": ")
    result: dict[str, Any] = _database(database).refusals(entry)
    return result
