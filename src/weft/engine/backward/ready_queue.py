# cython: language_level=3
"""The ready queue of backward: accumulates the cotangents of each record and releases it when its last consumer is
done.

It takes reached records, and cotangents with the numbers of their targets. Records with no pending consumers are
released latest created first. Members of a batch wait together, as a `Group`; an observed or captured record waits by
itself. It differentiates nothing.
"""

import cython
from cython.cimports.weft.engine.backward.batching.batched_vjp import Group, group_of
from cython.cimports.weft.engine.backward.reachability import Reachability, number_in, sum_edges
from cython.cimports.weft.engine.backward.sequence_heap import SequenceHeap
from cython.cimports.weft.engine.capi.int_array import Integers
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction, OutputEdge
from cython.cimports.weft.engine.ir.node import Node, observers_on
from cython.cimports.weft.engine.ir.primitive import OF_OPERANDS, STACK
from cython.cimports.weft.engine.ir.tape import is_in_narrow_graph
from cython.cimports.weft.engine.pipeline.batching.membership import in_ragged

from weft._build.compiled import require
from weft.engine.backward.batching import merge_batches
from weft.engine.ir.view_transform import SPARSE
from weft.engine.pipeline.batching import batched_residuals

require(__name__, cython.compiled)

_sparse = cython.declare(cython.int, SPARSE)


