# cython: language_level=3
"""The step graph: a lowered program as a graph of launches over slots, for passes that reorder them.

It takes a Lowering in which each computed value has a slot of its own and makes steps (the launches of one position of
the program, which run together), with what each reads, writes and costs, and until when it may run again: a step that
writes to a value from outside never, and one whose operand is overwritten later only before that.
"""

import cython
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.launch_ir import Launch, Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan, value_of
from cython.cimports.weft.engine.pipeline.program_ir import Kernel

from weft._build.compiled import require
from weft.engine.pipeline.budget.coalesce import affinities_of, elided_of
from weft.engine.pipeline.memory_plan import is_private

require(__name__, cython.compiled)

NEVER = 1 << 30
LAUNCH_NS = 500.0  # cost of a step, in addition to its kernels
LEAST_LENT = 1 << 12  # bytes of a value from outside whose memory is worth taking over
BYTES_PER_NS = 12.0  # memory traffic of a kernel at best


class StepGraph:
    """`reads`, `writes`: of each step the slots; slots below `outside` hold values that exist. `moving_reads`
    and `moving_writes` are those of them that do not stay to the end. Of each slot: its size,
    the step that makes it (-1: none, or several, as of one that parts are written to), whether it stays to the end.
    `until`: the step before which a step may run again. `last`: the step that uses a slot last.
    From the step `overwriting` on the program may not stop: inputs are written over. `lent`: the values from outside
    that die in the program, by slot; their memory is taken over behind their last use, and their size is its
    capacity. Slots of `deferred` values do not stay. `affinities`: of each step what it may write where it has
    read (`coalesce`); `elided`: the steps that do nothing where all their affinities hold, with the number of these."""

    def __init__(self, lowering: Lowering, deferred=frozenset(), lends: bool = False):
        plan: Plan = lowering.plan
        self.outside, self.deferred = len(plan.external), deferred
        self.sizes = [0] * self.outside + [*plan.sizes, *lowering.scratch]
        self.lent = _lent(plan) if lends else {}
        for slot in self.lent:
            self.sizes[slot] = self.lent[slot]
        self.launches = _by_step(lowering)
        self.positions = [launches[0].kernel for launches in self.launches]
        by_step: list = kernels_by_step(lowering, self.positions)  # not kept: they hold nodes
        self.writes = [_stores(plan, kernels) for kernels in by_step]
        reads: list = [set() for _ in self.positions]
        tables: dict = {}  # slots that are filled before the program runs
        self.reads, self.tables = reads, tables
        self._read_pointers(plan)
        self.costs = [_cost(self, step) for step in range(len(self.positions))]
        self.kept = {value_of(plan, node).slot for node in program_kept(lowering)} - deferred
        self._find_makers()
        self._find_ends()
        fixed = self.kept | set(self.tables)
        moves = [
            (slot >= self.outside and slot not in fixed) or slot in self.lent
            for slot in range(len(self.sizes))
        ]
        self.moving_reads = [[slot for slot in sorted(read) if moves[slot]] for read in self.reads]
        self.moving_writes = [
            [slot for slot in sorted(made) if moves[slot]] for made in self.writes
        ]
        self.affinities = affinities_of(lowering, self, by_step)
        self.elided = elided_of(by_step, self.affinities)
        self.neighbours = neighbours_of(self)
        self.least = least_of(self)

    def _read_pointers(self, plan: Plan):
        """Fill `reads` and `writes` from the launches' pointers: a step reads the slots that it names and does not
        store; the first step that names a temporary makes it."""
        planned = self.outside + len(plan.sizes)
        made: set = set()
        for step, launches in enumerate(self.launches):
            mentioned: set = set()
            for launch in launches:
                mentioned.update([slot for slot, _ in launch.pointers if slot >= 0])
                if launch.table is not None:
                    mentioned |= launch.table.source_slots()
                    self.tables.update(dict.fromkeys(launch.table.own_slots(), step))
            new = {slot for slot in mentioned if slot >= planned and slot not in made}
            made |= new
            self.writes[step] |= new
            self.reads[step] = mentioned - self.writes[step]

    def _find_makers(self):
        makers: list = [-1] * len(self.sizes)
        self.rewritten = set()  # slots that several steps write to
        for step, written in enumerate(self.writes):
            for slot in written:
                if makers[slot] >= 0:
                    self.rewritten.add(slot)
                makers[slot] = step
        for slot in self.rewritten:
            makers[slot] = -1
        self.makers = makers

    def _find_ends(self):
        overwritten: dict = {}  # slot -> steps that write over what it held
        for step, slots in enumerate(self.writes):
            for slot in slots:
                if slot < self.outside or slot in self.rewritten:
                    overwritten.setdefault(slot, []).append(step)
        self.last = [-1] * len(self.sizes)
        self.until = []
        known: list = [-1] * len(
            self.sizes
        )  # by slot: the last action at which its value can be made again
        for step, read in enumerate(self.reads):
            written: set = self.writes[step]
            end = NEVER
            if any([slot < self.outside or slot in self.rewritten for slot in written]):
                end = -1
            for slot in read:
                later = [other for other in overwritten.get(slot, ()) if other > step]
                end = min([end] + later[:1])
                if slot >= self.outside and slot not in self.kept and slot not in self.rewritten:
                    end = min(end, known[slot])
            self.until.append(end)
            for slot in written:
                known[slot] = end
            for slot in (*read, *written):
                self.last[slot] = step
        outside = [steps[0] for slot, steps in overwritten.items() if slot < self.outside]
        self.overwriting = min(outside, default=NEVER)
        self.droppable = [
            slot >= self.outside
            and self.makers[slot] >= 0
            and slot not in self.kept
            and slot not in self.tables
            and self.until[self.makers[slot]] > self.last[slot]
            for slot in range(len(self.sizes))
        ]


