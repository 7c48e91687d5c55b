# cython: language_level=3
"""Reachability and in-degrees of a backward: the gradient records below its roots, and how many consumers each waits
for.

It takes root edges and captured records, and numbers the reached records, with counts and edges as plain arrays. It
differentiates nothing. A record that has released its residuals is refused before anything runs.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.weft.engine.backward.reachability import Reached, number_in, prefetch_reached
from cython.cimports.weft.engine.capi.int_array import integers, push
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction, OutputEdge
from cython.cimports.weft.engine.ir.node import DONE, Node, deferral_of, observers_on
from cython.cimports.weft.engine.ir.primitive import OF_OPERANDS
from cython.cimports.weft.engine.ir.residuals import (
    drop_inputs,
    mark_dead_candidate,
    release_residuals,
)
from cython.cimports.weft.engine.ir.split_specs import MultiOutput
from cython.cimports.weft.engine.pipeline.batching.batch_key import goes_on

from weft._build.compiled import require
from weft.engine.ir.primitive import COMPOSITE
from weft.errors import GradientError

require(__name__, cython.compiled)

UNBATCHED_OBSERVERS = (
    2  # with this many observed records, backward goes record by record and uses no batches
)

SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


def freed(node: Node):
    """The error of using saved values that a walk has given up."""
    return GradientError(
        SECOND_TIME,
        expected="a graph that still has its saved values",
        got=f"{node.name()}, recorded at {node.where}",
        fix="pass retain_graph=True to the first backward",
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def give_up(node: Node) -> cython.int:
    """A record has been walked over for the last time: it lets go of what it saved, and of what nothing will read."""
    node.released = True
    release_residuals(node)
    if node.state == DONE and deferral_of(node) == 0:
        drop_inputs(node)
        node.quotient = None
        mark_dead_candidate(node)
    if node.op.kind == COMPOSITE:
        node.inputs = None
        if node.rare is not None:
            node.rare.result = None
        node.quotient = None
    return 0


_stamp = cython.declare(cython.longlong, 0)
_joint_seen = cython.declare(
    cython.bint, False
)  # no walk looks for joint records before there is one


def note_multi_output():
    """There is a record of several outputs that a user has seen: walks have to look for such from now on."""
    global _joint_seen
    _joint_seen = True


@cython.cclass
class Reachability:
    """The records that one walk reaches, marked with its stamp and numbered in the order in which they were found. What
    the walk asks of each again and again, and where its edges lead, is kept by number, side by side: the records
    themselves are far from each other, and looked at as seldom as can be."""

    def __cinit__(self):
        global _stamp
        _stamp += 1
        self.stamp = _stamp
        self.make_room(64)
        self.targets = integers(0, 0)
        self.captured = {}
        self.displaced = None
        self.joined = None

    def __dealloc__(self):
        free(self.known)

    # -- inside another walk ---------------------------------------------------------------------------------------

    @cython.cfunc
    def displace(self, record) -> cython.void:
        """Remember what the walk around this one keeps on a record: a hook may walk over the same graph."""
        if self.displaced is not None:
            self.displaced.append((record, record.walk_number))

    @cython.cfunc
    def put_back(self) -> cython.void:
        """Give the records back to the walk around this one."""
        for record, walk_number in self.displaced:
            record.walk_number = walk_number

    # -- discovery -------------------------------------------------------------------------------------------------

    @cython.cfunc
    def discover(self, roots: list) -> cython.void:
        """Find every gradient record below the roots, where its edges lead, and how many reached consumers it has;
        nothing has run yet."""
        for edge, _cotangent in roots:
            self.reach(edge)
        number: cython.int = 0
        while number < self.count:
            prefetch_reached(self.known, number, self.count)
            current = cython.cast(object, self.known[number].record)
            self.known[number].first = cython.cast(cython.int, self.targets.count)
            number += 1
            if isinstance(current, Node):
                self.inspect(current)
            elif isinstance(current, GradientFunction):
                self.observed += 1
                if not self.captured:
                    current.check_usable()
                self.lead_to(cython.cast(GradientFunction, current).edges)
            else:
                sink: AccumulateGrad = cython.cast(AccumulateGrad, current)
                leaf: Tensor = sink.variable
                if sink.observers is not None or leaf.hooks is not None:
                    self.observed += 1
                if sink.expects is not None:
                    self.observed += UNBATCHED_OBSERVERS
        self.known[number].first = cython.cast(cython.int, self.targets.count)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def inspect(self, node: Node) -> cython.int:
        """Account for a reached node: count it if observed, visit it, and list the targets of its edges.

        Errors: RuntimeError if it has released its residuals."""
        if observers_on(node) is not None:
            self.observed += 1
        if _joint_seen:
            self.join_outputs(node)
        if node.released and node.residual_mask != 0 and not self.captured:
            raise freed(node)
        self.visit(node)
        if self.joined is None and is_sum(node):
            return self.lead_to_terms(node)
        return self.lead_to(node.edges if self.joined is None else self.below(node))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def lead_to(self, edges: tuple) -> cython.int:
        """Note where edges lead, and count them there."""
        for edge in edges:
            self.lead(edge)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def lead(self, edge) -> cython.int:
        """Note where an edge leads, and count it there."""
        target: cython.int = -1
        if edge is not None:
            target = self.reach(edge)
            self.known[target].consumers += 1
        return push(self.targets, target)

    @cython.cfunc
    @cython.exceptval(-1)
    def lead_to_terms(self, node: Node) -> cython.int:
        """Note where the edges of all that a sum adds up lead: in the order of `sum_edges`."""
        if not self.begins(node.edges[0]):
            return self.lead_to(node.edges)
        self.lead(node.edges[1])
        while self.begins(node.edges[0]):
            node = node.edges[0]
            self.lead(node.edges[1])
        return self.lead(node.edges[0])

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def begins(self, edge) -> cython.bint:
        """True if an edge leads to the sum that this sum extends, which is neither observed nor captured."""
        if not isinstance(edge, Node) or not goes_on(cython.cast(Node, edge)):
            return False
        return observers_on(cython.cast(Node, edge)) is None and not (
            self.captured and edge in self.captured
        )

    @cython.cfunc
    @cython.exceptval(-1)
    def visit(self, node: Node) -> cython.int:
        """For subclasses: a node has been reached, and is at hand."""
        return 0

    @cython.cfunc
    def check_usable(self) -> cython.void:
        """Errors: RuntimeError where a record that this walk will run has given up its saved values."""
        number: cython.int
        for number in range(self.count):
            current = cython.cast(object, self.known[number].record)
            if isinstance(current, Node):
                node: Node = cython.cast(Node, current)
                if node.released and node.residual_mask != 0 and self.wanted(number):
                    raise freed(node)
            elif isinstance(current, GradientFunction) and self.wanted(number):
                current.check_usable()

    @cython.cfunc
    @cython.exceptval(-1)
    def reach(self, edge) -> cython.int:
        """The number of the record that an edge leads to, which it gets the first time."""
        if isinstance(edge, Node):
            node: Node = cython.cast(Node, edge)
            if node.walk_number >> 32 != self.stamp:
                self.displace(node)
                node.walk_number = self.enter(node)
            return number_in(node.walk_number)
        if isinstance(edge, OutputEdge):
            edge = cython.cast(OutputEdge, edge).function
        if isinstance(edge, GradientFunction):
            function: GradientFunction = cython.cast(GradientFunction, edge)
            if function.walk_number >> 32 != self.stamp:
                self.displace(function)
                function.walk_number = self.enter(function)
            return number_in(function.walk_number)
        sink: AccumulateGrad = cython.cast(AccumulateGrad, edge)
        if sink.walk_number >> 32 != self.stamp:
            self.displace(sink)
            sink.walk_number = self.enter(sink)
        return number_in(sink.walk_number)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def enter(self, record) -> cython.longlong:
        """Give a record the next number: what it has as its `walk_number`."""
        number: cython.int = self.count
        self.count += 1
        if self.count == self.room:
            self.make_room(2 * self.room)
        self.known[number].record = cython.cast(cython.pointer(PyObject), record)
        self.known[number].consumers = 0
        self.known[number].group = -1
        return self.stamp << 32 | number

    @cython.cfunc
    def make_room(self, room: cython.Py_ssize_t) -> cython.void:
        known: cython.pointer(Reached) = cython.cast(
            cython.pointer(Reached), realloc(self.known, room * cython.sizeof(Reached))
        )
        if known == cython.NULL:
            raise MemoryError
        self.known, self.room = known, room

    @cython.cfunc
    def join_outputs(self, node: Node) -> cython.void:
        """Lead one of several outputs to the record of them all, where somebody observes that."""
        joint = multi_output_of(node)
        if joint is None or (joint.observers is None and joint not in self.captured):
            return
        if self.joined is None:
            self.joined = {}
        self.joined[node] = (joint.edge_of(node),)

    @cython.cfunc
    def below(self, record) -> tuple:
        """The edges along which the cotangents of a record go in this walk."""
        if not isinstance(record, Node):
            return record.edges
        if self.joined is not None and record in self.joined:
            return self.joined[record]
        return self.beneath(record)

    @cython.cfunc
    def beneath(self, record) -> tuple:
        """The edges along which the cotangents of a record go, ignoring outputs that are observed together."""
        if not isinstance(record, Node) or not is_sum(record):
            return record.edges
        node: Node = cython.cast(Node, record)
        count: cython.Py_ssize_t = 2
        while self.begins(node.edges[0]):
            node = node.edges[0]
            count += 1
        return sum_edges(record, count)

    @cython.cfunc
    def records(self) -> list:
        """All that has been reached, by number."""
        return [cython.cast(object, self.known[number].record) for number in range(self.count)]

    @cython.cfunc
    def prune(self) -> cython.void:
        """Keep only records on paths to the captured edges: nothing else runs, and no hook off them fires."""
        useful: set = set()
        records: list = self.records()
        for current in sorted(records, key=sequence):
            keep: cython.bint = current in self.captured
            for edge in self.beneath(current):
                if edge is not None and target_of(edge) in useful:
                    keep = True
            if self.joined is not None and not keep and current in self.joined:
                keep = target_of(self.joined[current][0]) in self.captured
            if keep:
                useful.add(current)
        for current in records:
            if current not in useful:
                current.walk_number = 0
        self.renumber([current for current in records if current in useful])

    @cython.cfunc
    def renumber(self, kept: list) -> cython.void:
        """Number some of the reached records anew; edges to others lead to nothing."""
        target: cython.int
        number: cython.int
        self.count = 0
        self.targets = integers(0, 0)
        for current in kept:
            current.walk_number = self.enter(current)
        for number in range(self.count):
            self.known[number].first = cython.cast(cython.int, self.targets.count)
            for edge in self.below(kept[number]):
                target = -1 if edge is None else self.number_of(edge)
                if target >= 0:
                    self.known[target].consumers += 1
                push(self.targets, target)
        self.known[self.count].first = cython.cast(cython.int, self.targets.count)

    @cython.cfunc
    @cython.exceptval(-2)
    def number_of(self, edge) -> cython.int:
        """The number of what an edge leads to; -1 where that is not part of this walk."""
        target = target_of(edge)
        walk_number: cython.longlong = target.walk_number
        return number_in(walk_number) if walk_number >> 32 == self.stamp else -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def wanted(self, number: cython.int) -> cython.bint:
        """True if a record runs in this walk: a record below it does, or it is an input of `backward`."""
        place: cython.Py_ssize_t
        for place in range(self.known[number].first, self.known[number + 1].first):
            if self.targets.items[place] >= 0:
                return True
        if not self.captured:
            return False
        return self.captured.get(cython.cast(object, self.known[number].record), True) is None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_sum(node: Node) -> cython.bint:
    """True if a node is a row of a batch that extends other sums, whose gradients nothing observes."""
    if node.op.sums != OF_OPERANDS or node.quotient is None or observers_on(node) is not None:
        return False
    edge = node.edges[0]
    return isinstance(edge, Node) and goes_on(cython.cast(Node, edge))


@cython.cfunc
def sum_edges(node: Node, count: cython.Py_ssize_t) -> tuple:
    """The edges of what a sum adds up, so many of them: a sum's own, or where it goes on from others the last first."""
    if count == 2:
        return node.edges
    edges: list = [node.edges[1]]
    while len(edges) + 1 < count:
        node = node.edges[0]
        edges.append(node.edges[1])
    edges.append(node.edges[0])
    return tuple(edges)


