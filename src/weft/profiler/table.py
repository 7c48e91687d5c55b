"""The table of a list of events, in the form of PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.profiler.function_events import Listed
from weft.profiler.units import format_memory, format_share, format_time

Text = Callable[[Listed], str]

COLUMN = 12
GAP = "  "
_FLOPS = ((1e15, "PFLOPs"), (1e12, "TFLOPs"), (1e9, "GFLOPs"), (1e6, "MFLOPs"), (1e3, "KFLOPs"))


class TableColumn(NamedTuple):
    """A column: its head, its width, and the text of an event in it."""

    head: str
    width: int
    text: Text


def build_table(
    events: Sequence[Listed],
    whole_us: float,
    sort_by: str | None,
    row_limit: int,
    widths: tuple[int, int, int],
    header: str | None,
    top_level_events_only: bool,
    time_unit: str | None,
    memory: bool,
    with_flops: bool,
) -> str:
    """The table; `widths` are those that names, shapes and lines have at most."""
    if not events:
        return ""
    rows = list(events)
    if sort_by is not None:
        rows.sort(key=lambda event: getattr(event, sort_by), reverse=True)
    if top_level_events_only:
        rows = [event for event in rows if event.cpu_parent is None]
    columns = _columns(rows, whole_us, widths, time_unit, memory, with_flops)
    rule = GAP.join("-" * column.width for column in columns) + GAP
    lines = []
    if header is not None:
        lines += ["=" * len(rule), header]
    lines += [rule, _row([column.head for column in columns], columns), rule]
    for event in rows[: row_limit if row_limit >= 0 else None]:
        lines.append(_row([column.text(event) for column in columns], columns))
    return "\n".join([*lines, rule, f"Self CPU time total: {format_time(whole_us)}", ""])


def _row(texts: Sequence[str], columns: Sequence[TableColumn]) -> str:
    cells = [f"{text:>{column.width}}" for text, column in zip(texts, columns, strict=True)]
    return GAP.join(cells) + GAP


def _columns(
    rows: Sequence[Listed],
    whole: float,
    widths: tuple[int, int, int],
    unit: str | None,
    memory: bool,
    with_flops: bool,
) -> list[TableColumn]:
    names, shapes, sources = widths

    def time(name: str) -> Text:
        return lambda event: format_time(getattr(event, name), unit)

    columns = [
        TableColumn("Name", _width([e.key for e in rows], names), lambda e: _cut(e.key, names)),
        TableColumn("Self CPU %", COLUMN, lambda e: format_share(e.self_cpu_time_total, whole)),
        TableColumn("Self CPU", COLUMN, time("self_cpu_time_total")),
        TableColumn("CPU total %", COLUMN, lambda e: format_share(e.cpu_time_total, whole)),
        TableColumn("CPU total", COLUMN, time("cpu_time_total")),
        TableColumn("CPU time avg", COLUMN, time("cpu_time")),
    ]
    if memory:
        columns += [
            TableColumn("CPU Mem", COLUMN, lambda e: format_memory(e.cpu_memory_usage)),
            TableColumn("Self CPU Mem", COLUMN, lambda e: format_memory(e.self_cpu_memory_usage)),
        ]
    columns.append(TableColumn("# of Calls", COLUMN, lambda e: str(e.count)))
    if any(event.input_shapes for event in rows):
        width = _width([str(e.input_shapes or []) for e in rows], shapes)
        columns.append(
            TableColumn("Input Shapes", width, lambda e: _cut(str(e.input_shapes or []), shapes))
        )
    if any(event.stack for event in rows):
        width = _width([e.stack[0] if e.stack else "" for e in rows], sources)
        columns.append(
            TableColumn(
                "Source Location", width, lambda e: _cut(e.stack[0] if e.stack else "", sources)
            )
        )
    if with_flops and any(event.flops for event in rows):
        scale, word = _flops_unit(max(event.flops or 0 for event in rows))
        columns.append(
            TableColumn(
                f"Total {word}", COLUMN, lambda e: f"{e.flops / scale:.3f}" if e.flops else "--"
            )
        )
    return columns


def _flops_unit(most: float) -> tuple[float, str]:
    return next(((s, word) for s, word in _FLOPS if most >= s), (1.0, "FLOPs"))


def _width(texts: Sequence[str], most: int | None) -> int:
    width = max(map(len, texts), default=0) + 4
    return max(COLUMN, width if most is None else min(width, most))


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else text[: max(most - 3, 0)] + "..."
