# cython: language_level=3
"""The launch IR: launches of kernels, which lowering makes, and kernels by their keys.

A `KernelSpec` is a kernel before and after it is compiled: its key, a way to write its source, its code, which only
its device looks into. A `Launch` is one call of it, a parallel loop over units of work: pointers as (slot, byte
offset), integer arguments. `Lowering` holds those of one program while its device makes them (`devices.cpu.lowering`).
"""

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put
from cython.cimports.weft.engine.devices.api import Memory
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.launch_ir import (
    KernelSpec,
    Launch,
    Lowering,
    SegmentTable,
)
from cython.cimports.weft.engine.pipeline.memory_plan import Plan, value_of
from cython.cimports.weft.engine.pipeline.program_ir import MemRef, Program, memref_of

from weft._build.compiled import require
from weft.config import config

require(__name__, cython.compiled)

_exact = cython.declare(cython.bint, config.guard != "")


@cython.cclass
class KernelSpec:
    """A kernel by its key: how to build its text, and, once compiled, its code. `uses` counts flushes; `key_text` is
    a loop kernel's key."""

    def __init__(self, name: str, build, symbols: tuple, checked: bool = False):
        self.name = name
        self.build = build
        self.symbols = symbols
        self.checked = checked

    def __repr__(self):
        return f"<kernel {self.name}>"


@cython.cfunc
@cython.inline
def _words_of(data: bytearray) -> cython.p_longlong:
    raw: cython.p_char = data
    return cython.cast(cython.p_longlong, raw)


@cython.final
@cython.no_gc
@cython.cclass
class SegmentTable:
    """The source rows of one gather: `count` pairs (slot, byte offset), then `bounds` row offsets, packed."""

    def __init__(
        self,
        slot: cython.int,
        offsets_slot: cython.int,
        count: cython.longlong,
        bounds: cython.longlong,
        data,
    ):
        self.slot = slot
        self.offsets_slot = offsets_slot
        self.count = count
        self.bounds = bounds
        self.data = data

    def own_slots(self) -> tuple:
        """The two slots that are filled before a program runs."""
        return self.slot, self.offsets_slot

    def source_slots(self) -> set:
        """The slots that rows come from."""
        pairs: cython.p_longlong = _words_of(self.data)
        return {pairs[2 * index] for index in range(self.count)}

    def on_slots(self, slots: dict):
        """The same table where slots that `slots` names are exchanged."""
        data = bytearray(self.data)
        pairs: cython.p_longlong = _words_of(data)
        index: cython.longlong
        for index in range(self.count):
            pairs[2 * index] = slots.get(pairs[2 * index], pairs[2 * index])
        own, offsets = (
            slots.get(self.slot, self.slot),
            slots.get(self.offsets_slot, self.offsets_slot),
        )
        return SegmentTable(own, offsets, self.count, self.bounds, data)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def fill(self, addresses: cython.pointer(cython.size_t), memory: Memory) -> cython.int:
        """Write row addresses and bounds into the memory of the two slots."""
        pairs: cython.p_longlong = _words_of(self.data)
        index: cython.longlong
        rows: cython.p_longlong = cython.cast(cython.p_longlong, malloc(8 * self.count + 1))
        if rows == cython.NULL:
            raise MemoryError
        for index in range(self.count):
            rows[index] = (
                cython.cast(cython.longlong, addresses[pairs[2 * index]]) + pairs[2 * index + 1]
            )
        try:
            memory.write(addresses[self.slot], rows, 8 * self.count)
        finally:
            free(rows)
        memory.write(addresses[self.offsets_slot], pairs + 2 * self.count, 8 * self.bounds)
        return 0


@cython.final
@cython.no_gc
@cython.cclass
class Launch:
    """One call: pointers are (slot, byte offset), slots below the plan's count are the plan's, then temporaries. Of a
    group one call for all `members`, which are launches, too; its units are grains of theirs."""

    def __dealloc__(self):
        free(self.words)

    @property
    def pointers(self):
        """(slot, byte offset) of each operand, then of each result; of a group those of its members."""
        if self.members is not None:
            return [pointer for launch in self.members for pointer in launch.pointers]
        return [
            (self.words[2 * index], self.words[2 * index + 1])
            for index in range(self.pointer_count)
        ]

    @property
    def arguments(self):
        """The integer arguments of the kernel; for a group those of its members."""
        if self.members is not None:
            return [argument for launch in self.members for argument in launch.arguments]
        return [self.words[2 * self.pointer_count + index] for index in range(self.argument_count)]


