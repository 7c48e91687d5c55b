# cython: language_level=3
"""Constrain: makes a lowered program fit into the memory budget.

It takes a Lowering whose values have slots of their own, as the plan makes them when it would not fit otherwise
(`needs_it`), and adds launches that run again, a Layout, and its cost. If nothing fits, it raises OutOfMemoryError
with the values that are needed at once, and the least budget that would do.
"""

import cython
from cython.cimports.weft.engine.devices.cpu.pool import (
    PAGE,
    SLAB_BYTES,
    arena_capacity_of,
    capacity_of,
    room_left,
)
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.budget.schedule import BudgetSchedule
from cython.cimports.weft.engine.pipeline.launch_ir import Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan, value_of

from weft._build.compiled import require
from weft.engine.devices.cpu import live_buffers, pool
from weft.engine.pipeline.budget import spill_file
from weft.engine.pipeline.budget.accounts import account_of, line_of
from weft.engine.pipeline.budget.checkpoints import checkpoint_count, shortage_count
from weft.engine.pipeline.budget.choose import choose
from weft.engine.pipeline.budget.defer import deferred_slots, repeatable_slots, saved_bytes
from weft.engine.pipeline.budget.layout import laid_out
from weft.engine.pipeline.budget.schedule import RUN, SPILL
from weft.engine.pipeline.budget.step_graph import StepGraph
from weft.errors import OutOfMemoryError

require(__name__, cython.compiled)

SPARE_BYTES = 1 << 14  # memory for status cells and numbers from outside
TIGHT_SHARE = (
    0.85  # of the room left under the budget: a plan that needs more is laid out in an arena
)
NEXT_TARGET_SHARE = 0.94  # the next target as a share of one for which no schedule was found
MOST_SHORTAGE = 12  # steps by which checkpoints become fewer
LEAST_SHARE_FOR_BOTH = (
    0.6  # of the room: with less for a program and its backward pass, nothing else is tried
)
MOST_LAYOUTS = 6  # layouts tried, each of a schedule with less memory than the one before
LEAST_BUDGET_STEPS = 4  # bisection steps in the search for the least budget


def bytes_taken(nbytes: int) -> int:
    """The bytes of the budget that a buffer of nbytes takes."""
    return capacity_of(nbytes)


def is_bounded() -> bool:
    """True if there is a budget."""
    return pool.budget() is not None


def needs_it(plan: Plan) -> bool:
    """True if the values that a plan stores may not fit under the budget."""
    if not is_bounded():
        return False
    total: cython.longlong = 0
    for size in plan.sizes:
        total += capacity_of(size)
    return total > TIGHT_SHARE * room_left()


def may_defer(program, plan: Plan) -> bool:
    """True if values that only derivatives hold might not fit beside the backward pass that reads them: cotangents
    take as much."""
    if not is_bounded():
        return False
    return 2 * saved_bytes(program, plan) > TIGHT_SHARE * room_left()


def is_tight(program) -> bool:
    """True if the values of a program, all stored, might not fit under the budget. New kernels are then compiled at
    once, because single operations would store them."""
    if not is_bounded():
        return False
    total: cython.longlong = 0
    node: Node
    for node in program.order:
        total += node.numel * node.dtype.itemsize
    return total > TIGHT_SHARE * room_left()


def constrain(lowering: Lowering) -> None:
    """Let a lowered program fit under the budget. Errors: OutOfMemoryError."""
    spills: cython.bint = spill_file.is_wanted()
    layout, graph, kept = _deferred_and_fitted(lowering)
    if layout is None and spills:
        graph = StepGraph(lowering, graph.deferred)
        layout = _fitted(graph, room_left() - kept - SPARE_BYTES, True)
        if layout is not None and layout.spilled:
            spill_file.say_once(layout.spilled)
    if layout is None and checkpoint_count() > 0:  # what would do is asked when these are gone
        raise OutOfMemoryError("values kept for derivatives leave too little memory")
    if layout is None:
        raise _too_little(lowering, graph, kept)
    adopt(lowering, layout, kept)


def adopt(lowering: Lowering, layout, kept: int) -> None:
    """Let a lowered program run as a layout says; `kept` bytes of it are not in the arena."""
    graph = layout.graph
    layout.arena = arena_capacity_of(layout.arena)
    layout.free = sum(
        [capacity_of(graph.sizes[slot]) for slot in range(graph.outside, len(graph.sizes))]
    )
    layout.need = kept + layout.arena + SPARE_BYTES
    layout.account = account_of(layout, *_lines(lowering))
    lowering.launches = layout.launches
    lowering.scratch = layout.sizes[graph.outside + len(lowering.plan.sizes) :]
    lowering.layout = layout


def _deferred_and_fitted(lowering: Lowering):
    """The layout of a program without what it defers, None where none fits; its graph, and the bytes of what it hands
    over. Where the rest does not fit beside the checkpoints, fewer are kept."""
    room: cython.longlong = room_left() - SPARE_BYTES
    saved = repeatable_slots(lowering)
    for_both = int(room * NEXT_TARGET_SHARE ** min(shortage_count(), MOST_SHORTAGE))
    before = None
    while True:
        deferred = deferred_slots(lowering, saved, for_both)
        if deferred != before:
            graph = StepGraph(lowering, deferred, lends=True)
            kept = own_bytes(graph)
            layout = _fitted(graph, room - kept, False)
        if layout is not None or not deferred or for_both < room * LEAST_SHARE_FOR_BOTH:
            if layout is not None:
                layout.saved = saved
            return layout, graph, kept
        before, for_both = deferred, int(for_both * NEXT_TARGET_SHARE)


