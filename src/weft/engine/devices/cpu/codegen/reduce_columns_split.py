"""Split reductions of few columns over many rows: blocks of rows are the units of work, not columns.

The first function writes the folded results of each block to scratch, the second one folds the blocks of each column.
Elements are combined in the order of `reduce_columns`, so the results have the same bits.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from weft.engine.devices.cpu import limits
from weft.engine.devices.cpu.codegen.evaluator import Lookup, vector_lanes
from weft.engine.devices.cpu.codegen.loop_nest import LoopFrame
from weft.engine.devices.cpu.codegen.reduce_columns import Columns, bytes_of
from weft.engine.devices.cpu.codegen.reduce_ops import (
    KernelReductions,
    State,
    load_state,
    store_state,
)
from weft.engine.devices.cpu.codegen.schedule import Scheduled
from weft.engine.devices.cpu.llvm.builder import Builder, Value, counted, integer, minimum
from weft.engine.devices.cpu.llvm.target import Target

SLOT = 8  # bytes of one element of a state in scratch


def scratch_bytes(kernel: Scheduled, columns: int, blocks: int) -> int:
    """Scratch for the results of all blocks."""
    return (
        SLOT * len(KernelReductions(kernel).elements()) * (columns + limits.MARGIN) * max(blocks, 1)
    )


class _Scratch:
    """A row of states for each block, in the memory that both functions share."""

    def __init__(self, columns: Columns) -> None:
        self.builder = columns.builder
        self.elements = columns.reductions.elements()
        self.lanes = columns.lanes
        self.start = columns.frame.pointer("scratch")
        self.pitch = self.builder.add(columns.frame.dims[columns.axis], integer(limits.MARGIN))

    def _places(self, block: Value, column: Value) -> list[Value]:
        b, count = self.builder, len(self.elements)
        found = []
        for number, element in enumerate(self.elements):
            row = b.add(b.mul(block, integer(count)), integer(number))
            first = b.gep(self.start, [b.mul(b.mul(row, self.pitch), integer(SLOT))])
            found.append(b.gep(first, [b.mul(column, integer(bytes_of(element)))]))
        return found

    def load(self, block: Value, column: Value) -> State:
        """The states of a vector of columns."""
        return load_state(self.builder, self.elements, self.lanes, self._places(block, column))

    def store(self, state: State, block: Value, column: Value) -> None:
        """Write the states of a vector of columns."""
        store_state(self.builder, state, self._places(block, column))


def lower_apart(
    kernel: Scheduled, lookup: Lookup, target: Target, module: llvm.Module, name: str
) -> list[Builder]:
    """Two functions: blocks to scratch, and scratch to the results."""
    lanes = vector_lanes(kernel, target)
    builders = [Builder(module, name), Builder(module, f"{name}_final")]
    first, last = (Columns(LoopFrame(kernel, b), lookup, target, lanes) for b in builders)
    _write_blocks(first)
    _fold_blocks(last)
    for b in builders:
        b.ret_void()
    return builders


def _write_blocks(columns: Columns) -> None:
    """The folded results of the blocks [begin, end), for all columns."""
    b, frame, root = columns.builder, columns.frame, columns.frame.root()
    scratch, extent = _Scratch(columns), frame.dims[columns.axis]
    columns.body.uniform(root, -1)

    def strip(start: Value, carry: list[Value]) -> list[Value]:
        stop = minimum(b, extent, b.add(start, integer(columns.width)))

        def block(number: Value, carry: list[Value]) -> list[Value]:
            columns.block(root, number, start, stop)
            columns.each_vector(b.sub(stop, start), lambda column: scratch.store(
                columns.partial.load(integer(0), column, columns.lanes),
                number, b.add(start, column)))  # fmt: skip
            return carry

        return counted(b, frame.begin, frame.end, 1, carry, block)

    counted(b, integer(0), extent, columns.width, [], strip)


def _fold_blocks(columns: Columns) -> None:
    """The results of the columns [begin, end), from the blocks in scratch."""
    b, frame, root = columns.builder, columns.frame, columns.frame.root()
    scratch = _Scratch(columns)

    def strip(start: Value, carry: list[Value]) -> list[Value]:
        stop = minimum(b, frame.end, b.add(start, integer(columns.width)))

        def block(number: Value) -> None:
            columns.each_vector(b.sub(stop, start), lambda column: columns.partial.store(
                scratch.load(number, b.add(start, column)), integer(0), column))  # fmt: skip

        columns.strip(root, start, stop, block)
        return carry

    counted(b, frame.begin, frame.end, columns.width, [], strip)
