# cython: language_level=3
"""Lowering of segment gathers: each output row is the sum of listed source rows, through a table of addresses.

It takes a `gather_rows` node, whose `info` lists source numbers, rows and offsets, or a `cat` of many small parts,
and makes one launch with a Table: slots and byte offsets that become addresses when the runtime knows those of the
slots.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import Array
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.cpu.lowering.copy import lower_copy
from cython.cimports.weft.engine.devices.tuning import Copies
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.launch_ir import (
    KernelSpec,
    Launch,
    Lowering,
    SegmentTable,
    new_launch,
)
from cython.cimports.weft.engine.pipeline.memory_plan import value_of
from cython.cimports.weft.engine.pipeline.program_ir import MemRef, memref_of, operand, row_major
from cython.cimports.weft.engine.pipeline.segment_index import SegmentIndex

from weft._build.compiled import require

require(__name__, cython.compiled)

_specs: dict = {}


@cython.cfunc
def _spec(dtype: str) -> KernelSpec:
    spec = _specs.get(dtype)
    if spec is None:

        def build(symbol):
            from weft.engine.devices.cpu.kernels.segment_gather import lower_rows as lower

            return lower(dtype, symbol)

        spec = _specs[dtype] = KernelSpec(f"rows_{dtype}", build, (f"rows_{dtype}",))
    return spec


@cython.cfunc
def _table_of(lowering: Lowering, node: Node, size: cython.longlong) -> SegmentTable:
    """The table of a node's source rows, each of `size` elements."""
    terms: SegmentIndex = node.info
    found = bytearray(24 * len(node.inputs))  # of each source: slot, offset, bytes from row to row
    sources: cython.p_longlong = _words(found)
    place: cython.longlong = 0
    for source in node.inputs:
        sources[place], sources[place + 1], sources[place + 2] = _rows_of(lowering, source, size)
        place += 3
    entries: cython.longlong = terms.numbers.count
    bounds: cython.longlong = cython.cast(cython.longlong, node.shape[0]) + 1
    data = bytearray(16 * entries + 8 * bounds)
    packed: cython.p_longlong = _words(data)
    index: cython.longlong
    row: cython.longlong
    for index in range(entries):
        place = 3 * cython.cast(cython.longlong, terms.numbers.items[index])
        row = terms.rows.items[index]
        packed[2 * index] = sources[place]
        packed[2 * index + 1] = sources[place + 1] + (row * sources[place + 2] if row > 0 else 0)
    for index in range(bounds):
        packed[2 * entries + index] = index if terms.offsets is None else terms.offsets.items[index]
    return SegmentTable(
        lowering.temporary(8 * entries), lowering.temporary(8 * bounds), entries, bounds, data
    )


@cython.cfunc
def lower_rows(lowering: Lowering, node: Node) -> cython.void:
    """Append the gather of one node."""
    count: cython.longlong = node.shape[0]
    size: cython.longlong = node.numel // max(count, 1)
    _launch(lowering, node, _table_of(lowering, node, size), count, size)


@cython.cfunc
def _launch(
    lowering: Lowering,
    node: Node,
    table: SegmentTable,
    count: cython.longlong,
    size: cython.longlong,
) -> cython.void:
    """Append the gather of so many rows of so many elements."""
    chunk: cython.longlong = lowering.program.device.tuning.threads.chunk_gathered_elements
    grain_size: cython.longlong = max(1, chunk // max(size, 1))
    words: cython.longlong[8]
    words[0], words[1] = table.slot, 0
    words[2], words[3] = table.offsets_slot, 0
    words[4], words[5] = value_of(lowering.plan, node).slot, 0
    words[6], words[7] = count, size
    pointers: Array
    arguments: Array
    pointers.words, pointers.count = words, 6
    arguments.words, arguments.count = words + 6, 2
    launch: Launch = new_launch(
        lowering,
        _spec(node.dtype.name),
        cython.address(pointers),
        cython.address(arguments),
        count,
        grain_size,
        table.count * (size // 8 + 2),
    )
    launch.table = table


@cython.cfunc
def lower_joined(lowering: Lowering, node: Node) -> cython.bint:
    """Append a `cat` as one gather, if its parts stand one behind the other in it and a copy of each would cost more;
    True if that was done."""
    size: cython.longlong = _common_piece(lowering, node)
    if size == 0:
        return False
    itemsize: cython.longlong = node.dtype.itemsize
    entries: cython.longlong = node.numel // size
    data = bytearray(24 * entries + 8)
    packed: cython.p_longlong = _words(data)
    bounds: cython.p_longlong = packed + 2 * entries
    number: cython.Py_ssize_t
    piece: cython.longlong
    entry: cython.longlong = 0
    for number in range(len(node.inputs)):
        memref: MemRef = operand(lowering.program, node, number)
        for piece in range(cython.cast(Node, node.inputs[number]).numel // size):
            packed[2 * entry] = memref.value.slot
            packed[2 * entry + 1] = (memref.offset + piece * size) * itemsize
            bounds[entry] = entry
            entry += 1
    bounds[entries] = entries
    slots = lowering.temporary(8 * entries), lowering.temporary(8 * entries + 8)
    table = SegmentTable(slots[0], slots[1], entries, entries + 1, data)
    _launch(lowering, node, table, entries, size)
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def _common_piece(lowering: Lowering, node: Node) -> cython.longlong:
    """The number of elements that all parts of a `cat` are multiples of, if it is to be a gather of such; else 0."""
    axis: cython.Py_ssize_t
    number: cython.Py_ssize_t
    parts: cython.Py_ssize_t = len(node.inputs)
    tuning: Copies = lowering.program.device.tuning.copies
    if parts < tuning.fewest_parts:
        return 0
    for axis in range(node.params[0]):
        if node.shape[axis] != 1:
            return 0
    size: cython.longlong = 0
    for number in range(parts):
        memref: MemRef = operand(lowering.program, node, number)
        if not equal(memref.strides, row_major(memref.shape)):
            return 0
        size = _greatest_divisor(size, cython.cast(Node, node.inputs[number]).numel)
    if size < tuning.fewest_entry_elements:
        return 0
    if node.numel > tuning.most_entries_of_a_part * parts * size:
        return 0
    return size


@cython.cfunc
@cython.exceptval(check=False)
def _greatest_divisor(one: cython.longlong, other: cython.longlong) -> cython.longlong:
    """The greatest common divisor; of 0 and a number, the number."""
    while other != 0:
        one, other = other, one % other
    return one


@cython.cfunc
@cython.inline
def _words(data: bytearray) -> cython.p_longlong:
    raw: cython.p_char = data
    return cython.cast(cython.p_longlong, raw)


@cython.cfunc
def _rows_of(lowering: Lowering, source: Node, size: cython.longlong) -> tuple:
    """(slot, byte offset, bytes from row to row) of a source of rows of so many elements; it is copied to a temporary
    where a row has gaps."""
    memref: MemRef = memref_of(lowering.program, source)
    itemsize: cython.longlong = source.dtype.itemsize
    strides: tuple = row_major(source.shape)
    slot, offset = lowering.pointer(memref, itemsize)
    if memref.strides == strides:
        return slot, offset, size * itemsize
    if source.shape[0] * size == source.numel and memref.strides[1:] == strides[1:]:
        return slot, offset, cython.cast(cython.longlong, memref.strides[0]) * itemsize
    target = lowering.temporary(source.numel * itemsize)
    lower_copy(
        lowering, source.dtype, source.shape, (slot, offset, memref.strides), (target, 0, strides)
    )
    return target, 0, size * itemsize
