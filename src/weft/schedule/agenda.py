# cython: language_level=3
"""The agenda: which pending operations can run as one, and in which order.

In come recorded nodes, oldest first; out go groups of nodes of equal signature (op, params, operand shapes and types,
shared operands, gradient pattern, the user's line and the way from there through the library), each after the groups
that it reads from. First come signatures of which every node is ready, then the one with the longest way still to go:
so equal operations at different depths meet, and what many paths end in (a loss) waits until all have come. The line is
part of the signature because the operations of one cell then stay row by row beside each other, and fuse. What runs by
itself is in no group. The quotients are made in `batch`.
"""

import heapq

import cython
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.weft.graph.node import DONE, PENDING, Node
from cython.cimports.weft.graph.prefetch import prefetch_inputs
from cython.cimports.weft.graph.rows import OpRow
from cython.cimports.weft.schedule.hashing import equal, mix

from weft._compiled import require
from weft.graph.rows import ELEMENTWISE, SCALAR_ROW, SOURCE, VIEW

require(__name__, cython.compiled)

_ROW_BYTES = cython.declare(cython.longlong, 32768)  # larger rows gain nothing from company
_SOURCE = cython.declare(cython.int, SOURCE)
_VIEW = cython.declare(cython.int, VIEW)
_ELEMENTWISE = cython.declare(cython.int, ELEMENTWISE)
_RECENT = cython.declare(cython.int, 256)
# Smaller groups cost more in gathering than they save.
_LEAST_ROWS = cython.declare(cython.Py_ssize_t, 3)
_LEAST_LONE = cython.declare(cython.Py_ssize_t, 8)


@cython.final
@cython.no_gc
@cython.cclass
class Signature:
    """The nodes of equal signature: how many have not run, which are ready, the longest way to go from one of those."""

    first = cython.declare(Node)
    number = cython.declare(cython.Py_ssize_t)
    remaining = cython.declare(cython.Py_ssize_t)
    ready = cython.declare(list)
    height = cython.declare(cython.int)
    others = cython.declare(list)  # signatures that differ in the line only, itself among them
    facts = cython.declare(tuple)  # what `weft.explain` says of it, once it has been asked for

    def __cinit__(self, first: Node, number: cython.Py_ssize_t, others: list):
        self.first = first
        self.number = number
        self.ready = []
        self.others = others
        others.append(self)