def neighbours_of(graph) -> dict:
    """Of each slot that a step makes, those that its steps read and make."""
    neighbours: dict = {}
    for read, made in zip(graph.moving_reads, graph.moving_writes, strict=True):
        for slot in made:
            neighbours.setdefault(slot, set()).update(read, made)
    return neighbours


def least_of(graph) -> int:
    """The least bytes with which any step can run."""
    sizes = graph.sizes
    steps = zip(graph.moving_reads, graph.moving_writes, graph.affinities, strict=True)
    return max(
        [
            sum([sizes[slot] for slot in read + made])
            - sum([affinity.nbytes for affinity in affinities])
            for read, made, affinities in steps
        ],
        default=0,
    )


@cython.cfunc
def _lent(plan: Plan) -> dict:
    """The bytes behind values from outside, by slot, that nobody else sees, that nothing writes to, and that are large
    enough to matter."""
    slot: cython.Py_ssize_t
    root: Node
    found: dict = {}
    for slot in range(len(plan.external)):
        root = plan.external[slot]
        if root in plan.in_place or root in plan.viewed or root.offset != 0:
            continue
        if is_private(root) and root.buffer.nbytes >= LEAST_LENT:
            found[slot] = root.buffer.capacity
    return found


def program_kept(lowering: Lowering):
    """The nodes whose values stay."""
    return [node for node in lowering.program.kept if value_of(lowering.plan, node).slot >= 0]


@cython.cfunc
def _by_step(lowering: Lowering) -> list:
    launch: Launch
    steps: list = []
    position: cython.int = -1
    for launch in lowering.launches:
        if launch.kernel != position:
            steps.append([])
            position = launch.kernel
        steps[len(steps) - 1].append(launch)
    return steps


def kernels_by_step(lowering: Lowering, positions: list) -> list:
    """The kernels of each position."""
    steps: dict = {position: step for step, position in enumerate(positions)}
    kernels: list = [[] for _ in positions]
    kernel: Kernel
    for kernel in lowering.program.kernels:
        if kernel.position in steps:
            kernels[steps[kernel.position]].append(kernel)
    return kernels


@cython.cfunc
def _stores(plan: Plan, kernels: list) -> set:
    """The slots that kernels store to."""
    slots: set = {value_of(plan, node).slot for kernel in kernels for node in kernel.stores}
    return {slot for slot in slots if slot >= 0}


def _cost(graph, step):
    """Nanoseconds that a step takes, about: what lowering has estimated, and at least what moving its bytes takes."""
    total: cython.double = LAUNCH_NS
    sizes: list = graph.sizes
    for launch in graph.launches[step]:
        moved: cython.double = 0
        for slot, _ in launch.pointers:
            if slot >= graph.outside:
                moved += sizes[slot]
        total += max(cython.cast(cython.double, launch.cost_ns), moved / BYTES_PER_NS)
    return total