@cython.cfunc
def new_launch(
    lowering: Lowering,
    spec: KernelSpec,
    pointers: cython.pointer(Array),
    arguments: cython.pointer(Array),
    units: cython.longlong,
    grain_size: cython.longlong,
    cost_ns: cython.longlong,
) -> Launch:
    """Append one launch of the kernel in hand; `pointers` are pairs of words."""
    launch: Launch = Launch.__new__(Launch)
    launch.spec = spec
    launch.units = units
    launch.grain_size = grain_size
    launch.cost_ns = cost_ns
    launch.kernel = lowering.current
    launch.pointer_count = pointers.count // 2
    launch.argument_count = arguments.count
    launch.words = cython.cast(
        cython.p_longlong, malloc(8 * (pointers.count + arguments.count + 1))
    )
    if launch.words == cython.NULL:
        raise MemoryError
    memcpy(launch.words, pointers.words, 8 * pointers.count)
    memcpy(launch.words + pointers.count, arguments.words, 8 * arguments.count)
    lowering.launches.append(launch)
    return launch


@cython.cclass
class Lowering:
    """The launches of one program as they are put together; `scratch` are sizes of temporaries."""

    def __init__(self, program: Program, plan: Plan):
        self.program = program
        self.plan = plan
        self.launches = []
        self.scratch = []
        self.current = -1
        self.prepacked = (
            None  # the matrices that are copied for many products (`prepack.Prepacked`)
        )

    @cython.cfunc
    def pointer(self, memref: MemRef, itemsize: cython.longlong) -> tuple:
        return (memref.value.slot, memref.offset * itemsize)

    @cython.cfunc
    def temporary(self, nbytes: cython.longlong) -> cython.int:
        least: cython.longlong = 0 if _exact else self.program.device.capabilities.alignment
        self.scratch.append(max(nbytes, least))
        return len(self.plan.external) + len(self.plan.sizes) + len(self.scratch) - 1

    def slot_of(self, node: Node):
        """The slot that a stored node is written to."""
        return value_of(self.plan, node).slot

    def region_of(self, node: Node):
        """(slot, byte offset, strides) of a value."""
        memref: MemRef = memref_of(self.program, node)
        slot, offset = self.pointer(memref, memref.root.dtype.itemsize)
        return slot, offset, memref.strides

    def scratch_slot(self, nbytes):
        """A temporary for this program."""
        return self.temporary(nbytes)

    def add(self, spec: KernelSpec, pointers, arguments, units, grain_size, cost_ns):
        """Append one launch of the kernel in hand, from sequences."""
        places: Array = empty()
        words: Array = empty()
        try:
            for slot, offset in pointers:
                put(cython.address(places), slot)
                put(cython.address(places), offset)
            for argument in arguments:
                put(cython.address(words), argument)
            new_launch(
                self,
                spec,
                cython.address(places),
                cython.address(words),
                units,
                grain_size,
                cost_ns,
            )
        finally:
            drop(cython.address(places))
            drop(cython.address(words))


@cython.cfunc
def joined(members: list) -> list:
    """The launches of a group: those of its members that run the same codes in the same order are one each."""
    if len(members) < 2:
        return members[0] if members else []
    by_codes: dict = {}
    launches: list
    for launches in members:
        by_codes.setdefault(_codes_of(launches), []).append(launches)
    found: list = []
    for group in by_codes.values():
        for step in zip(*group, strict=True):
            found.append(step[0] if len(step) == 1 else _together(list(step)))
    return found


@cython.cfunc
def _codes_of(launches: list):
    """A hashable key of the kernels that launches run."""
    launch: Launch
    if len(launches) == 1:
        launch = launches[0]
        if not launch.final:
            return launch.spec
    return tuple([(launch.spec, launch.final) for launch in launches])


@cython.cfunc
def _together(members: list) -> Launch:
    """One launch for all."""
    first: Launch = members[0]
    launch: Launch
    whole: Launch = Launch.__new__(Launch)
    whole.spec = first.spec
    whole.final = first.final
    whole.kernel = first.kernel
    whole.grain_size = 1
    whole.members = members
    for launch in members:
        whole.units += (launch.units + launch.grain_size - 1) // launch.grain_size
        whole.cost_ns += launch.cost_ns
    return whole


@cython.cfunc
def copy_launch(launch: Launch, slots: dict) -> Launch:
    """The same launch on other slots: those that `slots` names are exchanged."""
    copy: Launch = Launch.__new__(Launch)
    copy.spec, copy.final, copy.kernel = launch.spec, launch.final, launch.kernel
    copy.units, copy.grain_size, copy.cost_ns = launch.units, launch.grain_size, launch.cost_ns
    copy.pointer_count, copy.argument_count = launch.pointer_count, launch.argument_count
    copy.table = launch.table
    if launch.members is not None:
        copy.members = [copy_launch(member, slots) for member in launch.members]
        return copy
    nbytes: cython.size_t = 8 * (2 * launch.pointer_count + launch.argument_count + 1)
    copy.words = cython.cast(cython.p_longlong, malloc(nbytes))
    if copy.words == cython.NULL:
        raise MemoryError
    memcpy(copy.words, launch.words, nbytes - 8)
    index: cython.Py_ssize_t
    for index in range(copy.pointer_count):
        copy.words[2 * index] = slots.get(copy.words[2 * index], copy.words[2 * index])
    return copy
