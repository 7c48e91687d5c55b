# cython: language_level=3
"""Operand columns: the operands at one index of all members of a group, as an array in the members' order.

Each column knows what decides how it is packed: whether all members read one value, whether they read rows of one
batch, and in which order. All of it is found in one pass over the members, since a large graph does not fit the
caches.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.ir.prefetch import prefetch_sources
from cython.cimports.weft.engine.pipeline.batching.operand_columns import (
    IN_ORDER,
    NO_ROWS,
    OUT_OF_ORDER,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import VIEW

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
_POSITION_BITS = cython.declare(cython.int, 32)


@cython.final
@cython.no_gc
@cython.cclass
class Column:
    """The operands of a group at one place. They are borrowed: the members have to outlive a column."""

    def __cinit__(self, count: cython.Py_ssize_t):
        self.items = cython.cast(
            cython.pointer(cython.pointer(PyObject)),
            malloc((count + 1) * cython.sizeof(cython.pointer(PyObject))),
        )
        if self.items == cython.NULL:
            raise MemoryError
        self.count = count
        self.same = True
        self.order = NO_ROWS

    def __dealloc__(self):
        free(self.items)

    @cython.cfunc
    @cython.inline
    def at(self, position: cython.Py_ssize_t) -> Node:
        return cython.cast(Node, self.items[position])

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, position: cython.Py_ssize_t, source: Node) -> cython.void:
        self.items[position] = cython.cast(cython.pointer(PyObject), source)
        if self.items[position] != self.items[0]:
            self.same = False

    @cython.cfunc
    @cython.exceptval(check=False)
    def hash(self) -> cython.ulonglong:
        """A hash of which operands these are."""
        h: cython.ulonglong = mix(1469598103, self.count)
        position: cython.Py_ssize_t
        for position in range(self.count):
            h = mix(h, cython.cast(cython.longlong, self.items[position]))
        return h

    @cython.cfunc
    def order_of_rows(self) -> list:
        """The order of the members in which the rows that they read here ascend."""
        keys: list = []
        position: cython.Py_ssize_t
        for position in range(self.count):
            row: cython.longlong = below_views(self.at(position)).qrow
            keys.append((row << _POSITION_BITS) + position)
        keys.sort()
        mask: cython.longlong = (cython.cast(cython.longlong, 1) << _POSITION_BITS) - 1
        return [cython.cast(cython.longlong, key) & mask for key in keys]

    @cython.cfunc
    def arrange(self, order_of_rows: list) -> cython.void:
        """Put operands in another order of the members."""
        nbytes: cython.size_t = self.count * cython.sizeof(cython.pointer(PyObject))
        previous: Column = Column(self.count)
        memcpy(previous.items, self.items, nbytes)
        position: cython.Py_ssize_t
        for position in range(self.count):
            self.items[position] = previous.items[
                cython.cast(cython.Py_ssize_t, order_of_rows[position])
            ]


@cython.cfunc
@cython.exceptval(check=False)
def same_operands(one: Column, other: Column) -> cython.bint:
    """True if two columns have the same operands in the same order."""
    nbytes: cython.size_t = one.count * cython.sizeof(cython.pointer(PyObject))
    return one.count == other.count and memcmp(one.items, other.items, nbytes) == 0


@cython.cfunc
def read_columns(members: list, arity: cython.Py_ssize_t) -> list:
    """The columns of all operands of a group."""
    count: cython.Py_ssize_t = len(members)
    columns: list = [Column(count) for _ in range(arity)]
    node: Node
    position: cython.Py_ssize_t
    index: cython.Py_ssize_t
    for index in range(arity):
        cython.cast(Column, columns[index]).order = IN_ORDER
    for position in range(count):
        prefetch_sources(members, position)
        node = members[position]
        for index in range(arity):
            _read_operand(columns[index], position, node.inputs[index])
    return columns


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_operand(column: Column, position: cython.Py_ssize_t, source: Node) -> cython.void:
    """Add one operand, and see whether it goes on from the row of the one before."""
    before: Node
    column.put(position, source)
    if source.op.kind == _VIEW:
        column.viewed = True
    if column.order == NO_ROWS:
        return
    source = below_views(source)
    if source.quotient is None or source.state != PENDING:
        column.order = NO_ROWS
    elif position > 0:
        before = below_views(column.at(position - 1))
        if before.quotient is not source.quotient:
            column.order = NO_ROWS
        elif source.qrow < before.qrow:
            column.order = OUT_OF_ORDER


@cython.cfunc
def column_of(sources: list) -> Column:
    """The column of operands in a list, which has to outlive it."""
    column: Column = Column(len(sources))
    position: cython.Py_ssize_t
    for position in range(len(sources)):
        source: Node = sources[position]
        column.put(position, source)
        if source.op.kind == _VIEW:
            column.viewed = True
    return column


@cython.cfunc
@cython.inline
def below_views(node: Node) -> Node:
    """The node below the pending views that have no rows of their own."""
    while node.op.kind == _VIEW and node.quotient is None and node.state == PENDING:
        node = node.inputs[0]
    return node