def sequence(current):
    """The creation number of a gradient record; leaves come before everything."""
    return current.seq if not isinstance(current, AccumulateGrad) else -1


@cython.cfunc
def multi_output_of(node: Node):
    """The record of all outputs that users see in place of one output's; None where nobody has looked."""
    return cython.cast(MultiOutput, node.info).seen if isinstance(node.info, MultiOutput) else None


@cython.cfunc
def target_of(edge):
    """The gradient record that an edge leads to."""
    return cython.cast(OutputEdge, edge).function if isinstance(edge, OutputEdge) else edge


def observed_edge(edge):
    """The edge at which users see and observe the gradient of a tensor, where it is another than the tensor's own."""
    while (
        isinstance(edge, OutputEdge) and cython.cast(OutputEdge, edge).function.behind is not None
    ):
        edge = cython.cast(OutputEdge, edge).function.behind
    return edge


def target_for(edge):
    """(record, output number) at which users observe what arrives at an edge."""
    edge = observed_edge(edge)
    if isinstance(edge, OutputEdge):
        return cython.cast(OutputEdge, edge).function, cython.cast(OutputEdge, edge).number
    return edge, 0


def reaches_more(edges: list, ends: list):
    """True if graphs have leaves that are not below the given records."""
    return _search(edges, ends, False)


def reaches_any(edges: list, ends: list):
    """True if graphs have one of the given records."""
    return _search(edges, ends, True)


@cython.cfunc
def _search(edges: list, ends: list, for_ends: cython.bint) -> cython.bint:
    """Go through graphs as far as some records: whether one of these is there, or whether there are leaves."""
    stack: list = [target_of(edge) for edge in edges if edge is not None]
    seen: set = set()
    stops: set = set(ends)
    while stack:
        record = stack.pop()
        if record in stops:
            if for_ends:
                return True
            continue
        if record in seen:
            continue
        seen.add(record)
        if isinstance(record, AccumulateGrad):
            if not for_ends:
                return True
            continue
        below: tuple = (
            cython.cast(Node, record).edges
            if isinstance(record, Node)
            else cython.cast(GradientFunction, record).edges
        )
        for edge in below:
            if edge is not None:
                stack.append(target_of(edge))
    return False
