"""`weft.export`: names for dimensions that may change, for `weft.onnx.export`. Programs themselves are not exported."""

from __future__ import annotations

import enum
from typing import NoReturn

from weft.errors import ArgumentError


class _Hint(enum.Enum):
    """Words instead of a name: a dimension that may change, or that does not."""

    AUTO = "AUTO"
    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"


class Dim:
    """A dimension that may change, with the sizes that it may have.

    Args:
        name: its name; dimensions of one name have one size.
        min: the least size; None: any.
        max: the greatest size; None: any.

    Raises: ValueError for a name that is no identifier, and for a greatest size that is not above the least one.

    Example:
        >>> import weft
        >>> batch = weft.export.Dim("batch", min=1, max=64)
        >>> batch
        Dim('batch', min=1, max=64)
    """

    AUTO, DYNAMIC, STATIC = _Hint.AUTO, _Hint.DYNAMIC, _Hint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ArgumentError(
                f"Dim: Dim name must be a valid identifier, got {name}",
                expected="a name of letters, digits and underscores",
                got=repr(name),
            )
        if min is not None and max is not None and max <= min:
            raise ArgumentError(
                f"Dim: Cannot create Dim with inconsistent min={min}, max={max}",
                expected="max above min",
                got=f"min={min}, max={max}",
            )
        self.__name__, self.min, self.max = name, min or 0, max

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module 'weft.export' has no attribute {name!r}: programs are recorded anew at each call; weft.onnx.export "
        "writes one call as ONNX, weft.debug.to_python as Python, and weft.save writes weights",
        name=name,
    )
