"""The CPU's schedule of a loop kernel: which axis is vectorized, and whether blocks of rows are units of work; and the
pointers and arguments of a launch.

The kernel defines what is computed, its `LoopSchedule` how. Code is generated from both together, a `Scheduled`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from weft.engine.kernels import loop_ir


@dataclass(frozen=True)
class LoopSchedule:
    """`vector_axis` runs along the lanes: the last one (-1), or in a reduction the last parallel one. A kernel for few
    columns of many rows is `narrow`."""

    vector_axis: int = -1
    narrow: bool = False

    @staticmethod
    def of(word: int) -> LoopSchedule:
        """The schedule of a word that `lowering.loops` has written."""
        return LoopSchedule((word & 255) - 1, bool(word >> 8 & 1))


@dataclass(frozen=True)
class Scheduled(loop_ir.LoopKernel):
    """A kernel with its schedule."""

    schedule: LoopSchedule = LoopSchedule()

    @property
    def axis(self) -> int:
        """The vector axis as a number >= 0 (or -1 for rank 0)."""
        axis = self.schedule.vector_axis
        return self.rank - 1 if axis < 0 else axis

    @property
    def narrow(self) -> bool:
        """True if it has few columns, of many rows."""
        return self.schedule.narrow

    @property
    def across(self) -> bool:
        """True if a reduction is vectorized across rows instead of along them."""
        return self.reduced > 0 and self.axis == self.parallel - 1

    @property
    def apart(self) -> bool:
        """True if blocks of rows are the units of work: there are few columns and nothing else."""
        return self.narrow and self.parallel == 1


def scheduled(kernel: loop_ir.LoopKernel, schedule: LoopSchedule | None = None) -> Scheduled:
    """A kernel with a schedule, by default its own or the plainest. Errors: KernelError."""
    if schedule is None:
        schedule = kernel.schedule if isinstance(kernel, Scheduled) else LoopSchedule()
    own = {item.name: getattr(kernel, item.name) for item in fields(loop_ir.LoopKernel)}
    both = Scheduled(**own, schedule=schedule)
    loop_ir.verify(both)
    for fault in _faults(both):
        raise loop_ir.KernelError(f"{fault}, in\n{text(both)}")
    return both


def _faults(kernel: Scheduled) -> Iterator[str]:
    if not (kernel.axis == kernel.rank - 1 or kernel.across):
        yield f"vector_axis={kernel.axis} is neither the last axis nor the last parallel one"
    if kernel.narrow and not kernel.across:
        yield "a narrow kernel has its lanes across rows"


def text(kernel: Scheduled) -> str:
    """The kernel, and how it is run."""
    narrow = " narrow" if kernel.narrow else ""
    return f"{loop_ir.text(kernel)}  schedule vector_axis={kernel.axis}{narrow}\n"


def pointers(kernel: Scheduled) -> tuple[str, ...]:
    """The names of the launch's pointers, in order: operands in memory, stores, scratch, status."""
    operands = [
        f"operand {i}"
        for i, item in enumerate(kernel.operands)
        if not item.virtual and item.local < 0
    ]
    stores = [f"store {i}" for i, item in enumerate(kernel.stores) if item.local < 0]
    scratch = ["scratch"] if kernel.full or kernel.apart else []
    status = ["status"] if kernel.checked else []
    return (*operands, *stores, *scratch, *status)


def arguments(kernel: Scheduled) -> tuple[str, ...]:
    """The names of the launch's i64 arguments, in order; strides count elements."""
    names = [f"dim {axis}" for axis in range(kernel.rank)]
    for number, operand in enumerate(kernel.operands):
        names += [f"operand {number} stride {axis}" for axis in range(kernel.rank)]
        for index in range(operand.index):
            names += [f"operand {number} index {index} {part}" for part in ("stride", "extent")]
    for number in range(len(kernel.stores)):
        names += [f"store {number} stride {axis}" for axis in range(kernel.rank)]
    return tuple(names)