@cython.final
@cython.cclass
class Agenda:
    """One run over the pending nodes: signatures, readers of each node, what is ready."""

    nodes = cython.declare(list)
    signatures = cython.declare(list)  # one per node; None runs by itself
    table = cython.declare(dict)
    recent = cython.declare(list)  # per slot of a line: the signature that was found last
    families = cython.declare(dict)
    heap = cython.declare(list)
    alone = cython.declare(list)  # ready nodes that run by themselves
    distinct = cython.declare(cython.Py_ssize_t)
    crowded = cython.declare(cython.bint)  # some signature has enough nodes for a group
    height = cython.declare(
        cython.p_int
    )  # per node: the longest way to a live value; 0 for the dead
    waits = cython.declare(cython.p_int)  # per node: operands that have not run
    starts = cython.declare(cython.p_int)  # per node: where its readers begin in `readers`
    readers = cython.declare(cython.p_int)
    needed = cython.declare(cython.p_char)  # per node: whether something outside holds its value
    joined = cython.declare(cython.p_char)  # per node: whether it is in a group
    pairs = cython.declare(cython.p_int)  # where an operand stands, and where its reader does
    filled = cython.declare(cython.Py_ssize_t)
    room = cython.declare(cython.Py_ssize_t)
    notes = cython.declare(
        list
    )  # for `weft.explain`: what was taken, in order; None where nobody asks
    later = cython.declare(
        list
    )  # (where a reader stands, its operand): operands met after their readers

    def __cinit__(self, nodes: list, notes: list | None):
        count: cython.size_t = len(nodes)
        self.nodes = nodes
        self.notes = notes
        self.signatures = [None] * len(nodes)
        self.table = {}
        self.recent = [None] * _RECENT
        self.families = {}
        self.heap = []
        self.alone = []
        self.later = []
        self.height = cython.cast(cython.p_int, calloc(count + 1, cython.sizeof(cython.int)))
        self.waits = cython.cast(cython.p_int, calloc(count + 1, cython.sizeof(cython.int)))
        self.starts = cython.cast(cython.p_int, calloc(count + 2, cython.sizeof(cython.int)))
        self.needed = cython.cast(cython.p_char, calloc(count + 1, 1))
        self.joined = cython.cast(cython.p_char, calloc(count + 1, 1))
        if (
            self.height == cython.NULL
            or self.waits == cython.NULL
            or self.starts == cython.NULL
            or self.needed == cython.NULL
            or self.joined == cython.NULL
        ):
            raise MemoryError

    def __dealloc__(self):
        free(self.height)
        free(self.waits)
        free(self.starts)
        free(self.readers)
        free(self.needed)
        free(self.joined)
        free(self.pairs)

    @cython.cfunc
    def place_of(self, source: Node) -> cython.longlong:
        """Where an operand, or the batch that it is a row of, stands among the nodes; -1 where it is computed."""
        place: cython.longlong = source.index
        if place < len(self.nodes) and self.nodes[place] is source:
            return place
        if source.quotient is not None and source.state == PENDING:
            return self.place_of(source.quotient)
        return -1

    @cython.cfunc
    def read(self) -> cython.void:
        """Look at every node once, oldest first: give it a signature if it has not been considered before, and note
        what it waits for. A large graph does not fit the caches: to look at it twice would take twice as long."""
        position: cython.Py_ssize_t
        node: Node
        source: Node
        signature: Signature
        for position in range(len(self.nodes)):
            prefetch_inputs(self.nodes, position)
            node = self.nodes[position]
            node.index = position
            self.needed[position] = node.live > 0
            if not node.considered and node.state == PENDING:
                node.considered = True
                if may_join(node):
                    signature = self.signature_of(node)
                    signature.remaining += 1
                    self.crowded = self.crowded or signature.remaining >= _LEAST_ROWS
                    self.signatures[position] = signature
            if node.quotient is not None:
                self.await_operand(position, node.quotient, True)
            elif node.inputs is not None:
                for source in node.inputs:
                    self.await_operand(position, source, True)

    @cython.cfunc
    @cython.inline
    def await_operand(
        self, position: cython.Py_ssize_t, source: Node, again: cython.bint
    ) -> cython.void:
        """Note that a node waits for an operand, unless that is computed already."""
        if source is None or source.state != PENDING:
            return
        place: cython.longlong = self.place_of(source)
        if place >= 0:
            self.note_pair(place, position)
        elif again:
            self.later.append((position, source))

    @cython.cfunc
    def signature_of(self, node: Node) -> Signature:
        """The signature of a node: that of the last one of its line, as a rule; else found by hash. Confirmed by
        comparison."""
        slot: cython.Py_ssize_t = mix(line_of(node), node.row.code) % _RECENT
        recent: Signature = self.recent[slot]
        if recent is None or not same_line(recent.first, node) or not alike(recent.first, node):
            recent = self.recent[slot] = self.look_up(node)
        return recent

    @cython.cfunc
    def look_up(self, node: Node) -> Signature:
        """The signature of a node, by hash; a new one where there is none."""
        base: cython.ulonglong = hash_of(node)
        key = cython.cast(cython.longlong, mix(base, line_of(node)) >> 1)
        candidates: list = self.table.get(key)
        signature: Signature
        if candidates is None:
            candidates = self.table[key] = []
        else:
            for signature in candidates:
                if same_line(signature.first, node) and alike(signature.first, node):
                    return signature
        self.distinct += 1
        signature = Signature(node, self.distinct, self.family_of(node, mix(base, way_of(node))))
        candidates.append(signature)
        return signature

    @cython.cfunc
    def family_of(self, node: Node, base: cython.ulonglong) -> list:
        """The signatures that differ from a node's in the line only, not in the way from there through the library:
        the gates of a cell are no company for each other."""
        key = cython.cast(cython.longlong, base >> 1)
        families: list = self.families.get(key)
        first: Node
        if families is None:
            families = self.families[key] = []
        for family in families:
            first = cython.cast(Signature, cython.cast(list, family)[0]).first
            if way_of(first) == way_of(node) and alike(first, node):
                return family
        families.append([])
        return families[len(families) - 1]

    @cython.cfunc
    def link(self) -> cython.void:
        """List the readers of each node, and count the operands that each waits for."""
        count: cython.Py_ssize_t = len(self.nodes)
        place: cython.longlong
        position: cython.Py_ssize_t
        index: cython.Py_ssize_t
        for position, source in self.later:
            self.await_operand(position, source, False)
        for index in range(self.filled):
            self.starts[self.pairs[2 * index] + 2] += 1
            self.waits[self.pairs[2 * index + 1]] += 1
        for position in range(count):
            self.starts[position + 2] += self.starts[position + 1]
        self.readers = cython.cast(cython.p_int, calloc(self.filled + 1, cython.sizeof(cython.int)))
        if self.readers == cython.NULL:
            raise MemoryError
        for index in range(self.filled):
            place = self.pairs[2 * index]
            self.readers[self.starts[place + 1]] = self.pairs[2 * index + 1]
            self.starts[place + 1] += 1

    @cython.cfunc
    def note_pair(self, place: cython.longlong, reader: cython.longlong) -> cython.void:
        """Keep where an operand and its reader stand, in an array that grows."""
        if self.filled == self.room:
            room: cython.size_t = 2 * self.room + 1024
            grown: cython.p_int = cython.cast(
                cython.p_int, realloc(self.pairs, 2 * room * cython.sizeof(cython.int))
            )
            if grown == cython.NULL:
                raise MemoryError
            self.pairs, self.room = grown, room
        self.pairs[2 * self.filled] = place
        self.pairs[2 * self.filled + 1] = reader
        self.filled += 1

    @cython.cfunc
    def measure(self) -> cython.void:
        """Give every node its height, readers first."""
        count: cython.size_t = len(self.nodes)
        order: cython.p_int = cython.cast(
            cython.p_int, calloc(count + 1, cython.sizeof(cython.int))
        )
        waits: cython.p_int = cython.cast(
            cython.p_int, calloc(count + 1, cython.sizeof(cython.int))
        )
        if order == cython.NULL or waits == cython.NULL:
            free(order)
            free(waits)
            raise MemoryError
        filled: cython.size_t = 0
        done: cython.size_t = 0
        position: cython.size_t
        index: cython.int
        for position in range(count):
            waits[position] = self.waits[position]
            if waits[position] == 0:
                order[filled] = position
                filled += 1
        while done < filled:
            place: cython.int = order[done]
            done += 1
            for index in range(self.starts[place], self.starts[place + 1]):
                reader: cython.int = self.readers[index]
                waits[reader] -= 1
                if waits[reader] == 0:
                    order[filled] = reader
                    filled += 1
        while filled > 0:
            filled -= 1
            self.measure_node(order[filled])
        free(order)
        free(waits)

    @cython.cfunc
    def measure_node(self, place: cython.int) -> cython.void:
        """A node's height from those of its readers; a dead one may have lost operands, and joins nobody."""
        needed: cython.bint = self.needed[place]
        index: cython.int
        reader: cython.int
        for index in range(self.starts[place], self.starts[place + 1]):
            reader = self.readers[index]
            if self.height[reader] > 0:
                needed = True
                self.height[place] = max(self.height[place], self.height[reader])
        if needed:
            self.height[place] += 1
            return
        signature: Signature = self.signatures[place]
        if signature is not None:
            signature.remaining -= 1
            self.signatures[place] = None

    @cython.cfunc
    def make_ready(self, position: cython.Py_ssize_t) -> cython.void:
        signature: Signature = self.signatures[position]
        if signature is None:
            self.alone.append(position)
            return
        signature.ready.append(position)
        full: cython.bint = len(signature.ready) == signature.remaining
        higher: cython.bint = self.height[position] > signature.height
        if higher or len(signature.ready) == 1:
            signature.height = self.height[position]
        if full or higher or len(signature.ready) == 1:
            heapq.heappush(self.heap, (not full, -signature.height, signature.number, signature))

    @cython.cfunc
    def ran(self, position: cython.Py_ssize_t) -> cython.void:
        """Tell the readers of a node that it has run."""
        index: cython.int
        for index in range(self.starts[position], self.starts[position + 1]):
            reader: cython.int = self.readers[index]
            self.waits[reader] -= 1
            if self.waits[reader] == 0:
                self.make_ready(reader)

    @cython.cfunc
    def take(self, signature: Signature) -> list:
        """The ready nodes of a signature, oldest first; where they are few, with those of other lines that are few."""
        members: list = _ready_of(signature)
        other: Signature
        if len(members) < _LEAST_ROWS:
            for other in signature.others:
                if 0 < len(other.ready) < _LEAST_ROWS:
                    members.extend(_ready_of(other))
        members.sort()
        return members

    @cython.cfunc
    def least_rows(self, node: Node) -> cython.longlong:
        """How many such operations gain from running as one. Elementwise ones fuse with what they read where they are
        alone, and copying rows costs: long ones need more company, and so do those that read nothing batched."""
        if node.row.kind != _ELEMENTWISE:
            return _LEAST_ROWS
        nbytes: cython.longlong = node.numel * node.dtype.itemsize
        if self.reads_batch(node):
            return max(_LEAST_ROWS, nbytes >> 10)
        return max(_LEAST_LONE, nbytes >> 7)

    @cython.cfunc
    def reads_batch(self, node: Node) -> cython.bint:
        """Whether some operand is a row of a batch."""
        source: Node
        place: cython.longlong
        for source in node.inputs:
            while source.state == PENDING and source.row.kind == _VIEW and source.quotient is None:
                source = source.inputs[0]
            if source.state == PENDING:
                if source.quotient is not None:
                    return True
                place = self.place_of(source)
                if place >= 0 and self.joined[place]:
                    return True
        return False

    @cython.cfunc
    def part(self) -> cython.void:
        """Undo the cycles of signatures that know each other, so that no node waits for the collector."""
        for families in self.families.values():
            for family in families:
                cython.cast(list, family).clear()

    @cython.cfunc
    def run(self) -> list:
        """All groups that are worth it, in order."""
        groups: list = []
        signature: Signature
        position: cython.Py_ssize_t
        for position in range(len(self.nodes)):
            if self.waits[position] == 0:
                self.make_ready(position)
        while self.alone or self.heap:
            if self.alone:
                self.ran(self.alone.pop())
                continue
            signature = heapq.heappop(self.heap)[3]
            if not signature.ready:
                continue  # taken already: an entry from before more of it was ready
            members: list = self.take(signature)
            least: cython.longlong = self.least_rows(self.nodes[members[0]])
            if self.notes is not None:
                self.notes.append((facts_of(signature), len(members), least))
            if len(members) >= least:
                groups.append([self.nodes[position] for position in members])
                for position in members:
                    self.joined[position] = True
            for position in members:
                self.ran(position)
        return groups


