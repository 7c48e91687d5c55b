"""The profiler: a block of a program is recorded, or steps of it by a schedule, and looked at afterwards.

`profile` opens a recording of the engine's trace (`engine.devices.trace`) and closes it; what was recorded becomes a
`Timeline` when it is first asked for. Work is recorded first and runs when a value is wanted: a range is charged with
what ran within it, `by_line` and `by_module` with what was recorded there.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import weft
from weft.engine.devices import trace
from weft.engine.ir.tape import last_sequence
from weft.errors import ArgumentError, ExecutionError, MissingFileError
from weft.profiler import exports
from weft.profiler.actions import ProfilerAction, ProfilerActivity
from weft.profiler.actions import schedule as schedule
from weft.profiler.actions import supported_activities as supported_activities
from weft.profiler.by_source import LineTable, ModuleTable, by_line, by_module
from weft.profiler.event_list import EventList, events_of
from weft.profiler.module_ranges import ModuleRanges, frames_of_user
from weft.profiler.timeline import Timeline, as_data

STEP_NAME = "ProfilerStep#"
_with_stack: list[object] = []  # the profiles that want stacks of ranges


def _default_schedule_fn(step: int) -> ProfilerAction:
    """The action of every step of a profile without a schedule: to record."""
    return ProfilerAction.RECORD


class record_function:  # noqa: N801 - PyTorch's name
    """A context, and a decorator, that gives a part of a program a name.

    Args:
        name: the name, under which equal parts are put together.
        args: more about it, which traces show.

    Cost: a fifth of a microsecond where nobody records.

    Example:
        >>> import weft
        >>> with weft.profiler.profile() as watched:
        ...     with weft.profiler.record_function("forward"):
        ...         total = weft.ones(3).sum().item()
        >>> "forward" in watched.key_averages().table()
        True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begin = self._first = 0

    def __enter__(self) -> Self:
        if trace.is_on():
            self._begin, self._first = trace.clock(), last_sequence()
        return self

    def __exit__(self, *exception: object) -> None:
        begin, self._begin = self._begin, 0
        if begin:
            stack = frames_of_user() if _with_stack else ()
            payload = (self.name, self.args, self._first, last_sequence(), stack)
            trace.note("range", begin, payload)

    def __call__(self, function: Callable[..., object]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*args: object, **kwargs: object) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named


class ProfileRecorder:
    """One recording: it runs what is pending at its begin and at its end, so that work is counted where it belongs."""

    def __init__(self, memory: bool, operands: bool, stacks: bool, modules: bool) -> None:
        weft.realize()
        self.begin_ns = trace.clock()
        self._modules = ModuleRanges() if modules else None
        self._stacks = stacks
        if stacks:
            _with_stack.append(self)
        self._recording = trace.Recording(memory, operands)

    def close(self, run: bool = True) -> Timeline:
        """Record no more. `run`: what is pending runs first."""
        try:
            if run:
                weft.realize()
        finally:
            events = self._recording.close()
            end = trace.clock()
            if self._modules is not None:
                self._modules.remove()
            if self._stacks:
                _with_stack.remove(self)
            self.timeline = Timeline(events, self.begin_ns, end, self._recording.dropped)
        if self.timeline.dropped:
            _warn_of_dropped(self.timeline.dropped)
        return self.timeline


def _warn_of_dropped(count: int) -> None:
    warnings.warn(
        f"weft.profiler: {count:,} operations and events are left out, for which a profile has no room; record fewer "
        "steps, by profile(schedule=...)",
        RuntimeWarning,
        stacklevel=6,
    )


def _checked_activities(
    activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None,
    timeout_s: float | None,
) -> set[ProfilerActivity]:
    """The activities that are asked for, each once."""
    if timeout_s is not None and timeout_s < 0:
        raise ArgumentError(
            "post_processing_timeout_s must be non-negative",
            expected="a number >= 0, or None",
            got=f"{timeout_s}",
        )
    found: list[ProfilerActivity] = []
    for activity in activities if activities is not None else (ProfilerActivity.CPU,):
        found += list(activity) if isinstance(activity, dict) else [activity]
    if len(set(found)) < len(found):
        raise ArgumentError(
            "profile",
            expected="each activity once",
            got=", ".join(str(activity) for activity in found),
        )
    return set(found)


