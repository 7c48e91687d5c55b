"""Accounts of programs under a budget, for the report: their peak by source line, and what was computed again or
spilled.

The account of a Layout is made with it, as plain words and numbers, and added at each of its runs.
"""

from __future__ import annotations

from typing import Any

from weft.engine.pipeline.budget.schedule import RUN, spill_cost
from weft.errors import describe_position

Events = dict[str, tuple[int, float]]  # by line: how often, and nanoseconds by estimate

computed_again: Events = {}
spilled: Events = {}
peak_lines: dict[str, int] = {}
_peak = 0


class Account:
    """The needs of one run of a constrained program: bytes at its peak, values computed again, values spilled."""

    def __init__(self, need: int) -> None:
        self.need = need
        self.peak_lines: dict[str, int] = {}
        self.computed_again: Events = {}
        self.spilled: Events = {}

    def add_run(self) -> None:
        """Note that the program has run."""
        global _peak
        _add(computed_again, self.computed_again)
        _add(spilled, self.spilled)
        if self.need > _peak:
            _peak = self.need
            peak_lines.clear()
            peak_lines.update(self.peak_lines)


def _add(total: Events, events: Events) -> None:
    for line, (count, ns) in events.items():
        before = total.get(line, (0, 0.0))
        total[line] = before[0] + count, before[1] + ns


def reset() -> None:
    """Begin anew."""
    global _peak
    _peak = 0
    for table in (computed_again, spilled, peak_lines):
        table.clear()


def account_of(layout: Any, lines: dict[int, str], step_lines: dict[int, str]) -> Account:
    """The account of a layout: `lines` are the user's lines of slots, `step_lines` those of steps by position."""
    graph, schedule = layout.graph, layout.schedule
    account = Account(layout.need)
    ran: set[int] = set()
    for kind, number in schedule.actions:
        if kind != RUN:
            _add(account.spilled, {lines.get(number, ""): (1, spill_cost(graph.sizes[number]))})
        elif number in ran:
            line = step_lines.get(graph.positions[number], "")
            _add(account.computed_again, {line: (1, graph.costs[number])})
        else:
            ran.add(number)
    peak = schedule.alive.index(schedule.peak) if schedule.alive else 0
    alive = [one.slot for one in schedule.instances if one.first <= peak <= one.last]
    for slot in (*alive, *(slot for slot in graph.kept if slot >= graph.outside)):
        line = lines.get(slot, "")
        account.peak_lines[line] = account.peak_lines.get(line, 0) + graph.sizes[slot]
    return account


def line_of(node: Any) -> str:
    """The user's line of a node."""
    return describe_position(node.code, node.offset_in_code)
