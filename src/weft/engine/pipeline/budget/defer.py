# cython: language_level=3
"""Deferral: which values that only derivatives hold a program does not hand over, because the backward pass would not
fit beside them. Activation checkpointing, chosen by the engine.

A program that ends before its backward pass (a loss is read in between) hands over what derivatives have saved. Under
a budget it keeps some of that, the checkpoints; the nodes of the rest stay recorded (`RareFacts.deferred`), and run
again with the backward pass that reads them. Which ones these are is chosen by `choose`, as in a program that has both:
the steps of this one, and behind them their mirror image, an estimate of its backward pass.
"""

import cython
from cython.cimports.weft.engine.devices.cpu.pool import capacity_of
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.pipeline.budget.schedule import BudgetSchedule
from cython.cimports.weft.engine.pipeline.launch_ir import Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan
from cython.cimports.weft.engine.pipeline.program_ir import MemRef, Program

from weft._build.compiled import require
from weft.engine.ir.primitive import COLLECTIVE
from weft.engine.pipeline.budget.choose import choose
from weft.engine.pipeline.budget.step_graph import NEVER, StepGraph, least_of, neighbours_of

require(__name__, cython.compiled)

_collective = cython.declare(cython.int, COLLECTIVE)
BACKWARD_COST = 2  # nanoseconds of a step's derivative for each of its own
LEAST_BYTES = 1 << 16  # of saved values for which the question is asked


@cython.ccall
def saved_slots(program: Program, plan: Plan) -> set:
    """The slots of values made here that nothing but saves of derivatives holds."""
    saved: set = set()
    held: set = set()
    node: Node
    memref: MemRef
    number: cython.Py_ssize_t
    for number in range(len(program.numbered)):
        node = program.numbered[number]
        memref = program.memrefs[number]
        if node.state == PENDING and node.external_refs > 0 and memref.root.state == PENDING:
            (held if node.saves < node.external_refs else saved).add(memref.value.slot)
    return {slot for slot in saved - held if slot >= len(plan.external)}


def saved_bytes(program: Program, plan: Plan) -> int:
    """The bytes of the values that only saves hold."""
    first = len(plan.external)
    return sum([capacity_of(plan.sizes[slot - first]) for slot in saved_slots(program, plan)])


def deferred_slots(lowering: Lowering, saved: set, room) -> set:
    """The slots, of those saved, whose values are not handed over; `room` is what the program and its backward pass may
    take."""
    if not saved:
        return saved
    both = RoundTrip(StepGraph(lowering, saved), saved, _parameters(lowering))
    room -= sum([capacity_of(both.sizes[slot]) for slot in both.kept])
    schedule, _ = choose(both, room)
    return saved if schedule is None else saved - _checkpoints(both, schedule)


def repeatable_slots(lowering: Lowering) -> set:
    """The slots of values that only saves hold and that can be computed after the program has run."""
    if saved_bytes(lowering.program, lowering.plan) < LEAST_BYTES:
        return set()
    saved = saved_slots(lowering.program, lowering.plan)
    return _repeatable(lowering, StepGraph(lowering, saved), saved)


def _repeatable(lowering: Lowering, graph, saved: set) -> set:
    """Those of the saved slots that can be computed after the program has run: neither they nor what they are computed
    from is in memory of others, or is written over, or was brought by other processes: that is not kept for them."""
    plan: Plan = lowering.plan
    changing: set = set()
    for slot, node in enumerate(plan.external):
        if node.op.kind == _collective or node.buffer is not None and node.buffer.foreign:
            changing.add(slot)
    for read, written in zip(graph.reads, graph.writes, strict=True):
        if read & changing:
            changing |= written
    while True:
        left = {
            slot
            for slot in saved - changing
            if graph.makers[slot] >= 0 and graph.until[graph.makers[slot]] == NEVER
        }
        if left == saved:
            return saved
        saved = left
        graph = StepGraph(lowering, saved)


def _parameters(lowering: Lowering) -> dict:
    """Bytes of the values from outside, by slot, that a gradient may arrive at: those that are held."""
    plan: Plan = lowering.plan
    return {
        slot: capacity_of(node.numel * node.dtype.itemsize)
        for slot, node in enumerate(plan.external)
        if node.external_refs > node.saves and node.dtype.category >= 2 and node.state == DONE
    }


def _checkpoints(both, schedule: BudgetSchedule) -> set:
    """The slots that a schedule has in memory where the backward pass begins."""
    middle = len(both.costs) // 2
    begin = 0
    while begin < len(schedule.times) and schedule.times[begin] < middle:
        begin += 1
    return {life.slot for life in schedule.instances if life.first < begin <= life.last}


class RoundTrip:
    """The steps of a program and their mirror images, for `choose`: the derivative of a step reads what is saved of the
    step's operands and results and the cotangents of its results, and makes cotangents of the operands that it is the
    last to read, or adds to them; gradients of parameters stay to the end."""

    def __init__(self, graph, saved: set, parameters: dict):
        steps = len(graph.reads)
        self.sizes = list(graph.sizes)
        for slot in saved:
            self.sizes[slot] = capacity_of(self.sizes[slot])
        self.kept, self.rewritten = graph.kept, graph.rewritten
        self.lent: dict = {}
        self.makers, self.droppable = list(graph.makers), list(graph.droppable)
        for slot in saved:
            self.droppable[slot] = True
        self.until = [*graph.until, *[-1] * (steps + 1)]
        self.overwriting = NEVER
        costs = [BACKWARD_COST * cost for cost in reversed(graph.costs)]
        self.costs = [*graph.costs, *costs, 1.0]
        self.moving_reads = [list(slots) for slots in graph.moving_reads]
        self.moving_writes = [list(slots) for slots in graph.moving_writes]
        self.affinities = [*graph.affinities, *[[] for _ in range(steps + 1)]]
        self._saved, self._parameters = saved, parameters
        self._cotangents: dict = {}
        for step in reversed(range(steps)):
            self._mirror(graph, step)
        self.moving_reads.append(
            sorted(self._cotangents[slot] for slot in parameters if slot in self._cotangents)
        )
        self.moving_writes.append([])
        self.neighbours, self.least = neighbours_of(self), least_of(self)

    def _mirror(self, graph, step):
        """Add the derivative of a step."""
        read: set = (graph.reads[step] | graph.writes[step]) & self._saved
        made: set = set()
        for slot in graph.writes[step]:
            if slot in self._cotangents:
                read.add(self._cotangents[slot])
        for slot in graph.reads[step]:
            if slot in self._cotangents:
                read.add(self._cotangents[slot])
            elif slot in self._parameters or (slot >= graph.outside and slot not in graph.tables):
                made.add(self._cotangent(slot))
        self.moving_reads.append(sorted(read))
        self.moving_writes.append(sorted(made))

    def _cotangent(self, slot):
        """The slot of a cotangent that the next step makes."""
        own = self._cotangents[slot] = len(self.sizes)
        self.sizes.append(self._parameters.get(slot, self.sizes[slot]))
        self.makers.append(len(self.moving_reads))
        self.droppable.append(False)
        return own
