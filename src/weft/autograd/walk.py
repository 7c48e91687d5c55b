# cython: language_level=3
"""The reverse walk: from root cotangents to the gradients of leaves or of chosen inputs.

In come roots (an edge and its cotangent) and targets; out go cotangents, recorded as ordinary nodes and not yet run.
The walk is over the original nodes' edges, latest created first. Where the schedule has put equal nodes into a
batch, the derivative of all reached members is recorded once, on the batch; a member that somebody observes (hooks,
`retain_grad`, a capture) and every walk with `create_graph` goes node by node. Cotangents are keyed on edges.
"""

import heapq

import cython
from cython.cimports.weft.autograd.discovery import Discovery, target_of
from cython.cimports.weft.autograd.group import Group, join_blocks
from cython.cimports.weft.autograd.observe import (
    Observers,
    after_node,
    before_node,
    before_one,
    before_pull,
    observe_leaf,
)
from cython.cimports.weft.autograd.rules import At, pull_rules, pull_single
from cython.cimports.weft.graph.bound import late
from cython.cimports.weft.graph.edges import edge_of, needs_grad, value
from cython.cimports.weft.graph.handles import wrap
from cython.cimports.weft.graph.node import DONE, Node
from cython.cimports.weft.graph.prefetch import (
    PyList_GET_ITEM,
    PyTuple_GET_ITEM,
    prefetch_edges,
    prefetch_inputs,
)
from cython.cimports.weft.graph.saves import drop_inputs, note_idle, release_saves
from cython.cimports.weft.graph.tape import Mode, current_tape
from cython.cimports.weft.graph.targets import AccumulateGrad, GradientFunction, OutputEdge
from cython.cimports.weft.graph.tensor import Tensor

from weft._compiled import require
from weft.autograd import joining, merging
from weft.autograd.observe import UNSET, call_after
from weft.graph.lens import SPARSE
from weft.graph.mutation import mutate
from weft.graph.recording import cast
from weft.graph.rows import COMPOSITE
from weft.graph.strides import dense_order
from weft.graph.tape import last_sequence
from weft.ops.primitives import reshape
from weft.schedule import batch, forms
from weft.schedule.stacking import row_of

require(__name__, cython.compiled)

_sparse = cython.declare(cython.int, SPARSE)