@cython.cfunc
def _ready_of(signature: Signature) -> list:
    """The ready nodes of a signature, which are ready no longer."""
    members: list = signature.ready
    signature.ready = []
    signature.remaining -= len(members)
    signature.height = 0
    return members


@cython.cfunc
def facts_of(signature: Signature) -> tuple:
    """What `weft.explain` says of a signature: number, place, op, params, result, operands (type, shape, the number of
    a value that has to be shared or 0, whether it has a gradient). No nodes: they would live as long."""
    if signature.facts is None:
        node: Node = signature.first
        operands: list = []
        index: cython.Py_ssize_t
        for index in range(len(node.inputs)):
            source: Node = node.inputs[index]
            operands.append(
                (
                    source.dtype.name,
                    source.shape,
                    address_of(source) if role_of(node, index) != "b" else 0,
                    node.edges is not None and node.edges[index] is not None,
                )
            )
        signature.facts = (
            signature.number,
            (node.code, node.offset_in_code),
            node.row.name,
            node.params,
            (node.dtype.name, node.shape),
            tuple(operands),
        )
    return signature.facts


def form_groups(nodes: list, notes: list | None = None) -> list:
    """Groups of pending nodes (oldest first) that have not been considered before; each node is considered once. In
    `notes` comes, for each group and each lot that is none: its signature's facts, its size, the least for a group."""
    start: cython.Py_ssize_t = 0
    while start < len(nodes) and cython.cast(Node, nodes[start]).considered:
        start += 1  # nothing older than the first fresh node reads from one
    agenda: Agenda = Agenda(nodes[start:] if start else nodes, notes)
    try:
        agenda.read()
        if not agenda.crowded:
            return []
        agenda.link()
        agenda.measure()
        return agenda.run()
    finally:
        agenda.part()


# -- signatures ----------------------------------------------------------------------------------------------------


@cython.cfunc
def may_join(node: Node) -> cython.bint:
    """Whether a node is of a kind and size that gains from company. A view is not: it follows what it views into its
    batch where something reads it (`stacking.stack`)."""
    row: OpRow = node.row
    return (
        row.batchable
        and row.kind != _SOURCE
        and row.kind != _VIEW
        and node.numel * node.dtype.itemsize <= _ROW_BYTES
        and node.inputs is not None
        and len(node.inputs) > 0
    )


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
@cython.inline
def line_of(node: Node) -> cython.longlong:
    """A number for the call in the user's program that recorded a node, and its way through the library."""
    return cython.cast(cython.longlong, cython.cast(cython.p_void, node.code)) + node.offset_in_code


@cython.cfunc
@cython.inline
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
        if a is b or a.numel * a.dtype.itemsize <= _ROW_BYTES:
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
