"""Batches on their way from a worker to the main process.

A batch is pickled, its arrays beside it: small ones go through the pipe, the arrays of a large batch are written to
memory without a name (a memfd), which the main process opens by way of /proc and reads at once (mapped, it would hold a
descriptor for as long as the batch lives). Such memory is gone when nobody has it open: whoever dies leaves nothing.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor

_LARGE = 1 << 16
_ALIGNED = 64


class Sent:
    """The memory that a worker has written and the main process may not have read yet."""

    def __init__(self) -> None:
        self.open: set[int] = set()

    def write(self, arrays: list[Any], total: int) -> int:
        """A descriptor of memory with arrays in it. Errors: OSError."""
        descriptor = os.memfd_create("weft-batch", os.MFD_CLOEXEC)
        self.open.add(descriptor)
        os.ftruncate(descriptor, total)
        for place, array in arrays:
            view = memoryview(array).cast("B")
            while len(view):  # one call writes 2 GiB at most
                written = os.pwrite(descriptor, view, place)
                view, place = view[written:], place + written
        return descriptor

    def release(self, descriptors: list[int]) -> None:
        """The main process has read them."""
        for descriptor in descriptors:
            self.open.discard(descriptor)
            os.close(descriptor)


class _Packed:
    """A tensor on its way: its array, or the place of that in the shared memory."""

    def __init__(self, tensor: Tensor, plan: _Plan) -> None:
        self.is_bfloat16 = tensor.dtype == weft.bfloat16
        value = tensor.detach()
        array = (value.to(weft.float32) if self.is_bfloat16 else value).numpy(force=True)
        self.array = plan.placed(np.ascontiguousarray(array))

    def unpack(self, memory: Any) -> Tensor:
        """The tensor again."""
        tensor = weft.as_tensor(_found(self.array, memory))
        return tensor.to(weft.bfloat16) if self.is_bfloat16 else tensor


class _Place:
    """Where an array lies in the shared memory."""

    def __init__(self, offset: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.offset, self.shape, self.dtype = offset, shape, dtype


def _found(array: Any, memory: Any) -> Any:
    if isinstance(array, _Place):
        return np.ndarray(array.shape, array.dtype, memory, array.offset)
    return array


class _Plan:
    """The arrays of a batch and their places, if it is large."""

    def __init__(self, large: bool) -> None:
        self.large, self.total = large, 0
        self.arrays: list[tuple[int, Any]] = []

    def placed(self, array: Any) -> Any:
        """The array, or its place."""
        if not self.large or array.nbytes == 0:
            return array
        place = _Place(self.total, array.shape, array.dtype)
        self.arrays.append((self.total, array))
        self.total += -(-array.nbytes // _ALIGNED) * _ALIGNED
        return place


def _convert(data: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """A structure with `function` applied to everything of one kind."""
    if isinstance(data, kind):
        return function(data)
    if type(data) is dict:
        return {key: _convert(value, kind, function) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_convert(value, kind, function) for value in data))
    if type(data) in (list, tuple):
        return type(data)(_convert(value, kind, function) for value in data)
    return data


def packed(batch: Any, sent: Sent) -> tuple[bytes, int | None, int]:
    """A batch as bytes, the descriptor of its memory if it has some, and the size of that."""
    sizes: list[int] = []
    _convert(batch, Tensor, lambda tensor: sizes.append(tensor.nbytes))
    plan = _Plan(sum(sizes) >= _LARGE and hasattr(os, "memfd_create"))
    content = pickle.dumps(_convert(batch, Tensor, lambda tensor: _Packed(tensor, plan)))
    descriptor = sent.write(plan.arrays, plan.total) if plan.arrays else None
    return content, descriptor, plan.total


def unpacked(content: tuple[bytes, int | None, int], worker: int) -> tuple[Any, int | None]:
    """The batch again, and the descriptor that its worker may close. Errors: OSError where the worker is gone."""
    data, descriptor, total = content
    memory = None
    if descriptor is not None:
        opened = os.open(f"/proc/{worker}/fd/{descriptor}", os.O_RDWR)
        try:
            memory = _read(opened, total)
        finally:
            os.close(opened)
    batch = _convert(pickle.loads(data), _Packed, lambda entry: entry.unpack(memory))
    return batch, descriptor


def _read(descriptor: int, total: int) -> Any:
    """The content of shared memory. Errors: OSError."""
    memory: Any = np.empty(total, np.uint8)
    view, place = memoryview(memory), 0
    while place < total:
        count = os.preadv(descriptor, [view[place:]], place)
        if count == 0:
            raise OSError("shared memory that is shorter than its batch")
        place += count
    return memory