class _KinetoProfile:
    """A profile that is started and stopped by hand: `profile` without a schedule."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _checked_activities(activities, post_processing_timeout_s)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.acc_events = acc_events
        self.trace_id = ""
        self.custom_trace_id_callback = custom_trace_id_callback
        self.preset_metadata: dict[str, Any] = {}
        self._metadata: dict[str, Any] = {}
        self._recorder: ProfileRecorder | None = None
        self._timelines: list[Timeline] = []
        self._events: EventList | None = None

    # -- recording -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to record."""
        self.start_trace()

    def stop(self) -> None:
        """Run what is pending, and record no more."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Nothing is to be prepared."""

    def start_trace(self) -> None:
        """Begin to record, from now on."""
        if self._recorder is not None:
            return
        asked = self.custom_trace_id_callback
        self.trace_id = asked() if asked is not None else uuid.uuid4().hex
        operands = self.record_shapes or self.with_flops
        self._recorder = ProfileRecorder(
            self.profile_memory, operands, self.with_stack, self.with_modules
        )

    def stop_trace(self, run: bool = True) -> None:
        """Record no more; what has been recorded can be asked for.

        Args:
            run: what has been recorded. Default: True.
        """
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.close(run)
        finally:
            if not self.acc_events:
                self._timelines.clear()
            self._timelines.append(recorder.timeline)
            self._events = None

    def _drop(self) -> None:
        """Record no more, and forget it."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity] = ()
    ) -> None:
        """Record no more for the time being, or go on.

        Args:
            enable: whether to record.
            activities: what is recorded, CPU work alone. Default: ().
        """
        if enable:
            self.start_trace()
        else:
            self.stop_trace()

    # -- looking at it ---------------------------------------------------------------------------------------------

    @property
    def timeline(self) -> Timeline:
        """The timeline of what has been recorded last. Errors: ExecutionError where nothing has been."""
        if not self._timelines:
            raise ExecutionError(
                "a profile",
                expected="a recording that has ended",
                got="one that has not begun, or goes on",
                fix="ask behind the block, behind stop(), or in on_trace_ready",
            )
        return self._timelines[-1]

    @property
    def dropped(self) -> int:
        """The number of events for which there was no room."""
        return self.timeline.dropped

    def events(self) -> EventList:
        """The events in order of their begin, each within the one that it lies in; with `acc_events` of all cycles."""
        if self._events is None:
            self.timeline  # noqa: B018 - for its error
            flags = (
                self.record_shapes, self.with_stack, self.profile_memory, self.with_flops,
            )  # fmt: skip
            found = [events_of(timeline, *flags) for timeline in self._timelines]
            self._events = found[-1]
            for earlier in reversed(found[:-1]):
                self._events[:0] = earlier
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums of events of equal name.

        Args:
            group_by_input_shape: tell events of other shapes apart (with `record_shapes`).
            group_by_stack_n: tell events of other stacks apart, by so many frames (with `with_stack`).
            group_by_overload_name: PyTorch's; there are no overloads.

        Example:
            >>> import weft
            >>> with weft.profiler.profile() as profile:
            ...     y = (weft.ones(64, 64) @ weft.ones(64, 64)).relu().sum().item()
            >>> any(event.key == "aten::mm" for event in profile.key_averages())
            True
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def by_line(self) -> LineTable:
        """The time of operations by the user's line that recorded them: a dictionary, which prints as the source."""
        return by_line(self.timeline)

    def by_module(self) -> ModuleTable:
        """The time of operations by the module (with `with_modules`) or range that they were recorded in."""
        return by_module(self.timeline)

    def data(self) -> dict[str, Any]:
        """All of it as dictionaries and lists, as `weft.profiler.timeline.as_data` says."""
        return as_data(self.timeline)

    # -- files -----------------------------------------------------------------------------------------------------

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace that https://ui.perfetto.dev and chrome://tracing open; packed where the name ends in .gz.

        Args:
            path: the file.
        """
        facts = {
            "trace_id": self.trace_id,
            "record_shapes": int(self.record_shapes),
            "profile_memory": int(self.profile_memory),
            "with_stack": int(self.with_stack),
            "with_flops": int(self.with_flops),
            "with_modules": int(self.with_modules),
            "host_name": socket.gethostname(),
            "dropped": self.dropped,
            **self.preset_metadata,
            **self._metadata,
        }
        exports.write_chrome_trace(path, self.timeline, facts)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks, collapsed, for tools that draw flame graphs (with `with_stack`).

        Args:
            path: the file.
            metric: "self_cpu_time_total", which counts. Default: 'self_cpu_time_total'.
        """
        self.events().export_stacks(path, metric)

    def export_speedscope(self, path: str) -> None:
        """Write a file for https://www.speedscope.app.

        Args:
            path: the file.
        """
        exports.write_speedscope(path, self.timeline)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write memory over time (with `profile_memory`), as the ending of the path says: .json, .json.gz or
        .raw.json.gz.

        Args:
            path: the file.
            device: the device; None: the CPU.
        """
        exports.write_memory_timeline(path, self.timeline)

    def add_metadata(self, key: str, value: str) -> None:
        """Let a text stand in the trace under a key.

        Args:
            key: a text.
            value: a text.
        """
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Let a value, given as JSON, stand in the trace under a key.

        Args:
            key: a text.
            value: JSON, as text.
        """
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same, before it is started.

        Args:
            key: a text.
            value: JSON, as text.
        """
        self.preset_metadata[key] = json.loads(value)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Let a function name the traces from now on.

        Args:
            callback: a function without arguments that returns a text.
        """
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the present trace."""
        return self.trace_id or None


class profile(_KinetoProfile):  # noqa: N801 - PyTorch's name
    """A context that records what runs in it, or in steps of it.

    Args:
        activities: accepted; it is always the CPU that is watched.
        schedule: what to do at each step, as `schedule` makes it; None: all is recorded.
        on_trace_ready: called with the profile when a cycle of the schedule, or the block, has ended.
        record_shapes: keep shapes of operands with events.
        profile_memory: record what is allocated and freed.
        with_stack: keep the user's line with events, and the stack of ranges.
        with_flops: count multiplications and additions.
        with_modules: record the calls of modules, so that `by_module` knows their names.
        experimental_config: accepted.
        execution_trace_observer: must be None: there are no execution traces.
        acc_events: `events` has those of all cycles, not of the last one alone.
        use_cuda: accepted, without effect: it is the CPU that is watched; None: the same.
        custom_trace_id_callback: gives the name of each trace; None: a random one.
        post_processing_timeout_s: accepted, without effect, where it is not negative; None: the same.

    Cost: a few per cent of the time of a step; with memory and modules more. Nothing where no profile records.

    Example:
        >>> import weft
        >>> with weft.profiler.profile() as watched:
        ...     total = (weft.ones(3, 4) @ weft.ones(4, 5)).relu().sum().item()
        >>> {"aten::mm", "aten::relu", "aten::sum"} <= {each.key for each in watched.key_averages()}
        True
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or _default_schedule_fn
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._names_steps = schedule is not None
        self._step: record_function | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(run=error is None)

    def start(self) -> None:
        """Begin with the first step of the schedule."""
        self._turn_to(self.current_action)
        self._open_step()

    def stop(self) -> None:
        """End; a cycle that is being recorded is ready now."""
        self._end(run=True)

    def step(self) -> None:
        """Go on to the next step of the schedule."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._turn(before, self.current_action)
        self._open_step()

    def _turn(self, before: ProfilerAction, after: ProfilerAction) -> None:
        """Go from the action of one step to that of the next one."""
        recorded = before in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        records = after in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if before is ProfilerAction.RECORD_AND_SAVE or (recorded and not records):
            self.stop_trace()
            if before is ProfilerAction.RECORD_AND_SAVE:
                self._trace_ready()
        elif before is ProfilerAction.WARMUP and after is not ProfilerAction.WARMUP:
            self._drop()
        self._turn_to(after)

    def _turn_to(self, action: ProfilerAction) -> None:
        """Record from now on, if an action says so and nothing is recorded yet."""
        if action is not ProfilerAction.NONE:
            self.start_trace()

    def _end(self, run: bool) -> None:
        self._close_step()
        if self.current_action is ProfilerAction.WARMUP:
            self._drop()
        if self._recorder is not None:
            self.stop_trace(run)
            self._trace_ready()

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _open_step(self) -> None:
        if self._names_steps:
            self._step = record_function(f"{STEP_NAME}{self.step_num}")
            self._step.__enter__()

    def _close_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__()


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[_KinetoProfile], None]:
    """For `on_trace_ready`: writes each trace to a file `worker.time.pt.trace.json` in a folder, as TensorBoard's
    plugin and others look for it.

    Args:
        dir_name: the folder, which is made.
        worker_name: the first part of the name; None: of this machine and process.
        use_gzip: pack it.
        use_python_export: accepted.

    Errors: MissingFileError (a RuntimeError) where the folder cannot be made.
    """

    def write(finished: _KinetoProfile) -> None:
        folder = Path(dir_name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MissingFileError(f"Can't create directory: {dir_name}", got=str(error)) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        finished.export_chrome_trace(
            str(folder / f"{worker}.{time.time_ns()}.pt.trace.json{ending}")
        )

    return write


class ExecutionTraceObserver:
    """PyTorch's observer of execution traces.

    Args:
        *args: not looked at.
        **options: not looked at.

    Errors: ArgumentError when one is made: a capsule or a trace of Chrome's form holds what ran.
    """

    def __init__(self, *args: object, **options: object) -> None:
        raise ArgumentError(
            "ExecutionTraceObserver",
            expected="one of the files that a profile writes",
            got="PyTorch's execution traces, which list calls of its dispatcher",
            fix="use export_chrome_trace, or profile.data()",
        )