@cython.cclass
class Walk(Discovery):
    """One reverse walk. Use `run(roots, captured, keep, create, leaves)`."""

    keep = cython.declare(cython.bint)
    create = cython.declare(cython.bint)
    batched = cython.declare(cython.bint)
    heap = cython.declare(list)
    latest = cython.declare(Node)  # the latest ready node waits here, the others on the heap
    newest = cython.declare(GradientFunction)  # and the latest ready record of another kind
    groups = cython.declare(list)
    ready_groups = cython.declare(dict)
    results = cython.declare(dict)
    leaves = cython.declare(cython.bint)
    units = cython.declare(list)

    def __cinit__(self):
        self.heap = []
        self.groups = []
        self.ready_groups = {}
        self.results = {}
        self.units = None

    # -- the agenda ------------------------------------------------------------------------------------------------

    @cython.cfunc
    def start(self, roots: list) -> cython.void:
        if self.batched:
            self.find_groups()
        for edge, cotangent in roots:
            self.give(edge, value(cotangent), -1, cotangent)
        for quotient in self.groups:
            if cython.cast(Group, cython.cast(Node, quotient).scratch).left == 0:
                self.push(cython.cast(Node, quotient).scratch)
        for current in self.reached:
            if isinstance(current, Node):
                if cython.cast(Node, current).count == 0 and not isinstance(
                    cython.cast(Node, current).scratch, Group
                ):
                    self.ready(current)
            elif current.count == 0:
                self.ready(current)

    @cython.cfunc
    def find_groups(self) -> cython.void:
        """The reached members of each batch; what is observed or captured stays by itself."""
        fresh: list = []
        node: Node
        position: cython.Py_ssize_t
        for position in range(len(self.reached)):
            current = self.reached[position]
            prefetch_edges(self.reached, position)
            if not isinstance(current, Node):
                continue
            node = cython.cast(Node, current)
            if (
                (node.quotient is None and node.considered)
                or node.observers is not None
                or (self.joined is not None and node in self.joined)
                or (self.captured and node in self.captured)
            ):
                continue
            if node.quotient is None:
                fresh.append(node)
            else:
                self.join_group(node)
        forms.group_records(fresh)
        for node in fresh:
            if node.quotient is not None:
                self.join_group(node)
        for quotient in self.groups:
            cython.cast(Group, cython.cast(Node, quotient).scratch).close()

    @cython.cfunc
    def join_group(self, node: Node) -> cython.void:
        """Put a reached member of a batch beside the others."""
        quotient: Node = node.quotient
        group: Group
        if quotient.mark != self.stamp:
            self.displace(quotient)
            quotient.mark = self.stamp
            group = Group(quotient.info[1])
            quotient.scratch = group
            self.groups.append(quotient)
        else:
            group = quotient.scratch
        node.scratch = group
        group.join(node)

    @cython.cfunc
    def give(self, edge, cotangent: Node | None, row: cython.longlong, tensor) -> cython.void:
        """One contribution to the cotangent of an edge; the handle keeps its value alive while it is in flight."""
        number: cython.int = 0
        if isinstance(edge, OutputEdge):
            number = cython.cast(OutputEdge, edge).number
            edge = cython.cast(OutputEdge, edge).function
        if _is_sparse(tensor) and not isinstance(edge, AccumulateGrad):
            tensor = late["sparse"]().as_dense(tensor)  # rules are about dense cotangents
            cotangent = value(tensor)
        if isinstance(edge, Node):
            node: Node = cython.cast(Node, edge)
            if node.mark == self.stamp:
                if isinstance(node.scratch, Group):
                    cython.cast(Group, node.scratch).add(node, tensor, row)
                    return
                node.scratch = one_more(node.scratch, cotangent, row, tensor, number)
            return
        if isinstance(edge, GradientFunction):
            function: GradientFunction = cython.cast(GradientFunction, edge)
            if function.mark == self.stamp:
                function.scratch = one_more(function.scratch, cotangent, row, tensor, number)
            return
        if cython.cast(AccumulateGrad, edge).mark == self.stamp:
            sink: AccumulateGrad = cython.cast(AccumulateGrad, edge)
            sink.scratch = one_more(sink.scratch, cotangent, row, tensor, number)

    @cython.cfunc
    def hand_over(self, members: list, index: cython.Py_ssize_t, part) -> cython.void:
        """Give one cotangent (or None) with a row for each member to the members' edges, and settle these: at once
        where they lead to all rows of another batch in order."""
        count: cython.Py_ssize_t = len(members)
        row: cython.Py_ssize_t
        group: Group = self.opposite(members, index)
        if group is not None:
            if part is not None:
                group.whole.append(part)
            group.behind += 1
            self.settle_group(group, count)
            return
        cotangent: Node = None if part is None else value(part)
        for row in range(count):
            prefetch_edges(members, row)
            edge = cython.cast(Node, members[row]).edges[index]
            if edge is not None:
                if part is not None:
                    self.give(edge, cotangent, row, part)
                self.settle(edge)

    @cython.cfunc
    def opposite(self, members: list, index: cython.Py_ssize_t) -> Group:
        """The batch whose reached members are, in order, what one edge of each of these leads to; or None."""
        first = cython.cast(Node, members[0]).edges[index]
        if not isinstance(first, Node):
            return None
        target: Node = cython.cast(Node, first)
        if target.mark != self.stamp or not isinstance(target.scratch, Group):
            return None
        group: Group = target.scratch
        row: cython.Py_ssize_t
        if len(group.members) != len(members):
            return None
        for row in range(len(members)):
            # Compared as pointers: a new reference would touch a node that is far away.
            if PyTuple_GET_ITEM(cython.cast(Node, members[row]).edges, index) != PyList_GET_ITEM(
                group.members, row
            ):
                return None
        return group

    @cython.cfunc
    def settle_group(self, group: Group, consumers: cython.longlong) -> cython.void:
        """So many consumers of a batch's members are done."""
        group.left -= consumers
        if group.left == 0:
            self.push(group)

    @cython.cfunc
    def settle(self, edge) -> cython.void:
        """One consumer of an edge is done."""
        if isinstance(edge, Node):
            node: Node = cython.cast(Node, edge)
            node.count -= 1
            if node.mark == self.stamp:
                if isinstance(node.scratch, Group):
                    self.settle_group(node.scratch, 1)
                elif node.count == 0:
                    self.ready(node)
            return
        if isinstance(edge, AccumulateGrad):
            sink: AccumulateGrad = cython.cast(AccumulateGrad, edge)
            sink.count -= 1
            if sink.count == 0 and sink.mark == self.stamp:
                self.accumulate(sink)
            return
        function: GradientFunction = target_of(edge)
        function.count -= 1
        if function.count == 0 and function.mark == self.stamp:
            self.ready(function)

    @cython.cfunc
    def ready(self, current) -> cython.void:
        if isinstance(current, AccumulateGrad):
            self.accumulate(current)
            return
        if isinstance(current, Node):
            node: Node = cython.cast(Node, current)
            if self.latest is None or node.seq > self.latest.seq:
                node, self.latest = self.latest, node
            if node is not None:
                heapq.heappush(self.heap, (-node.seq, 0, node))
            return
        function: GradientFunction = cython.cast(GradientFunction, current)
        if self.newest is None or function.seq > self.newest.seq:
            function, self.newest = self.newest, function
        if function is not None:
            heapq.heappush(self.heap, (-function.seq, 1, function))

    @cython.cfunc
    def push(self, group: Group) -> cython.void:
        """Put a group on the agenda, at the place of its latest member."""
        last: Node = group.members[len(group.members) - 1]
        heapq.heappush(self.heap, (-last.seq, last.quotient.seq, group))
        if self.units is None:
            group.likeness = merging.likeness(group)
            if group.likeness is not None:
                self.ready_groups.setdefault(group.likeness, []).append(group)

    @cython.cfunc
    def with_its_like(self, group: Group) -> Group:
        """A group, with those that are ready and equal: batches of different rounds."""
        ready: list = [] if group.likeness is None else self.ready_groups.pop(group.likeness)
        other: Group
        for other in ready:
            other.gone = True
        return group if len(ready) < 2 else merging.union(ready)

    def run(self, roots: list, captured: dict, keep: bool, create: bool, leaves: bool):
        """Walk. `captured` maps records to output numbers wanted; returns {(record, number): tensor}."""
        self.captured, self.keep, self.create, self.leaves = captured, keep, create, leaves
        mode: Mode = current_tape().mode
        if mode.walk == 0:
            return self.go(mode, roots)
        self.displaced = []
        try:
            return self.go(mode, roots)
        finally:
            self.put_back()

    @cython.cfunc
    def go(self, mode: Mode, roots: list):
        """Discover, walk, clean up."""
        self.discover(roots)
        if self.captured:
            self.prune()
            self.check_usable()
        create: cython.bint = self.create
        self.batched = (
            batch.enabled()
            and not create
            and self.observed <= 1
            and mode.duals is None
            and self.displaced is None
        )
        previous: cython.bint = mode.grad
        outer: tuple = (mode.walk, mode.chosen)
        mode.grad = create
        mode.walk, mode.chosen = self.stamp, bool(self.captured)
        try:
            self.start(roots)
            self.drain()
            self.reached = []  # all have run, and given up what came for them
        finally:
            mode.grad = previous
            mode.walk, mode.chosen = outer
            for current in self.reached:
                if isinstance(current, Node):
                    cython.cast(Node, current).scratch = None
                else:
                    current.scratch = None
            for quotient in self.groups:
                cython.cast(Node, quotient).scratch = None
        return self.results

    @cython.cfunc
    def drain(self) -> cython.void:
        node: Node
        function: GradientFunction
        while True:
            while self.heap or self.latest is not None or self.newest is not None:
                first: cython.longlong = -1
                if self.heap:
                    first = -cython.cast(tuple, self.heap[0])[0]
                if (
                    self.latest is not None
                    and self.latest.seq > first
                    and (self.newest is None or self.latest.seq >= self.newest.seq)
                ):
                    node, self.latest = self.latest, None
                    self.pull_node(node)
                    continue
                if self.newest is not None and self.newest.seq > first:
                    function, self.newest = self.newest, None
                    self.pull_function(function)
                    continue
                _priority, _tie, unit = heapq.heappop(self.heap)
                if isinstance(unit, Group):
                    if not cython.cast(Group, unit).gone:
                        self.pull_group(self.with_its_like(unit))
                elif isinstance(unit, Node):
                    self.pull_node(unit)
                else:
                    self.pull_function(unit)
            if not self.split_stuck():
                return

    @cython.cfunc
    def split_stuck(self) -> cython.bint:
        """Groups that wait for each other: run the ready members of the latest one by themselves."""
        latest: Node = None
        quotient: Node
        group: Group
        for quotient in self.groups:
            group = quotient.scratch
            if group.left > 0:
                for node in group.members:
                    if cython.cast(Node, node).count == group.behind and (
                        latest is None or node.seq > latest.seq
                    ):
                        latest = node
        if latest is None:
            return False
        group = latest.quotient.scratch
        came: list = group.contributions()
        part: Group = Group(latest.quotient.info[1])
        rest: Group = Group(latest.quotient.info[1])
        for node in group.members:
            cython.cast(Node, node).count -= group.behind
            chosen: Group = part if cython.cast(Node, node).count == 0 else rest
            cython.cast(Node, node).scratch = chosen
            chosen.join(node)
        part.close()
        rest.close()
        for row in range(len(group.members)):
            if came[row] is not None:
                for cotangent, number, tensor, _output in came[row]:
                    self.give(group.members[row], cotangent, number, tensor)
        latest.quotient.scratch = rest
        self.push(part)
        return True

    # -- cotangents ------------------------------------------------------------------------------------------------

    @cython.cfunc
    def total(self, contributions, shape: tuple):
        """The sum of the contributions to one edge, as a tensor; None where there are none."""
        result = None
        if contributions is None:
            return None
        if isinstance(contributions, Tensor):
            result = contributions
            return result if cython.cast(Tensor, result)._shape == shape else reshape(result, shape)
        parts: list = []
        for cotangent, row, tensor, _number in contributions:
            part = tensor if row < 0 else wrap(row_of(cotangent, row), None)
            if cython.cast(Tensor, part)._shape != shape:
                part = reshape(part, shape)
            parts.append(part)
        for part in parts:
            if _is_sparse(part):
                return late["sparse"]().total(parts)
        parts = join_blocks(parts, shape)
        if len(parts) > 1 and not self.create and self.units is None:
            parts = joining.join(parts, shape)
        for part in parts:
            result = part if result is None else result + part
        return result

    # -- anomaly mode ----------------------------------------------------------------------------------------------

    def watch(self, units: list):
        """Write into a list what each record has recorded: (record or members, first node's number, last one's, the
        gradients of its inputs, the values of composites)."""
        self.units = units

    @cython.cfunc
    def place(self):
        """The number of the newest node while the walk is watched."""
        return None if self.units is None else last_sequence()

    @cython.cfunc
    def note(self, record, first, parts: list, results: list) -> cython.void:
        nodes: list = [None if part is None else value(part) for part in parts]
        self.units.append((record, first, last_sequence(), nodes, results))

    # -- units -----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def capture(self, current, number: cython.int, gradient) -> cython.void:
        self.results[(current, number)] = gradient

    @cython.cfunc
    def pull_node(self, node: Node) -> cython.void:
        """The derivative of one node."""
        g = self.total(node.scratch, node.shape)
        node.scratch = None
        observers: Observers = None
        if node.observers is not None:
            observers = node.observers
            g = before_one(observers, g)
        if self.captured and node in self.captured:
            self.capture(node, 0, g)
        wanted: cython.bint = self.wanted(node)
        below: tuple = self.below(node)
        if g is None and wanted and observers is not None:
            self.pass_nothing(observers, len(below))
        if g is not None and wanted:
            if observers is not None and observers._prehooks is not None:
                g = before_pull(observers, (g,))[0]
            first: object = self.place()
            parts: list = [g] if below is not node.edges else pull_single(node, g, self.create)
            if first is not None:
                self.note(node, first, parts, [node.result])
            if observers is not None and observers._posthooks is not None:
                parts = after_node(observers, parts, (g,))
            for index in range(len(below)):
                edge = below[index]
                if edge is not None and parts[index] is not None:
                    self.give(edge, value(parts[index]), -1, parts[index])
        if wanted:
            self.finish(node)
        for edge in below:
            if edge is not None:
                self.settle(edge)

    @cython.cfunc
    def pass_nothing(self, observers: Observers, operands: cython.Py_ssize_t) -> cython.void:
        """The hooks of a record at which no gradient arrives."""
        before_pull(observers, (None,))
        after_node(observers, [None] * operands, (None,))

    @cython.cfunc
    def finish(self, node: Node) -> cython.void:
        """Give up saves, unless the graph is retained."""
        if self.keep:
            return
        node.released = True
        if node.observers is not None and node.saved != 0:
            node.observers.forget_hooks()  # it runs no more, and a hook may close over what is computed from it
        release_saves(node)
        if node.quotient is not None and not node.batched:
            node.batched = True
            node.quotient.members -= 1
            if node.quotient.members == 0:
                release_saves(node.quotient)
                if node.quotient.state == DONE:
                    drop_inputs(node.quotient)
        if node.state == DONE:
            drop_inputs(node)
            node.quotient = None
            note_idle(node)
        if node.row.kind == COMPOSITE:
            node.inputs = None
            node.result = None
            node.quotient = None

    @cython.cfunc
    def pull_group(self, group: Group) -> cython.void:
        """The derivative of the reached members of a batch, recorded once."""
        members: list = group.members
        first: Node = members[0]
        if len(members) == 1:
            first.scratch = group.contributions()[0]
            self.pull_node(first)
            return
        form = (
            forms.form_of(first.quotient, members)
            if group.parts is None
            else merging.form_of_union(group)
        )
        g = group.assemble(form.shape)
        group.whole, group.bundles = [], []
        parts: list = None
        if g is not None:
            start: object = self.place()
            parts = pull_rules(
                first.row,
                g,
                At(form.params, form.shapes, form.shape),
                form.inputs,
                form.result,
                first.edges,
            )
            if start is not None:
                self.note(members, start, parts, [cython.cast(Node, m).result for m in members])
        node: Node
        position: cython.Py_ssize_t
        for position in range(len(members)):
            prefetch_inputs(members, position)
            node = members[position]
            self.finish(node)
            node.scratch = None
        index: cython.Py_ssize_t
        for index in range(len(first.edges)):
            if first.edges[index] is None:
                continue
            part = None if parts is None else parts[index]
            if part is not None and not form.flags[index]:
                self.give(first.edges[index], value(part), -1, part)
                part = None
            self.hand_over(members, index, part)

    @cython.cfunc
    def pull_function(self, function: GradientFunction) -> cython.void:
        """The derivative of a gradient record with Python of its own."""
        sums: list = [None] * function.outputs
        if isinstance(function.scratch, Tensor):
            sums[0] = function.scratch
        elif function.scratch is not None:
            for cotangent, row, part, number in cython.cast(list, function.scratch):
                if row >= 0:
                    part = wrap(row_of(cotangent, row), None)
                sums[number] = part if sums[number] is None else sums[number] + part
        function.scratch = None
        if function.observers is not None:
            sums = list(before_node(function.observers, tuple(sums)))
        if self.captured:
            for number in range(function.outputs):
                if (function, number) in self.captured or function in self.captured:
                    self.capture(function, number, sums[number])
        wanted: cython.bint = self.wanted(function)
        if wanted:
            if function.observers is not None:
                sums = list(before_pull(function.observers, tuple(sums)))
            first: object = self.place()
            parts = function.pull(sums, self.create)
            if first is not None:
                self.note(function, first, parts, [])
            if function.observers is not None:
                parts = after_node(function.observers, parts, tuple(sums))
            index: cython.Py_ssize_t
            for index in range(len(function.edges)):
                part = parts[index]
                if function.edges[index] is not None and part is not None:
                    self.give(function.edges[index], _carried(part), -1, part)
        if wanted and not self.keep:
            function.released = True
            function.release()
        for edge in function.edges:
            if edge is not None:
                self.settle(edge)

    @cython.cfunc
    def accumulate(self, sink: AccumulateGrad) -> cython.void:
        """Add the cotangent of a leaf to its `.grad`, or capture it."""
        leaf: Tensor = sink.variable
        g = self.total(sink.scratch, leaf._shape)
        sink.scratch = None
        if g is None:
            self.accumulate_nothing(sink)
            return
        dtype: object = leaf._dtype
        if leaf.hooks is not None and leaf.hooks.grad_dtype is not UNSET:
            dtype = leaf.hooks.grad_dtype
        if dtype is not None and cython.cast(Tensor, g)._dtype is not dtype:
            g = cast(g, dtype)
        g = observe_leaf(leaf, g)
        if self.units is not None:
            self.note(sink, self.place(), [g], [])
        if sink in self.captured:
            self.capture(sink, 0, g)
        if self.leaves or (sink in self.captured and self.captured[sink] is None):
            accumulate_grad(leaf, g, self.create, sink)

    @cython.cfunc
    def accumulate_nothing(self, sink: AccumulateGrad) -> cython.void:
        """A leaf whose consumers have all given None: its hooks are called all the same."""
        leaf: Tensor = sink.variable
        if leaf.hooks is None and sink.observers is None:
            return
        observe_leaf(leaf, None)
        if not self.leaves and not (sink in self.captured and self.captured[sink] is None):
            return
        if sink.observers is not None:
            before_pull(sink.observers, (None,))
        if leaf.hooks is not None and leaf.hooks.post_accumulate:
            call_after(leaf, leaf.hooks.post_accumulate)
        if sink.observers is not None:
            after_node(sink.observers, [], (None,))


