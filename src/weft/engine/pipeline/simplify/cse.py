# cython: language_level=3
"""Common subexpression elimination (CSE): a value that two nodes compute from the same regions is computed once.

It takes a Program whose nodes have memory references and removes each node that computes what an earlier one does: the
node and its views then refer to the earlier node's value. Concatenations along dimension 0, and sums over the leading
dimensions, of the same memory are also merged where their shapes alone differ.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal, mix
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import CONCAT, OF_ELEMENTS
from cython.cimports.weft.engine.pipeline.program_ir import (
    MemRef,
    Program,
    ProgramValue,
    memref_of,
    operand,
    row_major,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ROWS

require(__name__, cython.compiled)

_rows = cython.declare(cython.int, ROWS)


@cython.ccall
def merge_equal(program: Program) -> cython.void:
    """Compute equal nodes of a program once."""
    known: dict = {}
    merged: cython.bint = False
    node: Node
    other: Node
    for node in program.order:
        if merged:
            _follow_operands(program, node)
        if node.op.kind == _rows:
            continue
        key = _digest(program, node)
        other = known.get(key)
        if other is None:
            known[key] = node
        elif _is_same(program, node, other) or _is_reshaped(program, node, other):
            _merge(program, node, other)
            merged = True
    if merged:
        _forget(program)


@cython.cfunc
def _merge(program: Program, node: Node, other: Node) -> cython.void:
    """Let a node, and all that refers to its value, refer to the value of an equal node."""
    value: ProgramValue = memref_of(program, node).value
    instead: ProgramValue = memref_of(program, other).value
    value.same = instead
    if value.kept:
        instead.kept = True
        program.kept.discard(node)
        program.kept.add(other)


@cython.cfunc
def _follow_operands(program: Program, node: Node) -> cython.void:
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        _follow(operand(program, node, number))


@cython.cfunc
@cython.inline
def _follow(memref: MemRef) -> cython.void:
    """Let a region of a value that an equal one stands for be the same region of that one."""
    if memref.value.same is None:
        return
    memref.value = memref.value.same
    memref.root = memref.value.node
    memref.whole = (
        memref.offset == 0
        and equal(memref.shape, memref.root.shape)
        and equal(memref.strides, row_major(memref.shape))
    )


@cython.cfunc
def _forget(program: Program) -> cython.void:
    """Take merged nodes out of a program."""
    node: Node
    memref: MemRef
    value: ProgramValue
    order: list = []
    values: list = []
    for memref in program.memrefs:
        _follow(memref)
    for node in program.order:
        if memref_of(program, node).root is node:
            order.append(node)
    for value in program.values:
        if value.same is None:
            values.append(value)
    program.values = values
    program.order = order


@cython.cfunc
def _digest(program: Program, node: Node):
    """A number that is the same for two nodes which compute the same."""
    h: cython.ulonglong = mix(node.op.code, node.numel << 8 | node.dtype.code)
    if node.params is not None and not _is_of_rows(node):
        h = mix(h, hash(node.params))
    memref: MemRef
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        memref = operand(program, node, index)
        h = mix(h, cython.cast(cython.longlong, cython.cast(cython.p_void, memref.root)))
        h = mix(h, memref.offset)
    return h


@cython.cfunc
def _is_same(program: Program, node: Node, other: Node) -> cython.bint:
    """True if a node computes the same as an earlier one: one op, params, dtype and shape, of the same regions."""
    if node.op.code != other.op.code or node.dtype is not other.dtype:
        return False
    if len(node.inputs) != len(other.inputs) or not equal(node.shape, other.shape):
        return False
    if not equal(node.params, other.params):
        return False
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        here: MemRef = operand(program, node, index)
        there: MemRef = operand(program, other, index)
        if here is there:
            continue
        if here.root is not there.root or here.offset != there.offset:
            return False
        if not equal(here.strides, there.strides) or not equal(here.shape, there.shape):
            return False
    return True


@cython.cfunc
def _is_reshaped(program: Program, node: Node, other: Node) -> cython.bint:
    """True if a node computes the elements of an earlier one in the same order and only shapes differ: concatenations
    along dimension 0, or sums over the leading dimensions, of the same memory. So the rows of all steps of a recurrent
    loop, which a weight's gradient and the sequence's cotangent both need, are laid out once."""
    if node.op.code != other.op.code or node.dtype is not other.dtype or node.numel != other.numel:
        return False
    if not (_is_of_rows(node) and _is_of_rows(other)) or len(node.inputs) != len(other.inputs):
        return False
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        here: MemRef = operand(program, node, index)
        there: MemRef = operand(program, other, index)
        part: Node = node.inputs[index]
        if here.root is not there.root or here.offset != there.offset:
            return False
        if part.numel != cython.cast(Node, other.inputs[index]).numel:
            return False
        if not (_is_dense(here) and _is_dense(there)):
            return False
    return _is_dense(memref_of(program, other))


@cython.cfunc
@cython.exceptval(check=False)
def _is_of_rows(node: Node) -> cython.bint:
    """True if a node concatenates along dimension 0, or sums over leading dimensions."""
    if node.op.form == CONCAT:
        return node.params[0] == 0
    if node.op.sums != OF_ELEMENTS or node.params[1]:
        return False
    axes: tuple = node.params[0]
    return axes == tuple(range(len(axes)))


@cython.cfunc
@cython.exceptval(check=False)
def _is_dense(memref: MemRef) -> cython.bint:
    return equal(memref.strides, row_major(memref.shape))
