# cython: language_level=3
"""Fusion regions: which nodes a kernel may take in, and how two kernels become one.

A kernel has one iteration space; over rows it also has their reductions and the nodes that read these. This module has
the predicates by which the passes of this folder decide, and the moves that keep a kernel's readers right (`merge`,
`raise_kernel`, `note_consumers`). The passes decide where a node goes.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.tuning import Fusion
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    maker,
    memref_of,
    operand,
    row_major,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE, REDUCE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_reduce = cython.declare(cython.int, REDUCE)


@cython.cfunc
def room(program: Program, kernel: Kernel) -> cython.int:
    """The number of nodes that a kernel may still take in."""
    tuning: Fusion = program.device.tuning.fusion
    most: cython.int = tuning.most_nodes
    if kernel.is_row_kernel and most > 1:
        most = tuning.most_row_nodes
    return most - cython.cast(cython.int, len(kernel.nodes))


@cython.cfunc
def append_kernel(kernels: list, kernel: Kernel) -> cython.void:
    kernel.position = len(kernels)
    kernels.append(kernel)


@cython.cfunc
def most_nodes(program: Program) -> cython.int:
    """The most nodes that a kernel may have; 1 if fusion is off."""
    return program.device.tuning.fusion.most_nodes


@cython.cfunc
def most_row_nodes(program: Program) -> cython.int:
    """The most nodes that a row kernel may have."""
    return program.device.tuning.fusion.most_row_nodes


@cython.cfunc
def find(program: Program, node: Node) -> Kernel:
    """The kernel that computes a node, through merges; None for a value that exists."""
    return maker(memref_of(program, node))


@cython.cfunc
def is_row_value(kernel: Kernel, root: Node) -> cython.bint:
    """True if a kernel computes this value once for each of its rows: a reduction, or a value computed from one."""
    if kernel.axes is None or is_over_rows(kernel, root):
        return False
    return root.op.kind == _reduce or in_epilogue(kernel, root)


@cython.cfunc
def is_over_rows(kernel: Kernel, node: Node) -> cython.bint:
    """True if a kernel computes this node as a sum over rows, across and not along them."""
    return (
        node.op.kind == _reduce
        and kernel.axes is not None
        and not equal(node.params[0], kernel.axes)
    )


@cython.cfunc
def in_epilogue(kernel: Kernel, node: Node) -> cython.bint:
    return (
        kernel.axes is not None
        and node.op.kind != _reduce
        and kernel.extra is not None
        and node in kernel.extra
    )


@cython.cfunc
def by_row(kernel: Kernel, memref: MemRef) -> cython.bint:
    """True if a region of a value of the reduced space has, for each element of a row, the value of that row."""
    shape: tuple = memref.shape
    rank: cython.Py_ssize_t = len(kernel.shape)
    if memref.offset != 0 or len(shape) != rank or memref.root.shape != kernel.reduced_shape:
        return False
    if kernel.axes != (rank - 1,):
        return False
    if shape[rank - 1] != 1 and memref.strides[rank - 1] != 0:
        return False
    strides: tuple = row_major(kernel.reduced_shape)
    axis: cython.Py_ssize_t
    for axis in range(rank - 1):
        if shape[axis] != kernel.shape[axis]:
            return False
        if shape[axis] != 1 and memref.strides[axis] != strides[axis]:
            return False
    return True


@cython.cfunc
def reads_inside(program: Program, kernel: Kernel, node: Node, memref: MemRef) -> cython.bint:
    """True if an elementwise node may read an input within the kernel that computes it."""
    if memref.whole and equal(memref.shape, node.shape):
        return accepts(program, kernel, node, memref.root)
    return (
        kernel.open
        and room(program, kernel) > 0
        and kernel.shape == node.shape
        and is_row_value(kernel, memref.root)
        and by_row(kernel, memref)
        and (kernel.is_row_kernel or may_be_row_kernel(program, kernel))
    )


@cython.cfunc
def goes_on(program: Program, kernel: Kernel, node: Node) -> cython.bint:
    """True if an elementwise node of the whole space reads reductions of its kernel."""
    number: cython.Py_ssize_t
    if not equal(node.shape, kernel.shape):
        return False
    for number in range(len(node.inputs)):
        memref: MemRef = operand(program, node, number)
        if maker(memref) is kernel and is_row_value(kernel, memref.root):
            return True
    return False


@cython.cfunc
def may_be_row_kernel(program: Program, kernel: Kernel) -> cython.bint:
    """True if a kernel reduces enough rows that local memory can hold, and reads along them."""
    rank: cython.Py_ssize_t = len(kernel.shape)
    if kernel.axes is None or rank < 2 or kernel.axes != (rank - 1,):
        return False
    length: cython.longlong = kernel.shape[rank - 1]
    if length < 2 or length > program.device.capabilities.longest_row:
        return False
    rows: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(rank - 1):
        rows *= cython.cast(cython.longlong, kernel.shape[axis])
    if rows < program.device.tuning.fusion.fewest_rows:
        return False
    node: Node
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            if (
                len(memref.strides) == rank
                and memref.strides[rank - 1] > 1
                and memref.shape[rank - 1] > 1
            ):
                return False
    return True


@cython.cfunc
def accepts(program: Program, kernel: Kernel, node: Node, root: Node) -> cython.bint:
    """True if an elementwise node may join the kernel that computes its input `root`."""
    if not kernel.open or room(program, kernel) <= 0:
        return False
    if kernel.axes is None:
        return kernel.shape == node.shape
    if root.op.kind == _reduce or in_epilogue(kernel, root):
        return kernel.reduced_shape == node.shape and kernel.reduced_shape != kernel.shape
    return kernel.shape == node.shape


@cython.cfunc
def merge(program: Program, kernels: list, early: Kernel, late: Kernel) -> cython.bint:
    """Compute `early` inside `late` where nobody between them reads it, and `late` only element by element."""
    if early.axes is not None or late.axes is not None or early.shape != late.shape:
        return False
    if early.position > late.position or early.first_consumer < late.position:
        return False
    if early.first_indirect <= late.position:
        return False
    if len(early.nodes) + len(late.nodes) > most_nodes(program):
        return False
    late.nodes = early.nodes + late.nodes
    late.last_consumer = max(late.last_consumer, early.last_consumer)
    late.first_indirect = min(late.first_indirect, early.first_indirect)
    if early.first_consumer > late.position:
        late.first_consumer = min(late.first_consumer, early.first_consumer)
    elif (
        early.last_consumer > late.position
    ):  # read by `late`, and by kernels behind it: which is first, is not known
        late.first_consumer = late.position + 1
    early.merged = late
    kernels[early.position] = None
    return True


@cython.cfunc
def raise_kernel(program: Program, kernels: list, early: Kernel, late: Kernel) -> cython.bint:
    """Compute `late` inside `early` where all that it reads is there by then, or made by `early` element by element."""
    if late.axes is not None or early.shape != late.shape or early.position > late.position:
        return False
    if not early.open or len(late.nodes) >= room(program, early):
        return False
    node: Node
    number: cython.Py_ssize_t
    for node in late.nodes:
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            below: Kernel = maker(memref)
            if below is None or below is late or below.position < early.position:
                continue
            if below is not early or not reads_inside(program, early, node, memref):
                return False
    early.nodes = early.nodes + late.nodes
    early.first_consumer = min(early.first_consumer, late.first_consumer)
    early.last_consumer = max(early.last_consumer, late.last_consumer)
    early.first_indirect = min(early.first_indirect, late.first_indirect)
    late.merged = early
    kernels[late.position] = None
    for node in late.nodes:  # what it reads is read earlier now
        note_consumers(program, early, node)
        if early.axes is not None and not early.is_row_kernel:
            early.is_row_kernel = goes_on(program, early, node)
    return True


@cython.cfunc
def note_consumers(program: Program, kernel: Kernel, node: Node) -> cython.void:
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        memref: MemRef = operand(program, node, number)
        below: Kernel = maker(memref)
        if below is None or below is kernel:
            continue
        below.first_consumer = min(below.first_consumer, kernel.position)
        below.last_consumer = max(below.last_consumer, kernel.position)
        if not memref.whole or not equal(memref.shape, node.shape):
            below.first_indirect = min(below.first_indirect, kernel.position)
    if kernel.axes is not None and node.op.kind != _reduce and node.shape != kernel.shape:
        if kernel.extra is None:
            kernel.extra = set()
        kernel.extra.add(node)


@cython.cfunc
def lies_within(kernel: Kernel, memref: MemRef) -> cython.bint:
    """True if a kernel reads this value of its own element by element, or row by row."""
    if memref.whole:
        return True
    return kernel.is_row_kernel and is_row_value(kernel, memref.root) and by_row(kernel, memref)
