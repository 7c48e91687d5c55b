# cython: language_level=3
"""The batch scheduler: chooses which pending operations run as one, and in which order groups form (DyNet's agenda).

It takes recorded nodes, oldest first, and returns groups of nodes of equal signature (op, params, operand shapes and
dtypes, shared operands, gradient pattern, call site), each after the groups that it reads from. Signatures of which
every node is ready come first, then those of which a whole level is (`topology`), then the others; among equals, the
one with the longest path to a live value. So equal operations at different depths meet, the cells of one level of all
trees are one group, and a value that many paths end in (a loss) waits for all of them. The call site is part of the
signature so that the operations of one cell stay row by row, and fuse. A node that runs alone is in no group. `batch`
makes the quotients.
"""

import heapq

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.capi.int_array import Integers, extend, integers, push
from cython.cimports.weft.engine.devices.tuning import Batching
from cython.cimports.weft.engine.ir.node import PENDING, Node, observers_on
from cython.cimports.weft.engine.ir.prefetch import (
    FAR,
    PyList_GET_ITEM,
    prefetch_node,
    prefetch_operands,
)
from cython.cimports.weft.engine.ir.primitive import STACK
from cython.cimports.weft.engine.pipeline.batching.batch_key import (
    ADDED_UP,
    address_of,
    adds_rows,
    batch_hash,
    call_site_hash,
    edge_matters,
    is_batchable_with,
    is_one_gather,
    most_bytes,
    operand_role,
    same_call_site,
    tuning_of,
)
from cython.cimports.weft.engine.pipeline.batching.topology import MOST_SLOTS, Order
from cython.cimports.weft.engine.pipeline.batching.width import is_wide, may_join, spared_by

from weft._build.compiled import require
from weft.engine.ir.primitive import CONTRACT, ELEMENTWISE, VIEW

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
_ELEMENTWISE = cython.declare(cython.int, ELEMENTWISE)
_CONTRACT = cython.declare(cython.int, CONTRACT)
_NEVER = cython.declare(cython.longlong, 1 << 60)
_FIELD_BITS = cython.declare(
    cython.int, 30
)  # of a height, and of a signature's number, within a priority (`turn_of`)
_FIELD = cython.declare(cython.longlong, (1 << 30) - 1)
_RECENT = cython.declare(cython.int, 256)
_PAIR = cython.declare(
    cython.longlong, 2
)  # short rows are enough for a group if they are rows of batches already
_LONG_SUM = cython.declare(cython.int, 4)  # consecutive additions from which a sum is long
# What comes first: all of a signature is ready, a whole level is, or only a part; then cheap operations before others.
_ALL = cython.declare(cython.int, 0)
_LEVEL = cython.declare(cython.int, 1)
_PART = cython.declare(cython.int, 2)
_DEAR_PART = cython.declare(cython.int, 3)


@cython.final
@cython.no_gc
@cython.cclass
class Signature:
    """The nodes of equal signature: how many have not run, which are ready, the longest way to go from one of those.

    Of levels, where they are counted (`slot`): how many nodes of each are not ready, the lowest of which some is not
    (`front`), the highest of which one is (`reached`). Where nodes read each other (`links` of them), their levels say
    nothing: none is counted, and they go on one by one."""

    first = cython.declare(Node)
    number = cython.declare(cython.Py_ssize_t)
    remaining = cython.declare(cython.Py_ssize_t)
    ready = cython.declare(Integers)  # places of nodes
    height = cython.declare(cython.int)
    links = cython.declare(cython.Py_ssize_t)  # operands of its nodes that are its nodes too
    uneven = cython.declare(cython.bint)  # its nodes differ in height
    longest = cython.declare(cython.int)  # way of nodes that read each other, in steps
    slot = cython.declare(cython.int)
    unready = cython.declare(cython.p_int)
    levels = cython.declare(cython.int)
    front = cython.declare(cython.int)
    reached = cython.declare(cython.int)
    others = cython.declare(list)  # signatures that differ in the line only, itself among them
    facts = cython.declare(tuple)  # the facts for `weft.explain`, once it has asked for them

    def __cinit__(self, first: Node, number: cython.Py_ssize_t, others: list):
        self.first = first
        self.number = number
        self.ready = integers(0, 0)
        self.slot = -1
        self.others = others
        others.append(self)

    def __dealloc__(self):
        free(self.unready)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def count_levels(self, deepest: cython.int) -> cython.int:
        """Make room for levels up to one of them."""
        self.levels = deepest + 1
        self.unready = cython.cast(cython.p_int, calloc(self.levels + 1, cython.sizeof(cython.int)))
        if self.unready == cython.NULL:
            raise MemoryError
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def reach(self, level: cython.int) -> cython.bint:
        """Note that a node of a level is ready; whether with it all are ready whose levels have been reached."""
        self.unready[level] -= 1
        self.reached = max(self.reached, level)
        while self.front < self.levels and self.unready[self.front] == 0:
            self.front += 1
        return self.front > self.reached


