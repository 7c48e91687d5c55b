"""`weft.return_types`: the types of results of several tensors, by the names of the functions that return them: tuples
whose members have names, as in `weft.sort(x).indices`.
"""

from __future__ import annotations

from typing import Any

from weft.functional.support.return_types import TYPES

_NAMES = sorted(name for name in TYPES if not name.startswith("_"))
all_return_types: list[Any] = [TYPES[name] for name in _NAMES]
__all__ = ["all_return_types", *_NAMES]  # noqa: PLE0604 - names


def pytree_register_structseq(cls: type) -> None:
    """Nothing to do: results of several tensors are containers of their own for `weft.utils._pytree`."""


def __getattr__(name: str) -> Any:
    if name in TYPES:
        return TYPES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return __all__
