# cython: language_level=3
"""Memory planning by liveness: gives each value the slot that it is stored in.

It takes a fused Program and makes a Plan: slots for the values that exist, and slots with sizes for what kernels
store, shared by values whose lifetimes do not meet. A value that is referenced from outside keeps its slot to the end.
A region write takes its base's slot if nobody else can see the base (donation): then it costs only what it writes. So
does an elementwise kernel with a value from outside that it is the last to read, element by element: an optimizer's
step updates parameters in place.
"""

from bisect import bisect_left, insort

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.memory import OwnedMemory
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.primitive import INTO_BASE, UPDATE
from cython.cimports.weft.engine.ir.strides import may_meet
from cython.cimports.weft.engine.pipeline.memory_plan import Plan
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    ProgramValue,
    memref_of,
    operand,
    row_major,
)

from weft._build.compiled import require
from weft.config import config
from weft.engine.ir.memory import GRANTED
from weft.engine.ir.primitive import ELEMENTWISE, INDEX, REGION, SCATTER
from weft.errors import VerificationError

require(__name__, cython.compiled)

_granted = cython.declare(cython.int, GRANTED)


@cython.final
@cython.cclass
class Plan:
    """The slots of a program: those of `external` roots first, then the slots made here, of `sizes`."""

    def __cinit__(self, program: Program):
        self.program = program
        self.external = program.external
        self.sizes = []
        self.kept = program.kept
        self.in_place = set()
        self.viewed = set(program.viewed)  # and all that has to outlive the run
        self.used = []  # the values that kernels read, in order of first use
        # The position of the first kernel that writes over a value from outside, or adds in parts to one made here.
        self.overwriting = -1

    def slot_of(self, node: Node):
        """The slot of a value; -1 if it is not stored."""
        return value_of(self, node).slot

    @property
    def count(self):
        """The number of slots."""
        return len(self.external) + len(self.sizes)


@cython.cfunc
def value_of(plan: Plan, node: Node) -> ProgramValue:
    """The program's value that a node computes."""
    return memref_of(plan.program, node).value


WORTH_PACKING = cython.declare(cython.longlong, 1 << 20)  # bytes of a program
MOST_TIMES_LARGER = cython.declare(cython.longlong, 2)  # than a value: the slot that it may have
_reuse = True
_exact = cython.declare(cython.bint, config.guard != "")
NOTHING, BASES, ALL = range(
    3
)  # what a program may write over: nothing, what parts are written to, operands too


def set_reuse(enabled: bool):
    """Share slots between values (the default), or give each fresh memory. Returns the old setting."""
    global _reuse
    previous = _reuse
    _reuse = enabled
    return previous


def shares_slots() -> bool:
    """True if values whose lifetimes do not meet may share memory, and reach to the next one without a guard."""
    return _reuse and not _exact


def plan(program: Program, overwrites: cython.int = ALL, share: cython.bint = True) -> Plan:
    """Decide the slots of a fused program; `overwrites` says which values from outside it may write over, `share`
    whether values whose lifetimes do not meet may have one slot: of one size, or of sizes that are near where that
    takes less memory."""
    if not share:
        _forget(program)
    result: Plan = _planned(program, overwrites, share, False)
    exact: cython.longlong = sum(result.sizes)
    if not share or _exact or exact < WORTH_PACKING:
        return result
    value: ProgramValue
    slots: list = [value.slot for value in program.values]
    _forget(program)
    near: Plan = _planned(program, overwrites, share, True)
    if sum(near.sizes) < exact:
        return near
    for value, slot in zip(program.values, slots, strict=True):
        value.slot = slot
    return result


@cython.cfunc
def _planned(
    program: Program, overwrites: cython.int, share: cython.bint, near: cython.bint
) -> Plan:
    """One plan; `near`: slots are shared by values whose sizes differ a little."""
    result: Plan = Plan(program)
    result.overwrites = overwrites
    if _may_run_again(program):
        result.viewed.update(result.external)
    _note_last_uses(program, result)
    _assign(program, result, share and _reuse, near)
    return result


@cython.cfunc
def _forget(program: Program) -> cython.void:
    """Let a program be planned once more."""
    value: ProgramValue
    for value in program.values:
        value.last_use, value.last_reader = -1, None
        if value.node.state == PENDING:
            value.slot = -1


@cython.cfunc
def _may_run_again(program: Program) -> cython.bint:
    """True if an index check may fail: then the program runs again without batches, from inputs and undo entries that
    must still be there."""
    kernel: Kernel
    node: Node
    for kernel in program.kernels:
        if kernel.kind == INDEX or kernel.kind == SCATTER:
            for node in kernel.nodes:
                if node.may_fail:
                    return True
    return False