@cython.final
@cython.cclass
class Agenda:
    """One run over the pending nodes: their signatures and order, what is ready."""

    tuning = cython.declare(Batching)
    nodes = cython.declare(list)
    signatures = cython.declare(list)  # one per node; None runs by itself
    table = cython.declare(dict)
    recent = cython.declare(list)  # per slot of a line: the signature that was found last
    families = cython.declare(dict)
    heap = cython.declare(list)  # turns of signatures (`turn_of`)
    alone = cython.declare(Integers)  # places of ready nodes that run by themselves
    crowded = cython.declare(cython.bint)  # some signature has enough nodes for a group
    computed = cython.declare(cython.Py_ssize_t)  # nodes that are no views
    known = cython.declare(list)  # all signatures, in the order in which they were met
    order = cython.declare(Order)
    needed = cython.declare(cython.p_char)  # per node: whether something outside holds its value
    joined = cython.declare(cython.p_char)  # per node: whether it is in a group
    steps = cython.declare(cython.p_int)  # per node: the way of its own signature that ends in it
    begun = cython.declare(Integers)  # places of sums that others of equal signature go on from
    notes = cython.declare(
        list
    )  # for `weft.explain`: what was taken, in order; None where nobody asks
    later = cython.declare(
        list
    )  # (where a reader stands, its operand): operands met after their readers

    def __cinit__(self, nodes: list, notes: list | None):
        count: cython.size_t = len(nodes)
        self.tuning = tuning_of(nodes[0])
        self.nodes = nodes
        self.notes = notes
        self.signatures = [None] * len(nodes)
        self.table = {}
        self.recent = [None] * _RECENT
        self.families = {}
        self.heap = []
        self.alone = integers(0, 0)
        self.later = []
        self.begun = integers(0, 0)
        self.known = []
        self.order = Order(len(nodes))
        self.needed = cython.cast(cython.p_char, calloc(count + 1, 1))
        self.joined = cython.cast(cython.p_char, calloc(count + 1, 1))
        self.steps = cython.cast(cython.p_int, calloc(count + 1, cython.sizeof(cython.int)))
        if self.needed == cython.NULL or self.joined == cython.NULL or self.steps == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.needed)
        free(self.joined)
        free(self.steps)

    @cython.cfunc
    def position_of(self, source: Node) -> cython.longlong:
        """The position among the nodes of an operand, or of the batch that it is a row of; -1 if it is computed
        already."""
        source_position: cython.longlong = source.index
        if source_position < len(self.nodes) and self.nodes[source_position] is source:
            return source_position
        if source.quotient is not None and source.state == PENDING:
            return self.position_of(source.quotient)
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
            prefetch_operands(self.nodes, position)
            node = self.nodes[position]
            node.index = position
            self.computed += node.op.kind != _VIEW
            self.needed[position] = node.external_refs > 0
            if not node.batch_seen and node.state == PENDING:
                node.batch_seen = True
                if may_join(node):
                    signature = self.signature_of(node)
                    signature.remaining += 1
                    if node.shape is not signature.first.shape:
                        signature.uneven = signature.uneven or node.shape != signature.first.shape
                    self.crowded = self.crowded or signature.remaining >= self.tuning.fewest_rows
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
        source_position: cython.longlong = self.position_of(source)
        if source_position < 0:
            if again:
                self.later.append((position, source))
            return
        self.order.note(source_position, position)
        signature: Signature = self.signatures[source_position]
        if signature is not None and signature is self.signatures[position]:
            signature.links += 1
            self.note_sum(position, source_position)
            self.steps[position] = max(self.steps[position], self.steps[source_position] + 1)
            signature.longest = max(signature.longest, self.steps[position])

    @cython.cfunc
    @cython.inline
    def note_sum(
        self, position: cython.Py_ssize_t, source_position: cython.longlong
    ) -> cython.void:
        """Keep where a sum of rows goes on from one of equal signature, if that might be its beginning and no more."""
        node: Node = self.nodes[position]
        below: Node = self.nodes[source_position]
        if (
            adds_rows(node)
            and node.inputs[0] is below
            and observers_on(below) is None
            and (node.edges is None or node.edges[0] is below or node.edges[0] is None)
        ):
            push(self.begun, cython.cast(cython.int, source_position))

    @cython.cfunc
    def signature_of(self, node: Node) -> Signature:
        """The signature of a node: that of the last one of its line, as a rule; else found by hash. Confirmed by
        comparison."""
        slot: cython.Py_ssize_t = mix(call_site_hash(node), node.op.code) % _RECENT
        recent: Signature = self.recent[slot]
        if (
            recent is None
            or not same_call_site(recent.first, node)
            or not is_batchable_with(recent.first, node)
        ):
            recent = self.recent[slot] = self.look_up(node)
        return recent

    @cython.cfunc
    def look_up(self, node: Node) -> Signature:
        """The signature of a node, found by hash; made if it is new."""
        base: cython.ulonglong = batch_hash(node)
        key = cython.cast(cython.longlong, mix(base, call_site_hash(node)) >> 1)
        candidates: list = self.table.get(key)
        signature: Signature
        if candidates is None:
            candidates = self.table[key] = []
        else:
            for signature in candidates:
                if same_call_site(signature.first, node) and is_batchable_with(
                    signature.first, node
                ):
                    return signature
        others: list = self.key_class_of(node, mix(base, node.library_site))
        signature = Signature(node, len(self.known) + 1, others)
        candidates.append(signature)
        self.known.append(signature)
        return signature

    @cython.cfunc
    def key_class_of(self, node: Node, base: cython.ulonglong) -> list:
        """The signatures that differ from a node's in the user's line only, not in the library site: the gates of a
        cell never join each other."""
        key = cython.cast(cython.longlong, base >> 1)
        families: list = self.families.get(key)
        first: Node
        if families is None:
            families = self.families[key] = []
        for family in families:
            first = cython.cast(Signature, cython.cast(list, family)[0]).first
            if first.library_site == node.library_site and is_batchable_with(first, node):
                return family
        families.append([])
        return families[len(families) - 1]

    @cython.cfunc
    def may_pay(self) -> cython.bint:
        """False if no groups of these nodes spare enough of them, even if all of one signature were ready together:
        so it is with most small graphs that are wide enough to be searched."""
        spared: cython.double = self.begun.count  # a sum stands for all that it adds up
        for family in self.families.values():
            for signatures in family:
                spared += self.most_spared(signatures)
        return spared * self.tuning.nodes_of_a_spared_one >= self.computed

    @cython.cfunc
    def most_spared(self, signatures: list) -> cython.double:
        """The nodes that one group of all nodes of some signatures would spare."""
        signature: Signature
        count: cython.Py_ssize_t = 0
        for signature in signatures:
            count += signature.remaining
        signature = signatures[0]
        return max(0.0, spared_by(signature.first, count, self.tuning))

    @cython.cfunc
    def measure(self) -> cython.void:
        """Find what waits for what, and how far each node is from the end."""
        position: cython.Py_ssize_t
        for position, source in self.later:
            self.await_operand(position, source, False)
        self.order.link()
        self.order.measure(self.needed)

    @cython.cfunc
    def arrange(self) -> cython.void:
        """Leave out what nothing needs, and find the levels of the signatures."""
        position: cython.Py_ssize_t
        signature: Signature
        for position in range(len(self.nodes)):
            signature = self.signatures[position]
            if signature is not None and self.order.height[position] == 0:
                signature.remaining -= 1  # dead: it may have lost operands, and joins nobody
                self.signatures[position] = None
        self.add_up()
        self.count_by_level()

    @cython.cfunc
    def add_up(self) -> cython.void:
        """Take sums that grow for one operation of as many operands: all but the last addition run by themselves, if
        the last is in no group, or not at all."""
        order: Order = self.order
        index: cython.Py_ssize_t
        for index in range(self.begun.count):
            source_position: cython.int = self.begun.items[index]
            signature: Signature = self.signatures[source_position]
            if signature is None or signature.uneven or self.needed[source_position]:
                continue
            if order.starts[source_position + 1] - order.starts[source_position] != 1:
                continue  # something else reads it
            cython.cast(Node, self.nodes[source_position]).qrow = ADDED_UP
            self.signatures[source_position] = None
            signature.remaining -= 1
            signature.links -= 1

    @cython.cfunc
    def count_by_level(self) -> cython.void:
        """Count the nodes of each signature on each level: of the signatures with the most nodes, the expensive ones
        first."""
        position: cython.Py_ssize_t
        signature: Signature
        counted: list = []
        for signature in self.known:
            if signature.remaining >= self.tuning.fewest_rows and signature.links == 0:
                cheap: cython.bint = signature.first.op.kind == _ELEMENTWISE
                counted.append((cheap, -signature.remaining, signature.number, signature))
        counted.sort()
        del counted[MOST_SLOTS:]
        for position in range(len(counted)):
            signature = counted[position][3]
            signature.slot = position
        for position in range(len(self.nodes)):
            signature = self.signatures[position]
            if signature is not None:
                self.order.slot[position] = signature.slot
        deepest: cython.int = self.order.rank(len(counted))
        for _, _, _, signature in counted:
            signature.count_levels(deepest)
        for position in range(len(self.nodes)):
            if self.order.level[position] > 0:
                signature = self.signatures[position]
                signature.unready[self.order.level[position]] += 1

    @cython.cfunc
    def make_ready(self, position: cython.Py_ssize_t) -> cython.void:
        signature: Signature = self.signatures[position]
        if signature is None:
            push(self.alone, position)
            return
        push(signature.ready, position)
        height: cython.int = self.order.height[position]
        first: cython.bint = signature.ready.count == 1
        higher: cython.bint = first or height > signature.height
        rank: cython.int = self.rank_of(signature, position)
        if higher:
            signature.height = height
        if higher or rank == _ALL or (rank == _LEVEL and signature.slot >= 0):
            heapq.heappush(self.heap, turn_of(rank, signature))

    @cython.cfunc
    def rank_of(self, signature: Signature, position: cython.Py_ssize_t) -> cython.int:
        """The rank of a signature after one more of its nodes is ready: whole, a whole level, or a part."""
        level: cython.bint = signature.slot < 0 or signature.reach(self.order.level[position])
        if signature.ready.count == signature.remaining:
            return _ALL
        if level:
            return _LEVEL
        return _PART if signature.first.op.kind == _ELEMENTWISE else _DEAR_PART

    @cython.cfunc
    def ran(self, position: cython.Py_ssize_t) -> cython.void:
        """Tell the readers of a node that it has run."""
        index: cython.int
        order: Order = self.order
        for index in range(order.starts[position], order.starts[position + 1]):
            reader: cython.int = order.readers[index]
            order.waits[reader] -= 1
            if order.waits[reader] == 0:
                self.make_ready(reader)

    @cython.cfunc
    def ready_positions(self, signature: Signature) -> Integers:
        """The positions of a signature's ready nodes, oldest first. If they are few, the few ready nodes of equal
        signatures at other call sites join them."""
        positions: Integers = _ready_of(signature)
        other: Signature
        fewest: cython.longlong = self.tuning.fewest_rows
        if positions.count < fewest and signature.links == 0:
            for other in signature.others:
                if 0 < other.ready.count < fewest and other.links == 0:
                    extend(positions, _ready_of(other), 0)
        positions.sort()
        return positions

    @cython.cfunc
    def least_rows(self, signature: Signature, node: Node) -> cython.longlong:
        """The least number of these operations that pays as a group. Alone, elementwise operations fuse with what they
        read, and packing copies rows: long rows need more members, and so do rows that read no batch; of short rows
        that read one, two are enough. A sum that grows by one row at a time becomes one gather in the end, which pays
        for a single example, too."""
        nbytes: cython.longlong = node.numel * node.dtype.itemsize
        fewest: cython.longlong = self.tuning.fewest_rows
        if not self.copies_little(node):
            return _NEVER
        batched: cython.bint = self.reads_batch(node)
        if batched and node.op.form == STACK and len(node.inputs) >= _LONG_SUM:
            return 1 if is_one_gather(node) else fewest
        if node.op.kind != _ELEMENTWISE or nbytes > self.tuning.row_bytes:
            return max(_PAIR, min(fewest, nbytes >> 10)) if batched else fewest
        if not batched:
            return max(self.tuning.fewest_lone_rows, nbytes >> 7)
        if signature.longest >= _LONG_SUM and adds_rows(node):
            return 1
        return max(_PAIR, nbytes >> 10)

    @cython.cfunc
    def reads_batch(self, node: Node) -> cython.bint:
        """True if some operand is a row of a batch."""
        for source in node.inputs:
            if self.is_in_batch(source):
                return True
        return False

    @cython.cfunc
    def copies_little(self, node: Node) -> cython.bint:
        """True if every large operand of a node is a row of a batch, or one value for all members. Windows, which
        repeat elements, count as the example's own."""
        source: Node
        index: cython.Py_ssize_t
        most: cython.longlong = self.tuning.row_bytes
        if most_bytes(node) <= most:
            return True  # its operands are no larger
        if _multiplies_weight(node):
            most = self.tuning.product_bytes
        for index in range(len(node.inputs)):
            source = node.inputs[index]
            if source.numel * source.dtype.itemsize <= most:
                continue
            if operand_role(node, index) != "b" and not _repeats(source):
                continue
            if not self.is_in_batch(source):
                return False
        return True

    @cython.cfunc
    def is_in_batch(self, source: Node) -> cython.bint:
        """True if an operand is a row of a batch, or a view of one."""
        while source.state == PENDING and source.op.kind == _VIEW and source.quotient is None:
            source = source.inputs[0]
        if source.state != PENDING:
            return False
        if source.quotient is not None:
            return True
        source_position: cython.longlong = self.position_of(source)
        return source_position >= 0 and self.joined[source_position]

    @cython.cfunc
    def join(self, positions: Integers) -> list:
        """The nodes at some places, as a group."""
        members: list = []
        position: cython.Py_ssize_t
        index: cython.Py_ssize_t
        for index in range(positions.count):
            if index + FAR < positions.count:
                position = positions.items[index + FAR]
                prefetch_node(cython.cast(cython.p_void, PyList_GET_ITEM(self.nodes, position)))
            position = positions.items[index]
            self.joined[position] = True
            members.append(self.nodes[position])
        return members

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
            if self.order.waits[position] == 0:
                self.make_ready(position)
        while self.alone.count > 0 or self.heap:
            if self.alone.count > 0:
                self.alone.count -= 1
                self.ran(self.alone.items[self.alone.count])
                continue
            signature = self.known[_number_in(heapq.heappop(self.heap)) - 1]
            if signature.ready.count == 0:
                continue  # taken already: an entry from before more of it was ready
            positions: Integers = self.ready_positions(signature)
            least: cython.longlong = self.least_rows(signature, self.nodes[positions.items[0]])
            if self.notes is not None:
                self.notes.append((facts_of(signature), positions.count, least))
            if positions.count >= least:
                groups.append(self.join(positions))
            for position in range(positions.count):
                self.ran(positions.items[position])
        return groups


