# cython: language_level=3
"""Sinking into the reader: values that are stored for one later kernel only are computed there.

In comes a fused Program; what moves is elementwise, and computed from what lies in memory anyway: one operation, or
several that end in such values. Bits are the same; what is stored, and read again, becomes less. What is fused with
what is decided in `form_kernels`.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.fusion.regions import (
    is_row_value,
    mark_stores,
    most_nodes,
)
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    Place,
    Program,
    Value,
    maker,
    operand,
    place_of,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.ccall
def sink(program: Program) -> cython.void:
    """Compute values that only one later kernel reads in that kernel, where what they are computed from is in memory
    anyway: they need not be stored."""
    kernel: Kernel
    moved: cython.bint = False
    most: cython.int = most_nodes()
    if most == 1:
        return
    note_readers(program)
    for kernel in program.kernels:
        if kernel.kind == _elementwise and len(kernel.nodes) > 1 and _may_give(program, kernel):
            for reader, nodes in _by_reader(program, kernel).items():
                if _pays(program, kernel, reader, nodes, most):
                    _move(program, kernel, reader, nodes)
                    moved = True
    if moved:
        mark_stores(program)


@cython.cfunc
def note_readers(program: Program) -> cython.void:
    """Note the only other kernel that reads a stored value; none where several do, or one that has to find it in
    memory."""
    kernel: Kernel
    node: Node
    value: Value
    number: cython.Py_ssize_t
    for value in program.values:
        value.read = False
        value.reader = None
    for kernel in program.kernels:
        for node in kernel.nodes:
            for number in range(len(node.inputs)):
                place: Place = operand(program, node, number)
                value = place.value
                if value.kernel is None or (value.read and value.reader is None):
                    continue
                fits: cython.bint = _element_by_element(kernel, place)
                if not fits or maker(place) is not kernel:
                    one: cython.bint = fits and (not value.read or value.reader is kernel)
                    value.read = True
                    value.reader = kernel if one else None


@cython.cfunc
def _may_give(program: Program, kernel: Kernel) -> cython.bint:
    """Whether one other kernel alone reads something that a kernel stores."""
    node: Node
    for node in kernel.stores:
        if place_of(program, node).value.reader is not None:
            return True
    return False


@cython.cfunc
def _element_by_element(kernel: Kernel, place: Place) -> cython.bint:
    return kernel.kind == _elementwise and place.whole and equal(place.shape, kernel.shape)


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
            place: Place = operand(program, node, number)
            if users.setdefault(place.root, reader) is not reader:
                users[place.root] = None
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
    if node.live > 0 or node.row.kind != _elementwise or node.shape != kernel.shape:
        return None
    if node in program.kept:
        return None
    if node not in kernel.stores:
        return users.get(node)
    reader = place_of(program, node).value.reader
    return reader if users.get(node, reader) is reader else None


@cython.cfunc
def _give_up(program: Program, kernel: Kernel, into: dict) -> cython.bint:
    """Let stay what reads a value that stays and is not in memory, and what is read by a node that stays."""
    changed: cython.bint = False
    node: Node
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            place: Place = operand(program, node, number)
            root: Node = place.root
            if maker(place) is not kernel:
                continue
            if node not in into:
                changed |= into.pop(root, None) is not None
            elif root not in into and root not in kernel.stores and not is_row_value(kernel, root):
                del into[node]
                changed = True
    return changed


@cython.cfunc
def _pays(
    program: Program, kernel: Kernel, reader: Kernel, nodes: list, most: cython.int
) -> cython.bint:
    """Whether there is room for the nodes, something stays, and no more is moved in memory than before."""
    if len(nodes) == len(kernel.nodes) or len(reader.nodes) + len(nodes) > most:
        return False
    known: set = set(nodes)
    stored: cython.Py_ssize_t = len(known.intersection(kernel.stores))
    node: Node
    for node in reader.nodes:
        known.update(_roots(program, node))
    more: set = set()
    for node in nodes:
        more.update(_roots(program, node))
    return len(more - known) <= 2 * stored  # neither written nor read


@cython.cfunc
def _roots(program: Program, node: Node) -> list:
    """The values that a node reads, without single elements."""
    found: list = []
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        place: Place = operand(program, node, number)
        if place.root.numel > 1:
            found.append(place.root)
    return found


@cython.cfunc
def _move(program: Program, kernel: Kernel, reader: Kernel, nodes: list) -> cython.void:
    moving: set = set(nodes)
    kernel.nodes = [node for node in kernel.nodes if node not in moving]
    reader.nodes = nodes + reader.nodes
    for node in nodes:
        place_of(program, node).value.kernel = reader
