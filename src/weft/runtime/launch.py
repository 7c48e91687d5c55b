"""Run the launches of a program: compile what is new, bind slots to memory, execute, report failures.

In comes a Lowering and the slots' owners; out go buffers per slot and the first kernel that has not run. Memory is
allocated and kernels are compiled before anything executes, so that neither can stop a program half-way.
"""

from __future__ import annotations

import bisect
import struct
from typing import Any

from weft.graph.rows import SCALAR_ROW
from weft.runtime.executor import Program as Executable
from weft.runtime.pool import allocate
from weft.schedule.rows import fill_tables

SCALAR_CELL = 16
_FORMATS = {
    "bool": "?",
    "uint8": "B",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


def scalar_bytes(value: Any, dtype: Any) -> bytes:
    """The memory of a number of a type, by the conversion that casts use."""
    name = dtype.name
    if dtype.is_complex:
        half = "f" if name == "complex64" else "d"
        number = complex(value)
        return struct.pack(half + half, _single(number.real, half), _single(number.imag, half))
    if name == "bfloat16":
        bits = struct.unpack("I", struct.pack("f", _single(float(value), "f")))[0]
        if bits & 0x7FFFFFFF > 0x7F800000:
            return struct.pack("H", 0x7FC0)
        return struct.pack("H", ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) & 0xFFFF)
    if name == "bool":
        return struct.pack("?", bool(value))
    if dtype.is_floating_point:
        return struct.pack(_FORMATS[name], _single(float(value), _FORMATS[name]))
    bits = dtype.itemsize * 8
    whole = int(value) & ((1 << bits) - 1)
    return whole.to_bytes(dtype.itemsize, "little")


def _single(value: float, form: str) -> float:
    """A double that `struct` can pack: what overflows the narrower type is infinite there."""
    limit = {"f": 3.4028235677973366e38, "e": 65520.0}.get(form)
    if limit is not None and abs(value) >= limit and value == value:
        return float("inf") if value > 0 else float("-inf")
    return value


class Run:
    """The memory of one execution: `buffers[slot]` and `addresses[slot]`, the status cells, the launches."""

    def __init__(self, lowering: Any) -> None:
        self.lowering = lowering
        plan = lowering.plan
        self.buffers: list[Any] = []
        self.addresses: list[int] = []
        self._bind_external(plan.external)
        for size in (*plan.sizes, *lowering.scratch):
            self._own(allocate(size))
        self.checked = [launch for launch in lowering.launches if launch.spec.checked]
        self.status = allocate(8 * max(len(self.checked), 1))
        self.status_slot = len(self.addresses)
        self._own(self.status)
        if self.checked:
            memoryview(self.status)[: 8 * len(self.checked)] = bytes(8 * len(self.checked))

    def _own(self, buffer: Any) -> None:
        self.buffers.append(buffer)
        self.addresses.append(buffer.address)

    def _bind_external(self, external: list[Any]) -> None:
        scalars = [root for root in external if root.row is SCALAR_ROW]
        cells = allocate(SCALAR_CELL * max(len(scalars), 1))
        self.cells = cells
        packed = b"".join(
            scalar_bytes(root.params, root.dtype).ljust(SCALAR_CELL, b"\0") for root in scalars
        )
        memoryview(cells)[: len(packed)] = packed
        self.scalar_offsets: dict[Any, int] = {}
        for root in external:
            if root.row is SCALAR_ROW:
                offset = SCALAR_CELL * len(self.scalar_offsets)
                self.scalar_offsets[root] = offset
                self.buffers.append(cells)
                self.addresses.append(cells.address + offset)
            else:
                self.buffers.append(root.buffer)
                self.addresses.append(root.buffer.address + root.offset)

    def fill_tables(self) -> None:
        """Write the row address tables of gathering launches, now that addresses are known."""
        fill_tables(
            [launch.table for launch in self.lowering.launches if launch.table is not None],
            self.addresses,
        )

    def executable(self) -> Executable:
        """The flat program for the executor."""
        program = Executable()
        cell = 0
        for launch in self.lowering.launches:
            spec = launch.spec
            address = spec.final_address if launch.final else spec.address
            if launch.members:
                _append_gang(program, address, launch.members)
                continue
            pointers = launch.pointers
            if spec.checked:
                pointers = [
                    (self.status_slot, 8 * cell) if slot < 0 else (slot, offset)
                    for slot, offset in pointers
                ]
                cell += 1
            program.append(
                address, pointers, launch.arguments, launch.units, launch.grain, launch.work
            )
        overwriting = self.lowering.plan.overwriting
        if overwriting >= 0:
            kernels = [launch.kernel for launch in self.lowering.launches]
            program.protect(bisect.bisect_left(kernels, overwriting))
        return program


def _append_gang(program: Executable, address: int, members: list[Any]) -> None:
    """One instruction that runs a kernel on several sets of operands."""
    first, *others = members
    program.append(address, first.pointers, first.arguments, first.units, first.grain, first.work)
    for other in others:
        program.join(other.pointers, other.arguments, other.units, other.grain, other.work)
