# cython: language_level=3
"""Signatures: recognising a program that has run before.

In come the pending nodes; out goes a Signature: a hash of their structure and sizes, and the values from outside in
order of first use. Equal hashes are confirmed by full comparison (`matches`), so a collision costs time and never a
wrong program. Numbers in the program are run-time arguments and no part of it.
"""

import cython
from cython.cimports.weft.graph.node import Node

from weft._compiled import require
from weft.graph.node import ROWS, SCALAR_ROW

require(__name__, cython.compiled)

_stamp = cython.declare(cython.longlong, 0)
_OUTSIDE = cython.declare(cython.longlong, 1 << 31)
_LOW = cython.declare(cython.longlong, (1 << 32) - 1)
_ROWS = cython.declare(cython.int, ROWS)


@cython.final
@cython.cclass
class Signature:
    """The structure of a list of pending nodes. `external` are the values read, `nodes` the nodes in order."""

    hash = cython.declare(cython.longlong, visibility="readonly")
    nodes = cython.declare(list, visibility="readonly")
    external = cython.declare(list, visibility="readonly")
    links = cython.declare(list, visibility="readonly")

    def __cinit__(self, nodes: list):
        self.nodes = nodes
        self.external = []
        self.links = []


@cython.cfunc
@cython.inline
def _mix(h: cython.ulonglong, x: cython.longlong) -> cython.ulonglong:
    h = (h ^ cython.cast(cython.ulonglong, x)) * cython.cast(cython.ulonglong, 1099511628211)
    return h ^ (h >> 29)


def signature(nodes: list) -> Signature:
    """The signature of pending nodes (oldest first)."""
    global _stamp
    result: Signature = Signature(nodes)
    h: cython.ulonglong = 1469598103
    position: cython.longlong = 0
    node: Node
    source: Node
    scalars: dict = {}
    _stamp += 1
    for node in nodes:
        node.index = _stamp << 32 | position
        position += 1
    for node in nodes:
        h = _mix(h, node.row.code + (node.live > 0) * 4096 + node.dtype.code * 8192)
        h = _mix(h, hash(node.shape))
        if node.params is not None:
            h = _mix(h, hash(node.params))
        if node.quotient is not None:
            h = _mix(h, _link(result, node.quotient, scalars) * 31 + node.qrow)
        elif node.inputs is not None:
            for source in node.inputs:
                h = _mix(h, _link(result, source, scalars))
        if node.row.kind == _ROWS:
            h = _mix(h, len(node.payload[0]))
    for node in result.external:
        h = _mix(h, node.dtype.code + hash(node.shape))
        if node.strides is not None:
            h = _mix(h, hash(node.strides))
    result.hash = cython.cast(cython.longlong, h >> 1)
    return result


@cython.cfunc
def _link(result: Signature, source: Node, scalars: dict) -> cython.longlong:
    """How an input is named: a pending node by its position, a value from outside by its order of first use. The name
    stands in `index` under the stamp of this signature; `mark` belongs to the walk that may be going on."""
    if source.index >> 32 != _stamp:
        known: Node = None
        if source.row is SCALAR_ROW:
            key = (source.dtype.code, type(source.params), repr(source.params))
            known = scalars.get(key)
            if known is None:
                scalars[key] = source
        if known is not None:
            source.index = known.index
        else:
            result.external.append(source)
            source.index = _stamp << 32 | _OUTSIDE + len(result.external)
    link: cython.longlong = source.index & _LOW
    result.links.append(link)
    return link


@cython.final
@cython.cclass
class Record:
    """What a stored program keeps of the nodes that it was made from, to confirm a match."""

    items = cython.declare(list)
    links = cython.declare(list)
    external = cython.declare(list)

    def __cinit__(self, like: Signature):
        self.links = like.links
        self.items = [_item(node) for node in like.nodes]
        self.external = [_outside(node) for node in like.external]

    def matches(self, other: Signature) -> bool:
        """Full comparison: same rows, params, shapes, dtypes, liveness, wiring, and outside layouts."""
        if (
            len(self.items) != len(other.nodes)
            or self.links != other.links
            or len(self.external) != len(other.external)
        ):
            return False
        index: cython.Py_ssize_t
        for index in range(len(self.items)):
            node: Node = other.nodes[index]
            row, params, dtype, shape, live, payload, qrow = self.items[index]
            if (
                node.row is not row
                or node.dtype is not dtype
                or (node.live > 0) != live
                or node.qrow != qrow
                or node.shape != shape
                or node.params != params
            ):
                return False
            if payload is not None and node.payload != payload:
                return False
        for index in range(len(self.external)):
            if self.external[index] != _outside(other.external[index]):
                return False
        return True


def _item(node: Node):
    payload = node.payload if node.row.kind == ROWS else None
    return node.row, node.params, node.dtype, node.shape, node.live > 0, payload, node.qrow


def _outside(node: Node):
    return node.row is SCALAR_ROW, node.dtype, node.shape, node.strides
