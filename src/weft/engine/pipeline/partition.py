# cython: language_level=3
"""Partitioning by device: the pending nodes of a flush as parts, in an order in which each part finds its operands.

A part is nodes of one device that run as one program, or copies from one device to another. A node is one stage behind
each operand of another part, so that few parts are made: all that can run on a device before anything has to be
fetched is one.
"""

import cython
from cython.cimports.weft.engine.ir.node import PENDING, Node, crosses
from cython.cimports.weft.engine.pipeline.batching.membership import sources

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class DevicePart:
    """Pending nodes, oldest first, of one device; whether they are copies; those that other parts read are `kept`."""

    def __cinit__(self, device: cython.int, copies: cython.bint):
        self.device = device
        self.copies = copies
        self.nodes = []
        self.kept = []

    def __repr__(self):
        return f"<{'copies to' if self.copies else 'part of'} device {self.device}: {self.nodes}>"


def spans_devices(nodes: list) -> bool:
    """True if any node is on another device than the default one."""
    node: Node
    for node in nodes:
        if node.device != 0:
            return True
    return False


def partition(nodes: list) -> list:
    """The parts of pending nodes, in the order in which they can run."""
    stages: dict = {}
    found: dict = {}  # (stage, device, whether it copies) -> its part
    node: Node
    for node in nodes:
        key = (_stage_of(node, stages), node.device, crosses(node))
        part: DevicePart = found.get(key)
        if part is None:
            part = found[key] = DevicePart(key[1], key[2])
        part.nodes.append(node)
    kept: set = set()
    for node in stages:
        key = (stages[node], node.device, crosses(node))
        for source in sources(node):
            other = (stages.get(source), source.device, crosses(source))
            if other[0] is not None and other != key and source not in kept:
                kept.add(source)
                cython.cast(DevicePart, found.get(other, found[key])).kept.append(source)
    return [found[key] for key in sorted(found)]


@cython.cfunc
def _stage_of(start: Node, stages: dict) -> cython.Py_ssize_t:
    """The number of changes of part before a node; noted for all that it waits for."""
    stack: list = [start]
    node: Node
    source: Node
    while stack:
        node = stack[len(stack) - 1]
        left: list = [
            source for source in sources(node) if source.state == PENDING and source not in stages
        ]
        if left and node not in stages:
            stack.extend(left)
            continue
        stack.pop()
        stage: cython.Py_ssize_t = 0
        for source in sources(node):
            if source.state != PENDING:
                continue
            same: cython.bint = source.device == node.device and crosses(source) == crosses(node)
            stage = max(stage, cython.cast(cython.Py_ssize_t, stages[source]) + (not same))
        stages[node] = stage
    return stages[start]
