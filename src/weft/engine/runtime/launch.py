# cython: language_level=3
"""Launching programs: compiles new kernels, binds slots to memory, executes, reports failures.

It takes a Lowering and the slots' owners, and returns buffers per slot and the first kernel that has not run. Memory
is allocated and kernels are compiled before anything executes, so that neither can stop a program half-way.
"""

from typing import Any

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.weft.engine.devices.api import Executable, Memory, Queue
from cython.cimports.weft.engine.ir.memory import OwnedMemory
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.pipeline.launch_ir import (
    KernelSpec,
    Launch,
    Lowering,
    SegmentTable,
)
from cython.cimports.weft.engine.runtime.scalar_cells import store_number

from weft._build.compiled import require
from weft.engine.ir.primitive import SCALAR_OP

require(__name__, cython.compiled)

_scalar_op = cython.declare(Primitive, SCALAR_OP)


@cython.final
@cython.cclass
class ProgramRun:
    """The memory of one execution: `buffers[slot]` and `addresses[slot]`, the status cells, the launches."""

    def __cinit__(self, lowering: Lowering):
        self.lowering = lowering
        self.buffers, self.addresses = [], []
        self.memory = lowering.program.device.memory
        _bind(self.memory, lowering.plan.external, self.buffers, self.addresses)
        sizes: list = lowering.plan.sizes + lowering.scratch
        if lowering.layout is None:
            _reserve(self.memory, sizes, self.buffers, self.addresses)
        else:
            _lay_out(self.memory, lowering.layout, sizes, self.buffers, self.addresses)
        self.checked = _checked(lowering.launches)
        self.status_slot = len(self.addresses)
        self.status = self.memory.allocate_status(max(len(self.checked), 1))
        self.buffers.append(self.status)
        self.addresses.append(self.status.address)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def has_failed(self, index: cython.Py_ssize_t) -> cython.bint:
        """True if the index check of a checked launch has failed."""
        return self.memory.has_failed(self.status, index)

    @cython.cfunc
    def fill_tables(self):
        """Write the row address tables of gathering launches, now that addresses are known."""
        launch: Launch
        tables: list[Any] = []
        for launch in self.lowering.launches:
            if launch.table is not None:
                tables.append(launch.table)
        _fill(tables, self.addresses, self.memory)

    @cython.cfunc
    def executable(self) -> Executable:
        """The flat program for the executor."""
        lowering: Lowering = self.lowering
        queue: Queue = lowering.program.device.queue()
        program: Executable = queue.new_executable()
        status: int64_t = self.status_slot
        launch: Launch
        cell: int64_t = 0
        for launch in lowering.launches:
            if launch.spec.checked:
                _check_in(launch, status, 8 * cell)
                cell += 1
            _append(program, launch)
        protected: cython.Py_ssize_t = _first_overwriting(lowering)
        if protected >= 0:
            program.protect(protected)
        if lowering.layout is not None:
            program.need_file(lowering.layout.spilled)
        return program


@cython.cfunc
def _first_overwriting(lowering: Lowering) -> cython.Py_ssize_t:
    """The first launch that writes to memory of a value from outside; -1 if none does."""
    first: cython.Py_ssize_t = -1
    if lowering.plan.overwriting >= 0:
        first = _first_of(lowering.launches, lowering.plan.overwriting)
    if lowering.layout is not None and lowering.layout.overwriting >= 0:
        other: cython.Py_ssize_t = lowering.layout.overwriting
        first = other if first < 0 else min(first, other)
    return first


@cython.cfunc
def _first_of(launches: list[Launch], position: cython.int) -> cython.Py_ssize_t:
    """The first launch of a kernel at a position or behind it."""
    launch: Launch
    for index, launch in enumerate(launches):
        if launch.kernel >= position:
            return index
    return len(launches)


@cython.cfunc
def is_compiled(lowering: Lowering) -> cython.bint:
    """True if all kernels of a program have code."""
    launch: Launch
    for launch in lowering.launches:
        if launch.spec.code is None:
            return False
    return True


