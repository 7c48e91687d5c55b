# cython: language_level=3
"""Likeness: what makes two recorded operations equal, so that they can run as one.

In come nodes; out go hashes and comparisons of op, params, operand shapes and types, shared operands and gradient
pattern, and of the place in the user's program. Nothing is computed for it, and nothing is changed.
"""

import cython
from cython.cimports.weft.graph.node import DONE, Node
from cython.cimports.weft.graph.rows import OpRow
from cython.cimports.weft.schedule.hashing import equal, mix
from cython.cimports.weft.schedule.likeness import ROW_BYTES

from weft._compiled import require
from weft.graph.rows import SCALAR_ROW, VIEW
from weft.ops.row import TABLE

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
_add_row = cython.declare(OpRow, TABLE["add"])


@cython.cfunc
def identity(node: Node):
    """What makes two operands the same value without computing them: a value, or a view of one."""
    if node.state == DONE:
        if node.row is SCALAR_ROW:
            return (node.dtype.code, repr(node.params))
        return id(node)
    if node.row.kind == VIEW:
        below: Node = node.inputs[0]
        if below.state == DONE:
            if below.row is SCALAR_ROW:
                return (node.row.code, node.params, below.dtype.code, repr(below.params))
            return (id(below), node.row.code, node.params)
    return None


@cython.cfunc
def edge_identity(edge):
    """What makes two gradient edges lead to the same place through the same views."""
    if edge is None:
        return None
    if isinstance(edge, Node):
        node: Node = cython.cast(Node, edge)
        if node.row.kind == VIEW and node.edges is not None and node.observers is None:
            return (node.row.code, node.params, edge_identity(node.edges[0]))
    return id(edge)


@cython.cfunc
def role_of(node: Node, index: cython.Py_ssize_t) -> str:
    """What an operand has to be in a group: "b" any rows, "s" one value, "w" one value or rows of a batch (a column is
    an example's own vector, and no weight)."""
    roles: tuple = node.row.batch_operands
    role: str = roles[index if index < len(roles) else len(roles) - 1]
    if role == "w":
        shape: tuple = cython.cast(Node, node.inputs[index]).shape
        if len(shape) > 0 and shape[len(shape) - 1] == 1:
            return "b"
    return role


@cython.cfunc
def line_of(node: Node) -> cython.longlong:
    """A number for the call in the user's program that recorded a node, and its way through the library."""
    return cython.cast(cython.longlong, cython.cast(cython.p_void, node.code)) + node.offset_in_code


@cython.cfunc
def way_of(node: Node) -> cython.int:
    """A number for the library's frames between the user's line and a node (`graph.frames`); 0 where there are none."""
    return node.offset_in_code >> 18 if node.offset_in_code >= 0 else 0


@cython.cfunc
def hash_of(node: Node) -> cython.ulonglong:
    """A hash of what `alike` compares; of shapes only the sizes."""
    h: cython.ulonglong = mix(1469598103, node.row.code * 8 + len(node.shape))
    h = mix(h, node.numel)
    if node.params is not None:
        h = mix(h, hash(node.params))
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        source: Node = node.inputs[index]
        if source.numel != node.numel:
            h = mix(h, source.numel)
        if role_of(node, index) != "b":
            h = mix(h, address_of(source))
    return h


@cython.cfunc
def address_of(node: Node) -> cython.longlong:
    """Where the value stands that an operand is, or is a view of; 0 for numbers, and where it has to be computed."""
    if node.state != DONE and node.row.kind == _VIEW and node.inputs is not None:
        node = node.inputs[0]
    if node is None or node.state != DONE or node.row is SCALAR_ROW:
        return 0
    return cython.cast(cython.longlong, cython.cast(cython.p_void, node))


@cython.cfunc
def alike(one: Node, other: Node) -> cython.bint:
    """Equal op, params, operand shapes and types, gradient pattern; the same values where they are shared."""
    if (
        one.row is not other.row
        or one.dtype is not other.dtype
        or len(one.inputs) != len(other.inputs)
        or (one.edges is None) != (other.edges is None)
        or not equal(one.shape, other.shape)
        or not equal(one.params, other.params)
    ):
        return False
    index: cython.Py_ssize_t
    for index in range(len(one.inputs)):
        if not operands_alike(one, other, index):
            return False
    return True


@cython.cfunc
def same_line(one: Node, other: Node) -> cython.bint:
    """Whether two nodes were recorded by the same call in the user's program, at the same place in the library."""
    return one.code is other.code and one.offset_in_code == other.offset_in_code


@cython.cfunc
def operands_alike(one: Node, other: Node, index: cython.Py_ssize_t) -> cython.bint:
    """Whether an operand may be shared, or stacked, by two nodes."""
    a: Node = one.inputs[index]
    b: Node = other.inputs[index]
    if a.dtype is not b.dtype or not equal(a.shape, b.shape):
        return False
    if one.edges is not None and (one.edges[index] is None) != (other.edges[index] is None):
        return False
    role: str = role_of(one, index)
    if role == "b":
        if a is b or a.numel * a.dtype.itemsize <= ROW_BYTES:
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
def adds_rows(node: Node) -> cython.bint:
    """Whether an operation is a sum of two whole rows, which a gather adds as it does: each sum rounded once."""
    if node.row is not _add_row or node.dtype.name not in ("float32", "float64"):
        return False
    one: Node = node.inputs[0]
    other: Node = node.inputs[1]
    return (
        one.dtype is node.dtype
        and other.dtype is node.dtype
        and one.shape == node.shape
        and other.shape == node.shape
    )