@cython.cfunc
def _note_last_uses(program: Program, result: Plan) -> cython.void:
    kernel: Kernel
    node: Node
    number: cython.Py_ssize_t
    for kernel in program.kernels:
        for node in kernel.nodes:
            for number in range(len(node.inputs)):
                value: ProgramValue = operand(program, node, number).value
                if value.last_use < 0:
                    result.used.append(value)
                if value.last_use != kernel.position:
                    value.last_reader = kernel
                elif value.last_reader is not kernel:
                    value.last_reader = None
                value.last_use = kernel.position


@cython.cfunc
def _assign(program: Program, result: Plan, share: cython.bint, near: cython.bint) -> cython.void:
    expiring: dict = {}
    value: ProgramValue
    for value in result.used:
        if value.node.state == PENDING:
            expiring.setdefault(value.last_use, []).append(value)
    free: list = []  # (size, slot), by size
    kernel: Kernel
    node: Node
    position: cython.int = -1
    for kernel in program.kernels:
        if share and kernel.position != position and position >= 0:
            for value in expiring.get(position, ()):
                _expire(result, value, free)
        position = kernel.position
        for node in kernel.stores:
            if (kernel.kind == REGION or kernel.kind == SCATTER) and _takes_base(
                program, result, kernel, node
            ):
                continue
            if kernel.kind == ELEMENTWISE and _takes_operand(program, result, kernel, node):
                continue
            nbytes: cython.longlong = node.numel * node.dtype.itemsize
            size: cython.longlong = _round(result, nbytes)
            slot: cython.Py_ssize_t = _reused(
                result, free, size, not near or value_of(result, node).kept
            )
            if slot < 0:
                slot = len(result.external) + len(result.sizes)
                result.sizes.append(size)
            value_of(result, node).slot = slot


@cython.cfunc
def _reused(
    result: Plan, free: list, size: cython.longlong, exact: cython.bint
) -> cython.Py_ssize_t:
    """A free slot for so many bytes, taken out: of that size, or unless it has to be `exact`, the next larger one, or
    the next smaller one, which grows; -1 without one."""
    place: cython.Py_ssize_t = bisect_left(free, (size, -1))
    found: cython.longlong = 0
    if place < len(free):
        found = free[place][0]
    if found != size and exact:
        return -1
    if place == len(free) or found > MOST_TIMES_LARGER * size:
        place -= 1
        if place < 0 or size > MOST_TIMES_LARGER * cython.cast(cython.longlong, free[place][0]):
            return -1
    slot: cython.Py_ssize_t = free.pop(place)[1]
    index: cython.Py_ssize_t = slot - len(result.external)
    result.sizes[index] = max(size, cython.cast(cython.longlong, result.sizes[index]))
    return slot


@cython.cfunc
def _expire(result: Plan, value: ProgramValue, free: list) -> cython.void:
    if value.kept or value.node in result.in_place or value.slot < 0:
        return
    if value.slot < len(result.external):
        return  # overwrites a value from outside, whose room behind it is not known here
    insort(free, (result.sizes[value.slot - len(result.external)], value.slot))


@cython.cfunc
def _round(result: Plan, nbytes: cython.longlong) -> cython.longlong:
    """The size of a value's slot. Exact where memory is guarded."""
    if _exact:
        return nbytes
    step: cython.longlong = result.program.device.capabilities.alignment
    return (nbytes + step - 1) // step * step if nbytes > 0 else step


@cython.cfunc
def _takes_base(program: Program, result: Plan, kernel: Kernel, node: Node) -> cython.bint:
    """True if a `put` or a scatter may write into its base's own memory: it is the last reader, and the base is a
    whole row-major value that nobody else sees. A scatter copies a small base from outside: a program that overwrites
    is no longer usable where somebody else sees it."""
    if not _reuse or (kernel.kind == REGION and node.op.form != UPDATE):
        return False
    if result.overwrites == NOTHING:
        return False
    memref: MemRef = operand(program, node, 0)
    root: Node = memref.root
    if memref.offset != 0 or root.numel != node.numel or memref.value.last_reader is not kernel:
        return False
    if root.dtype is not node.dtype or _reads_beside(program, node, root):
        return False
    if memref.strides != row_major(node.shape) or root in result.kept or root in result.in_place:
        return False
    if root.state == DONE and (root in result.viewed or not is_private(root)):
        return False
    copied: cython.longlong = program.device.tuning.copies.scattered_bytes
    nbytes: cython.longlong = node.numel * node.dtype.itemsize
    if kernel.kind == SCATTER and root.state == DONE and nbytes < copied:
        return False
    _overwrite(result, kernel, memref.value, node)
    if kernel.kind == SCATTER and result.overwriting < 0 and _adds_in_parts(program, node):
        result.overwriting = kernel.position
    return True