@cython.cfunc
def _checked(launches: list[Launch]) -> list[Any]:
    """The launches that report to a status cell."""
    launch: Launch
    found: list[Any] = []
    for launch in launches:
        if launch.spec.checked:
            found.append(launch)
    return found


@cython.cfunc
def _bind(
    memory: Memory, external: list[Node], buffers: list[OwnedMemory], addresses: list[int]
) -> cython.void:
    """The memory of values that exist; numbers get cells of one buffer."""
    cells: OwnedMemory = None
    buffer: OwnedMemory
    root: Node
    used: cython.Py_ssize_t = 0
    place: uintptr_t
    for root in external:
        if root.op is not _scalar_op:
            buffer = root.buffer
            buffers.append(buffer)
            addresses.append(buffer.address + root.offset)
            continue
        if cells is None:
            cells = memory.allocate_cells(len(external))
        place = memory.cell(cells, used, root.dtype.itemsize)
        store_number(root.params, root.dtype, cython.cast(cython.p_char, place))
        buffers.append(cells)
        addresses.append(place)
        used += 1
    if cells is not None:
        memory.publish(cells)


@cython.cfunc
def _reserve(
    memory: Memory, sizes: list[int], buffers: list[OwnedMemory], addresses: list[int]
) -> cython.void:
    """Memory of these sizes."""
    size: cython.Py_ssize_t
    for size in sizes:
        buffer: OwnedMemory = memory.allocate(size)
        buffers.append(buffer)
        addresses.append(buffer.address)


@cython.cfunc
def _lay_out(
    memory: Memory, layout: Any, sizes: list[int], buffers: list[OwnedMemory], addresses: list[int]
) -> cython.void:
    """Memory of these sizes: places in one arena or in memory of values from outside, or buffers of their own."""
    arena: OwnedMemory = memory.allocate_arena(layout.arena)
    size: cython.Py_ssize_t
    offset: cython.Py_ssize_t
    host: cython.Py_ssize_t
    buffer: OwnedMemory
    for size, offset, host in zip(sizes, layout.offsets, layout.hosts, strict=True):
        buffer = buffers[host] if host >= 0 else arena
        if offset < 0:
            buffer = memory.allocate(size)
        buffers.append(buffer)
        addresses.append(buffer.address + max(offset, 0))


@cython.cfunc
def _check_in(launch: Launch, status: int64_t, offset: int64_t) -> cython.void:
    """Let a launch report to a status cell, a group to one."""
    index: cython.Py_ssize_t
    member: Launch
    for member in launch.members or ():
        _check_in(member, status, offset)
    for index in range(launch.pointer_count):
        if launch.words[2 * index] < 0:
            launch.words[2 * index] = status
            launch.words[2 * index + 1] = offset


@cython.cfunc
def _append(program: Executable, launch: Launch) -> cython.void:
    """One instruction, which of a group runs a kernel on several sets of operands."""
    first: Launch = launch if launch.members is None else launch.members[0]
    spec: KernelSpec = launch.spec
    program.append_words(
        spec.code,
        launch.final,
        cython.cast(cython.pointer(int64_t), first.words),
        first.pointer_count,
        first.argument_count,
        first.units,
        first.grain_size,
        first.cost_ns,
    )
    index: cython.Py_ssize_t
    for index in range(1, 0 if launch.members is None else len(launch.members)):
        first = launch.members[index]
        program.join_words(
            cython.cast(cython.pointer(int64_t), first.words),
            first.pointer_count,
            first.argument_count,
            first.units,
            first.grain_size,
            first.cost_ns,
        )


@cython.cfunc
def _fill(tables: list, addresses: list, memory: Memory) -> cython.void:
    """Write every table, now that the addresses of slots are known."""
    if not tables:
        return
    count: cython.Py_ssize_t = len(addresses)
    store = bytearray(8 * count)
    raw: cython.p_char = store
    flat: cython.pointer(cython.size_t) = cython.cast(cython.pointer(cython.size_t), raw)
    index: cython.Py_ssize_t
    for index in range(count):
        flat[index] = addresses[index]
    table: SegmentTable
    for table in tables:
        table.fill(flat, memory)
