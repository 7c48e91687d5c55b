# cython: language_level=3
"""Sinking: values that are stored for one later kernel only are computed there.

In comes a fused Program; what moves is elementwise, and computed from what lies in memory anyway. Bits are the same;
what is stored, and read again, becomes less. What is fused with what is decided in `fuse`.
"""

import cython
from cython.cimports.weft.graph.node import PENDING, Node
from cython.cimports.weft.schedule.fuse import direct, find, is_row_value
from cython.cimports.weft.schedule.records import Kernel, Place, Program

from weft._compiled import require
from weft.graph.rows import ELEMENTWISE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.cfunc
def sink(program: Program, most: cython.int) -> cython.bint:
    """Compute values that only one later kernel reads in that kernel, where what they are computed from is in memory
    anyway: they need not be stored. Whether there were any."""
    readers: dict = {}  # stored value -> its only reader; None: several, or one that has to find it in memory
    kernel: Kernel
    node: Node
    source: Node
    for kernel in program.kernels:
        for node in kernel.nodes:
            for source in node.inputs:
                place: Place = program.places[source]
                if place.root.state == PENDING:
                    fits: cython.bint = _element_by_element(kernel, source, place)
                    only = kernel if fits and readers.get(place.root, kernel) is kernel else None
                    readers[place.root] = only
    moved: cython.bint = False
    for kernel in program.kernels:
        if kernel.kind != _elementwise or len(kernel.nodes) < 2:
            continue
        for node in reversed(list(kernel.nodes)):
            reader = readers.get(node)
            if reader is not None and reader is not kernel and _may_sink(program, kernel, node):
                moved |= _move(program, node, kernel, reader, most)
    return moved


@cython.cfunc
def _element_by_element(kernel: Kernel, source: Node, place: Place) -> cython.bint:
    return (
        kernel.kind == _elementwise and source.shape == kernel.shape and direct(place, source.shape)
    )


@cython.cfunc
def _may_sink(program: Program, kernel: Kernel, node: Node) -> cython.bint:
    """Whether a node is elementwise, and all that it reads is in memory without it."""
    source: Node
    if node.live > 0 or node.row.kind != _elementwise or node.shape != kernel.shape:
        return False
    if len(kernel.nodes) < 2:
        return False
    for source in node.inputs:
        place: Place = program.places[source]
        if place.root.state != PENDING or find(program, place.root) is not kernel:
            continue
        if place.root not in kernel.stores and not is_row_value(kernel, place.root):
            return False
    return True


@cython.cfunc
def _move(
    program: Program, node: Node, kernel: Kernel, reader: Kernel, most: cython.int
) -> cython.bint:
    if len(reader.nodes) >= most:
        return False
    kernel.nodes.remove(node)
    reader.nodes.insert(0, node)
    program.producer[node] = reader
    return True
