"""The named results of functions with several: tuples with fields, printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def result_type(name: str, fields: str) -> Any:
    """A tuple type with named fields."""
    made: Any = namedtuple(name, fields)  # type: ignore[misc]

    def shown(self: Any) -> str:
        pairs: Any = zip(made._fields, self, strict=True)
        parts = ",\n".join(f"{field}={value!r}" for field, value in pairs)
        return f"weft.return_types.{name}(\n{parts})"

    type.__setattr__(made, "__repr__", shown)
    return made