@cython.cfunc
def _carried(part: Tensor) -> Node:
    """The node of a cotangent's value; a sparse one has none before it is asked to be dense."""
    return None if _is_sparse(part) else value(part)


@cython.cfunc
def one_more(came, cotangent: Node | None, row: cython.longlong, tensor, number: cython.int):
    """What came for an edge before, and one contribution more: a tensor where it is the only one and whole, as a rule,
    else a list of (cotangent, row, handle, output number)."""
    if came is None and row < 0 and number == 0:
        return tensor
    if came is None:
        came = []
    elif isinstance(came, Tensor):
        came = [(None, -1, came, 0)]
    cython.cast(list, came).append((cotangent, row, tensor, number))
    return came


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_sparse(tensor: Tensor) -> cython.bint:
    return tensor.lens & _sparse != 0


def accumulate_grad(leaf: Tensor, g, create: bool, sink):
    """Put a gradient into `.grad`: in place on the same object, out of place under create_graph."""
    after = sink.observers
    if after is not None:
        g = before_pull(after, (g,))[0]
    if _is_sparse(g) or (leaf._grad is not None and _is_sparse(leaf._grad)):
        late["sparse"]().accumulate(leaf, g, create)
    elif leaf._grad is None:
        fresh: Tensor = wrap(value(g), edge_of(g) if create and needs_grad(g) else None)
        if leaf.strides is not None and dense_order(leaf._shape, leaf.strides) is not None:
            fresh.strides = leaf.strides
        leaf._grad = fresh
    elif create:
        leaf._grad = leaf._grad + g
    else:
        mutate(leaf._grad, leaf._grad + g)
    hooks = leaf.hooks
    if hooks is not None and hooks.post_accumulate:
        call_after(leaf, hooks.post_accumulate)
    if after is not None:
        after_node(after, [], (g,))
