# cython: language_level=3
"""The batching key: a hash of each operation, and an exact comparison of two, that decide whether they can run as one.

Both cover op, params, operand shapes and dtypes, shared operands, the gradient pattern and the call site. Nothing is
computed for them, and no node is changed.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal, mix
from cython.cimports.weft.engine.devices.api import device_at
from cython.cimports.weft.engine.devices.tuning import Batching
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node, observers_on
from cython.cimports.weft.engine.ir.primitive import OF_OPERANDS, SLICES, Primitive

from weft._build.compiled import require
from weft.engine.ir.primitive import CONTRACT, ELEMENTWISE, INDEX, MACRO, SCALAR_OP, VIEW

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
_ELEMENTWISE = cython.declare(cython.int, ELEMENTWISE)
_CONTRACT = cython.declare(cython.int, CONTRACT)
_MACRO = cython.declare(cython.int, MACRO)
_INDEX = cython.declare(cython.int, INDEX)


@cython.cfunc
def tuning_of(node: Node) -> Batching:
    """The thresholds of the device that a node runs on."""
    return device_at(node.device).tuning.batching


@cython.cfunc
def identity(node: Node):
    """A key that is equal for operands that are one value by construction: the same computed value, or the same view
    of one. None for operands that have yet to be computed."""
    if node.state == DONE:
        if node.op is SCALAR_OP:
            return (node.dtype.code, repr(node.params))
        return id(node)
    if node.op.kind == VIEW:
        below: Node = node.inputs[0]
        if below.state == DONE:
            if below.op is SCALAR_OP:
                return (node.op.code, node.params, below.dtype.code, repr(below.params))
            return (id(below), node.op.code, node.params)
    return None


@cython.cfunc
def edge_identity(edge):
    """A key that is equal for gradient edges that lead to the same record through the same views."""
    if edge is None:
        return None
    if isinstance(edge, Node):
        node: Node = cython.cast(Node, edge)
        if node.op.kind == VIEW and node.edges is not None and observers_on(node) is None:
            return (node.op.code, node.params, edge_identity(node.edges[0]))
    return id(edge)


@cython.cfunc
def most_bytes(node: Node) -> cython.longlong:
    """The size in bytes up to which a node and its operands may be batched. It is larger for row-independent
    operations, whose rows need not be copied."""
    row_independent: cython.bint = node.op.is_row_independent is not None and len(node.shape) > 1
    tuning: Batching = tuning_of(node)
    return tuning.batched_row_bytes if row_independent else tuning.row_bytes


@cython.cfunc
def operand_role(node: Node, index: cython.Py_ssize_t) -> str:
    """The role of an operand in a group: "b" any rows, "s" one shared value, "w" one shared value or rows of a batch.
    A column vector is "b": it belongs to an example, and is no weight."""
    roles: tuple = node.op.batch_operands
    role: str = roles[index if index < len(roles) else len(roles) - 1]
    if role == "w":
        shape: tuple = cython.cast(Node, node.inputs[index]).shape
        if len(shape) > 0 and shape[len(shape) - 1] == 1:
            return "b"
    return role


@cython.cfunc
def call_site_hash(node: Node) -> cython.longlong:
    """A number for the instruction of the user's program that recorded a node, and its library site."""
    line: cython.longlong = cython.cast(cython.longlong, cython.cast(cython.p_void, node.code))
    return line + node.offset_in_code + (cython.cast(cython.longlong, node.library_site) << 16)


