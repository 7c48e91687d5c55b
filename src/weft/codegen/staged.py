"""Staged kernels: several loop kernels over the same rows, run row by row.

A softmax is a maximum over a row, then a sum over the same row, then a value for each element: three
phases.  In comes a `Staged` kernel: its phases are loop kernels that share the axes, the last of
which is the row; what a phase hands on to later ones, one element or the whole row, lies in local
memory, so that a row is read from memory once and stays in the nearest cache.  Out goes a module with
one function.  Each phase is the kernel that it would be alone, and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir as llvm

from . import ir
from .frame import Frame, Scope
from .loops import vector_lanes
from .reductions import Tree
from .rows_reduced import Rows, block_count, finish
from .stage import Lookup, Stage
from .target import Target, host
from .text import Builder, Value, counted, integer, module_text

ELEMENTS_PER_GRAIN = 1024


@dataclass(frozen=True)
class Local:
    """Memory of one call: a row of at most LONGEST_ROW elements, or one element."""

    dtype: str
    whole: bool

    @property
    def bytes(self) -> int:
        """How much is reserved."""
        return ir.SIZES[self.dtype] * (ir.LONGEST_ROW if self.whole else 1)


@dataclass(frozen=True)
class Staged:
    """Phases in order. One with reductions reduces the last axis; one without is elementwise."""

    phases: tuple[ir.LoopKernel, ...]
    locals: tuple[Local, ...]

    @property
    def rank(self) -> int:
        """The number of axes, the row among them."""
        return self.phases[0].rank


def text(kernel: Staged) -> str:
    """The canonical printed form."""
    lines = [
        f"local {i}: {item.dtype}{' row' if item.whole else ''}" for i, item in _numbered(kernel)
    ]
    return "".join([*(f"{line}\n" for line in lines), *map(ir.text, kernel.phases)])


def _numbered(kernel: Staged) -> Iterator[tuple[int, Local]]:
    return iter(enumerate(kernel.locals))


def verify(kernel: Staged) -> Staged:
    """The kernel itself if it is well formed; Errors: KernelError names the first fault."""
    for phase in kernel.phases:
        ir.verify(phase)
    for fault in _faults(kernel):
        raise ir.KernelError(f"{fault}, in\n{text(kernel)}")
    return kernel


def _faults(kernel: Staged) -> Iterator[str]:
    written: set[int] = set()
    for number, phase in enumerate(kernel.phases):
        if phase.rank != kernel.rank or phase.rank < 2 or phase.across:
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


def _access_faults(local: Local, item: ir.Operand | ir.Store) -> Iterator[str]:
    wanted = ("0",) * (len(item.strides) - 1) + ("1" if local.whole else "0",)
    if item.dtype != local.dtype or item.strides != wanted:
        yield f"{item} is no access to {local}"


def pointer_counts(kernel: Staged) -> list[int]:
    """How many pointers each phase takes."""
    return [len(ir.pointers(phase)) for phase in kernel.phases]


def argument_counts(kernel: Staged) -> list[int]:
    """How many arguments each phase takes behind the extents, which stand in front of all."""
    return [len(ir.arguments(phase)) - kernel.rank for phase in kernel.phases]


def lower(kernel: Staged, lookup: Lookup, name: str, target: Target | None = None) -> str:
    """The LLVM module of a staged kernel: function `name`."""
    verify(kernel)
    target = target or host()
    module = llvm.Module(name)
    b = Builder(module, name)
    memory = [b.alloca(f"[{local.bytes} x i8]") for local in kernel.locals]
    phases: list[_Phase] = []
    pointers = arguments = 0
    counts = zip(pointer_counts(kernel), argument_counts(kernel), strict=True)
    for phase, (more_pointers, more_arguments) in zip(kernel.phases, counts, strict=True):
        frame = Frame(phase, b, (pointers, arguments), memory)
        phases.append(_Phase(frame, lookup, target))
        pointers += more_pointers
        arguments += more_arguments
    _rows(phases, [phase.root() for phase in phases], 0)
    b.ret_void()
    return module_text(module, [b], target.register_bits)


class _Phase:
    """One phase in the loops over rows."""

    def __init__(self, frame: Frame, lookup: Lookup, target: Target) -> None:
        kernel = frame.kernel
        self.frame = frame
        self.row_axis = kernel.rank - 1
        if kernel.reduces:
            self.rows = Rows(frame, lookup, target)
            self.stage = self.rows.stage
            self.after = Stage(frame, lookup, target, "epilogue", (), 1)
            self.tree = Tree(self.rows.reductions, self.rows.one)
            self.blocks = block_count(frame.builder, frame.dims[self.row_axis])
        else:
            lanes = vector_lanes(kernel, target)
            self.stage = Stage(frame, lookup, target, "body", range(kernel.rank), lanes)

    def root(self) -> Scope:
        """The scope outside all loops."""
        scope = self.frame.root()
        self.stage.uniform(scope, -1)
        return scope

    def entered(self, scope: Scope, axis: int, index: Value) -> Scope:
        """The scope at one index of a parallel axis; what is the same for a row waits for the row."""
        inner = self.frame.enter(scope, axis, index)
        if axis < self.row_axis - 1:
            self.stage.uniform(inner, axis)
        return inner

    def run(self, scope: Scope) -> None:
        """One row."""
        self.stage.uniform(scope, self.row_axis - 1)
        length = self.frame.dims[self.row_axis]
        if not self.frame.kernel.reduces:
            self.stage.windows(scope, integer(0), length, [])
            return

        def block(number: Value, carry: list[Value]) -> list[Value]:
            self.tree.push(number, self.rows.block(scope, number, length))
            return carry

        counted(self.frame.builder, integer(0), self.blocks, 1, [], block)
        finish(self.rows.reductions, self.after, scope, self.tree.result(self.blocks))


def _rows(phases: list[_Phase], scopes: list[Scope], axis: int) -> None:
    """Loops over the parallel axes around the phases; axis 0 runs over the launch's units."""
    frame = phases[0].frame
    if axis == phases[0].row_axis:
        for phase, scope in zip(phases, scopes, strict=True):
            phase.run(scope)
        return

    def body(index: Value, carry: list[Value]) -> list[Value]:
        pairs = zip(phases, scopes, strict=True)
        _rows(phases, [phase.entered(scope, axis, index) for phase, scope in pairs], axis + 1)
        return carry

    start, stop = (frame.begin, frame.end) if axis == 0 else (integer(0), frame.dims[axis])
    counted(frame.builder, start, stop, 1, [], body)


def launch_shape(kernel: Staged, dims: Sequence[int]) -> tuple[int, int]:
    """Units of work, and the grain at which they may be split."""
    return dims[0], max(1, ELEMENTS_PER_GRAIN // max(1, prod(dims[1:])))
