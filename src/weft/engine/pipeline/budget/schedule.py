# cython: language_level=3
"""A schedule of steps under a budget: their order, with steps that run again, and the lifetimes of values in it.

It takes a StepGraph and drops: after which step the value of which slot is dropped, and whether it is spilled to a
file before. It gives actions (run a step, spill a slot, fetch it back), the instances of values with the actions that
use them, and the bytes live at each action. A dropped value that is needed is fetched, or its step runs again just
before the step that needs it, after all steps that it needs itself and whose values are gone.
"""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)

RUN, SPILL, FETCH = range(3)
SPILL_BYTES_PER_NS = 0.5  # an estimate of the file's throughput in both directions
SPILL_NS = 20_000.0


@cython.final
@cython.cclass
class Instance:
    """One life of a slot's value: the actions that use it, in order; the first makes it."""

    def __init__(self, slot: cython.Py_ssize_t, action: cython.Py_ssize_t):
        self.slot = slot
        self.uses = [action]

    @property
    def first(self):
        """The action that makes it."""
        return self.uses[0]

    @property
    def last(self):
        """The last action that uses it."""
        return self.uses[len(self.uses) - 1]


@cython.final
@cython.cclass
class Affinity:
    """A result that a step writes to the memory of an operand, by slot: `shift` bytes behind its begin, `nbytes` of
    both in one place. `readers`: the steps that read this region of the operand; None: all that read the operand. With
    `is_copy` it may be read on, for both are the same."""

    def __init__(self, made, ending, shift, nbytes, readers, is_copy=False):
        self.made, self.ending, self.is_copy = made, ending, is_copy
        self.shift, self.nbytes, self.readers = shift, nbytes, readers


