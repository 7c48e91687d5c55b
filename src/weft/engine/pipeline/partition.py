# cython: language_level=3
"""Partitioning: the pending nodes of a flush as programs, in an order in which each of them finds its operands.

A part is nodes of one device that run as one program, or copies from one device to another. A node is one stage behind
each operand of another part, so that few parts are made: all that can run on a device before anything has to be
fetched is one.

A segment is what runs until some collectives can begin, which are under way while the next one runs. Collectives begin
in the order in which they were recorded, small ones together. Those that make much of little (`all_gather`) do not all
begin at once, as their operands would allow: neighbours among them that are recorded before anything reads one begin
behind what was recorded before the neighbours ahead of them, so that two such lots at most are in memory.
"""

import cython
from cython.cimports.weft.engine.ir.node import PENDING, Node, crosses, is_live
from cython.cimports.weft.engine.pipeline.batching.membership import sources

from weft._build.compiled import require
from weft.engine.ir.primitive import COLLECTIVE
from weft.engine.ir.tape import rejoin

require(__name__, cython.compiled)


_collective = cython.declare(cython.int, COLLECTIVE)
SHARES = cython.declare(cython.longlong, 4)  # segments that the bytes of a flush's collectives make
LEAST_SHARE_BYTES = cython.declare(cython.longlong, 1 << 20)


@cython.final
@cython.cclass
class DevicePart:
    """Pending nodes, oldest first, of one device; whether they are copies; those that other parts read are
    `kept`, and so are computed values that later parts read too."""

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
    """The parts of pending nodes, in the order in which they can run. A member of a batch that is copied to another
    device, and left its tape with the batch, is on it again: it needs a value of its own."""
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
                part = found.get(other, found.get(key))
                if _has_left(source):
                    rejoin(source, node)
                    part.nodes.append(source)
                part.kept.append(source)
    _keep_shared_values(stages, found)
    return [found[key] for key in sorted(found)]


@cython.cfunc
def _keep_shared_values(stages: dict, found: dict) -> cython.void:
    """Let the first part that reads a computed value keep it if others read it too: it may not write over it."""
    readers: dict = {}  # value -> the keys of the parts that read it
    node: Node
    source: Node
    for node in stages:
        for source in sources(node):
            if source.state != PENDING and source.buffer is not None:
                readers.setdefault(source, set()).add((stages[node], node.device, crosses(node)))
    for source, keys in readers.items():
        made: list = sorted([key for key in keys if key in found])
        if len(made) > 1:
            cython.cast(DevicePart, found[made[0]]).kept.append(source)


