# cython: language_level=3
"""View folding: each value gets a memory reference, and views leave the order.

It takes an ordered Program and gives its nodes their memory references. A view is a region of the value below it, a
row of a batch a region of the batch, a replaced node the region of its replacement; none of these is computed. A view
that strides cannot express stays in the order, as a copy. Every other node has memory of its own. Equal numbers are
one value.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node, is_live
from cython.cimports.weft.engine.ir.primitive import OF_ELEMENTS, RESHAPE, STRIDED, Primitive
from cython.cimports.weft.engine.ir.tape import finish
from cython.cimports.weft.engine.pipeline.batching.membership import in_ragged
from cython.cimports.weft.engine.pipeline.program_ir import (
    MemRef,
    Program,
    memref_of,
    region,
    row_major,
)

from weft._build.compiled import require
from weft.engine.frontend.node_factory import make_node
from weft.engine.ir.primitive import SCALAR_OP, VIEW
from weft.errors import VerificationError
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_scalar_op = cython.declare(Primitive, SCALAR_OP)
_view = cython.declare(cython.int, VIEW)


@cython.ccall
def fold_views(program: Program) -> cython.void:
    """Give each node of a program its memory reference."""
    numbers: dict = {}
    node: Node
    index: cython.Py_ssize_t
    replaced: cython.bint = len(program.expanded) > 0
    program.order = []
    for index in range(len(program.numbered)):
        node = program.numbered[index]
        if node.state != PENDING:
            _set_value(program, node, numbers)
        elif node.quotient is not None:
            _set_member(program, node)
        elif replaced and program.expanded.get(node) is not None:
            program.set_memref(node, memref_of(program, program.expanded[node]))
        else:
            _set_computed(program, node)
    _note_ends(program)


@cython.cfunc
def _note_ends(program: Program) -> cython.void:
    """List what comes from outside, and what is seen from there afterwards."""
    node: Node
    memref: MemRef
    number: cython.Py_ssize_t
    for number in range(len(program.numbered)):
        node = program.numbered[number]
        memref = program.memrefs[number]
        root: Node = memref.root
        if root.state == DONE and memref.value.slot < 0:
            program.add_external(memref.value)
        if is_live(node):
            if root.state == PENDING:
                memref.value.kept = True
                program.kept.add(root)
            else:
                program.viewed.add(root)


@cython.cfunc
def _set_value(program: Program, node: Node, numbers: dict) -> cython.void:
    """A value that exists: itself, or an equal number met before."""
    if node.op is _scalar_op:
        key = _key_of_number(node)
        other = numbers.get(key)
        if other is None:
            numbers[key] = node
        else:
            program.set_memref(node, memref_of(program, other))
            return
    strides = node.strides
    program.new_value(node, row_major(node.shape) if strides is None else strides)


@cython.cfunc
def _key_of_number(node: Node) -> tuple:
    """A key that equal numbers share; zeros differ by their sign, and a NaN equals itself."""
    number = node.params
    if type(number) is int or (type(number) is float and (number > 0.0 or number < 0.0)):
        return node.dtype.code, type(number), number
    return node.dtype.code, type(number), repr(number)


@cython.cfunc
def _set_member(program: Program, node: Node) -> cython.void:
    """Give a member of a computed batch its memory reference: its rows of the batch."""
    below: MemRef = memref_of(program, node.quotient)
    strides: tuple
    if below.whole and not in_ragged(node):
        strides = row_major(node.shape)
    else:
        strides = below.strides if in_ragged(node) else below.strides[1:]
    start: cython.longlong = below.strides[batch_of(node.quotient).axis]
    program.set_memref(node, region(below, below.offset + node.qrow * start, strides, node.shape))


@cython.cfunc
def _set_computed(program: Program, node: Node) -> cython.void:
    """Give a node that is yet to be computed its memory reference: a region of its operand, or memory of its own."""
    memref: MemRef = None
    if node.op.kind == _view:
        memref = _view_memref(program, node)
    elif len(node.inputs) == 1 and node.op.is_identity_of_one:
        memref = memref_of(program, node.inputs[0])  # of a batch of rows that one gather has made
    elif node.op.sums == OF_ELEMENTS:
        memref = _sum_memref(program, node)
    if memref is None:
        program.new_value(node, row_major(node.shape))
        program.order.append(node)
    else:
        program.set_memref(node, memref)
    program.connect(node)


@cython.cfunc
def _sum_memref(program: Program, node: Node) -> MemRef:
    """The memory reference of a sum over dimensions that a reshape has inserted (the gradient of a bias from one
    vector), or None. Other sums of one element are computed: they turn -0 into 0."""
    source: Node = node.inputs[0]
    if source.op.form != RESHAPE or source.state == DONE or source.numel == 0:
        return None
    if source.dtype is not node.dtype or not equal(
        cython.cast(Node, source.inputs[0]).shape, node.shape
    ):
        return None
    below: MemRef = memref_of(program, source)
    axes, keepdim = node.params
    strides: tuple = tuple(
        [step for axis, step in enumerate(below.strides) if keepdim or axis not in axes]
    )
    return region(below, below.offset, strides, node.shape)


@cython.cfunc
def _view_memref(program: Program, node: Node) -> MemRef:
    """The memory reference of a view that moves nothing; None if the view must be copied."""
    source: Node = node.inputs[0]
    below: MemRef = memref_of(program, source)
    dense: cython.bint = equal(below.strides, row_major(source.shape))
    if dense and node.op.form == RESHAPE:
        return region(below, below.offset, row_major(node.shape), node.shape)
    if node.op.form == STRIDED and not dense:
        copy: Node = make_node(OPS["clone"], (source,), None, source.shape, source.dtype)
        finish(copy)
        _set_computed(program, copy)
        below = memref_of(program, copy)
    strides, offset = node.op.strides(node.params, source.shape, below.strides, below.offset)
    return None if strides is None else region(below, offset, strides, node.shape)


def verify(program: Program):
    """Every node of the order has a value of its own and comes after what it reads; none is there twice."""
    seen: set = set()
    for node in program.order:
        for source in node.inputs:
            root = program.memref(source).root
            if root.state == PENDING and root not in seen:
                raise VerificationError(
                    "fold_views", expected=f"{root!r} before {node!r}", got="after it or missing"
                )
        if node in seen or program.memref(node).root is not node:
            raise VerificationError(
                "fold_views", expected=f"{node!r} once, as a value", got="twice, or in another"
            )
        seen.add(node)
