# cython: language_level=3
"""Partitioning: the pending nodes of a flush as programs, in an order in which each of them finds its operands.

A part is nodes of one device that run as one program, or copies from one device to another. A node is one stage behind
each operand of another part, so that few parts are made: all that can run on a device before anything has to be
fetched is one.

A segment is what runs until some collectives can begin, which are under way while the next one runs. Collectives begin
in the order in which they were recorded, small ones together.
"""

import cython
from cython.cimports.weft.engine.ir.node import PENDING, Node, crosses, is_live
from cython.cimports.weft.engine.pipeline.batching.membership import sources

from weft._build.compiled import require
from weft.engine.ir.primitive import COLLECTIVE

require(__name__, cython.compiled)


_collective = cython.declare(cython.int, COLLECTIVE)
SHARES = cython.declare(cython.longlong, 4)  # segments that the bytes of a flush's collectives make
LEAST_SHARE_BYTES = cython.declare(cython.longlong, 1 << 20)


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


# -- collectives -----------------------------------------------------------------------------------------------------


@cython.final
@cython.cclass
class Segment:
    """Pending nodes that run as one, oldest first; the collectives that they read (`awaited`), those that begin behind
    them (`begun`, with the bytes of their operands), and the nodes whose values are `kept` for these and for later
    segments."""

    def __cinit__(self):
        self.nodes, self.awaited, self.kept, self.begun = [], [], [], []

    def __repr__(self):
        return f"<segment {self.nodes}, awaits {self.awaited}, begins {self.begun}>"


@cython.cfunc
def has_collectives(nodes: list) -> cython.bint:
    """True if any node is a collective."""
    node: Node
    for node in nodes:
        if node.op.kind == _collective:
            return True
    return False


def segments(nodes: list) -> list:
    """The segments of pending nodes, in order. The last ones are what somebody holds that reads no collective, and what
    reads them."""
    node: Node
    collectives: list = sorted(
        [node for node in nodes if node.op.kind == _collective], key=lambda node: node.seq
    )
    share: cython.longlong = max(
        sum([_nbytes(node) for node in collectives]) // SHARES, LEAST_SHARE_BYTES
    )
    taken: dict = {}  # node -> its segment
    made: list = [Segment()]
    for node in collectives:
        _begin_behind(node, made, taken, share)
    rest: list = [node for node in nodes if node.op.kind != _collective and node not in taken]
    dependent: set = _readers_of_collectives(rest)
    free: list = [node for node in rest if is_live(node) and node not in dependent]
    for lot in (free, rest):
        made.append(Segment())
        _take(made[len(made) - 1], _needed(lot, taken), taken)
    _note_reads(made, taken)
    position: dict = {node: index for index, node in enumerate(nodes)}
    segment: Segment
    for segment in made:
        segment.nodes.sort(key=lambda node: position.get(node, len(position)))
    return [segment for segment in made if segment.nodes or segment.begun]


@cython.cfunc
def _nbytes(node: Node) -> cython.longlong:
    """The bytes of a collective's operand."""
    source: Node = node.inputs[0]
    return source.numel * source.dtype.itemsize


@cython.cfunc
def _begin_behind(one: Node, made: list, taken: dict, share: cython.longlong) -> cython.void:
    """Let a collective begin behind the last segment, or behind a new one where it waits for one that begins there, or
    that has its share."""
    last: Segment = made[len(made) - 1]
    needed: list = _needed([one], taken)
    waits: cython.bint = any([source in last.begun for node in needed for source in sources(node)])
    if waits or last.nbytes >= share:
        last = Segment()
        made.append(last)
    needed.remove(one)
    _take(last, needed, taken)
    last.begun.append(one)
    last.nbytes += _nbytes(one)


@cython.cfunc
def _take(segment: Segment, nodes: list, taken: dict) -> cython.void:
    """Put nodes into a segment."""
    for node in nodes:
        taken[node] = segment
    segment.nodes.extend(nodes)


@cython.cfunc
def _needed(nodes: list, taken: dict) -> list:
    """The nodes, and what they are computed from, as far as it is pending and in no segment, up to collectives."""
    found: dict = {}
    stack: list = list(nodes)
    node: Node
    source: Node
    while stack:
        node = stack.pop()
        if node in found or node in taken:
            continue
        found[node] = True
        for source in sources(node):
            if source.state == PENDING and source.op.kind != _collective:
                stack.append(source)
    return list(found)


@cython.cfunc
def _readers_of_collectives(nodes: list) -> set:
    """Those of some nodes that are computed from the result of a collective."""
    known: dict = {}
    node: Node
    for start in nodes:
        stack: list = [start]
        while stack:
            node = stack[len(stack) - 1]
            left: list = [s for s in sources(node) if s not in known and _may_wait(s)]
            if left and node not in known:
                known[node] = False  # until its sources are known
                stack.extend(left)
                continue
            stack.pop()
            known[node] = any(
                [
                    s.op.kind == _collective and s.state == PENDING or known.get(s, False)
                    for s in sources(node)
                ]
            )
    return {node for node in nodes if known[node]}


@cython.cfunc
def _may_wait(node: Node) -> cython.bint:
    return node.state == PENDING and node.op.kind != _collective


@cython.cfunc
def _note_reads(made: list, taken: dict) -> cython.void:
    """Note the collectives that each segment waits for, and the values that others keep for it."""
    segment: Segment
    owner: Segment
    node: Node
    source: Node
    kept: set = set()
    for segment in made:
        awaited: dict = {}
        for node in segment.nodes + segment.begun:
            for source in sources(node):
                if source.state != PENDING:
                    continue
                if source.op.kind == _collective:
                    awaited[source] = True
                    continue
                owner = taken[source]
                if (owner is not segment or node.op.kind == _collective) and source not in kept:
                    kept.add(source)
                    owner.kept.append(source)
        segment.awaited.extend(awaited)
