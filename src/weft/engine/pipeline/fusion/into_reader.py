# cython: language_level=3
"""Fusion into the reader: a value that is stored for one later kernel only is computed there.

It takes a fused Program and moves elementwise nodes whose operands are in memory anyway: one operation, or several
that end in such values. Bits are the same, and less is stored and read. `form_kernels` decides what is fused in the
first place.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import Node, is_live
from cython.cimports.weft.engine.pipeline.fusion.def_use import mark_uses
from cython.cimports.weft.engine.pipeline.fusion.regions import is_row_value, most_nodes
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    ProgramValue,
    maker,
    memref_of,
    operand,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.ccall
def fuse_into_reader(program: Program) -> cython.void:
    """Compute values that only one later kernel reads in that kernel, where what they are computed from is in memory
    anyway: they need not be stored."""
    kernel: Kernel
    moved: cython.bint = False
    most: cython.int = most_nodes(program)
    if most == 1:
        return
    for kernel in program.kernels:
        if kernel.kind == _elementwise and len(kernel.nodes) > 1 and _may_give(program, kernel):
            for reader, nodes in _by_reader(program, kernel).items():
                if _pays(program, kernel, reader, nodes, most):
                    _move(program, kernel, reader, nodes)
                    moved = True
    if moved:
        mark_uses(program)


@cython.cfunc
def _may_give(program: Program, kernel: Kernel) -> cython.bint:
    """True if a kernel stores a value that only one other kernel reads and could compute."""
    node: Node
    for node in kernel.stores:
        if memref_of(program, node).value.reader is not None and _may_move(program, kernel, node):
            return True
    return False


@cython.cfunc
def _by_reader(program: Program, kernel: Kernel) -> dict:
    """Later kernel -> the nodes of this one, in order, that only it needs and that it can compute."""
    into: dict = {}  # node -> the kernel that alone needs it
    users: dict = {}  # value -> the kernel into which all of its users in this one go, or None
    node: Node
    number: cython.Py_ssize_t
    for node in reversed(kernel.nodes):
        reader = _needed_by(program, kernel, node, users)
        if reader is not None:
            into[node] = reader
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            if users.setdefault(memref.root, reader) is not reader:
                users[memref.root] = None
    while into and _give_up(program, kernel, into):
        pass
    found: dict = {}
    for node in kernel.nodes if into else ():
        if node in into:
            found.setdefault(into[node], []).append(node)
    return found


@cython.cfunc
def _needed_by(program: Program, kernel: Kernel, node: Node, users: dict) -> Kernel | None:
    """The one later kernel that needs an elementwise node, itself or for what goes there; else None."""
    if not _may_move(program, kernel, node):
        return None
    value: ProgramValue = memref_of(program, node).value
    if not value.stored:
        return users.get(node)
    return value.reader if users.get(node, value.reader) is value.reader else None


@cython.cfunc
def _may_move(program: Program, kernel: Kernel, node: Node) -> cython.bint:
    """True if a node is computed element by element, and nothing outside refers to it."""
    if is_live(node) or node.op.kind != _elementwise or not equal(node.shape, kernel.shape):
        return False
    return node not in program.kept


@cython.cfunc
def _give_up(program: Program, kernel: Kernel, into: dict) -> cython.bint:
    """Let stay what reads a value that stays and is not in memory, and then what a node reads that stays. Returns
    whether something was let stay that others may read."""
    changed: cython.bint = False
    node: Node
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        if node in into and _needs_what_stays(program, kernel, node, into):
            del into[node]
    for node in reversed(kernel.nodes):
        if node in into:
            continue
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            if memref.root in into and maker(memref) is kernel:
                del into[memref.root]
                changed = True
    return changed


@cython.cfunc
def _needs_what_stays(program: Program, kernel: Kernel, node: Node, into: dict) -> cython.bint:
    """True if a node reads a value of its kernel that is not stored and does not move with it."""
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        memref: MemRef = operand(program, node, number)
        if memref.value.stored or memref.root in into or maker(memref) is not kernel:
            continue
        if not is_row_value(kernel, memref.root):
            return True
    return False


@cython.cfunc
def _pays(
    program: Program, kernel: Kernel, reader: Kernel, nodes: list, most: cython.int
) -> cython.bint:
    """True if the reader has room for the nodes, some nodes stay, and memory traffic does not grow."""
    if len(nodes) == len(kernel.nodes) or len(reader.nodes) + len(nodes) > most:
        return False
    node: Node
    saved: cython.Py_ssize_t = 0  # neither written nor read
    more: set = set()
    for node in nodes:
        saved += 2 * memref_of(program, node).value.stored
        _note_roots(program, node, more)
    more.difference_update(nodes)
    if len(more) <= saved:
        return True
    known: set = set()
    for node in reader.nodes:
        _note_roots(program, node, known)
    return len(more - known) <= saved


@cython.cfunc
def _note_roots(program: Program, node: Node, found: set) -> cython.void:
    """The values that a node reads, without single elements."""
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        memref: MemRef = operand(program, node, number)
        if memref.root.numel > 1:
            found.add(memref.root)


@cython.cfunc
def _move(program: Program, kernel: Kernel, reader: Kernel, nodes: list) -> cython.void:
    moving: set = set(nodes)
    kernel.nodes = [node for node in kernel.nodes if node not in moving]
    reader.nodes = nodes + reader.nodes
    for node in nodes:
        value: ProgramValue = memref_of(program, node).value
        value.kernel, value.stored = reader, False
