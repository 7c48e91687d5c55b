"""Batches on their way from a worker to the main process.

A batch is pickled, its arrays apart: small ones go through the pipe, the arrays of a large batch are written to memory
without a name (a memfd), which the main process opens by way of /proc and reads at once (mapped, it would hold a
descriptor for as long as the batch lives). A worker writes the next batch over one that has been read: new memory
costs more than a copy. Such memory is gone when nobody has it open: a process that dies leaves nothing.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft.engine.devices.cpu import pool
from weft.engine.dispatch.torch_function import DisableTorchFunctionSubclass
from weft.engine.frontend.node_factory import make_value
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.tensor.torch_function.subclasses import asks

_LARGE = 1 << 16
_ALIGNED = 64


class Sent:
    """A worker's shared memory: what the main process may not have read yet, and what can be written again."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.free: list[int] = []

    def _memory(self, total: int) -> int:
        """A descriptor of enough memory: the smallest free one that does, else the largest, made longer."""
        if not self.free:
            self.free.append(os.memfd_create("weft-batch", os.MFD_CLOEXEC))
            self.sizes[self.free[0]] = 0
        enough = [one for one in self.free if self.sizes[one] >= total]
        chosen = (
            min(enough, key=self.sizes.__getitem__)
            if enough
            else max(self.free, key=self.sizes.__getitem__)
        )
        self.free.remove(chosen)
        if not enough:
            os.ftruncate(chosen, total)
            self.sizes[chosen] = total
        return chosen

    def write(self, arrays: list[Any], total: int) -> int:
        """A descriptor of memory with arrays in it. Errors: OSError."""
        descriptor = self._memory(total)
        for place, array in arrays:
            view = memoryview(array).cast("B")
            while len(view):  # one call writes 2 GiB at most
                written = os.pwrite(descriptor, view, place)
                view, place = view[written:], place + written
        return descriptor

    def release(self, descriptors: list[int]) -> None:
        """The main process has read them."""
        self.free += descriptors


class _Packed:
    """A tensor on its way: its array, or the place of that in the shared memory; and its class, if that is a user's."""

    def __init__(self, tensor: Tensor, plan: _Plan) -> None:
        self.kind = type(tensor) if asks(type(tensor)) else None
        with DisableTorchFunctionSubclass():
            self.is_bfloat16 = tensor.dtype == weft.bfloat16
            value = tensor.detach()
            array = (value.to(weft.float32) if self.is_bfloat16 else value).numpy(force=True)
        self.array = plan.placed(np.asarray(array, order="C"))

    def unpack(self, memory: _Opened) -> Tensor:
        """The tensor again."""
        found = self.array
        tensor = memory.tensor(found) if isinstance(found, _Place) else weft.as_tensor(found)
        if self.is_bfloat16:
            tensor = tensor.to(weft.bfloat16)
        return tensor if self.kind is None else tensor.as_subclass(self.kind)


class _Place:
    """The position of an array in the shared memory."""

    def __init__(self, offset: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.offset, self.shape, self.dtype = offset, shape, dtype


class _Opened:
    """Shared memory of a worker while its batch is read."""

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor

    def tensor(self, place: _Place) -> Tensor:
        """The tensor at a place, copied into memory of its own. Errors: OSError."""
        assert self.descriptor is not None
        count = math.prod(place.shape) * place.dtype.itemsize
        buffer: Any = pool.allocate(count)
        view, at = memoryview(buffer).cast("B")[:count], place.offset
        while len(view):
            read = os.preadv(self.descriptor, [view], at)
            if read == 0:
                raise OSError("shared memory that is shorter than its batch")
            view, at = view[read:], at + read
        dtype = dtypes.from_numpy(place.dtype)
        return wrap_node(make_value(dtype, tuple(place.shape), buffer, 0))


class _Plan:
    """The arrays of a batch and their places, if it is large."""

    def __init__(self, large: bool) -> None:
        self.large, self.total = large, 0
        self.arrays: list[tuple[int, Any]] = []

    def placed(self, array: np.ndarray) -> Any:
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


def packed(batch: object, sent: Sent) -> tuple[bytes, int | None, int]:
    """A batch as bytes, the descriptor of its memory if it has some, and the size of that."""
    sizes: list[int] = []
    _convert(batch, Tensor, lambda tensor: sizes.append(tensor.nbytes))
    plan = _Plan(sum(sizes) >= _LARGE and hasattr(os, "memfd_create"))
    content = pickle.dumps(_convert(batch, Tensor, lambda tensor: _Packed(tensor, plan)))
    descriptor = sent.write(plan.arrays, plan.total) if plan.arrays else None
    return content, descriptor, plan.total


def unpacked(content: tuple[bytes, int | None, int], worker: int) -> tuple[Any, int | None]:
    """The batch again, and the descriptor that its worker may write again. Errors: OSError where the worker is gone."""
    data, descriptor, _ = content
    opened = None if descriptor is None else os.open(f"/proc/{worker}/fd/{descriptor}", os.O_RDONLY)
    try:
        memory = _Opened(opened)
        batch = _convert(pickle.loads(data), _Packed, lambda entry: entry.unpack(memory))
    finally:
        if opened is not None:
            os.close(opened)
    return batch, descriptor
