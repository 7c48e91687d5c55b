# cython: language_level=3
"""Eviction under a budget: chooses greedily what to drop, by bytes saved where memory is short per nanosecond of
recomputing.

It takes a StepGraph and a bound in bytes, and returns the drops of a schedule that fits. Each round drops a value that
is idle at the peak, or the idle values of one step together, between the two uses around it. The step then runs again:
either its operands are kept until then, which takes memory, or those that are gone are computed again, too, back to
values that are there. Both are weighed, and so is spilling, if there is a folder for it. In the end, drops that are no
longer needed are taken back. (Evicting at run time by cost, size and staleness, as DTR does (Kirisame et al., 2021),
costs three times as much on a transformer: it drops neighbours, whose chains grow.)
"""

import bisect

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.weft.engine.pipeline.budget.schedule import BudgetSchedule, Instance

from weft._build.compiled import require
from weft.engine.pipeline.budget.schedule import spill_cost

require(__name__, cython.compiled)

MOST_ROUNDS = 1500
NEAR_BEST_SHARE = 0.75  # offers with less of the best gain per cost wait for the next round
MOST_RERUNS_OF_A_DROP = 48  # steps that may run again just before one step, for one drop


@cython.final
@cython.cclass
class _Round:
    """One schedule, where it is over the bound, and its values: what the choice of the next drop asks."""

    schedule: BudgetSchedule
    graph: object
    bound: cython.longlong
    over: cython.p_longlong
    tight: list  # by action: the number of actions before it that are over the bound
    peak: cython.Py_ssize_t  # the action at which most is alive
    lives: dict  # slot -> instances
    holes: dict  # slot -> (action, action): the uses around the peak
    offers: list

    def __init__(self, schedule: BudgetSchedule, bound: cython.longlong):
        self.schedule, self.graph, self.bound = schedule, schedule.graph, bound
        self.peak = schedule.alive.index(schedule.peak)
        self._note_excess()
        self.lives, self.holes = {}, {}
        self.offers = []
        instance: Instance
        for instance in schedule.instances:
            self.lives.setdefault(instance.slot, []).append(instance)
            self._note_hole(instance)

    def __dealloc__(self):
        free(self.over)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _note_excess(self) -> cython.int:
        count: cython.Py_ssize_t = 0
        action: cython.Py_ssize_t
        alive: list = self.schedule.alive
        nbytes: cython.longlong
        self.over = cython.cast(cython.p_longlong, malloc(8 * (len(alive) + 1)))
        if self.over == cython.NULL:
            raise MemoryError
        self.tight = []
        for action in range(len(alive)):
            nbytes = alive[action]
            self.over[action] = max(0, nbytes - self.bound)
            self.tight.append(count)
            count += self.over[action] > 0
        self.tight.append(count)
        return 0

    @cython.cfunc
    def weight(
        self, slot: cython.Py_ssize_t, begin: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.double:
        """The bytes of a slot, once for each action between two where memory is short."""
        if begin + 1 >= end:
            return 0
        count: cython.Py_ssize_t = self.tight[end]
        before: cython.Py_ssize_t = self.tight[begin + 1]
        size: cython.double = self.graph.sizes[slot]
        return size * (count - before)

    @cython.cfunc
    def _note_hole(self, instance: Instance) -> cython.void:
        before: cython.Py_ssize_t = -1
        use: cython.Py_ssize_t
        for use in instance.uses:
            if use >= self.peak:
                if before >= 0 and before < self.peak < use:
                    self.holes[instance.slot] = (before, use)
                return
            before = use

    @cython.cfunc
    def area(
        self, slot: cython.Py_ssize_t, begin: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.double:
        """The bytes over the bound that a slot accounts for, summed over the actions between two."""
        total: cython.double = 0
        size: cython.longlong = self.graph.sizes[slot]
        action: cython.Py_ssize_t
        for action in range(begin + 1, end):
            total += min(size, self.over[action])
        return total

    @cython.cfunc
    def is_there(self, slot: cython.Py_ssize_t, action: cython.Py_ssize_t) -> cython.bint:
        """True if a value is alive just before an action."""
        instance: Instance
        for instance in self.lives.get(slot, ()):
            if instance.uses[0] < action <= instance.uses[len(instance.uses) - 1]:
                return True
        return False

    @cython.cfunc
    def last_use(self, slot: cython.Py_ssize_t, action: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The last action in front of another that uses a slot."""
        place: cython.Py_ssize_t
        instance: Instance
        for instance in reversed(self.lives.get(slot, ())):
            place = bisect.bisect_left(instance.uses, action)
            if place > 0:
                return instance.uses[place - 1]
        return -1

    @cython.cfunc
    def offer(
        self, gain: cython.double, cost: cython.double, drops: dict, old: dict, refused: set
    ) -> cython.void:
        """Note drops that gain something, and are new."""
        if gain <= 0:
            return
        if all([old.get(key) == value for key, value in drops.items()]):
            return
        if frozenset(drops.items()) not in refused:
            self.offers.append((-gain / cost, len(self.offers), drops))

    @cython.cfunc
    def best(self) -> list:
        """The best offers that have no value in common, until what is over the bound at the peak is free. A worse one
        than `NEAR_BEST_SHARE` the best waits for the next round, which knows what these change."""
        chosen: list = []
        taken: set = set()
        left: cython.longlong = self.over[self.peak]
        self.offers.sort()
        for ratio, _, drops in self.offers:
            slots: set = {slot for slot, _ in drops}
            if chosen and (left <= 0 or ratio > NEAR_BEST_SHARE * self.offers[0][0]):
                break
            if slots & taken:
                continue
            chosen.append(drops)
            for slot in slots:
                taken.add(slot)
                taken.update(self.graph.neighbours[slot])
                left -= self.graph.sizes[slot]
        return chosen


def choose(graph, bound: int, spills: bool = False, drops: dict | None = None):
    """The schedule that fits into so many bytes, and its drops, those given among them; (None, None) where none was
    found."""
    drops = dict(drops or {})
    refused: set = set()
    if graph.least > bound:
        return None, None
    for _ in range(MOST_ROUNDS):
        schedule = BudgetSchedule(graph, drops)
        if schedule.peak <= bound:
            drops = _without_idle_ones(graph, drops, bound)
            return BudgetSchedule(graph, drops), drops
        found = _next_drops(schedule, bound, drops, refused, spills)
        if not found:
            return None, None
        drops = _with(graph, drops, found, refused)
    return None, None


def choose_cheap(graph, most_cost: float, least_peak: int, rounds: int) -> BudgetSchedule:
    """The schedule with the least memory found, in so many rounds, that takes no longer than `most_cost` by estimate;
    with `least_peak` the search ends."""
    drops: dict = {}
    best: dict = {}
    refused: set = set()
    schedule: BudgetSchedule = BudgetSchedule(graph, drops)
    peak: cython.longlong = schedule.peak
    for _ in range(rounds):
        found = _next_drops(schedule, least_peak, drops, refused, False)
        drops = _with(graph, drops, found[:1], refused) if found else drops
        schedule = BudgetSchedule(graph, drops)
        if not found or schedule.cost > most_cost:
            break
        if schedule.peak < peak:
            best, peak = drops, schedule.peak
        if peak <= least_peak:
            break
    return BudgetSchedule(graph, _without_idle_ones(graph, best, peak))


@cython.cfunc
def _with(graph, drops: dict, found: list, refused: set) -> dict:
    """Drops and further ones, all or the first alone; one after which a step runs again that may not is refused."""
    together: dict = dict(drops)
    for more in found:
        together.update(more)
    if BudgetSchedule(graph, together).valid:
        return together
    first: dict = {**drops, **found[0]}
    if BudgetSchedule(graph, first).valid:
        return first
    refused.add(frozenset(found[0].items()))
    return drops


@cython.cfunc
def _next_drops(
    schedule: BudgetSchedule, bound: cython.longlong, drops: dict, refused: set, spills: cython.bint
) -> list:
    """The drops of the next round; empty if no value that is idle at the peak can be dropped."""
    state: _Round = _Round(schedule, bound)
    graph = schedule.graph
    looked_at: set = set()
    for slot, hole in state.holes.items():
        if spills and schedule.times[hole[1]] <= graph.overwriting:
            _offer_spill(state, slot, hole, drops, refused)
        if not graph.droppable[slot]:
            continue
        maker = graph.makers[slot]
        _offer(state, [slot], maker, drops, refused)
        if maker not in looked_at:
            looked_at.add(maker)
            together = [
                other
                for other in graph.moving_writes[maker]
                if other in state.holes and graph.droppable[other]
            ]
            if len(together) > 1:
                _offer(state, together, maker, drops, refused)
    return state.best()


@cython.cfunc
def _offer_spill(
    state: _Round, slot: cython.Py_ssize_t, hole: tuple, drops: dict, refused: set
) -> cython.void:
    cost: cython.double = 2 * spill_cost(state.graph.sizes[slot])
    key = (slot, state.schedule.times[hole[0]])
    state.offer(state.area(slot, hole[0], hole[1]), cost, {key: True}, drops, refused)


@cython.cfunc
def _offer(
    state: _Round, slots: list, maker: cython.Py_ssize_t, drops: dict, refused: set
) -> cython.void:
    """Weigh dropping idle values of one step, in both ways."""
    graph = state.graph
    times: list = state.schedule.times
    slot: cython.Py_ssize_t
    gain: cython.double = 0
    freed: cython.double = 0
    end: cython.Py_ssize_t = min([state.holes[slot][1] for slot in slots])
    new: dict = {}
    for slot in slots:
        gain += state.area(slot, state.holes[slot][0], state.holes[slot][1])
        freed += state.weight(slot, state.holes[slot][0], state.holes[slot][1])
        new[(slot, times[state.holes[slot][0]])] = False
    kept_longer: cython.double = 0
    for slot in graph.moving_reads[maker]:
        if not state.is_there(slot, end):
            kept_longer += state.weight(slot, state.last_use(slot, end), end)
    state.offer(gain * (1 - kept_longer / freed), graph.costs[maker], new, drops, refused)
    if kept_longer > 0:
        _offer_chain(state, maker, end, gain, freed, new, drops, refused)


@cython.cfunc
def _offer_chain(
    state: _Round,
    maker: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    gain: cython.double,
    freed: cython.double,
    new: dict,
    drops: dict,
    refused: set,
) -> cython.void:
    """Weigh computing again also what is not there, back to what is."""
    graph = state.graph
    time = state.schedule.times[end]
    slot: cython.Py_ssize_t
    step: cython.Py_ssize_t
    steps: set = {maker}
    stack: list = [maker]
    cost: cython.double = 0
    kept_longer: cython.double = 0
    chain: dict = dict(new)
    while stack:
        step = stack.pop()
        cost += cython.cast(cython.double, graph.costs[step])
        for slot in graph.moving_reads[step]:
            if state.is_there(slot, end):
                continue
            if graph.droppable[slot] and graph.until[graph.makers[slot]] > time:
                chain[(slot, state.schedule.times[state.last_use(slot, end)])] = False
                if graph.makers[slot] not in steps:
                    steps.add(graph.makers[slot])
                    stack.append(graph.makers[slot])
            else:
                kept_longer += state.weight(slot, state.last_use(slot, end), end)
        if len(steps) > MOST_RERUNS_OF_A_DROP:
            return
    state.offer(gain * (1 - kept_longer / freed), cost, chain, drops, refused)


@cython.cfunc
def _without_idle_ones(graph, drops: dict, bound: cython.longlong) -> dict:
    """The drops without those that the schedule fits without, and that make it no cheaper."""
    cost: cython.double = BudgetSchedule(graph, drops).cost
    for key in sorted(drops, key=lambda key: -graph.costs[max(graph.makers[key[0]], 0)]):
        fewer: dict = {other: spilled for other, spilled in drops.items() if other != key}
        schedule = BudgetSchedule(graph, fewer)
        if schedule.valid and schedule.peak <= bound and schedule.cost <= cost:
            drops, cost = fewer, schedule.cost
    return drops
