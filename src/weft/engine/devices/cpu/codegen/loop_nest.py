"""The frame of a loop kernel: the extents, strides and addresses of a launch, and the scopes of its loops.

A `LoopFrame` reads the pointers and arguments in the entry block, laid out as `schedule.pointers` and
`schedule.arguments` say. A `LoopScope` is a position in the loop nest: the addresses and values that are valid there.
`nest` writes loops; the stages write what runs inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.engine.devices.cpu.codegen import schedule
from weft.engine.devices.cpu.codegen.schedule import Scheduled
from weft.engine.devices.cpu.llvm.builder import I64, POINTER, Builder, Value, counted, integer
from weft.engine.devices.cpu.llvm.simd_value import SimdValue
from weft.engine.kernels import loop_ir

Key = tuple[str, int]  # ("operand" or "store", number)


@dataclass
class LoopScope:
    """Addresses of operands and stores, sums of virtual ones, and values by SSA id."""

    pointers: dict[Key, Value]
    offsets: dict[int, Value]
    values: dict[int, SimdValue] = field(default_factory=dict)

    def inner(self) -> LoopScope:
        """A copy that a nested scope may change."""
        return LoopScope(dict(self.pointers), dict(self.offsets), dict(self.values))


class LoopFrame:
    """The entry block of one function of a kernel, or of one phase of a row kernel: then what it is handed over stands
    behind that of earlier phases, and `memory` is what the phases share."""

    def __init__(
        self,
        kernel: Scheduled,
        builder: Builder,
        before: tuple[int, int] = (0, 0),
        memory: Sequence[Value] = (),
    ) -> None:
        self.kernel = kernel
        self.builder = builder
        self.begin = builder.arguments["begin"]
        self.end = builder.arguments["end"]
        self.memory = memory
        self._pointers = {name: i + before[0] for i, name in enumerate(schedule.pointers(kernel))}
        self._arguments = {
            name: i + before[1] * (i >= kernel.rank)
            for i, name in enumerate(schedule.arguments(kernel))
        }
        self.dims = [self._argument(f"dim {axis}") for axis in range(kernel.rank)]
        self.strides: dict[tuple[Key, int], Value] = {}
        for key, dtype, strides in self._accesses():
            size = 1 if key[0] == "virtual" else loop_ir.SIZES[dtype]
            for axis, item in enumerate(strides):
                self._add_stride(key, axis, item, size)
        self.indexes = {
            (number, index): tuple(
                self._argument(f"operand {number} index {index} {part}")
                for part in ("stride", "extent")
            )
            for number, operand in enumerate(kernel.operands)
            for index in range(operand.index)
        }
        self.status = self.pointer("status") if kernel.checked else None

    def _accesses(self) -> list[tuple[Key, str, tuple[str, ...]]]:
        found: list[tuple[Key, str, tuple[str, ...]]] = []
        for number, operand in enumerate(self.kernel.operands):
            kind = "virtual" if operand.virtual else "operand"
            found.append(((kind, number), operand.dtype, operand.strides))
        for number, store in enumerate(self.kernel.stores):
            found.append((("store", number), store.dtype, store.strides))
        return found

    def _add_stride(self, key: Key, axis: int, item: str, size: int) -> None:
        if item == "1":
            self.strides[key, axis] = integer(size)
        elif item == "s":
            kind = "store" if key[0] == "store" else "operand"
            stride = self._argument(f"{kind} {key[1]} stride {axis}")
            self.strides[key, axis] = self.builder.mul(stride, integer(size))

    def _argument(self, name: str) -> Value:
        b = self.builder
        place = b.gep(b.arguments["arguments"], [integer(8 * self._arguments[name])])
        return b.load(place, typ=I64)

    def pointer(self, name: str) -> Value:
        """The address handed over under a name of `schedule.pointers`."""
        b = self.builder
        place = b.gep(b.arguments["pointers"], [integer(8 * self._pointers[name])])
        return b.load(place, typ=POINTER)

    def root(self) -> LoopScope:
        """The scope outside all loops."""
        scope = LoopScope({}, {})
        for key, _, _ in self._accesses():
            local = self._local(key)
            if key[0] == "virtual":
                scope.offsets[key[1]] = integer(0)
            elif local >= 0:
                scope.pointers[key] = self.memory[local]
            else:
                scope.pointers[key] = self.pointer(f"{key[0]} {key[1]}")
        return scope

    def _local(self, key: Key) -> int:
        items = self.kernel.stores if key[0] == "store" else self.kernel.operands
        return items[key[1]].local

    def enter(self, scope: LoopScope, axis: int, index: Value) -> LoopScope:
        """The scope at one index of an axis."""
        b, inner = self.builder, scope.inner()
        for (key, strided_axis), stride in self.strides.items():
            if strided_axis != axis:
                continue
            step = b.mul(index, stride)
            if key[0] == "virtual":
                inner.offsets[key[1]] = b.add(inner.offsets[key[1]], step)
            else:
                inner.pointers[key] = b.gep(inner.pointers[key], [step])
        return inner

    def extent(self, axes: Sequence[int]) -> Value:
        """The number of index tuples of some axes."""
        total = integer(1)
        for axis in axes:
            total = self.builder.mul(total, self.dims[axis])
        return total

    def nest(
        self,
        scope: LoopScope,
        axes: Sequence[int],
        inner: Callable[[LoopScope], None],
        entered: Callable[[LoopScope, int], None],
    ) -> None:
        """Loops over `axes` around `inner`; axis 0 runs over the launch's units."""
        if not axes:
            inner(scope)
            return
        axis = axes[0]
        units = axis == 0 and self.kernel.parallel > 0

        def body(index: Value, carry: list[Value]) -> list[Value]:
            here = self.enter(scope, axis, index)
            entered(here, axis)
            self.nest(here, axes[1:], inner, entered)
            return carry

        start, stop = (self.begin, self.end) if units else (integer(0), self.dims[axis])
        counted(self.builder, start, stop, 1, [], body)
