"""StorageBase: what typed and untyped storages have in common for those who take either."""

from __future__ import annotations

from typing import Any

from weft.engine.ir.dtype import DType


class StorageBase:
    """A storage, of bytes or of elements."""

    def shown_as(self, dtype: DType | None) -> Any:
        """A vector that shares the memory: elements of the storage's own dtype; bytes as any dtype, int64 by default.

        Errors: RuntimeError if a storage has elements of another dtype."""
        raise NotImplementedError


def is_storage(obj: object) -> bool:
    """True if an object is a storage."""
    return isinstance(obj, StorageBase)
