"""Time by line of the user's source, and by module: what launches computed, charged to where it was recorded."""

from __future__ import annotations

import linecache
from collections import defaultdict
from dataclasses import dataclass, field

from weft.profiler.operations import SourceLine
from weft.profiler.timeline import Span, Timeline
from weft.profiler.units import format_share, format_time

CONTEXT = 1  # lines of source around those with time


@dataclass
class Spent:
    """The time of what was recorded at a place: microseconds, how many operations, and by operation."""

    us: float = 0.0
    count: int = 0
    by_operation: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, us: float, count: int, operation: str) -> None:
        """Count an operation."""
        self.us += us
        self.count += count
        self.by_operation[operation] += us

    def largest(self) -> str:
        """The operations that took most, in words."""
        order = sorted(self.by_operation, key=lambda name: -self.by_operation[name])
        return ", ".join(name.partition("::")[2] for name in order[:3])


class LineTable(dict[SourceLine, Spent]):
    """Time by line; printing it prints the source with the time beside it."""

    def __str__(self) -> str:
        whole = sum(spent.us for spent in self.values())
        texts = []
        for file in dict.fromkeys(
            line.file for line in sorted(self, key=lambda line: -self[line].us)
        ):
            own = {line.number: self[line] for line in self if line.file == file}
            texts.append(f"{file}  {format_time(sum(spent.us for spent in own.values()))}")
            texts += _listing(file, own, whole)
        return "\n".join(texts)


def _listing(file: str, own: dict[int, Spent], whole: float) -> list[str]:
    shown = sorted({n for at in own for n in range(at - CONTEXT, at + CONTEXT + 1) if n > 0})
    lines = []
    before = 0
    for number in shown:
        source = linecache.getline(file, number).rstrip("\n")
        if number not in own and not source.strip():
            continue
        if before and number > before + 1:
            lines.append(f"{'...':>28}")
        before = number
        if number in own:
            spent = own[number]
            beside = f"{format_time(spent.us):>12} {format_share(spent.us, whole):>7} "
            lines.append(f"{beside}{number:>7}  {source}  # {spent.count} x {spent.largest()}")
        else:
            lines.append(f"{'':21}{number:>7}  {source}")
    return lines


class ModuleTable(dict[str, Spent]):
    """Time by module, or named range, that operations were recorded in; printing it prints the largest first."""

    def __str__(self) -> str:
        whole = sum(spent.us for spent in self.values())
        width = max((len(name) for name in self), default=0)
        return "\n".join(
            f"{name or '(outside)':<{max(width, 9)}} {format_time(spent.us):>12} "
            f"{format_share(spent.us, whole):>7}  {spent.count} x {spent.largest()}"
            for name, spent in sorted(self.items(), key=lambda item: -item[1].us)
        )


def by_line(timeline: Timeline) -> LineTable:
    """The time of operations by the user's line that recorded them."""
    found = LineTable()
    for span in timeline.spans:
        if span.part is not None and span.line is not None:
            _add(found.setdefault(span.line, Spent()), span)
    return found


def by_module(timeline: Timeline) -> ModuleTable:
    """The time of operations by the innermost module or range that they were recorded in."""
    found = ModuleTable()
    for span in timeline.spans:
        if span.part is not None:
            _add(found.setdefault(span.module, Spent()), span)
    return found


def _add(spent: Spent, span: Span) -> None:
    assert span.part is not None
    spent.add((span.end_ns - span.begin_ns) / 1000, span.part.count, span.name)