@cython.cfunc
@cython.inline
def _reads_beside(program: Program, node: Node, base: Node) -> cython.bint:
    """True if an operation may read its base through another operand after it has overwritten it."""
    number: cython.Py_ssize_t
    for number in range(1, len(node.inputs)):
        if base is operand(program, node, number).root and _may_meet(program, node, number):
            return True
    return False


@cython.cfunc
def _may_meet(program: Program, node: Node, number: cython.Py_ssize_t) -> cython.bint:
    """True if the operation may read an operand after it has overwritten it: always, unless the operand is apart from
    the region that is written."""
    if node.op.kind != REGION:
        return True
    memref: MemRef = operand(program, node, number)
    start: cython.longlong = node.params[0]
    return may_meet(memref.shape, memref.strides, node.params[1], start - memref.offset)


@cython.cfunc
def _adds_in_parts(program: Program, node: Node) -> cython.bint:
    """True if a scatter that adds may be interrupted by a signal: if it ran again, it would add twice."""
    source: Node = node.inputs[2]
    if node.op.sums != INTO_BASE:
        return False
    return len(node.shape) > 3 or source.numel > program.device.tuning.copies.scattered_at_once


@cython.cfunc
def _overwrite(result: Plan, kernel: Kernel, value: ProgramValue, node: Node) -> cython.void:
    """Give a node the slot of a value that nobody needs any more."""
    root: Node = value.node
    if root.state == DONE and result.overwriting < 0:
        result.overwriting = kernel.position
    result.in_place.add(root)
    value_of(result, node).slot = value.slot


@cython.cfunc
def _takes_operand(program: Program, result: Plan, kernel: Kernel, node: Node) -> cython.bint:
    """True if a result of an elementwise kernel may take the slot of an operand from outside: each element is read for
    the last time where it is written. Values made in this program stay: an interrupted program resumes from them."""
    if not _reuse or result.overwrites != ALL or kernel.axes is not None or kernel.is_row_kernel:
        return False
    if not equal(node.shape, kernel.shape):
        return False
    inner: Node
    number: cython.Py_ssize_t
    for inner in kernel.nodes:
        for number in range(len(inner.inputs)):
            value: ProgramValue = operand(program, inner, number).value
            if (
                value.kernel is None
                and value.node.state == DONE
                and _is_free_for(program, result, kernel, value, node)
            ):
                _overwrite(result, kernel, value, node)
                return True
    return False


@cython.cfunc
def _is_free_for(
    program: Program, result: Plan, kernel: Kernel, value: ProgramValue, node: Node
) -> cython.bint:
    """True if a value from outside can be donated to a node: of its size, private, and read by this kernel last,
    element by element."""
    root: Node = value.node
    if root.numel != node.numel or root.dtype.itemsize != node.dtype.itemsize or root.numel == 0:
        return False
    if root in result.in_place or root in result.viewed or not is_private(root):
        return False
    if value.last_reader is not kernel:
        return False
    strides: tuple = row_major(kernel.shape)
    inner: Node
    memref: MemRef
    number: cython.Py_ssize_t
    for inner in kernel.nodes:
        for number in range(len(inner.inputs)):
            memref = operand(program, inner, number)
            if memref.root is root and (
                memref.offset != 0 or memref.shape != kernel.shape or memref.strides != strides
            ):
                return False
    return True


def is_private(root: Node, views: cython.Py_ssize_t = 0):
    """True if a value's memory is seen by nobody but the pending nodes that read it, and by `views` views of it."""
    if root.external_refs > 0 or root.buffer is None or root.strides is not None:
        return False
    buffer: OwnedMemory = root.buffer
    return buffer.owners <= 1 + views and (not buffer.foreign or buffer.size_class == _granted)


def verify(program: Program, result: Plan):
    """No slot holds two values at a time, and no kept value shares one."""
    busy: dict = {}
    for kernel in program.kernels:
        for node in kernel.stores:
            slot = result.slot_of(node)
            other = busy.get(slot)
            if other is not None and (
                other in result.kept
                or value_of(result, other).last_use > kernel.position
                or (
                    value_of(result, other).last_use == kernel.position
                    and other not in result.in_place
                )
            ):
                raise VerificationError(
                    "plan", expected=f"{other!r} keeps slot {slot}", got=f"{node!r} in it"
                )
            busy[slot] = node


def text(program: Program, result: Plan):
    """Slots, sizes, and what shares them."""
    total = sum(result.sizes)
    stored = sum(
        node.numel * node.dtype.itemsize for kernel in program.kernels for node in kernel.stores
    )
    lines = [
        f"{len(result.external)} values read, {len(result.sizes)} slots of {total} bytes for {stored} bytes stored"
    ]
    for kernel in program.kernels:
        for node in kernel.stores:
            mark = " kept" if node in result.kept else ""
            lines.append(
                f"k{kernel.position} {node.op.name}{list(node.shape)} -> slot {result.slot_of(node)}{mark}"
            )
    return "\n".join(lines)
