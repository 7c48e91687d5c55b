# cython: language_level=3
"""Snapshots of pending nodes, so that they can be computed once more: nodes forget their inputs when they have run.

It takes the pending nodes before and after a backward and keeps their inputs, the buffers that these read, and which
members each batch has. It copies nothing and prevents no fusion: it holds records alone.
"""

import cython
from cython.cimports.weft.engine.frontend.node_factory import new_value
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class PendingSnapshot:
    """`inputs` of each node, `values` that were there, by nodes that own them too, `members` of batches."""

    inputs = cython.declare(dict, visibility="public")
    values = cython.declare(dict, visibility="public")
    members = cython.declare(dict, visibility="public")

    def __cinit__(self):
        self.inputs = {}
        self.values = {}
        self.members = {}

    def take(self, nodes: list):
        """Keep what some pending nodes, and what they read, will need."""
        waiting: list = list(nodes)
        node: Node
        source: Node
        while waiting:
            node = waiting.pop()
            if node in self.inputs or node.inputs is None:
                continue
            self.inputs[node] = node.inputs
            for source in node.inputs:
                if source is None:
                    continue
                if source.state == DONE and source.buffer is not None:
                    self.values[source] = _owner_beside(source)
                elif source.state == PENDING:
                    waiting.append(source)

    def note_members(self):
        """Remember which of the nodes are members of which batch."""
        node: Node
        for node in self.inputs:
            if node.quotient is not None:
                if node.quotient in self.members:
                    cython.cast(list, self.members[node.quotient]).append(node)
                else:
                    self.members[node.quotient] = [node]


def size_of(nodes: list, most: cython.Py_ssize_t) -> tuple:
    """The number of some nodes and their pending ancestors, counted until it is more than `most`, and the bytes of the
    largest value among them and what they read."""
    waiting: list = list(nodes)
    found: set = set(waiting)
    node: Node
    source: Node
    largest: cython.longlong = 0
    while waiting and len(found) <= most:
        node = waiting.pop()
        largest = max(largest, node.numel * node.dtype.itemsize)
        for source in node.inputs or ():
            if source is not None and source not in found:
                largest = max(largest, source.numel * source.dtype.itemsize)
                if source.state == PENDING:
                    found.add(source)
                    waiting.append(source)
    return len(found), largest


@cython.cfunc
def _owner_beside(node: Node) -> Node:
    """Another node of the same value, which keeps its memory from being written."""
    owner: Node = new_value(node.dtype, node.shape, node.buffer, node.offset)
    owner.strides = node.strides
    owner.external_refs = 1  # what reads it once more may not write there either
    return owner
