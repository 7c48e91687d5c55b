# cython: language_level=3
"""The reverse walk: from root cotangents to the gradients of leaves or of chosen inputs.

In come roots (an edge and its cotangent) and targets; out go cotangents, recorded as ordinary nodes and not yet run.
The walk is over the original nodes' edges, latest created first. Where the schedule has put equal nodes into a
batch, the derivative of all reached members is recorded once, on the batch; a member that somebody observes (hooks,
`retain_grad`, a capture) and every walk with `create_graph` goes node by node. Cotangents are keyed on edges.
"""

import heapq

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.autograd.discovery import Discovery
from cython.cimports.weft.autograd.group import Group, join_blocks, new_group
from cython.cimports.weft.autograd.integers import Integers
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
from cython.cimports.weft.graph.prefetch import prefetch
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
_soon = cython.declare(cython.Py_ssize_t, 24)  # steps ahead at which flags are asked for


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
    fresh = cython.declare(list)  # nodes that have not been considered for a batch

    def __cinit__(self):
        self.heap = []
        self.groups = []
        self.fresh = []
        self.ready_groups = {}
        self.results = {}
        self.units = None

    # -- the agenda ------------------------------------------------------------------------------------------------

    @cython.cfunc
    def start(self, roots: list) -> cython.void:
        number: cython.int
        group: Group
        if self.batched:
            self.close_groups()
        for edge, cotangent in roots:
            number = self.number_of(edge)
            if number >= 0:
                self.give(number, output_of(edge), cotangent, -1)
        for group in self.groups:
            if group.left == 0:
                self.push(group)
        for number in range(self.count):
            if self.known[number].consumers == 0 and self.known[number].group < 0:
                self.ready(cython.cast(object, self.known[number].record))

    @cython.cfunc
    @cython.exceptval(-1)
    def meet(self, node: Node) -> cython.int:
        """Put a reached member of a batch beside the others; what is observed or captured stays by itself."""
        if (
            not self.batched
            or (node.quotient is None and node.considered)
            or node.observers is not None
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
        if quotient.mark != self.stamp:
            self.displace(quotient)
            quotient.mark = self.stamp
            quotient.count = len(self.groups)
            self.groups.append(new_group(self.known, quotient.info[1]))
        self.known[node.count].group = cython.cast(cython.int, quotient.count)
        group: Group = self.groups[quotient.count]
        group.members.items[node.qrow] = cython.cast(cython.int, node.count)
        return 0

    @cython.cfunc
    def close_groups(self) -> cython.void:
        """All has been reached: group what no flush computes, and number the members."""
        node: Node
        group: Group
        forms.group_records(self.fresh)
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
                self.meet(current)

    @cython.cfunc
    def forget_groups(self) -> cython.void:
        """More is observed than was known at first: nothing is pulled with others."""
        number: cython.int
        self.groups, self.fresh = [], []
        for number in range(self.count):
            self.known[number].group = -1

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
            return group.add(self.known[target].place, _as_dense(tensor), row)
        current = cython.cast(object, self.known[target].record)
        if not isinstance(current, AccumulateGrad):
            tensor = _as_dense(tensor)
        if isinstance(current, Node):
            node: Node = cython.cast(Node, current)
            node.scratch = one_more(node.scratch, tensor, row, output)
        elif isinstance(current, AccumulateGrad):
            sink: AccumulateGrad = cython.cast(AccumulateGrad, current)
            sink.scratch = one_more(sink.scratch, tensor, row, output)
        else:
            function: GradientFunction = cython.cast(GradientFunction, current)
            function.scratch = one_more(function.scratch, tensor, row, output)
        return 0

    @cython.cfunc
    def hand_over(self, members: Group, index: cython.int, part) -> cython.void:
        """Give one cotangent (or None) with a row for each member to what the members' edges lead to, and settle these:
        at once where they lead to all rows of another batch in order."""
        group: Group = self.opposite(members, index)
        if group is not None:
            if part is not None:
                group.whole.append(part)
            group.behind += 1
            self.settle_group(group, members.members.count)
            return
        row: cython.int
        target: cython.int
        output: cython.int
        for row in range(cython.cast(cython.int, members.members.count)):
            target = self.target(members, row, index)
            if target < 0:
                continue
            if part is not None:
                output = 0
                if self.known[target].group < 0:
                    output = output_of(members.at(row).edges[index])
                self.give(target, output, part, row)
            self.settle(target)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def target(
        self, members: Group, place: cython.Py_ssize_t, index: cython.Py_ssize_t
    ) -> cython.int:
        """The number of what an edge of a member leads to."""
        return self.targets.items[self.known[members.members.items[place]].first + index]

    @cython.cfunc
    def opposite(self, members: Group, index: cython.int) -> Group:
        """The batch whose reached members are, in order, what one edge of each of these leads to; or None."""
        first: cython.int = self.target(members, 0, index)
        if first < 0 or self.known[first].group < 0:
            return None
        group: Group = self.groups[self.known[first].group]
        place: cython.Py_ssize_t
        if group.members.count != members.members.count:
            return None
        for place in range(group.members.count):
            if self.target(members, place, index) != group.members.items[place]:
                return None
        return group

    @cython.cfunc
    def settle_group(self, group: Group, consumers: cython.longlong) -> cython.void:
        """So many consumers of a batch's members are done."""
        group.left -= consumers
        if group.left == 0:
            self.push(group)

    @cython.cfunc
    @cython.exceptval(-1)
    def settle(self, target: cython.int) -> cython.int:
        """One consumer of a reached record is done."""
        group: cython.int = self.known[target].group
        self.known[target].consumers -= 1
        if group >= 0:
            self.settle_group(self.groups[group], 1)
        elif self.known[target].consumers == 0:
            self.ready(cython.cast(object, self.known[target].record))
        return 0

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
        last: Node = group.at(group.members.count - 1)
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
        """Discover, walk, clean up. The roots hold all that is reached."""
        number: cython.int
        create: cython.bint = self.create
        able: cython.bint = (
            batch.enabled() and not create and mode.duals is None and self.displaced is None
        )
        self.batched = able and not self.captured
        self.discover(roots)
        self.batched = able and self.observed <= 1
        if self.captured:
            self.keep_captured()
        elif not self.batched:
            self.forget_groups()
        previous: cython.bint = mode.grad
        outer: tuple = (mode.walk, mode.chosen)
        mode.grad = create
        mode.walk, mode.chosen = self.stamp, bool(self.captured)
        done: cython.bint = False
        try:
            self.start(roots)
            self.drain()
            done = True  # all have run, and given up what came for them
        finally:
            mode.grad = previous
            mode.walk, mode.chosen = outer
            if not done:
                for number in range(self.count):
                    current = cython.cast(object, self.known[number].record)
                    current.scratch = None
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
        latest: cython.int = -1
        number: cython.int
        chosen: Group = None
        group: Group
        for group in self.groups:
            if group.left <= 0:
                continue
            for number in group.members.listed():
                if self.known[number].consumers == group.behind and (
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
        rows: cython.Py_ssize_t = group.at(0).quotient.info[1]
        part: Group = new_group(self.known, rows)
        rest: Group = new_group(self.known, rows)
        place: cython.Py_ssize_t
        number: cython.int
        own: cython.int = self.known[members.items[0]].group
        for place in range(members.count):
            number = members.items[place]
            self.known[number].consumers -= cython.cast(cython.int, group.behind)
            ready: cython.bint = self.known[number].consumers == 0
            self.known[number].group = cython.cast(cython.int, len(self.groups)) if ready else own
            chosen: Group = part if ready else rest
            chosen.members.items[group.at(place).qrow] = number
        part.close()
        rest.close()
        self.groups[own] = rest
        self.groups.append(part)
        for place in range(members.count):
            for tensor, row, output in came[place] or ():
                self.give(members.items[place], output, tensor, row)
        self.push(part)

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
        for tensor, row, _output in contributions:
            part = tensor if row < 0 else wrap(row_of(value(tensor), row), None)
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
        number: cython.int = cython.cast(cython.int, node.count)
        wanted: cython.bint = self.wanted(number)
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
            self.give_parts(number, below, parts)
        if wanted:
            self.finish(node)
        self.settle_below(number)

    @cython.cfunc
    def give_parts(self, number: cython.int, edges: tuple, parts: list) -> cython.void:
        """Give the cotangents of a record's inputs to what its edges lead to in this walk."""
        index: cython.Py_ssize_t
        for index in range(len(edges)):
            target: cython.int = self.targets.items[self.known[number].first + index]
            if target >= 0 and parts[index] is not None:
                self.give(target, output_of(edges[index]), parts[index], -1)

    @cython.cfunc
    def settle_below(self, number: cython.int) -> cython.void:
        """A record is done: one consumer less for each that its edges lead to."""
        place: cython.Py_ssize_t
        for place in range(self.known[number].first, self.known[number + 1].first):
            if self.targets.items[place] >= 0:
                self.settle(self.targets.items[place])

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
            self.finish_quotient(node.quotient)
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
        first: Node = group.at(0)
        if group.members.count == 1:
            first.scratch = group.contributions()[0]
            self.pull_node(first)
            return
        form = (
            forms.form_of(first.quotient, first, group.rows)
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
                members: list = group.nodes()
                self.note(members, start, parts, [cython.cast(Node, m).result for m in members])
        if not self.keep:
            self.finish_all(group)
        index: cython.int
        for index in range(cython.cast(cython.int, len(first.edges))):
            target: cython.int = self.target(group, 0, index)
            part = None if parts is None else parts[index]
            if part is not None and not form.flags[index]:
                if target >= 0:
                    self.give(target, output_of(first.edges[index]), part, -1)
                part = None
            if first.edges[index] is not None:
                self.hand_over(group, index, part)

    @cython.cfunc
    def finish_all(self, group: Group) -> cython.void:
        """Give up the saves of a batch's members, which nobody observes. Of one that has not run by itself only the
        flags are looked at: the memory of tens of thousands is far away."""
        if group.parts is not None:
            for part in group.parts:
                self.finish_all(part)
            return
        count: cython.Py_ssize_t = group.members.count
        quotient: Node = group.at(0).quotient
        plain: cython.bint = group.at(0).row.kind != COMPOSITE
        place: cython.Py_ssize_t
        flagged: cython.Py_ssize_t = 0
        for place in range(count):
            if place + _soon < count:
                prefetch_flags(self.known[group.members.items[place + _soon]].record)
            # Borrowed: a new reference would touch the beginning of the node too.
            node: cython.pointer(PyObject) = self.known[group.members.items[place]].record
            if plain and _is_bare(node):
                cython.cast(Node, node).released = True
                cython.cast(Node, node).batched = True
                flagged += 1
            else:
                self.finish(cython.cast(Node, node))
        if flagged > 0:
            quotient.members -= cython.cast(cython.int, flagged)
            self.finish_quotient(quotient)

    @cython.cfunc
    def finish_quotient(self, quotient: Node) -> cython.void:
        """Give up the saves of a batch whose members have all been pulled."""
        if quotient.members == 0:
            release_saves(quotient)
            if quotient.state == DONE:
                drop_inputs(quotient)

    @cython.cfunc
    def pull_function(self, function: GradientFunction) -> cython.void:
        """The derivative of a gradient record with Python of its own."""
        sums: list = [None] * function.outputs
        if isinstance(function.scratch, Tensor):
            sums[0] = function.scratch
        elif function.scratch is not None:
            for part, row, output in cython.cast(list, function.scratch):
                if row >= 0:
                    part = wrap(row_of(value(part), row), None)
                sums[output] = part if sums[output] is None else sums[output] + part
        function.scratch = None
        if function.observers is not None:
            sums = list(before_node(function.observers, tuple(sums)))
        if self.captured:
            for number in range(function.outputs):
                if (function, number) in self.captured or function in self.captured:
                    self.capture(function, number, sums[number])
        own: cython.int = cython.cast(cython.int, function.count)
        wanted: cython.bint = self.wanted(own)
        if wanted:
            if function.observers is not None:
                sums = list(before_pull(function.observers, tuple(sums)))
            first: object = self.place()
            parts = function.pull(sums, self.create)
            if first is not None:
                self.note(function, first, parts, [])
            if function.observers is not None:
                parts = after_node(function.observers, parts, tuple(sums))
            self.give_parts(own, function.edges, parts)
        if wanted and not self.keep:
            function.released = True
            function.release()
        self.settle_below(own)

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
@cython.inline
@cython.exceptval(check=False)
def prefetch_flags(record: cython.pointer(PyObject)) -> cython.void:
    """Ask for the flags of a node."""
    prefetch(cython.cast(cython.p_char, record) + 104)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_bare(node: cython.pointer(PyObject)) -> cython.bint:
    """Whether a member has not run by itself, keeps nothing, and counts among those that its batch waits for."""
    return (
        cython.cast(Node, node).state != DONE
        and not cython.cast(Node, node).holds
        and not cython.cast(Node, node).batched
    )


@cython.cfunc
@cython.exceptval(-1)
def output_of(edge) -> cython.int:
    """The number of the output that an edge leads to."""
    return cython.cast(OutputEdge, edge).number if isinstance(edge, OutputEdge) else 0


@cython.cfunc
def one_more(came, tensor, row: cython.int, output: cython.int):
    """What came for an edge before, and one contribution more: a tensor where it is the only one and whole, as a rule,
    else a list of (handle, row, output number)."""
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
def _is_sparse(tensor: Tensor) -> cython.bint:
    return tensor.lens & _sparse != 0


@cython.cfunc
@cython.inline
def _as_dense(tensor: Tensor) -> Tensor:
    """A cotangent as derivative rules take it."""
    return late["sparse"]().as_dense(tensor) if _is_sparse(tensor) else tensor


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
