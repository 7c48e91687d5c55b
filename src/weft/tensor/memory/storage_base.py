# ruff: noqa: A003 - PyTorch's names
"""StorageBase: what typed and untyped storages have in common for those who take either."""

from __future__ import annotations

from typing import Any, Self

from weft._typing import DeviceLike
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType


class StorageBase:
    """A storage, of bytes or of elements."""

    is_cuda = is_hpu = is_sparse = is_sparse_csr = False

    @property
    def _elements(self) -> Any:
        """All elements as a vector, shared."""
        raise NotImplementedError

    @classmethod
    def _of_elements(cls, elements: Tensor) -> Self:
        """The storage of a vector."""
        raise NotImplementedError

    def shown_as(self, dtype: DType | None) -> Any:
        """A vector that shares the memory: elements of the storage's own dtype; bytes as any dtype, int64 by default.

        Args:
            dtype: the dtype of the elements.

        Raises:
            RuntimeError if a storage has elements of another dtype.
        """
        raise NotImplementedError

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return self._elements.device

    def clone(self) -> Self:
        """New memory with the same elements."""
        return self._of_elements(self._elements.clone())

    def to(self, *, device: DeviceLike, non_blocking: bool = False) -> Self:
        """The storage on a device: itself where it is there.

        Args:
            device: a device, or its name.
            non_blocking: accepted, without effect. Default: False.

        Raises:
            RuntimeError, there is no other with memory.
        """
        have = self._elements
        moved = have.to(device)
        return self if moved is have else self._of_elements(moved)

    def cpu(self) -> Self:
        """The storage itself."""
        return self

    def cuda(self, device: DeviceLike | None = None, non_blocking: bool = False) -> Self:
        """Args:
            device: the number of a device; None: the current one.
            non_blocking: accepted, without effect. Default: False.

        Raises:
            RuntimeError, there is no CUDA device.
        """
        return self.to(device="cuda" if device is None else device)

    def pin_memory(self, device: DeviceLike | None = None) -> Self:
        """The storage itself: pinning serves copies to another device.

        Args:
            device: the device copies go to, for which memory of this library is never pinned;
                None: any.
        """
        return self

    def is_pinned(self, device: DeviceLike | None = None) -> bool:
        """True if the memory is pinned for copies to another device: no.

        Args:
            device: the device copies go to, for which memory of this library is never pinned;
                None: any.
        """
        return False

    def get_device(self) -> int:
        """The number of the device: -1, as of all that are not GPUs."""
        return -1


def is_storage(obj: object) -> bool:
    """True if an object is a storage."""
    return isinstance(obj, StorageBase)