@cython.cfunc
def batch_hash(node: Node) -> cython.ulonglong:
    """A hash of what `is_batchable_with` compares: of shapes the sizes, where heights may differ those of a row."""
    h: cython.ulonglong = mix(1469598103 + node.device, node.op.code * 8 + len(node.shape))
    if joins_tables(node):
        return mix(h, node.numel // cython.cast(cython.longlong, node.shape[0]))
    rows: cython.bint = node.op.is_row_independent is not None and len(node.shape) > 1
    h = mix(h, _width_of(node) if rows else node.numel)
    if node.params is not None:
        h = mix(h, hash(node.params))
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        source: Node = node.inputs[index]
        if rows and len(source.shape) == len(node.shape):
            h = mix(h, _width_of(source))
        elif not rows and source.numel != node.numel:
            h = mix(h, source.numel)
        if operand_role(node, index) != "b":
            h = mix(h, _shared_identity(node, index))
    return h


@cython.cfunc
def _shared_identity(node: Node, index: cython.Py_ssize_t) -> cython.longlong:
    """A number for an operand that is not any row: `address_of`, and where only the operand itself will do because it
    has to be computed, its own: what reads values between writes to them is not compared with all the others."""
    source: Node = node.inputs[index]
    address: cython.longlong = address_of(source)
    if address == 0 and operand_role(node, index) == "s" and identity(source) is None:
        return cython.cast(cython.longlong, cython.cast(cython.p_void, source))
    return address


@cython.cfunc
@cython.inline
def _width_of(node: Node) -> cython.longlong:
    """The size of the last dimension."""
    return node.shape[len(node.shape) - 1]


@cython.cfunc
def address_of(node: Node) -> cython.longlong:
    """The address of the computed node that an operand is, or is a view of; 0 for numbers, and for operands yet to be
    computed."""
    if node.state != DONE and node.op.kind == _VIEW and node.inputs is not None:
        node = node.inputs[0]
    if node is None or node.state != DONE or node.op is SCALAR_OP:
        return 0
    return cython.cast(cython.longlong, cython.cast(cython.p_void, node))


@cython.cfunc
def is_batchable_with(one: Node, other: Node) -> cython.bint:
    """Equal op, params, operand shapes and types, gradient pattern; the same values where they are shared. Operations
    whose rows do not know each other may differ in height, and those that save nothing in which operands have a
    gradient."""
    if (
        one.op is not other.op
        or one.device != other.device
        or one.dtype is not other.dtype
        or len(one.inputs) != len(other.inputs)
        or (one.edges is None) != (other.edges is None)
        or not equal(one.params, other.params)
    ):
        return False
    joins: cython.bint = joins_tables(one)
    if joins != joins_tables(other):
        return False
    if joins:
        return _tables_alike(one, other)
    if not equal(one.shape, other.shape):
        return _rows_alike(one, other)
    index: cython.Py_ssize_t
    for index in range(len(one.inputs)):
        if not operands_alike(one, other, index):
            return False
    return True


@cython.cfunc
def same_call_site(one: Node, other: Node) -> cython.bint:
    """True if two nodes were recorded by the same call in the user's program, as the same operation of it."""
    return (
        one.code is other.code
        and one.offset_in_code == other.offset_in_code
        and one.library_site == other.library_site
    )


@cython.cfunc
def operands_alike(one: Node, other: Node, index: cython.Py_ssize_t) -> cython.bint:
    """True if two nodes can share or stack their operands at `index`."""
    a: Node = one.inputs[index]
    b: Node = other.inputs[index]
    if a.dtype is not b.dtype or not equal(a.shape, b.shape):
        return False
    if (edge_matters(one, index) or edge_matters(other, index)) and (
        (one.edges[index] is None) != (other.edges[index] is None)
    ):
        return False
    role: str = operand_role(one, index)
    if role == "b":
        if a is b or a.numel * a.dtype.itemsize <= most_bytes(one):
            return True
        same = identity(a)
        return same is not None and same == identity(b)
    if a is not b:
        same = identity(a)
        if role == "s" and same is None:
            return False
        if same != identity(b):
            return False
    else:
        same = True
    if same is None or one.edges is None or one.edges[index] is other.edges[index]:
        return True
    return edge_identity(one.edges[index]) == edge_identity(other.edges[index])


@cython.cfunc
@cython.exceptval(-1, check=False)
def edge_matters(node: Node, index: cython.Py_ssize_t) -> cython.bint:
    """True if equal operations must agree on whether this operand has a gradient: where it decides the residuals, or
    where the operand is shared. Elsewhere one rule serves operands with and without a gradient."""
    return node.edges is not None and (node.residual_mask != 0 or operand_role(node, index) != "b")


# -- of different heights --------------------------------------------------------------------------------------------


@cython.cfunc
def operand_axis(
    node: Node, index: cython.Py_ssize_t, axis: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The dimension of an operand that has a row for each row of a node along a dimension of its result; -1 where the
    operand is the same for all rows."""
    source: Node = node.inputs[index]
    kind: cython.int = node.op.kind
    rank: cython.Py_ssize_t = len(source.shape)
    own: cython.Py_ssize_t = axis
    if kind == _ELEMENTWISE:
        own -= len(node.shape) - rank
    elif kind in (_CONTRACT, _MACRO) and rank != len(node.shape):
        return -1
    if own < 0 or own >= rank or source.shape[own] != node.shape[axis]:
        return -1
    if operand_role(node, index) != "b" or not _ones_before(source.shape, own):
        return -1
    return own


@cython.cfunc
def _ones_before(shape: tuple, axis: cython.Py_ssize_t) -> cython.bint:
    """True if all dimensions before `axis` have one element."""
    before: cython.Py_ssize_t
    for before in range(axis):
        if shape[before] != 1:
            return False
    return True


@cython.cfunc
def axis_between(one: tuple, other: tuple) -> cython.Py_ssize_t:
    """The only dimension in which two shapes differ, with rows behind it and nothing but 1 before it; -1 else."""
    rank: cython.Py_ssize_t = len(one)
    axis: cython.Py_ssize_t = 0
    if len(other) != rank:
        return -1
    while axis < rank and one[axis] == other[axis]:
        if one[axis] != 1:
            return -1
        axis += 1
    if axis >= rank - 1 or one[axis] == 0 or other[axis] == 0:
        return -1
    return axis if one[axis + 1 :] == other[axis + 1 :] else -1


@cython.cfunc
def _rows_alike(one: Node, other: Node) -> cython.bint:
    """True if two nodes of one op, dtype and params differ in their height alone, and their operands do, too."""
    if one.op.is_row_independent is None:
        return False
    axis: cython.Py_ssize_t = axis_between(one.shape, other.shape)
    if axis < 0:
        return False
    shapes: list = []
    source: Node
    index: cython.Py_ssize_t
    for index in range(len(one.inputs)):
        source = one.inputs[index]
        if source.dtype is not cython.cast(Node, other.inputs[index]).dtype:
            return False
        if not _rows_of_both(one, other, index, axis) and not same_for_all(one, other, index):
            return False
        shapes.append(source.shape)
    return one.op.is_row_independent(one.params, shapes, axis)


@cython.cfunc
def _rows_of_both(
    one: Node, other: Node, index: cython.Py_ssize_t, axis: cython.Py_ssize_t
) -> cython.bint:
    """True if an operand of one node may be laid behind that of the other: their rows have equal shapes."""
    if one.edges is not None and (one.edges[index] is None) != (other.edges[index] is None):
        return False
    own: cython.Py_ssize_t = operand_axis(one, index, axis)
    if own < 0 or own != operand_axis(other, index, axis):
        return False
    a: tuple = cython.cast(Node, one.inputs[index]).shape
    b: tuple = cython.cast(Node, other.inputs[index]).shape
    return len(a) == len(b) and a[own + 1 :] == b[own + 1 :]


@cython.cfunc
def same_for_all(one: Node, other: Node, index: cython.Py_ssize_t) -> cython.bint:
    """True if an operand of two nodes is one value, with one gradient edge."""
    a: Node = one.inputs[index]
    b: Node = other.inputs[index]
    if a is not b:
        same = identity(a)
        if same is None or same != identity(b):
            return False
    if one.edges is None or one.edges[index] is other.edges[index]:
        return True
    return edge_identity(one.edges[index]) == edge_identity(other.edges[index])


# -- of tables of their own ------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def joins_tables(node: Node) -> cython.bint:
    """True if a node may read or write rows of its own table in a union of tables: its indices are known to be in
    range, table and rows are small, and a table that is only read has yet to be computed, so that it may lie behind
    others."""
    op: Primitive = node.op
    if op.form != SLICES or node.may_fail or node.params[0] != 0 or node.numel == 0:
        return False
    table: Node = node.inputs[0]
    index: Node = node.inputs[1]
    tuning: Batching = tuning_of(node)
    if len(index.shape) != 1 or not 0 < index.numel <= tuning.most_joined_indices:
        return False
    if op.kind == _INDEX and table.state != PENDING:
        return False
    most: cython.longlong = tuning.row_bytes // node.dtype.itemsize
    return 0 < table.numel <= most and node.numel <= most


@cython.cfunc
def _tables_alike(one: Node, other: Node) -> cython.bint:
    """True if two nodes that may be in a union of tables may be in one: rows are of one shape and type."""
    a: Node
    b: Node
    index: cython.Py_ssize_t
    for index in range(len(one.inputs)):
        a, b = one.inputs[index], other.inputs[index]
        if a.dtype is not b.dtype or a.shape[1:] != b.shape[1:]:
            return False
        if one.edges is not None and (one.edges[index] is None) != (other.edges[index] is None):
            return False
    return True


@cython.cfunc
def adds_rows(node: Node) -> cython.bint:
    """True if an operation adds two values of its own shape and dtype, so that a segment gather can do it with the
    same bits: each sum is rounded once."""
    if node.op.sums != OF_OPERANDS or node.dtype.name not in ("float32", "float64"):
        return False
    one: Node = node.inputs[0]
    other: Node = node.inputs[1]
    return (
        one.dtype is node.dtype
        and other.dtype is node.dtype
        and one.shape == node.shape
        and other.shape == node.shape
    )


@cython.cfunc
def is_one_gather(node: Node) -> cython.bint:
    """True if a node joins blocks of equal shape along dimension 0: the blocks of all members are then rows of one
    gather."""
    source: Node
    first: Node = node.inputs[0]
    for source in node.inputs:
        if source.shape != first.shape:
            return False
    return node.params[0] == 0 and first.numel > 0
