"""Lists of events, with their table, sums and files; and the events of a timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from weft.errors import ArgumentError
from weft.profiler import exports
from weft.profiler.function_events import FunctionEvent, FunctionEventAvg, Listed
from weft.profiler.table import build_table
from weft.profiler.timeline import Change, Span, Timeline

METRICS = ("self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total")


class EventList(list[Listed]):
    """Events, or sums of equal ones; printing it prints its table."""

    def __init__(
        self,
        events: Iterable[Listed] = (),
        *,
        profile_memory: bool = False,
        with_flops: bool = False,
        whole_us: float | None = None,
        timeline: Timeline | None = None,
        **options: object,
    ) -> None:
        super().__init__(events)
        self._memory, self._flops, self._timeline = profile_memory, with_flops, timeline
        self._whole_us = whole_us

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        if self._whole_us is not None:
            return self._whole_us
        return float(sum(event.self_cpu_time_total for event in self))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The table of these events, in PyTorch's form.

        Args:
            sort_by: the attribute that rows are ordered by, the largest first: `self_cpu_time_total`,
                `cpu_time_total`, `cpu_time`, `self_cpu_memory_usage`, `cpu_memory_usage`, `count`; None: as they came.
            row_limit: how many rows there are; -1: all.
            max_src_column_width: characters of a line of source at most.
            max_name_column_width: of a name.
            max_shapes_column_width: of shapes.
            header: a line above.
            top_level_events_only: leave out what lies in other events.
            time_unit: `s`, `ms` or `us` for all times; None: for each what suits it.
        """
        widths = max_name_column_width, max_shapes_column_width, max_src_column_width
        return build_table(
            self,
            self.self_cpu_time_total,
            sort_by,
            row_limit,
            widths,
            header,
            top_level_events_only,
            time_unit,
            self._memory,
            self._flops,
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums of events of equal name, and, where asked for, of equal shapes and lines."""
        sums: defaultdict[tuple[Any, ...], FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            key = [event.key, event.is_user_annotation]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key += event.stack[:group_by_stack_n]
            sums[tuple(key)].add(event)
        for average in sums.values():
            if not group_by_input_shapes:
                average.input_shapes = []
            average.stack = average.stack[:group_by_stack_n]
        return EventList(
            sums.values(),
            profile_memory=self._memory,
            with_flops=self._flops,
            whole_us=self.self_cpu_time_total,
            timeline=self._timeline,
        )

    def total_average(self) -> FunctionEventAvg:
        """The sums of all events, under the name Total."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Write the profile that these events are of as a trace of Chrome's form."""
        exports.write_chrome_trace(path, self._needed(), {})

    def export_stacks(self, path: str, metric: str) -> None:
        """Write the events with their stacks, collapsed: a line of frames for each, and the metric in microseconds."""
        if metric not in METRICS:
            raise ArgumentError(
                "export_stacks",
                expected=f"metric one of {', '.join(METRICS)}",
                got=repr(metric),
                fix="pass self_cpu_time_total",
            )
        exports.write_stacks(path, self, metric)

    def _needed(self) -> Timeline:
        if self._timeline is None:
            raise ArgumentError(
                "export_chrome_trace", expected="events of a profile", got="a list of others"
            )
        return self._timeline


def events_of(
    timeline: Timeline,
    record_shapes: bool = False,
    with_stack: bool = False,
    profile_memory: bool = False,
    with_flops: bool = False,
    with_modules: bool = False,
) -> EventList:
    """The events of a timeline, each within the one that it lies in; launches are left out, as their operations have
    all of their time, and what workers did of them."""
    if profile_memory:
        _charge(timeline)
    found: list[FunctionEvent] = []
    made: dict[int, FunctionEvent] = {}
    for span in timeline.spans:
        if span.kind == "piece" or (
            span.kind == "launch" and span.launch is not None and span.launch.parts
        ):
            continue
        event = _event(timeline, span, len(found), record_shapes, with_stack, with_flops)
        made[id(span)] = event
        found.append(event)
        parent = span.parent
        while parent is not None and id(parent) not in made:
            parent = parent.parent
        if parent is not None:
            event.set_cpu_parent(made[id(parent)])
            made[id(parent)].append_cpu_child(event)
    return EventList(found, profile_memory=profile_memory, with_flops=with_flops, timeline=timeline)


def _event(
    timeline: Timeline,
    span: Span,
    number: int,
    record_shapes: bool,
    with_stack: bool,
    with_flops: bool,
) -> FunctionEvent:
    part = span.part
    stack = list(span.stack) or ([str(span.line)] if span.line is not None else [])
    shapes = list(map(list, span.shapes))
    if part is not None:
        shapes = [list(operand.shape) for operand in part.label.operands]
    return FunctionEvent(
        number,
        "weft::copy" if span.kind == "launch" else span.name,
        span.thread,
        (span.begin_ns - timeline.begin_ns) / 1000,
        (span.end_ns - timeline.begin_ns) / 1000,
        input_shapes=shapes if record_shapes else None,
        stack=stack if with_stack else None,
        cpu_memory_usage=span.allocated,
        flops=part.flops if part is not None and with_flops else None,
        is_user_annotation=span.kind == "range",
        count=1 if part is None else part.count,
        is_async=span.kind == "transfer",
    )


def _charge(timeline: Timeline) -> None:
    """Give spans the bytes that were had in them less those that were freed; an operation has those of its result."""
    changes = timeline.memory
    index = 0
    open_: list[Span] = []
    spans = [span for span in timeline.spans if span.kind not in ("launch", "piece", "operation")]
    for span in timeline.spans:
        span.allocated = 0 if span.part is None else span.part.stored_bytes
    for span in spans:
        while index < len(changes) and changes[index].at_ns < span.begin_ns:
            _add_change(open_, changes[index])
            index += 1
        open_.append(span)
    for change in changes[index:]:
        _add_change(open_, change)


def _add_change(open_: list[Span], change: Change) -> None:
    open_[:] = [span for span in open_ if span.end_ns >= change.at_ns]
    for span in open_:
        if span.thread == change.thread:
            span.allocated += change.nbytes
