# cython: language_level=3
"""The backward engine (reverse-mode walk): from root cotangents to the gradients of leaves or of chosen inputs.

It takes roots (an edge and its cotangent) and targets, and records the cotangents as ordinary nodes, which have not
run yet. It walks the original nodes' edges, latest created first. If batching has put equal nodes into a batch, the
derivative of all reached members is recorded once, on the batch; a member that is observed (hooks, `retain_grad`, a
capture) and every walk with `create_graph` goes node by node. Cotangents are keyed on edges.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.backward.apply_vjp import At, vjp_rules, vjp_single
from cython.cimports.weft.engine.backward.batching.batched_vjp import Group, join_blocks
from cython.cimports.weft.engine.backward.hooks import (
    Observers,
    after_node,
    before_node,
    before_one,
    before_vjp,
    observe_leaf,
)
from cython.cimports.weft.engine.backward.reachability import give_up, number_in, sum_edges
from cython.cimports.weft.engine.backward.ready_queue import ReadyQueue, is_sparse, output_of
from cython.cimports.weft.engine.capi.call_site import CallScope, begin_scope
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.batch import Batch, batch_of
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import DONE, Node, deferral_of, observers_on, result_of
from cython.cimports.weft.engine.ir.prefetch import prefetch
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residuals import drop_inputs, release_residuals
from cython.cimports.weft.engine.ir.tape import Tape, current_tape

from weft._build.compiled import require
from weft.engine.backward.accumulate_grad import accumulate_grad
from weft.engine.backward.batching import combine_accumulations, merge_batches
from weft.engine.backward.hooks import UNSET, call_after
from weft.engine.backward.reachability import UNBATCHED_OBSERVERS, freed
from weft.engine.backward.reshape_gradients import fit_all
from weft.engine.backward.saved_tensor_hooks import put_back_hooks
from weft.engine.frontend.recorder import cast
from weft.engine.ir.primitive import COMPOSITE, CONTRACT, REDUCE, REGION
from weft.engine.ir.tape import last_sequence
from weft.engine.pipeline.batching import batch, batched_residuals
from weft.engine.pipeline.batching.operand_packing import row_of
from weft.ops.primitives import reshape

require(__name__, cython.compiled)

_region = cython.declare(cython.int, REGION)
_contract = cython.declare(cython.int, CONTRACT)
_reduce = cython.declare(cython.int, REDUCE)
_OF_FUNCTIONS = cython.declare(
    cython.uint, 0x80008000
)  # base of scopes of Functions: that of no other
_soon = cython.declare(cython.Py_ssize_t, 24)  # steps ahead at which flags are asked for


@cython.cclass
class Walk(ReadyQueue):
    """One reverse walk. Use `run(roots, captured, keep, create, leaves)`."""

    keep = cython.declare(cython.bint)
    create = cython.declare(cython.bint)
    results = cython.declare(dict)
    leaves = cython.declare(cython.bint)
    units = cython.declare(list)
    journal = cython.declare(list)
    arrivals = cython.declare(list)

    def __cinit__(self):
        self.results = {}
        self.units = None
        self.journal = None
        self.arrivals = None

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
        create: cython.bint = self.create
        able: cython.bint = (
            batch.enabled() and not create and mode.duals is None and self.displaced is None
        )
        self.batched = able and not self.captured
        self.discover(roots)
        self.batched = able and self.observed < UNBATCHED_OBSERVERS
        if self.captured:
            self.keep_captured()
        elif not self.batched:
            self.forget_groups()
        previous: cython.bint = mode.grad
        hooks: object = mode.saved_hooks
        outer: tuple = (mode.walk, mode.chosen)
        around: CallScope = mode.scope
        mode.scope.frame = cython.NULL  # rules open their own; sums of cotangents are alike
        mode.grad = create
        mode.walk, mode.chosen = self.stamp, bool(self.captured)
        try:
            self.start(roots)
            self.drain()
        finally:
            mode.grad = previous
            mode.walk, mode.chosen = outer
            mode.scope = around
            if mode.saved_hooks is not hooks:
                put_back_hooks(hooks)
        return self.results

    @cython.cfunc
    def drain(self) -> cython.void:
        while True:
            while self.heap.count > 0:
                unit = self.heap.pop()
                if isinstance(unit, Node):
                    self.vjp_node(unit)
                elif not isinstance(unit, Group):
                    self.vjp_function(unit)
                elif not cython.cast(Group, unit).gone:
                    self.vjp_group(self.with_its_like(unit))
            if not self.split_stuck():
                return

    # -- cotangents ------------------------------------------------------------------------------------------------

    @cython.cfunc
    def total(self, contributions, shape: tuple):
        """The sum of the contributions to one edge, as a tensor; None if there are none."""
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
            if is_sparse(part):
                return core_hooks.sparse().total(parts)
        parts = join_blocks(parts, shape)
        if len(parts) > 1 and not self.create and self.units is None and _may_join(parts):
            parts = combine_accumulations.join(parts, shape)
        for part in parts:
            result = part if result is None else result + part
        return result

    # -- anomaly mode ----------------------------------------------------------------------------------------------

    def watch(self, units: list):
        """Write into a list what each record has recorded: (record or members, first node's number, last one's, the
        gradients of its inputs, the values of composites or, of a leaf, the gradient held by a handle)."""
        self.units = units
        self.merges = False

    def stay_narrow(self, tape: Tape):
        """Keep records apart if all are of the last graph that was searched, and it is too narrow for batches; whether
        it has run does not matter."""
        self.narrow = tape

    def is_narrow(self):
        """True if the walk was to stay narrow, and has reached nothing else."""
        return self.narrow is not None

    def keep_journal(self, journal: list):
        """Write into a list which leaf got which gradient: (sink, node or None for a sparse one, the newest
        node's number before and after)."""
        self.journal = journal

    def keep_arrivals(self, arrivals: list):
        """Write into a list what has come to each record, as a node: (record, node, 0), or for members of a batch
        (members, the node with the rows of all, 1 + the axis along which members of different heights lie, or 0)."""
        self.arrivals = arrivals

    @cython.cfunc
    def keep_arrival(self, record, g) -> cython.void:
        if self.arrivals is not None and g is not None and not is_sparse(g):
            self.arrivals.append((record, value(g), 0))

    def has_groups(self):
        """True if rules were applied to members of batches together."""
        return len(self.groups) > 0

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
    def vjp_node(self, node: Node) -> cython.void:
        """The derivative of one node."""
        number: cython.int = number_in(node.walk_number)
        g = self.total(self.take(number), node.shape)
        observers: Observers = observers_on(node)
        if observers is not None:
            g = before_one(observers, g)
        if self.captured and node in self.captured:
            self.capture(node, 0, g)
        self.keep_arrival(node, g)
        wanted: cython.bint = self.wanted(number)
        below: tuple = node.edges if self.joined is None else self.below(node)
        if self.operands(number) != len(below):
            below = sum_edges(node, self.operands(number))
        if wanted:
            if g is not None:
                self.vjp_through(node, below, g)
            elif observers is not None:
                self.pass_nothing(observers, len(below))
            self.finish(node)
        self.release_below(number)

    @cython.cfunc
    def vjp_through(self, node: Node, below: tuple, g) -> cython.void:
        """Give the cotangents of a node's inputs to what is `below` it: its edges, or those of all that it adds up.

        Errors: RuntimeError where it has given up its saved values."""
        observers: Observers = observers_on(node)
        number: cython.int = number_in(node.walk_number)
        if observers is not None and observers._prehooks is not None:
            g = before_vjp(observers, (g,))[0]
        if node.released and node.residual_mask != 0:
            raise freed(node)
        first: object = self.place()
        if below is node.edges and self.takes_rows(node, self.create, first):
            self.give_rows(number, below, g)
            return
        if below is node.edges:
            parts: list = vjp_single(node, g, self.create)
        else:
            parts = [g] * len(below)
        if first is not None:
            self.note(node, first, parts[: len(node.edges)], [result_of(node)])
        if observers is not None and observers._posthooks is not None:
            parts = after_node(observers, parts, (g,))
        self.give_parts(number, below, parts)

    @cython.cfunc
    def pass_nothing(self, observers: Observers, operands: cython.Py_ssize_t) -> cython.void:
        """The hooks of a record at which no gradient arrives."""
        before_vjp(observers, (None,))
        after_node(observers, [None] * operands, (None,))

    @cython.cfunc
    def finish(self, node: Node) -> cython.void:
        """Give up saves, unless the graph is retained."""
        if self.keep:
            return
        observers: Observers = observers_on(node)
        if observers is not None and node.residual_mask != 0:
            observers.forget_hooks()  # it runs no more, and a hook may close over what is computed from it
        quotient: Node = None if node.released else node.quotient
        give_up(node)
        if quotient is not None:
            batch: Batch = batch_of(quotient)
            batch.members -= 1
            self.finish_quotient(quotient)

    @cython.cfunc
    def vjp_group(self, group: Group) -> cython.void:
        """The derivative of the reached members of a batch, recorded once."""
        first: Node = group.at(0)
        if group.members.count == 1 or group.is_partial_union():
            self.vjp_apart(group)
            return
        self.need_saved(group)
        if self.adds_up(group):
            self.vjp_sums(group)
            return
        form = (
            batched_residuals.batched_residuals_of(group.quotient, first, group.rows)
            if group.parts is None
            else merge_batches.residuals_of_merged(group)
        )
        g = self.arrived(group, form.shape)
        if g is not None and self.takes_rows(first, self.create, self.place()):
            if not self.keep:
                self.finish_all(group)
            rows: tuple = (group.members.count * first.shape[0], *first.shape[1:])
            self.scatter_rows(group, reshape(g, rows), True)
            return
        parts: list = None if g is None else self.apply_rules(group, first.op, g, form)
        if not self.keep:
            self.finish_all(group)
        self.give_batched(group, parts, form.flags)

    @cython.cfunc
    def vjp_apart(self, group: Group) -> cython.void:
        """The derivatives of the reached members of a batch, one by one."""
        came: list = group.contributions()
        member: cython.Py_ssize_t
        group.quotient = None
        for member in range(len(came)):
            self.came[group.members.items[member]] = came[member]
            self.vjp_node(group.at(member))

    @cython.cfunc
    def arrived(self, group: Group, shape: tuple):
        """The cotangents of a batch's members, stacked; None where none came."""
        g = group.assemble(shape)
        group.dense, group.row_contributions = [], []
        if self.arrivals is not None and g is not None:
            axis: cython.Py_ssize_t = group.axis + 1 if group.ragged else 0
            self.arrivals.append((group.nodes(), value(g), axis))
        return g

    @cython.cfunc
    def apply_rules(self, group: Group, op: Primitive, g: object, form: object) -> list:
        """The cotangents of a batch's operands, by the derivatives of its op."""
        start: object = self.place()
        at: At = At(form.params, form.shapes, form.shape)
        parts: list = vjp_rules(op, g, at, form.inputs, form.result, group.edges())
        if start is not None:
            members: list = group.nodes()
            self.note(members, start, parts, [result_of(m) for m in members])
        return parts

    @cython.cfunc
    def give_batched(self, group: Group, parts: list | None, flags: tuple) -> cython.void:
        """Give the cotangents of a batch's operands on: those of shared ones (by `flags`) whole, the others by rows."""
        edges: tuple = group.edges()
        index: cython.int
        for index in range(cython.cast(cython.int, len(edges))):
            target: cython.int = self.target(group, 0, index)
            part = None if parts is None else parts[index]
            if part is not None and not flags[index]:
                if target >= 0:
                    self.give(target, output_of(edges[index]), part, -1)
                part = None
            if edges[index] is not None:
                self.deliver_rows(group, index, part)

    @cython.cfunc
    def vjp_sums(self, group: Group) -> cython.void:
        """Give the cotangent of each member of a batch of sums to all that it adds up."""
        first: Node = group.at(0)
        count: cython.int = cython.cast(cython.int, group.members.count)
        start: object = self.place()
        g = self.arrived(group, (count, *first.shape))
        if start is not None and g is not None:
            members: list = group.nodes()
            parts: list = [g] * len(first.edges)
            self.note(members, start, parts, [result_of(m) for m in members])
        self.scatter_rows(group, g, False)
        if not self.keep:
            self.finish_all(group)

    @cython.cfunc
    def need_saved(self, group: Group) -> cython.void:
        """Errors: RuntimeError where a walk in a hook has made members give up what they saved."""
        node: Node
        if self.observed > 0 and group.at(0).residual_mask != 0:
            for node in group.nodes():
                if node.released:
                    raise freed(node)

    @cython.cfunc
    def finish_all(self, group: Group) -> cython.void:
        """Give up the saves of a batch's members, which nobody observes. Of one that has not run by itself only the
        flags are looked at: the memory of tens of thousands is far away."""
        if group.parts is not None:
            for part in group.parts:
                self.finish_all(part)
            return
        count: cython.Py_ssize_t = group.members.count
        quotient: Node = group.quotient
        plain: cython.bint = group.at(0).op.kind != COMPOSITE
        place: cython.Py_ssize_t
        flagged: cython.Py_ssize_t = 0
        for place in range(count):
            if place + _soon < count:
                prefetch_flags(self.known[group.members.items[place + _soon]].record)
            # Borrowed: a new reference would touch the beginning of the node too.
            node: cython.pointer(PyObject) = self.known[group.members.items[place]].record
            if plain and _is_bare(node):
                cython.cast(Node, node).released = True
                flagged += 1
            else:
                self.finish(cython.cast(Node, node))
        if flagged > 0:
            batch: Batch = batch_of(quotient)
            batch.members -= cython.cast(cython.int, flagged)
            self.finish_quotient(quotient)
        group.quotient = None  # its memory need not wait for the walk to end

    @cython.cfunc
    def finish_quotient(self, quotient: Node) -> cython.void:
        """Give up the saves of a batch whose members have all been pulled."""
        if batch_of(quotient).members == 0:
            release_residuals(quotient)
            if quotient.state == DONE and deferral_of(quotient) == 0:
                drop_inputs(quotient)

    @cython.cfunc
    def vjp_function(self, function: GradientFunction) -> cython.void:
        """The derivative of a gradient record with Python of its own."""
        own: cython.int = number_in(function.walk_number)
        sums: list = self.sums_of(function, own)
        if function.observers is not None:
            sums = list(before_node(function.observers, tuple(sums)))
        if self.captured:
            for number in range(function.outputs):
                if (function, number) in self.captured or function in self.captured:
                    self.capture(function, number, sums[number])
        self.keep_arrival(function, sums[0] if len(sums) == 1 else None)
        wanted: cython.bint = self.wanted(own)
        if wanted:
            if function.observers is not None:
                sums = list(before_vjp(function.observers, tuple(sums)))
            first: object = self.place()
            mode: Mode = current_tape().mode
            around: CallScope = mode.scope
            begin_scope(cython.address(mode.scope), _OF_FUNCTIONS)
            try:
                parts = function.vjp(sums, self.create)
            finally:
                mode.scope = around
            if first is not None:
                self.note(function, first, parts, [])
            if function.observers is not None:
                parts = after_node(function.observers, parts, tuple(sums))
            self.give_parts(own, function.edges, parts)
        if wanted and not self.keep:
            function.released = True
            function.release()
        self.release_below(own)

    @cython.cfunc
    def sums_of(self, function: GradientFunction, own: cython.int) -> list:
        """The cotangent of each output of a gradient record: what has come to it, added up."""
        sums: list = [None] * function.outputs
        came = self.take(own)
        if isinstance(came, Tensor):
            sums[0] = came
        elif came is not None:
            for part, row, output in cython.cast(list, came):
                if row >= 0:
                    part = wrap(row_of(value(part), row), None)
                sums[output] = part if sums[output] is None else sums[output] + part
        return sums

    @cython.cfunc
    def accumulate(self, sink: AccumulateGrad) -> cython.void:
        """Add the cotangent of a leaf to its `.grad`, or capture it."""
        leaf: Tensor = sink.variable
        came = self.take(number_in(sink.walk_number))
        if sink.expects is None:
            g = self.total(came, leaf._shape)
        else:
            g = self.total(fit_all(came, sink.expects), sink.expects)
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
            self.note(sink, self.place(), [g], [wrap(value(g), None)])  # looked at after the walk
        if sink in self.captured:
            self.capture(sink, 0, g)
        if self.leaves or (sink in self.captured and self.captured[sink] is None):
            before: cython.longlong = 0 if self.journal is None else last_sequence()
            accumulate_grad(leaf, g, self.create, sink)
            if self.journal is not None:
                node: Node = None if is_sparse(g) else value(g)
                self.journal.append((sink, node, before, last_sequence()))

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
            before_vjp(sink.observers, (None,))
        if leaf.hooks is not None and leaf.hooks.post_accumulate:
            call_after(leaf, leaf.hooks.post_accumulate)
        if sink.observers is not None:
            after_node(sink.observers, [], (None,))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _may_join(parts: list) -> cython.bint:
    """True if two contributions are of a kind that `combine_accumulations` joins."""
    count: cython.int = 0
    for part in parts:
        kind: cython.int = value(part).op.kind
        count += kind in (_region, _contract, _reduce)
    return count > 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def prefetch_flags(record: cython.pointer(PyObject)) -> cython.void:
    """Ask for the state and the flags of a node."""
    prefetch(cython.cast(cython.p_void, cython.address(cython.cast(Node, record).state)))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_bare(node: cython.pointer(PyObject)) -> cython.bint:
    """True if a member has not run by itself, keeps no residuals, and its batch still waits for it."""
    return (
        cython.cast(Node, node).state != DONE
        and not cython.cast(Node, node).has_residuals
        and not cython.cast(Node, node).released
    )