def _lines(lowering: Lowering):
    """The user's lines of slots, and of kernels by position."""
    slots: dict = {}
    positions: dict = {}
    for kernel in lowering.program.kernels:
        positions.setdefault(kernel.position, line_of(kernel.nodes[0]))
        for node in kernel.stores:
            slots.setdefault(value_of(lowering.plan, node).slot, line_of(node))
    return slots, positions


def own_bytes(graph) -> int:
    """The bytes of values that are made here and stay to the end."""
    return sum([capacity_of(graph.sizes[slot]) for slot in graph.kept if slot >= graph.outside])


def _fitted(graph, room, spills):
    """The cheapest layout found that fits into so much room; None where none does."""
    bound = _largest_arena(room)
    target = bound + sum([graph.sizes[slot] for slot in graph.lent])
    drops: dict = {}
    for _ in range(MOST_LAYOUTS):
        if target - _tables(graph) < graph.least:
            return None
        schedule, found = choose(graph, target - _tables(graph), spills, drops)
        if schedule is None:
            target = int(target * NEXT_TARGET_SHARE)
            continue
        drops = found
        layout = laid_out(graph, schedule, bound)
        if layout.arena <= bound:
            return layout
        target = min(target, schedule.peak + _tables(graph)) - max(
            layout.arena - bound, bound // 256
        )
    return None


def _largest_arena(room):
    """The most bytes that an arena may have which takes no more of the budget than there is."""
    size = room if room <= SLAB_BYTES else room - room % PAGE
    while size > 0 and arena_capacity_of(size) > room:
        size -= max(size // 64, 64)
    return arena_capacity_of(size) if size > 0 else 0


def _tables(graph):
    """The bytes of tables that are filled before the program runs, and that its schedule does not measure."""
    return sum([(graph.sizes[slot] + 63) // 64 * 64 for slot in graph.tables])


def _too_little(lowering: Lowering, graph, kept):
    """The error of a program that fits in no order."""
    spills = spill_file.is_wanted()
    most = 2 * BudgetSchedule(graph, {}).peak
    low = high = max(room_left() - kept - SPARE_BYTES, graph.least // 2)
    while _fitted(graph, high, spills) is None and high < most:
        low, high = high, high + high // 4 + SPARE_BYTES
    for _ in range(LEAST_BUDGET_STEPS):
        middle = (low + high) // 2
        if _fitted(graph, middle, spills) is None:
            low = middle
        else:
            high = middle
    live = pool.stats()["allocated"]
    least = live + kept + high + SPARE_BYTES
    fix = f"raise the budget to {least:,} bytes at least"
    if not spills:
        fix += ", or give a folder to spill to (weft.set_memory_budget(..., spill=folder))"
    return OutOfMemoryError(
        "the memory budget is too small for what is to be computed",
        expected=f"at most {pool.budget():,} bytes, of which {live:,} are in use",
        got=f"at least {least:,} bytes; needed at once: {_largest_of(lowering, graph)}; "
        f"in use: {live_buffers.largest_lines()}",
        fix=fix,
    )


def _largest_of(lowering: Lowering, graph, most=4):
    """The largest values of the step that needs most, with the lines that compute them."""
    uses = [set(read) | set(made) for read, made in zip(graph.reads, graph.writes, strict=True)]
    worst = max(uses, key=lambda slots: sum([graph.sizes[slot] for slot in slots]))
    nodes: dict = {}
    for kernel in lowering.program.kernels:
        for node in kernel.stores:
            nodes.setdefault(value_of(lowering.plan, node).slot, node)
    words = []
    for slot in sorted(worst, key=lambda slot: (-graph.sizes[slot], slot))[:most]:
        node = nodes.get(slot)
        if node is not None and graph.sizes[slot] > 0:
            words.append(f"{node.dtype.name}{list(node.shape)} of {line_of(node)}")
    return ", ".join(words)


def text(lowering: Lowering) -> str:
    """The steps that run again, the values that are spilled, and what both cost; empty if the program fits as it
    is."""
    layout = lowering.layout
    if layout is None:
        return ""
    graph, schedule = layout.graph, layout.schedule
    usual = sum(graph.costs)
    lines = [
        f"{'budget' if is_bounded() else 'economy'}: {layout.need} bytes instead of {layout.free}, "
        f"{100 * (schedule.cost / usual - 1):.1f} % more time by estimate"
    ]
    seen: set = set()
    for kind, number in schedule.actions:
        if kind == RUN and number in seen:
            lines.append(f"k{graph.positions[number]} again")
        elif kind != RUN:
            lines.append(f"{'spill' if kind == SPILL else 'fetch'} slot {number}")
        seen.add(number if kind == RUN else -1)
    kept = [
        slot
        for slot in range(graph.outside, len(graph.sizes))
        if not graph.droppable[slot] and slot not in graph.kept and graph.last[slot] >= 0
    ]
    if kept:
        lines.append(f"not computed again (overwritten in place, or read what is): slots {kept}")
    return "\n".join(lines)