@cython.cclass
class ReadyQueue(Reachability):
    """The part of a walk that knows what is waited for: counts, batches, and what is ready."""

    def __cinit__(self):
        self.heap = SequenceHeap.__new__(SequenceHeap)
        self.groups = []
        self.fresh = []
        self.ready_groups = {}
        self.merges = True

    @cython.cfunc
    def start(self, roots: list) -> cython.void:
        number: cython.int
        group: Group
        if self.batched:
            self.close_groups()
        self.came = [None] * self.count
        for edge, cotangent in roots:
            number = self.number_of(edge)
            if number >= 0:
                self.give(number, output_of(edge), cotangent, -1)
        for group in self.groups:
            if group.pending == 0:
                self.push(group)
        for number in range(self.count):
            if self.known[number].consumers == 0 and self.known[number].group < 0:
                self.ready(cython.cast(object, self.known[number].record))

    # -- batches -----------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(-1)
    def visit(self, node: Node) -> cython.int:
        """Put a reached member of a batch into its group; an observed or captured member stays by itself."""
        if self.narrow is not None and (
            node.quotient is not None or not is_in_narrow_graph(self.narrow, node.seq)
        ):
            self.narrow = None
        if (
            not self.batched
            or (node.quotient is None and node.batch_seen)
            or observers_on(node) is not None
            or (self.joined is not None and node in self.joined)
            or (self.captured and node in self.captured)
        ):
            return 0
        if node.quotient is None:
            self.fresh.append(node)
            return 0
        return self.join_group(node)

    @cython.cfunc
    @cython.exceptval(-1)
    def join_group(self, node: Node) -> cython.int:
        """Put a member of a batch at its row; the quotient knows the number of its group."""
        quotient: Node = node.quotient
        if quotient.walk_number >> 32 != self.stamp:
            self.displace(quotient)
            quotient.walk_number = self.stamp << 32 | len(self.groups)
            self.groups.append(group_of(self.known, quotient, in_ragged(node)))
        number: cython.int = number_in(node.walk_number)
        member: cython.int = number_in(quotient.walk_number)
        self.known[number].group = member
        group: Group = self.groups[member]
        return group.put(node, number)

    @cython.cfunc
    def close_groups(self) -> cython.void:
        """All has been reached: group what no flush computes, and number the members."""
        node: Node
        group: Group
        if self.narrow is None:
            batched_residuals.group_records(self.fresh)
            for node in self.fresh:
                if node.quotient is not None:
                    self.join_group(node)
        self.fresh = []
        for group in self.groups:
            group.known = self.known
            group.close()

    @cython.cfunc
    def keep_captured(self) -> cython.void:
        """Keep what leads to the captured records, and find the batches in that."""
        number: cython.int
        self.prune()
        self.check_usable()
        for number in range(self.count):
            current = cython.cast(object, self.known[number].record)
            if isinstance(current, Node):
                self.visit(current)

    @cython.cfunc
    def forget_groups(self) -> cython.void:
        """More is observed than was known at first: nothing is pulled with others."""
        number: cython.int
        self.groups, self.fresh = [], []
        for number in range(self.count):
            self.known[number].group = -1

    @cython.cfunc
    def split_stuck(self) -> cython.bint:
        """Groups that wait for each other: run the ready members of the latest one by themselves."""
        latest: cython.int = -1
        number: cython.int
        chosen: Group = None
        group: Group
        for group in self.groups:
            if group.pending <= 0:
                continue
            for number in group.members.listed():
                if self.known[number].consumers == group.arrivals and (
                    latest < 0 or self.sequence_of(number) > self.sequence_of(latest)
                ):
                    latest, chosen = number, group
        if chosen is None:
            return False
        self.split(chosen)
        return True

    @cython.cfunc
    def sequence_of(self, number: cython.int) -> cython.longlong:
        """The creation number of a reached node."""
        return cython.cast(Node, self.known[number].record).seq

    @cython.cfunc
    def split(self, group: Group) -> cython.void:
        """Let the ready members of a group run; the others go on as the group."""
        came: list = group.contributions()
        members: Integers = group.members
        part: Group = group_of(self.known, group.quotient, group.ragged)
        rest: Group = group_of(self.known, group.quotient, group.ragged)
        member: cython.Py_ssize_t
        number: cython.int
        own: cython.int = self.known[members.items[0]].group
        for member in range(members.count):
            number = members.items[member]
            self.known[number].consumers -= cython.cast(cython.int, group.arrivals)
            ready: cython.bint = self.known[number].consumers == 0
            self.known[number].group = cython.cast(cython.int, len(self.groups)) if ready else own
            chosen: Group = part if ready else rest
            chosen.put(group.at(member), number)
        part.close()
        rest.close()
        self.groups[own] = rest
        self.groups.append(part)
        for member in range(members.count):
            for tensor, row, output in came[member] or ():
                self.give(members.items[member], output, tensor, row)
        self.push(part)

    # -- cotangents --------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(-1)
    def give(
        self, target: cython.int, output: cython.int, tensor: Tensor, row: cython.int
    ) -> cython.int:
        """One contribution (a row of a batch's, or -1) to the cotangent of a reached record; the handle keeps its value
        alive while it is in flight."""
        number: cython.int = self.known[target].group
        if number >= 0:
            group: Group = self.groups[number]
            return group.add(self.known[target].member, _as_dense(tensor), row)
        current = cython.cast(object, self.known[target].record)
        if not isinstance(current, AccumulateGrad):
            tensor = _as_dense(tensor)
        self.came[target] = one_more(self.came[target], tensor, row, output)
        return 0

    @cython.cfunc
    def take(self, number: cython.int):
        """Take the contributions of a record out of the queue."""
        came = self.came[number]
        self.came[number] = None
        return came

    @cython.cfunc
    def deliver_rows(self, members: Group, index: cython.int, part) -> cython.void:
        """Give one cotangent (or None) with a row for each member to what the members' edges lead to, and settle these:
        at once where they lead to all rows of another batch in order."""
        group: Group = self.opposite(members, index)
        if group is not None:
            if part is not None:
                group.dense.append(part)
            group.arrivals += 1
            self.release_group(group, members.members.count)
            return
        row: cython.int
        target: cython.int
        output: cython.int
        pieces: list = None if part is None else members.slices_of_operand(part, index)
        for row in range(cython.cast(cython.int, members.members.count)):
            target = self.target(members, row, index)
            if target < 0:
                continue
            if part is not None and (pieces is None or pieces[row] is not None):
                output = 0
                if self.known[target].group < 0:
                    output = output_of(members.at(row).edges[index])
                if pieces is None:
                    self.give(target, output, part, row)
                else:
                    self.give(target, output, pieces[row], -1)
            self.release_if_done(target)

    @cython.cfunc
    def give_parts(self, number: cython.int, edges: tuple, parts: list) -> cython.void:
        """Give the cotangents of a record's inputs to what its edges lead to in this walk."""
        index: cython.Py_ssize_t
        for index in range(len(edges)):
            target: cython.int = self.targets.items[self.known[number].first + index]
            if target >= 0 and parts[index] is not None:
                self.give(target, output_of(edges[index]), parts[index], -1)

    @cython.cfunc
    def takes_rows(self, node: Node, create: cython.bint, watched) -> cython.bint:
        """True if the operands of a node are the rows of its value: their cotangents are rows, too, and need no
        nodes."""
        return (
            node.op.form == STACK
            and node.params[0] == 0
            and observers_on(node) is None
            and not create
            and watched is None
        )

    @cython.cfunc
    def give_rows(self, number: cython.int, edges: tuple, g) -> cython.void:
        """Give each row of a stack's cotangent to what has been stacked there."""
        row: cython.int
        for row in range(cython.cast(cython.int, len(edges))):
            target: cython.int = self.targets.items[self.known[number].first + row]
            if target >= 0:
                self.give(target, output_of(edges[row]), g, row)

    @cython.cfunc
    def adds_up(self, group: Group) -> cython.bint:
        """True if members of a batch are sums of more than two rows."""
        first: Node = group.at(0)
        member: cython.Py_ssize_t
        if first.op.sums != OF_OPERANDS:
            return False
        for member in range(group.members.count):
            if self.operands(group.members.items[member]) > 2:
                return True
        return False

    @cython.cfunc
    def scatter_rows(self, group: Group, g, apart: cython.bint) -> cython.void:
        """Give each operand of each member of a batch a row of `g` (None where nothing has come for the batch), and
        settle it. The operands of a member have rows of their own, one after another, where they are `apart`, as in
        stacks; those of a sum all have the member's."""
        member: cython.int
        index: cython.int
        for member in range(cython.cast(cython.int, group.members.count)):
            count: cython.int = self.operands(group.members.items[member])
            edges: tuple = None
            for index in range(count):
                target: cython.int = self.target(group, member, index)
                if target < 0:
                    continue
                if g is not None:
                    output: cython.int = 0
                    if self.known[target].group < 0:
                        if edges is None:
                            node: Node = group.at(member)
                            edges = node.edges if apart else sum_edges(node, count)
                        output = output_of(edges[index])
                    self.give(target, output, g, member * count + index if apart else member)
                self.release_if_done(target)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def operands(self, number: cython.int) -> cython.int:
        """To how many operands a reached record has edges."""
        return self.known[number + 1].first - self.known[number].first

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def target(
        self, members: Group, member: cython.Py_ssize_t, index: cython.Py_ssize_t
    ) -> cython.int:
        """The number of what an edge of a member leads to."""
        return self.targets.items[self.known[members.members.items[member]].first + index]

    @cython.cfunc
    def opposite(self, members: Group, index: cython.int) -> Group:
        """The batch whose reached members are, in order, what one edge of each of these leads to; or None."""
        first: cython.int = self.target(members, 0, index)
        if first < 0 or self.known[first].group < 0:
            return None
        group: Group = self.groups[self.known[first].group]
        member: cython.Py_ssize_t
        if group.members.count != members.members.count:
            return None
        for member in range(group.members.count):
            if self.target(members, member, index) != group.members.items[member]:
                return None
        return group

    @cython.cfunc
    def release_group(self, group: Group, consumers: cython.longlong) -> cython.void:
        """So many consumers of a batch's members are done."""
        group.pending -= consumers
        if group.pending == 0:
            self.push(group)

    @cython.cfunc
    @cython.exceptval(-1)
    def release_if_done(self, target: cython.int) -> cython.int:
        """One consumer of a reached record is done."""
        group: cython.int = self.known[target].group
        self.known[target].consumers -= 1
        if group >= 0:
            self.release_group(self.groups[group], 1)
        elif self.known[target].consumers == 0:
            self.ready(cython.cast(object, self.known[target].record))
        return 0

    @cython.cfunc
    def release_below(self, number: cython.int) -> cython.void:
        """A record is done: one consumer less for each that its edges lead to."""
        edge: cython.Py_ssize_t
        for edge in range(self.known[number].first, self.known[number + 1].first):
            if self.targets.items[edge] >= 0:
                self.release_if_done(self.targets.items[edge])

    @cython.cfunc
    def ready(self, current) -> cython.void:
        if isinstance(current, AccumulateGrad):
            self.accumulate(current)
            return
        if isinstance(current, Node):
            self.heap.push(current, cython.cast(Node, current).seq)
        else:
            self.heap.push(current, cython.cast(GradientFunction, current).seq)

    @cython.cfunc
    def push(self, group: Group) -> cython.void:
        """Put a group on the heap, at the place of its latest member."""
        last: Node = group.at(group.members.count - 1)
        self.heap.push(group, last.seq)
        if self.merges:
            group.merge_key = merge_batches.merge_key(group)
            if group.merge_key is not None:
                self.ready_groups.setdefault(group.merge_key, []).append(group)

    @cython.cfunc
    def with_its_like(self, group: Group) -> Group:
        """A group, with those that are ready and equal: batches of different rounds."""
        ready: list = [] if group.merge_key is None else self.ready_groups.pop(group.merge_key)
        other: Group
        for other in ready:
            other.gone = True
        return group if len(ready) < 2 else merge_batches.merge_batches(ready)

    @cython.cfunc
    def accumulate(self, sink: AccumulateGrad) -> cython.void:
        """For subclasses: all has come for a leaf."""


@cython.cfunc
@cython.exceptval(-1)
def output_of(edge) -> cython.int:
    """The number of the output that an edge leads to."""
    return cython.cast(OutputEdge, edge).number if isinstance(edge, OutputEdge) else 0


@cython.cfunc
def one_more(came, tensor, row: cython.int, output: cython.int):
    """The contributions to an edge with one more: the tensor itself if it is the only one and whole, else a list of
    (handle, row, output number)."""
    if came is None and row < 0 and output == 0:
        return tensor
    if came is None:
        came = []
    elif isinstance(came, Tensor):
        came = [(came, -1, 0)]
    cython.cast(list, came).append((tensor, row, output))
    return came


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_sparse(tensor: Tensor) -> cython.bint:
    return tensor.view_transform & _sparse != 0


@cython.cfunc
@cython.inline
def _as_dense(tensor: Tensor) -> Tensor:
    """A cotangent as derivative rules take it."""
    return core_hooks.sparse().as_dense(tensor) if is_sparse(tensor) else tensor