@cython.cfunc
def _has_left(node: Node) -> cython.bint:
    return node.tape == cython.NULL


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
    segments: those that it makes, or is the first to read. `finished` are such, and collectives, that nothing behind it
    reads."""

    def __cinit__(self):
        self.nodes, self.awaited, self.kept, self.begun, self.finished = [], [], [], [], []

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
    awaited: dict = _last_awaited(nodes, {node: n for n, node in enumerate(collectives)})
    useful: list = _useful(nodes, collectives)
    bounds: dict = _bounds(nodes)
    for number, node in enumerate(collectives):
        if node in bounds:
            _catch_up(bounds[node], [n for n in useful if awaited[n] < number], made, taken)
        _begin_behind(node, made, taken, share)
    rest: list = [node for node in nodes if node.op.kind != _collective and node not in taken]
    free: list = [node for node in rest if is_live(node) and awaited[node] < 0]
    for lot in (free, rest):
        made.append(Segment())
        _take(made[len(made) - 1], _needed(lot, taken), taken)
    _note_reads(made, taken, set(useful))
    position: dict = {node: index for index, node in enumerate(nodes)}
    segment: Segment
    for segment in made:
        segment.nodes.sort(key=lambda node: position.get(node, len(position)))
    return [segment for segment in made if segment.nodes or segment.begun]


def is_in_order(made: list) -> bool:
    """True if each segment waits for none but collectives that begin before it. A batch of nodes that wait for several
    may stand before some of them."""
    segment: Segment
    late: set = {node for segment in made for node in segment.begun}
    for segment in made:
        if not late.isdisjoint(segment.awaited):
            return False
        late.difference_update(segment.begun)
    return True


@cython.cfunc
def _useful(nodes: list, collectives: list) -> list:
    """The nodes that somebody holds, or that other processes wait for, and what they are computed from; in the order of
    recording, without the collectives."""
    wanted: list = [node for node in nodes if is_live(node) and node.op.kind != _collective]
    found: dict = dict.fromkeys(_needed(wanted, {}))
    found.update(dict.fromkeys(_needed(collectives, found)))
    return sorted([node for node in found if node.op.kind != _collective], key=_sequence)


def _sequence(node: Node) -> int:
    return node.seq


@cython.cfunc
def _expands(node: Node) -> cython.bint:
    """True if a node is a collective that makes much of little."""
    return node.op.kind == _collective and node.numel > cython.cast(Node, node.inputs[0]).numel


@cython.cfunc
def _bounds(nodes: list) -> dict:
    """For each collective that expands: when the first of the lot ahead of its own was recorded (`Node.seq`)."""
    node: Node
    found: dict = {}
    lot: set = set()
    is_read: cython.bint = True
    first: cython.longlong = -1
    before: cython.longlong = -1
    for node in sorted(nodes, key=_sequence):
        if _expands(node):
            if is_read:
                before, first = first, node.seq
                lot, is_read = set(), False
            lot.add(node)
            found[node] = before
        elif not is_read and node.inputs is not None:
            is_read = any([source in lot for source in node.inputs])
    return found


@cython.cfunc
def _catch_up(bound: cython.longlong, nodes: list, made: list, taken: dict) -> cython.void:
    """Put those nodes that were recorded before a bound into a segment."""
    last: Segment = made[len(made) - 1]
    needed: list = _needed([node for node in nodes if node.seq < bound], taken)
    if needed and last.begun:
        last = Segment()
        made.append(last)
    _take(last, needed, taken)


@cython.cfunc
def _nbytes(node: Node) -> cython.longlong:
    """The bytes of a collective's operand."""
    source: Node = node.inputs[0]
    return source.numel * source.dtype.itemsize


@cython.cfunc
def _begin_behind(one: Node, made: list, taken: dict, share: cython.longlong) -> cython.void:
    """Let a collective begin behind the last segment, or behind a new one where it waits for one that begins there, or
    that has its share, or where there is something to do while one expands."""
    last: Segment = made[len(made) - 1]
    needed: list = _needed([one], taken)
    waits: cython.bint = any([source in last.begun for node in needed for source in sources(node)])
    expands: cython.bint = len(needed) > 1 and any([_expands(node) for node in last.begun])
    if waits or expands or last.nbytes >= share:
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
def _last_awaited(nodes: list, numbers: dict) -> dict:
    """For nodes and what they are computed from: the greatest number of a collective that they wait for, or -1."""
    known: dict = {}
    node: Node
    source: Node
    for start in nodes:
        stack: list = [start]
        while stack:
            node = stack[len(stack) - 1]
            left: list = [s for s in sources(node) if s not in known and _is_pending(s)]
            if left and node not in known:
                known[node] = -1  # until its sources are known
                stack.extend(left)
                continue
            stack.pop()
            last: cython.Py_ssize_t = numbers.get(node, -1)
            for source in sources(node):
                last = max(last, known.get(source, -1))
            known[node] = last
    return known


@cython.cfunc
def _is_pending(node: Node) -> cython.bint:
    return node.state == PENDING


@cython.cfunc
def _note_reads(made: list, taken: dict, useful: set) -> cython.void:
    """Note the collectives that each segment waits for, the values that are kept because others read them too, and
    those that a segment is the last to read of what is useful."""
    segment: Segment
    owner: Segment
    node: Node
    source: Node
    owners: dict = dict(taken)  # of a value that no segment makes, the first that reads it
    kept: set = set()
    last: dict = {}
    for segment in made:
        awaited: dict = {}
        for node in segment.nodes + segment.begun:
            reads: cython.bint = node in useful or node.op.kind == _collective
            for source in sources(node):
                if source.state != PENDING and source.buffer is None:
                    continue
                if source.state == PENDING and source.op.kind == _collective:
                    awaited[source] = True
                if reads:
                    last[source] = segment
                owner = owners.setdefault(source, segment)
                if (owner is not segment or node.op.kind == _collective) and source not in kept:
                    kept.add(source)
                    owner.kept.append(source)
        segment.awaited.extend(awaited)
    for source in last:
        if source in kept or source.op.kind == _collective:
            cython.cast(Segment, last[source]).finished.append(source)