@cython.final
@cython.cclass
class BudgetSchedule:
    """`actions` are (kind, step or slot), `times` the steps in front of which they come; `instances` in order of birth,
    `alive` the bytes at each action, of slots that do not stay; `joined` are the affinities that hold, as (affinity,
    instance made, instance that ends there). Not `valid` where a step would have to run again that may not."""

    def __init__(self, graph, drops: dict):
        self.graph = graph
        self.actions, self.times, self.instances, self.joined = [], [], [], []
        self.valid = True
        self._present = [None] * len(graph.sizes)
        self._on_file = set()
        self._reads, self._writes = graph.moving_reads, graph.moving_writes
        self._affinities, self._met = graph.affinities, []
        for slot in graph.lent:
            self._make(slot, 0)
        self._run_all(drops)
        self._add_up()

    @cython.cfunc
    def _run_all(self, drops: dict) -> cython.void:
        dropped: dict = {}
        for (slot, last), spilled in drops.items():
            dropped.setdefault(last, []).append((slot, spilled))
        step: cython.Py_ssize_t
        for step in range(len(self._reads)):
            self._bring_back(step)
            self._run(step, step)
            for slot, spilled in sorted(dropped.get(step, ())):
                self._drop(slot, step, spilled)

    @cython.cfunc
    def _act(self, kind: cython.int, number: cython.Py_ssize_t, time: cython.Py_ssize_t):
        self.actions.append((kind, number))
        self.times.append(time)

    @cython.cfunc
    def _run(self, step: cython.Py_ssize_t, time: cython.Py_ssize_t) -> cython.void:
        action: cython.Py_ssize_t = len(self.actions)
        self._act(RUN, step, time)
        self.cost += cython.cast(cython.double, self.graph.costs[step])
        slot: cython.Py_ssize_t
        instance: Instance
        for slot in self._reads[step]:
            instance = self._present[slot]
            instance.uses.append(action)
        affinity: Affinity
        read: list = [self._present[affinity.ending] for affinity in self._affinities[step]]
        for slot in self._writes[step]:
            instance = self._present[slot]
            if instance is not None and slot in self.graph.rewritten:
                instance.uses.append(action)
                self._on_file.discard(slot)  # what is there is old
                continue
            self._make(slot, action)
        for affinity, instance in zip(self._affinities[step], read, strict=True):
            self._met.append((affinity, self._present[affinity.made], instance))

    @cython.cfunc
    def _make(self, slot: cython.Py_ssize_t, action: cython.Py_ssize_t) -> cython.void:
        instance: Instance = Instance(slot, action)
        self._present[slot] = instance
        self.instances.append(instance)

    @cython.cfunc
    def _drop(
        self, slot: cython.Py_ssize_t, time: cython.Py_ssize_t, spilled: cython.bint
    ) -> cython.void:
        instance: Instance = self._present[slot]
        if instance is None:
            return
        if spilled and slot not in self._on_file:
            self._on_file.add(slot)
            instance.uses.append(len(self.actions))
            self._act(SPILL, slot, time)
            self.cost += spill_cost(self.graph.sizes[slot])
        self._present[slot] = None

    @cython.cfunc
    def _bring_back(self, time: cython.Py_ssize_t) -> cython.void:
        """Make present what a step reads, and what it writes a further part to."""
        slot: cython.Py_ssize_t
        for slot in self._writes[time]:
            is_begun: cython.bint = slot in self.graph.rewritten and slot in self._on_file
            if is_begun and self._present[slot] is None:
                self._fetch(slot, time)
        step: cython.Py_ssize_t
        for step in self._to_run_again(time):
            if self.graph.until[step] <= time:
                self.valid = False
            self._fetch_missing(step, time)
            self._run(step, time)
        self._fetch_missing(time, time)

    @cython.cfunc
    def _to_run_again(self, time: cython.Py_ssize_t) -> list:
        """The steps, in order, that make what a step reads and what is neither present nor on file."""
        needed: set = set()
        stack: list = [time]
        slot: cython.Py_ssize_t
        while stack:
            for slot in self._reads[cython.cast(cython.Py_ssize_t, stack.pop())]:
                if self._present[slot] is None and slot not in self._on_file:
                    maker: cython.Py_ssize_t = self.graph.makers[slot]
                    if maker >= 0 and maker not in needed:
                        needed.add(maker)
                        stack.append(maker)
        return sorted(needed)

    @cython.cfunc
    def _fetch_missing(self, step: cython.Py_ssize_t, time: cython.Py_ssize_t) -> cython.void:
        slot: cython.Py_ssize_t
        for slot in self._reads[step]:
            if self._present[slot] is None:
                self._fetch(slot, time)

    @cython.cfunc
    def _fetch(self, slot: cython.Py_ssize_t, time: cython.Py_ssize_t) -> cython.void:
        # Its step may not run again, or the program may not stop here, as it does where a file cannot be read.
        if slot not in self._on_file or time > self.graph.overwriting:
            self.valid = False
        self._make(slot, len(self.actions))
        self._act(FETCH, slot, time)
        self.cost += spill_cost(self.graph.sizes[slot])

    @cython.cfunc
    def _add_up(self) -> cython.void:
        count: cython.Py_ssize_t = len(self.actions)
        alive: list = [0] * (count + 1)
        instance: Instance
        size: cython.longlong
        last: cython.Py_ssize_t
        for instance in self.instances:
            size = self.graph.sizes[instance.slot]
            alive[instance.uses[0]] += size
            last = instance.uses[len(instance.uses) - 1]
            alive[last + 1] -= size
        affinity: Affinity
        made: Instance
        for affinity, made, instance in self._met:
            if self._holds(affinity, made, instance):
                self.joined.append((affinity, made, instance))
                alive[made.first] -= affinity.nbytes
                alive[min(made.last, instance.last) + 1] += affinity.nbytes
        size = 0
        for last in range(count):
            size += cython.cast(cython.longlong, alive[last])
            alive[last] = size
            self.peak = max(self.peak, size)
        alive.pop()
        self.alive = alive

    @cython.cfunc
    def _holds(self, affinity: Affinity, made: Instance, ending: Instance) -> cython.bint:
        """True if nothing reads what a result is written over, from when it is made."""
        use: cython.Py_ssize_t
        action: cython.Py_ssize_t = made.first
        if ending.uses[0] >= action:
            return False
        if affinity.is_copy:
            return True
        for use in reversed(ending.uses):
            if use <= action:
                break
            kind, number = self.actions[use]
            if affinity.readers is None or kind != RUN or number in affinity.readers:
                return False
        return True


@cython.ccall
def spill_cost(size: cython.longlong) -> cython.double:
    """Nanoseconds for writing so many bytes to a file, or for reading them."""
    return SPILL_NS + size / SPILL_BYTES_PER_NS