@cython.cfunc
@cython.exceptval(check=False)
def turn_of(rank: cython.int, signature: Signature) -> cython.longlong:
    """The priority of a signature, a number that is smaller for a signature that is taken sooner: by rank, then by the
    longest path to a live value, then by age."""
    turn: cython.longlong = (cython.cast(cython.longlong, rank) << _FIELD_BITS) + _FIELD
    return ((turn - signature.height) << _FIELD_BITS) + signature.number


@cython.cfunc
@cython.exceptval(check=False)
def _number_in(turn: cython.longlong) -> cython.Py_ssize_t:
    """The number of the signature whose turn it is."""
    return turn & _FIELD


@cython.cfunc
def _ready_of(signature: Signature) -> Integers:
    """The places of the ready nodes of a signature, which are ready no longer."""
    positions: Integers = signature.ready
    signature.ready = integers(0, 0)
    signature.remaining -= positions.count
    signature.height = 0
    signature.reached = 0
    return positions


@cython.cfunc
def facts_of(signature: Signature) -> tuple:
    """The facts of a signature that `weft.explain` prints: number, call site, op, params, result, operands (dtype,
    shape, the address of a value that must be shared or 0, whether it has a gradient). They hold no nodes, which would
    live as long."""
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
                    address_of(source) if operand_role(node, index) != "b" else 0,
                    edge_matters(node, index) and node.edges[index] is not None,
                )
            )
        signature.facts = (
            signature.number,
            (node.code, node.offset_in_code),
            node.op.name,
            node.params,
            (node.dtype.name, node.shape),
            tuple(operands),
        )
    return signature.facts


