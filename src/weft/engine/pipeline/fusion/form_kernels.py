# cython: language_level=3
"""Kernel formation: joins ordered nodes into ordered kernels.

A kernel is a chain of elementwise nodes over one iteration space, with the reductions of that space and the
elementwise nodes of the reduced space after them; a row kernel also has the nodes that read these reductions row by
row (softmax is one). Every other node is a kernel of its own. A kernel comes after the kernels that it reads. Fusion
never changes bits: inside a kernel, too, every value is rounded to its own dtype.
"""

import cython
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.pipeline.fusion.def_use import mark_uses
from cython.cimports.weft.engine.pipeline.fusion.elementwise import join_elementwise
from cython.cimports.weft.engine.pipeline.fusion.reductions import join_reduce
from cython.cimports.weft.engine.pipeline.fusion.regions import (
    append_kernel,
    by_row,
    in_epilogue,
    is_row_value,
    lies_within,
    note_consumers,
)
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    memref_of,
    operand,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE, REDUCE, SOURCE
from weft.errors import VerificationError

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_reduce = cython.declare(cython.int, REDUCE)
_source = cython.declare(cython.int, SOURCE)


@cython.ccall
def form_kernels(program: Program) -> cython.void:
    """Assign every node of the order to a kernel, and say which values leave each."""
    kernels: list = []
    node: Node
    for node in _numbers_first(program):
        kernel: Kernel = None
        if node.op.kind == _elementwise or node.op.kind == _source:
            kernel = join_elementwise(program, kernels, node)
        elif node.op.kind == _reduce:
            kernel = join_reduce(program, kernels, node)
        else:
            kernel = Kernel(node.op.kind, node.shape)
            append_kernel(kernels, kernel)
        kernel.nodes.append(node)
        memref_of(program, node).value.kernel = kernel
        note_consumers(program, kernel, node)
    program.kernels = [k for k in kernels if k is not None]
    mark_uses(program)


@cython.cfunc
def _numbers_first(program: Program) -> list:
    """The order, in front of it the single elements that are computed from existing ones alone, as a mean's factor is:
    what reads one need not wait for it."""
    first: list = []
    known: set = set()
    node: Node
    for node in program.order:
        if node.numel == 1 and node.op.kind == _elementwise and _is_constant(program, node, known):
            first.append(node)
            known.add(node)
    return first + [node for node in program.order if node not in known] if first else program.order


@cython.cfunc
def _is_constant(program: Program, node: Node, known: set) -> cython.bint:
    """True if a node reads only single elements that exist, or that are in `known` as computed from such."""
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        root: Node = operand(program, node, number).root
        if root.numel != 1 or (root.state == PENDING and root not in known):
            return False
    return True


def verify(program: Program):
    """Each node in one kernel; each kernel after those it reads; what is read elsewhere is stored; what a kernel reads
    of its own is there by then."""
    seen: dict = {}
    ranks: dict = {}  # node -> how many of its kernel come before it
    for kernel in program.kernels:
        for rank, node in enumerate(kernel.nodes):
            if node in seen:
                raise VerificationError(
                    "fuse", expected="each node in one kernel", got=f"{node!r} in two"
                )
            seen[node], ranks[node] = kernel, rank
    for kernel in program.kernels:
        for node in kernel.nodes:
            for number in range(len(node.inputs)):
                memref: MemRef = operand(program, node, number)
                root = memref.root
                if root.state != PENDING:
                    continue
                below = seen[root]
                if below is not kernel and (
                    below.position > kernel.position or root not in below.stores
                ):
                    raise VerificationError(
                        "fuse", expected=f"{root!r} stored before {kernel!r}", got=repr(below)
                    )
                if below is kernel:
                    _verify_own(kernel, node, memref, ranks[root] < ranks[node])


@cython.cfunc
def _verify_own(kernel: Kernel, node: Node, memref: MemRef, earlier: cython.bint):
    """That a node may read a value of its own kernel: one before it, in its own region, finished where it is asked
    for."""
    if not earlier:
        raise VerificationError(
            "fuse",
            expected=f"{kernel!r} computes {memref.root!r} before it reads it",
            got=f"{node!r} before that",
        )
    if not lies_within(kernel, memref):
        raise VerificationError(
            "fuse",
            expected=f"{kernel!r} reads its own {memref.root!r} element by element",
            got=f"{node!r} reads another region of it",
        )
    if not _is_finished(kernel, node, memref):
        raise VerificationError(
            "fuse",
            expected=f"{kernel!r} reads its own {memref.root!r} where that is finished",
            got=f"{node!r} reads it elsewhere",
        )


@cython.cfunc
def _is_finished(kernel: Kernel, node: Node, memref: MemRef) -> cython.bint:
    """True if a value of the same kernel is complete when a node is computed: in its body, after its reductions, or in
    a later phase of its rows."""
    behind: cython.bint = in_epilogue(kernel, node)
    if not is_row_value(kernel, memref.root):
        return memref.shape == kernel.shape and not behind
    if behind:
        return memref.shape == node.shape
    if node.op.kind == _reduce:
        return False
    return kernel.is_row_kernel and by_row(kernel, memref)


def text(program: Program):
    """One line per kernel: what it computes and what it stores, and where a chain was cut."""
    lines = []
    for kernel in program.kernels:
        names = " ".join(node.op.name for node in kernel.nodes)
        reduced = "" if kernel.axes is None else f" reduce{list(kernel.axes)}"
        reduced += " rows" if kernel.is_row_kernel else ""
        stores = ", ".join(f"{node.op.name}{list(node.shape)}" for node in kernel.stores)
        lines.append(f"k{kernel.position} {list(kernel.shape)}{reduced}: {names} -> {stores}")
    return "\n".join(lines)
