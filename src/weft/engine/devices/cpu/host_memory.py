# cython: language_level=3
"""The memory pool as the CPU's memory: what `engine.devices.api` asks of a device's memory, by `pool`."""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy, memmove, memset
from cython.cimports.weft.engine.devices.api import Memory
from cython.cimports.weft.engine.devices.cpu import pool
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer
from cython.cimports.weft.engine.ir.memory import OwnedMemory

from weft._build.compiled import require
from weft.engine.devices.cpu.hardware import physical_memory

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class HostMemory(Memory):
    """The pool as the CPU's memory: kernels read numbers, and write status words, where the host has them."""

    @cython.ccall
    def allocate(self, nbytes: cython.Py_ssize_t) -> OwnedMemory:
        buffer: PooledBuffer = pool.allocate(nbytes)
        buffer.device = self.device
        return buffer

    def allocate_arena(self, nbytes: int) -> OwnedMemory:
        buffer: PooledBuffer = pool.allocate_arena(nbytes)
        buffer.device = self.device
        return buffer

    @cython.cfunc
    def allocate_cells(self, count: cython.Py_ssize_t) -> OwnedMemory:
        return pool.allocate_cells(count)

    @cython.cfunc
    @cython.exceptval(check=False)
    def cell(
        self, cells: OwnedMemory, index: cython.Py_ssize_t, itemsize: cython.Py_ssize_t
    ) -> uintptr_t:
        return pool.cell(cython.cast(PooledBuffer, cells), index, itemsize)

    @cython.cfunc
    @cython.exceptval(check=False)
    def budget(self) -> cython.Py_ssize_t:
        return pool._budget

    @cython.cfunc
    @cython.exceptval(check=False)
    def room_left(self) -> cython.Py_ssize_t:
        return pool.room_left()

    @cython.cfunc
    def allocate_status(self, count: cython.Py_ssize_t) -> OwnedMemory:
        status: PooledBuffer = pool.allocate(8 * count)
        memset(cython.cast(cython.p_void, status.address), 0, 8 * count)
        return status

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def has_failed(self, status: OwnedMemory, index: cython.Py_ssize_t) -> cython.bint:
        return cython.cast(cython.pointer(int64_t), status.address)[index] != 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write(
        self,
        target: uintptr_t,
        source: cython.pointer(cython.const[cython.void]),
        nbytes: cython.Py_ssize_t,
    ) -> cython.int:
        memcpy(cython.cast(cython.p_void, target), source, nbytes)
        return 0

    def download(self, buffer: OwnedMemory, offset: int, nbytes: int) -> bytes:
        start: cython.p_char = cython.cast(cython.p_char, buffer.address)
        first: cython.Py_ssize_t = offset
        return start[first : first + cython.cast(cython.Py_ssize_t, nbytes)]

    def size(self) -> int:
        """Bytes of main memory."""
        return physical_memory()


def copied(address: uintptr_t, nbytes: cython.Py_ssize_t) -> PooledBuffer:
    """A buffer with a copy of so many bytes, which somebody else keeps alive meanwhile."""
    buffer: PooledBuffer = pool.allocate(nbytes)
    memmove(cython.cast(cython.p_void, buffer.address), cython.cast(cython.p_void, address), nbytes)
    return buffer