@cython.cfunc
def _repeats(node: Node) -> cython.bint:
    """True if a pending value is a view with more elements than the value below it."""
    while node.state == PENDING and node.op.kind == _VIEW:
        below: Node = node.inputs[0]
        if node.numel > below.numel:
            return True
        node = below
    return False


@cython.cfunc
def _multiplies_weight(node: Node) -> cython.bint:
    """True if a node is a product with a computed value, as layers' weights are."""
    return node.op.kind == _CONTRACT and address_of(node.inputs[1]) != 0


def form_groups(nodes: list, notes: list | None = None) -> list | None:
    """Groups of the pending nodes (oldest first) that no search has seen; each node is searched once. None if the
    graph is narrow: then graphs derived from it are, too. `notes` receives, for each group and each lot too small for
    one, its signature's facts, its size, and the least size of a group."""
    start: cython.Py_ssize_t = 0
    while start < len(nodes) and cython.cast(Node, nodes[start]).batch_seen:
        start += 1  # nothing older than the first fresh node reads from one
    if start == len(nodes):
        return []
    fresh: list = nodes[start:] if start else nodes
    if not is_wide(fresh):
        consider(fresh)
        return None
    agenda: Agenda = Agenda(fresh, notes)
    try:
        agenda.read()
        if not agenda.crowded or not (agenda.may_pay() or notes is not None):
            return []
        agenda.measure()
        agenda.arrange()
        return agenda.run()
    finally:
        agenda.part()


@cython.cfunc
def consider(nodes: list) -> cython.void:
    """Mark nodes as considered: each runs by itself."""
    node: Node
    for node in nodes:
        node.batch_seen = True
