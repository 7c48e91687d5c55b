"""Shared memory: a write to a tensor of it is visible to all processes at once.

A shared storage's memory is a mapped file without a name, and descriptors of it go to other processes. To the graph it
is memory that others can write, as NumPy's (`memory`): operations copy what they read of it at the call, and in-place
operations write to it at once.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import tempfile
from collections.abc import Callable
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import numpy as np

from weft._build.lazy import later
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.node_factory import make_value
from weft.engine.frontend.tensor import Storage, replace_node
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.frontend.views import storage_of
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError, OutOfMemoryError, class_name
from weft.tensor.memory.host_memory import Foreign, Shape, handle_of, raw_array, raw_dtype

pool = later("weft.engine.devices.cpu.pool")
whole_files = later("weft.io.files")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_ssize_t,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


class SharedMapping:
    """Shared memory of a process: a descriptor, which is closed with it, and where it is mapped. (`mmap.mmap` would
    hold a second descriptor, and there are about a thousand.)"""

    def __init__(self, descriptor: int, nbytes: int) -> None:
        self.descriptor, self.nbytes, self.address = descriptor, nbytes, 0
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, nbytes, rights, mmap.MAP_SHARED, descriptor, 0)
        if address == _FAILED:
            raise OutOfMemoryError(
                f"cannot map {nbytes:,} bytes of shared memory: {os.strerror(ctypes.get_errno())}",
                expected="memory that processes can share",
                got=f"{nbytes:,} bytes",
                fix="share less, or give /dev/shm more room",
            )
        self.address = address

    def __del__(
        self,
        unmap: Callable[[int, int], int] = _libc.munmap,
        close: Callable[[int], None] = os.close,
    ) -> None:
        """Unmap the memory. Both functions are bound here: at the end of a process the module's names are gone."""
        if self.address:
            unmap(self.address, self.nbytes)
        close(self.descriptor)


class Shared(Foreign):
    """Memory of a storage that other processes see."""

    __slots__ = ("mapping",)

    def __init__(self, memory: np.ndarray, mapping: SharedMapping) -> None:
        super().__init__(memory)
        self.mapping = mapping


def _new_descriptor(nbytes: int) -> int:
    """A descriptor of a file without a name, of so many bytes."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("weft-shared", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, nbytes)
    return descriptor


def _mapped(descriptor: int, shape: Shape, dtype: DType) -> tuple[Any, Shared]:
    """The memory of a descriptor as a value, and as memory that others can write."""
    kind, count = raw_dtype(dtype), math.prod(shape)
    mapping = SharedMapping(descriptor, max(count * kind.itemsize, 1))
    buffer = pool.wrap(mapping.address, count * kind.itemsize, mapping)
    return make_value(dtype, shape, buffer, 0), Shared(np.ndarray((count,), kind, buffer), mapping)


def share(storage: Storage) -> None:
    """Move a storage's value to memory that other processes can write: those that are forked from now on, and those
    that it is sent to. Nothing where it is there, or on the device meta. Cost: runs what is pending of the value."""
    whole = handle_of(storage)
    if is_shared(storage) or is_on_meta(whole):
        return
    array = raw_array(whole)
    node, foreign = _mapped(_new_descriptor(max(array.nbytes, 1)), whole._shape, storage.node.dtype)
    foreign.memory[...] = array.reshape(-1)
    replace_node(storage, node)
    storage.home, storage.foreign = None, foreign


def is_shared(storage: Storage) -> bool:
    """True if other processes can write a storage's memory."""
    return isinstance(storage.foreign, Shared)


def send(storage: Storage) -> tuple[Any, ...]:
    """The form in which a storage goes to another process: its memory, which is shared from now on."""
    share(storage)
    node = storage.node
    descriptor = reduction.DupFd(storage.foreign.mapping.descriptor)
    return _receive, (descriptor, node.shape, node.dtype.name)


def _receive(descriptor: Any, shape: Shape, dtype: str) -> Storage:
    """The storage in the other process, which calls this."""
    node, foreign = _mapped(descriptor.detach(), shape, dtypes.by_name(dtype))
    made: Storage = storage_of(wrap_node(node))
    made.foreign = foreign
    return made


def mapped_file(filename: str, shared: bool, nbytes: int) -> Any:
    """The first bytes of a file as an array, which is the file where it is shared: it is made, and made long enough.
    Errors: ArgumentTypeError on what is no path, and those of `io.files.not_read`."""
    if not isinstance(filename, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"from_file: filename must be a path, not {class_name(filename)}",
            expected="a path",
            got=type(filename).__name__,
            fix="pass the name of a file",
        )
    path = Path(filename)
    try:
        return np.frombuffer(_map_shared(path, nbytes) if shared else _map(path, nbytes), np.uint8)
    except (OSError, ValueError) as error:
        raise whole_files.not_read("from_file", path, error) from None


def _map(path: Path, nbytes: int) -> Any:
    """A file's first bytes: what is written to them stays here."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_COPY) if nbytes else b""


def _map_shared(path: Path, nbytes: int) -> Any:
    """A file's first bytes, which it is made to have: what is written to them is written to the file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+b"):
        if os.fstat(descriptor).st_size < nbytes:
            os.ftruncate(descriptor, nbytes)
        return mmap.mmap(descriptor, nbytes) if nbytes else bytearray()


reduction.ForkingPickler.register(Storage, send)
