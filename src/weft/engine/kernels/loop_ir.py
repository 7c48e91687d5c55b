"""The loop IR: what a fused kernel computes, as frozen records, with a verifier and a printer.

A `LoopKernel` says: loops over `rank` axes, operands read through strides, a body of elementwise
instructions, reductions over the trailing axes, an epilogue on their results, stores.  It holds no
sizes; those arrive at the launch.  `verify` raises on a malformed kernel, `text` prints one
canonically (the text is the cache key).  How a device runs one (lanes, pieces, scratch) is its
own record; choosing kernels is the pipeline's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SIZES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
}
REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
STRIDES = ("0", "1", "s")
LOADS = ("load", "load_indexed", "offset")


class KernelError(ValueError):
    """A kernel that no lowering accepts: a fault of the compiler, never of its user."""


@dataclass(frozen=True)
class Operand:
    """An input: its dtype and, per loop axis, its stride class (broadcast, unit or general). What varies along no axis
    is read before the loops: it has an element, even where they have none to go through."""

    dtype: str
    strides: tuple[str, ...]
    index: int = 0  # number of index values of a gathered operand
    virtual: bool = False  # no memory and no pointer: its value is sum(axis * stride), int64
    local: int = -1  # in a phase of a row kernel: what an earlier phase left there, no pointer


@dataclass(frozen=True)
class Instr:
    """One value: an elementwise op on earlier values, or a read of an operand."""

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    operand: int = -1  # for "load", "load_indexed" and "offset"


@dataclass(frozen=True)
class Reduce:
    """A reduction of a body value over the reduced axes, in the order of `reduction_order`."""

    kind: str
    value: int
    dtype: str


@dataclass(frozen=True)
class Store:
    """An output: a body value for every element, or an epilogue value for every parallel index."""

    dtype: str
    value: int
    strides: tuple[str, ...]
    stage: str = "body"
    local: int = -1  # in a phase of a row kernel: for a later phase, no pointer


@dataclass(frozen=True)
class LoopKernel:
    """Loops over `rank` axes, outermost first; the trailing `reduced` of them are reduced.

    Values are numbered body first, then reductions, then epilogue. The schedule of the loops on a device is no part of
    the kernel."""

    rank: int
    reduced: int
    operands: tuple[Operand, ...]
    body: tuple[Instr, ...]
    reduces: tuple[Reduce, ...] = ()
    epilogue: tuple[Instr, ...] = ()
    stores: tuple[Store, ...] = ()

    @property
    def parallel(self) -> int:
        """The number of axes that are not reduced."""
        return self.rank - self.reduced

    @property
    def full(self) -> bool:
        """True if everything reduces to one element."""
        return self.reduced > 0 and self.parallel == 0

    @property
    def checked(self) -> bool:
        """True if the kernel takes a status pointer, which an index out of range sets to 1."""
        return any(instr.op == "load_indexed" for instr in self.body + self.epilogue)


def text(kernel: LoopKernel) -> str:
    """The canonical printed form: equal kernels print equal text, different ones different text."""
    return "\n".join(_lines(kernel)) + "\n"


def _lines(kernel: LoopKernel) -> Iterator[str]:
    yield f"kernel rank={kernel.rank} reduced={kernel.reduced}"
    for number, operand in enumerate(kernel.operands):
        extra = f" index={operand.index}" if operand.index else ""
        extra += " virtual" if operand.virtual else ""
        extra += f" local {operand.local}" if operand.local >= 0 else ""
        yield f"  operand {number}: {operand.dtype}[{' '.join(operand.strides)}]{extra}"
    count = len(kernel.body)
    yield from (f"  {_instr(i, item)}" for i, item in enumerate(kernel.body))
    for number, item in enumerate(kernel.reduces, count):
        yield f"  %{number} = reduce {item.kind} {item.dtype} %{item.value}"
    count += len(kernel.reduces)
    yield from (f"  {_instr(i, item)} after" for i, item in enumerate(kernel.epilogue, count))
    for store in kernel.stores:
        place = f" local {store.local}" if store.local >= 0 else ""
        strides = " ".join(store.strides)
        yield f"  store {store.stage} {store.dtype}[{strides}]{place} %{store.value}"


def _instr(number: int, item: Instr) -> str:
    source = f" operand {item.operand}" if item.operand >= 0 else ""
    return " ".join([f"%{number} = {item.op}{source} {item.dtype}", *(f"%{i}" for i in item.args)])


def verify(kernel: LoopKernel) -> LoopKernel:
    """The kernel itself if it is well formed; Errors: KernelError names the first fault."""
    for fault in _faults(kernel):
        raise KernelError(f"{fault}, in\n{text(kernel)}")
    return kernel


def _faults(kernel: LoopKernel) -> Iterator[str]:
    if not 0 <= kernel.reduced <= kernel.rank:
        yield f"reduced={kernel.reduced} of rank {kernel.rank}"
    if bool(kernel.reduced) != bool(kernel.reduces):
        yield "reduced axes and reductions must come together"
    if kernel.epilogue and not kernel.reduces:
        yield "an epilogue needs a reduction"
    for number, operand in enumerate(kernel.operands):
        yield from _stride_faults(f"operand {number}", operand.dtype, operand.strides, kernel)
    for number, store in enumerate(kernel.stores):
        yield from _stride_faults(f"store {number}", store.dtype, store.strides, kernel)
    yield from _value_faults(kernel)


def _stride_faults(
    name: str, dtype: str, strides: tuple[str, ...], kernel: LoopKernel
) -> Iterator[str]:
    if dtype not in SIZES:
        yield f"{name} has the unknown dtype {dtype!r}"
    if len(strides) != kernel.rank or any(item not in STRIDES for item in strides):
        yield f"{name} has strides {strides}, not {kernel.rank} of {STRIDES}"


def _value_faults(kernel: LoopKernel) -> Iterator[str]:
    body, reduces = len(kernel.body), len(kernel.reduces)
    for number, instr in enumerate(kernel.body):
        yield from _instr_faults(kernel, number, instr, 0)
    for number, reduce in enumerate(kernel.reduces):
        if reduce.kind not in REDUCTIONS or reduce.dtype not in SIZES:
            yield f"reduction {number} is {reduce.kind} {reduce.dtype}"
        if not 0 <= reduce.value < body:
            yield f"reduction {number} reduces %{reduce.value}, which is no body value"
    for number, instr in enumerate(kernel.epilogue, body + reduces):
        yield from _instr_faults(kernel, number, instr, body)
        if instr.operand >= 0 and instr.op != "offset":
            yield from _reduced_stride_faults(kernel, instr.operand)
    for number, store in enumerate(kernel.stores):
        first, last = _store_range(kernel, store.stage)
        if not first <= store.value < last:
            yield f"store {number} ({store.stage}) stores %{store.value}, not in [{first}, {last})"


def _store_range(kernel: LoopKernel, stage: str) -> tuple[int, int]:
    body = len(kernel.body)
    last = body + len(kernel.reduces) + len(kernel.epilogue)
    return {"body": (0, body), "epilogue": (body, last)}.get(stage, (0, 0))


def _instr_faults(kernel: LoopKernel, number: int, instr: Instr, first: int) -> Iterator[str]:
    if instr.dtype not in SIZES:
        yield f"%{number} has the unknown dtype {instr.dtype!r}"
    if any(not first <= arg < number for arg in instr.args):
        yield f"%{number} reads {instr.args}, not all in [{first}, {number})"
    if (instr.op in LOADS) != (instr.operand >= 0):
        yield f"%{number} = {instr.op} has operand {instr.operand}"
    elif instr.operand >= len(kernel.operands):
        yield f"%{number} reads operand {instr.operand} of {len(kernel.operands)}"
    elif instr.operand >= 0:
        yield from _read_faults(number, instr, kernel.operands[instr.operand])


def _read_faults(number: int, instr: Instr, operand: Operand) -> Iterator[str]:
    if operand.virtual != (instr.op == "offset"):
        yield f"%{number}: offset reads virtual operands, a load real ones"
    if operand.index != len(instr.args):
        yield f"%{number} gives {len(instr.args)} of {operand.index} index values"
    if instr.dtype != ("int64" if operand.virtual else operand.dtype):
        yield f"%{number} reads {instr.dtype} from {operand.dtype}; a cast is an op of its own"


def _reduced_stride_faults(kernel: LoopKernel, number: int) -> Iterator[str]:
    if any(item != "0" for item in kernel.operands[number].strides[kernel.parallel :]):
        yield f"the epilogue reads operand {number}, which varies along a reduced axis"
