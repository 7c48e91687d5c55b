"""The row IR (persistent reductions): several loop kernels over the same rows, run row by row, as frozen records with
a verifier and a printer.

A softmax is a maximum over a row, then a sum over the same row, then a value for each element: three phases. Phases
are loop kernels that share the axes, the last of which is the row. A value for later phases, one element or the whole
row, has a number (`Operand.local`, `Store.local`); the device decides where it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.engine.kernels import loop_ir


@dataclass(frozen=True)
class Local:
    """A value that phases hand on: a row, or one element. One that is `added` to is zero before the first row, and a
    sum over all rows after the last one."""

    dtype: str
    whole: bool
    added: bool = False


@dataclass(frozen=True)
class RowKernel:
    """Phases in order. One with reductions reduces the last axis; one without is elementwise."""

    phases: tuple[loop_ir.LoopKernel, ...]
    locals: tuple[Local, ...]

    @property
    def rank(self) -> int:
        """The number of axes, the row among them."""
        return self.phases[0].rank

    @property
    def sums(self) -> tuple[int, ...]:
        """The local memory that is added to."""
        return tuple(number for number, item in enumerate(self.locals) if item.added)


def text(kernel: RowKernel) -> str:
    """The canonical printed form."""
    lines = [
        f"local {i}: {item.dtype}{' row' if item.whole else ''}{' of sums' if item.added else ''}"
        for i, item in _numbered(kernel)
    ]
    return "".join([*(f"{line}\n" for line in lines), *map(loop_ir.text, kernel.phases)])


def _numbered(kernel: RowKernel) -> Iterator[tuple[int, Local]]:
    return iter(enumerate(kernel.locals))


def verify(kernel: RowKernel) -> RowKernel:
    """The kernel itself if it is well formed; Errors: KernelError names the first fault."""
    for phase in kernel.phases:
        loop_ir.verify(phase)
    for fault in _faults(kernel):
        raise loop_ir.KernelError(f"{fault}, in\n{text(kernel)}")
    return kernel


def _faults(kernel: RowKernel) -> Iterator[str]:
    written = set(kernel.sums)
    if not all(kernel.locals[number].whole for number in written):
        yield "a sum over rows is no row"
    for number, phase in enumerate(kernel.phases):
        if phase.rank != kernel.rank or phase.rank < 2:
            yield f"phase {number} is not over rows of rank {kernel.rank}"
        if phase.reduced != bool(phase.reduces):
            yield f"phase {number} reduces {phase.reduced} axes"
        for operand in phase.operands:
            if operand.local >= 0 and operand.local not in written:
                yield f"phase {number} reads local {operand.local} before it is written"
            if operand.local >= 0:
                yield from _access_faults(kernel.locals[operand.local], operand)
        for store in phase.stores:
            if store.local >= 0:
                written.add(store.local)
                yield from _access_faults(kernel.locals[store.local], store)


def _access_faults(local: Local, item: loop_ir.Operand | loop_ir.Store) -> Iterator[str]:
    wanted = ("0",) * (len(item.strides) - 1) + ("1" if local.whole else "0",)
    if item.dtype != local.dtype or item.strides != wanted:
        yield f"{item} is no access to {local}"
