"""The profiler under `autograd`, where PyTorch's older programs look for it."""

from __future__ import annotations

from contextlib import nullcontext
from types import TracebackType
from typing import Self

from weft.engine.devices import trace
from weft.profiler.actions import kineto_available
from weft.profiler.event_list import EventList
from weft.profiler.function_events import FunctionEvent, FunctionEventAvg
from weft.profiler.profiler import _KinetoProfile, record_function

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


def __getattr__(name: str) -> bool:
    """`_is_profiler_enabled`, which PyTorch's programs look at before they name a part."""
    if name == "_is_profiler_enabled":
        return trace.is_on()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class emit_nvtx(nullcontext[None]):  # noqa: N801 - PyTorch's name
    """A context that changes nothing: no device reads marks. `weft.profiler.profile` records."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        super().__init__()


class emit_itt(emit_nvtx):  # noqa: N801 - as above
    """A context that changes nothing: nobody reads marks. `weft.profiler.profile` records."""


class profile:  # noqa: N801 - PyTorch's name
    """A context that records what runs in it; `weft.profiler.profile` without schedules.

    Args:
        enabled: False records nothing.
        use_cuda, use_device, use_kineto, use_cpu, experimental_config, custom_trace_id_callback: accepted.
        record_shapes: keep shapes of operands with events.
        with_flops: count multiplications and additions.
        profile_memory: record what is allocated and freed.
        with_stack: keep the user's line with events.
        with_modules: record the calls of modules.
        acc_events: keep the events of all blocks.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: object = None,
        acc_events: bool = False,
        custom_trace_id_callback: object = None,
    ) -> None:
        self.enabled = enabled
        self._profile = _KinetoProfile(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            acc_events=acc_events,
        )

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        self._profile.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.enabled:
            self._profile.stop_trace(run=error is None)

    def __repr__(self) -> str:
        return self.table() if self.enabled else "<unfinished profile>"

    @property
    def function_events(self) -> EventList:
        """The events, in order of their begin."""
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums of events of equal name, and, where asked for, of equal shapes and lines."""
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The table of all events, as `EventList.table` says."""
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def total_average(self) -> FunctionEventAvg:
        """The sums of all events, under the name Total."""
        return self.function_events.total_average()

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace of Chrome's form."""
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks, collapsed (with `with_stack`)."""
        self._profile.export_stacks(path, metric)
