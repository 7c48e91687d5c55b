# cython: language_level=3
"""An emulated device whose memory the host cannot touch, for tests of the device protocol.

Its memory is a region of address space that is inaccessible to the process (`PROT_NONE`), except while its queue runs
launches and while its `Memory` copies: a read or write of the host that goes around the protocol ends the process at
the instruction that did it. Its buffers have no buffer protocol, so that Python refuses what asks for one. Kernels are
the CPU's, on the calling process's threads. Numbers lie in memory that both can reach, as pinned memory does on a GPU.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.weft.engine.capi.atomics import (
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_NORESERVE,
    MAP_PRIVATE,
    PROT_NONE,
    PROT_READ,
    PROT_WRITE,
    mmap,
    mprotect,
    munmap,
)
from cython.cimports.weft.engine.devices.api import Executable, Memory, Queue
from cython.cimports.weft.engine.devices.cpu import pool
from cython.cimports.weft.engine.devices.cpu.executor import CpuExecutable
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer
from cython.cimports.weft.engine.ir.memory import OwnedMemory

from weft._build.compiled import require
from weft.engine.devices.api import Capabilities, Device, Lowerer
from weft.engine.devices.cpu.device import CPU
from weft.engine.devices.cpu.lowering.lowerer import CpuLowerer
from weft.errors import OutOfMemoryError

require(__name__, cython.compiled)

_REGION_BYTES = cython.declare(cython.Py_ssize_t, 1 << 28)
_LEAST_BYTES = cython.declare(cython.Py_ssize_t, 64)  # and the alignment of every buffer


@cython.final
@cython.cclass
class IsolatedRegion:
    """The address space of the device, and who has which part of it. It is accessible while it is `open`."""

    start: uintptr_t
    used: cython.Py_ssize_t
    opened: cython.int
    free: dict  # size -> addresses of freed blocks

    def __cinit__(self):
        self.free = {}
        mapped = mmap(
            cython.NULL,
            _REGION_BYTES,
            PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1,
            0,
        )
        if mapped == MAP_FAILED:
            raise MemoryError
        self.start = cython.cast(uintptr_t, mapped)

    def __dealloc__(self):
        munmap(cython.cast(cython.p_void, self.start), _REGION_BYTES)

    @cython.cfunc
    def open(self) -> cython.void:
        """Let the process reach the memory, until it is closed as often."""
        if self.opened == 0:
            mprotect(cython.cast(cython.p_void, self.start), _REGION_BYTES, PROT_READ | PROT_WRITE)
        self.opened += 1

    @cython.cfunc
    def close(self) -> cython.void:
        """Take it away again."""
        self.opened -= 1
        if self.opened == 0:
            mprotect(cython.cast(cython.p_void, self.start), _REGION_BYTES, PROT_NONE)

    @cython.cfunc
    def take(self, size: cython.Py_ssize_t) -> uintptr_t:
        """A block of a size, which is a power of two. Errors: OutOfMemoryError."""
        blocks: list = self.free.get(size)
        if blocks:
            return blocks.pop()
        if self.used + size > _REGION_BYTES:
            raise OutOfMemoryError(
                "the isolated device has no memory left",
                expected=f"at most {_REGION_BYTES} bytes",
                got=f"{size} bytes beside {self.used}",
                fix="use smaller tensors",
            )
        self.used += size
        return self.start + self.used - size

    @cython.cfunc
    def give_back(self, address: uintptr_t, size: cython.Py_ssize_t) -> cython.void:
        self.free.setdefault(size, []).append(address)


@cython.final
@cython.no_gc
@cython.cclass
class IsolatedBuffer(OwnedMemory):
    """A span of the region: an address that means nothing to the host."""

    region: IsolatedRegion
    size: cython.Py_ssize_t

    def __dealloc__(self):
        if self.region is not None:
            self.region.give_back(self.address, self.size)


@cython.final
@cython.cclass
class IsolatedMemory(Memory):
    """Copies in and out are the only way."""

    region: IsolatedRegion

    def __cinit__(self):
        self.region = IsolatedRegion()

    @cython.ccall
    def allocate(self, nbytes: cython.Py_ssize_t) -> OwnedMemory:
        size: cython.Py_ssize_t = _LEAST_BYTES
        while size < nbytes:
            size *= 2
        buffer: IsolatedBuffer = IsolatedBuffer.__new__(IsolatedBuffer)
        buffer.address = self.region.take(size)
        buffer.region, buffer.size = self.region, size
        buffer.nbytes, buffer.device = nbytes, self.device
        return buffer

    @cython.cfunc
    def allocate_cells(self, count: cython.Py_ssize_t) -> OwnedMemory:
        cells: PooledBuffer = pool.allocate_cells(count)
        cells.device = self.device
        return cells

    @cython.cfunc
    @cython.exceptval(check=False)
    def cell(
        self, cells: OwnedMemory, index: cython.Py_ssize_t, itemsize: cython.Py_ssize_t
    ) -> uintptr_t:
        return pool.cell(cython.cast(PooledBuffer, cells), index, itemsize)

    @cython.cfunc
    def allocate_status(self, count: cython.Py_ssize_t) -> OwnedMemory:
        status: OwnedMemory = self.allocate(8 * count)
        self.region.open()
        memset(cython.cast(cython.p_void, status.address), 0, 8 * count)
        self.region.close()
        return status

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def has_failed(self, status: OwnedMemory, index: cython.Py_ssize_t) -> cython.bint:
        self.region.open()
        failed: cython.bint = cython.cast(cython.pointer(int64_t), status.address)[index] != 0
        self.region.close()
        return failed

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write(
        self,
        target: uintptr_t,
        source: cython.pointer(cython.const[cython.void]),
        nbytes: cython.Py_ssize_t,
    ) -> cython.int:
        self.region.open()
        memcpy(cython.cast(cython.p_void, target), source, nbytes)
        self.region.close()
        return 0

    def download(self, buffer: OwnedMemory, offset: int, nbytes: int) -> bytes:
        first: cython.p_char = cython.cast(cython.p_char, buffer.address)
        self.region.open()
        content = PyBytes_FromStringAndSize(first + cython.cast(cython.Py_ssize_t, offset), nbytes)
        self.region.close()
        return content

    def size(self) -> int:
        """Bytes of the region."""
        return _REGION_BYTES


@cython.final
@cython.cclass
class IsolatedExecutable(CpuExecutable):
    """Launches for which the region is open while they run."""

    region: IsolatedRegion

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run_addresses(
        self,
        slots: cython.pointer(uintptr_t),
        slot_count: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        uninterruptible: cython.bint,
    ) -> cython.Py_ssize_t:
        self.region.open()
        try:
            return CpuExecutable.run_addresses(self, slots, slot_count, start, uninterruptible)
        finally:
            self.region.close()


@cython.final
@cython.cclass
class IsolatedQueue(Queue):
    """The CPU's executor, let into the region."""

    region: IsolatedRegion

    def __cinit__(self, memory: Memory):
        self.region = cython.cast(IsolatedMemory, memory).region

    @cython.cfunc
    def new_executable(self) -> Executable:
        executable: IsolatedExecutable = IsolatedExecutable()
        executable.region = self.region
        return executable


class IsolatedDevice(Device):
    """A device that registers itself under the next number; `weft.engine.devices.api.withdraw` forgets it."""

    def __init__(self, name: str = "isolated") -> None:
        super().__init__(
            name,
            Capabilities(
                longest_row=CPU.capabilities.longest_row,
                scratch_margin=CPU.capabilities.scratch_margin,
                alignment=_LEAST_BYTES,
                calls_kernels=False,
            ),
            CPU.tuning,
            IsolatedMemory(),
        )

    def load_queue(self) -> Queue:
        """The CPU's threads."""
        return IsolatedQueue(self.memory)

    def load_lowerer(self) -> Lowerer:
        """The CPU's kernels."""
        return CpuLowerer()
