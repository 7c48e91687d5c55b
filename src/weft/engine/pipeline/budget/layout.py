# cython: language_level=3
"""Layout: a scheduled program as launches on an arena.

It takes a StepGraph with its Schedule and makes launches in the new order, with a slot for each instance of a value,
and the offsets of these slots. A value that stays to the end has a buffer of its own. A run that is interrupted
commits nothing, and starts again; from the launch on that is the first to write into the memory of a value from
outside, it is not interrupted.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put
from cython.cimports.weft.engine.pipeline.budget.schedule import BudgetSchedule, Instance
from cython.cimports.weft.engine.pipeline.launch_ir import (
    Launch,
    Lowering,
    copy_launch,
    new_launch,
)

from weft._build.compiled import require
from weft.engine.pipeline.budget.arena import place
from weft.engine.pipeline.budget.coalesce import Coalescing
from weft.engine.pipeline.budget.schedule import RUN, SPILL
from weft.engine.pipeline.budget.spill_file import TRANSFER, transfer_arguments

require(__name__, cython.compiled)


class ArenaLayout:
    """`offsets`: for each slot after those from outside its offset in the arena, -1 for a buffer of its own; `hosts`:
    the slots from outside in whose memory the offsets are, -1 for the arena; `arena`: the bytes of the arena;
    `spilled`: those of the file; `overwriting`: the first launch that writes to a host, -1 without one; `deferred`:
    the slots of values that are not handed over; `saved`: these, and those of checkpoints; `elided`: the number of
    launches that have nothing left to do."""

    def __init__(
        self, graph, schedule: BudgetSchedule, bound: int | None = None, coalesced: bool = True
    ):
        self.graph, self.schedule = graph, schedule
        self.deferred = graph.deferred
        self.saved: set = set()
        self.sizes = list(graph.sizes)
        self.launches: list = []
        self.again: set = set()  # the indices of those that compute what has been computed
        self.slots: list = []  # of the schedule's instances
        self.spilled = 0
        self.elided = 0
        self.coalescing = Coalescing(schedule.joined if coalesced else [], graph.sizes)
        self._ran: set = set()
        self._spans: dict = {}  # slot -> first action, last action, bytes
        self._file: dict = {}  # slot -> offset
        self._lent: dict = {}  # slot -> last action
        self._begins: list = []  # of each action the first launch
        self._fill()
        self._place(bound)

    def _new_slot(self, size):
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _fill(self):
        """Walk the actions, with the slots of the instances that are there."""
        graph, schedule = self.graph, self.schedule
        phase_of: dict = {}
        instance: Instance
        now: dict = {}
        for instance in schedule.instances:
            if instance.slot in graph.lent:
                self._lent[instance.slot] = instance.last
                now[instance.slot] = instance.slot
            else:
                phase_of.setdefault(instance.uses[0], []).append(instance)
        seen: set = set()
        for action, (kind, number) in enumerate(schedule.actions):
            self._begins.append(len(self.launches))
            before = dict(now) if kind == RUN else now
            for instance in phase_of.get(action, ()):
                slot = instance.slot
                own = slot if slot not in seen else self._new_slot(graph.sizes[slot])
                seen.add(slot)
                now[slot] = own
                self._spans[own] = (instance.uses[0], instance.last, graph.sizes[slot])
                self.slots.append((own, instance))
            if kind == RUN:
                read = {slot: before[slot] for slot in graph.moving_reads[number]}
                written = {slot: now[slot] for slot in graph.moving_writes[number]}
                self._run(action, number, {**read, **written})
            else:
                self._transfer(action, kind, number, now[number])

    def _run(self, action, step, slots: dict):
        again = step in self._ran
        self._ran.add(step)
        if self.graph.elided.get(step) == self.coalescing.held.get(action, 0):
            self._elide(action, step, again)
            return
        slots = {slot: own for slot, own in slots.items() if slot != own}
        launch: Launch
        for launch in self.graph.launches[step]:
            if launch.table is not None:
                for slot in launch.table.own_slots():
                    if again:
                        slots[slot] = self._new_slot(self.graph.sizes[slot])
                    own = slots.get(slot, slot)
                    self._spans[own] = (0, action, self.graph.sizes[slot])
            copy: Launch = copy_launch(launch, slots) if slots or again else launch
            if copy.table is not None and slots:
                copy.table = copy.table.on_slots(slots)
            if again:
                self.again.add(len(self.launches))
            self.launches.append(copy)

    def _elide(self, action, step, again):
        """Leave out a step whose parts are where they belong, and its tables with it."""
        launch: Launch
        for launch in self.graph.launches[step]:
            self.elided += 1
            if launch.table is not None and not again:
                for slot in launch.table.own_slots():
                    self.sizes[slot] = 0
                    self._spans[slot] = (action, action, 0)

    def _transfer(self, action, kind, slot, own):
        """Write a slot's value to the file, or read it."""
        size = self.graph.sizes[slot]
        if slot not in self._file:
            self._file[slot] = self.spilled
            self.spilled += size
        position = self.graph.positions[self.schedule.times[action]]
        self.launches.append(transfer_launch(own, self._file[slot], size, kind == SPILL, position))

    def _place(self, bound: int | None):
        """Find the offsets, in an arena of `bound` bytes if that can be."""
        owned, lenders = sorted(self._spans), sorted(self._lent)
        lent = [(self._lent[slot], self.graph.sizes[slot]) for slot in lenders]
        number = {slot: place for place, slot in enumerate(owned)}
        own = {instance: number[slot] for slot, instance in self.slots}
        together = [[(own[one], begin) for one, begin in unit] for unit in self.coalescing.units]
        spans = [self._spans[slot] for slot in owned]
        offsets, hosts, self.arena = place(spans, lent, bound, together)
        found = dict(zip(owned, offsets, strict=True))
        guests = {slot: lenders[host] for slot, host in zip(owned, hosts, strict=True) if host >= 0}
        made = range(self.graph.outside, len(self.sizes))
        self.offsets = [found.get(slot, -1) for slot in made]
        self.hosts = [guests.get(slot, -1) for slot in made]
        starts = [self._begins[self._spans[slot][0]] for slot in guests]
        self.overwriting = min(starts, default=-1)


def laid_out(graph, schedule: BudgetSchedule, bound: int | None = None) -> ArenaLayout:
    """The layout of a schedule, with what its affinities save; without them where that takes less memory: what they
    hold together leaves gaps between others."""
    layout = ArenaLayout(graph, schedule, bound)
    if layout.arena <= max(schedule.peak, bound or 0):
        return layout
    apart = ArenaLayout(graph, schedule, bound, coalesced=False)
    return apart if apart.arena < layout.arena else layout


@cython.cfunc
def transfer_launch(
    slot: cython.longlong,
    offset: cython.longlong,
    nbytes: cython.longlong,
    out: cython.bint,
    position: cython.int,
) -> Launch:
    """A launch that writes a slot to the spill file, or reads it."""
    pointers: Array = empty()
    arguments: Array = empty()
    lowering: Lowering = Lowering.__new__(Lowering)
    lowering.launches, lowering.current = [], position
    units, grain_size, words, cost_ns = transfer_arguments(offset, nbytes, out)
    try:
        put(cython.address(pointers), slot)
        put(cython.address(pointers), 0)
        for word in words:
            put(cython.address(arguments), word)
        return new_launch(
            lowering,
            TRANSFER,
            cython.address(pointers),
            cython.address(arguments),
            units,
            grain_size,
            cost_ns,
        )
    finally:
        drop(cython.address(pointers))
        drop(cython.address(arguments))
