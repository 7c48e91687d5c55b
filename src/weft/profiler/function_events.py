"""Events of a profile as PyTorch's programs read them: `FunctionEvent`, and sums of equal ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from weft.profiler.actions import DeviceType
from weft.profiler.units import format_time


class Interval:
    """A begin and an end, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """The time between, in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start:.3f}, {self.end:.3f})"


class FormattedTimesMixin:
    """Times as text, and on average; there is one device, so that those of others are 0."""

    count: int
    self_cpu_time_total: float
    cpu_time_total: float
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    device_memory_usage: int = 0
    self_device_memory_usage: int = 0
    cuda_time_total = self_cuda_time_total = xpu_time_total = self_xpu_time_total = 0.0
    cuda_memory_usage = self_cuda_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """Microseconds of one, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    cpu_time_avg = cpu_time

    @property
    def device_time(self) -> float:
        """0: there is no other device."""
        return 0.0

    cuda_time = device_time

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with its unit."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` with its unit."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` with its unit."""
        return format_time(self.self_cpu_time_total)

    @property
    def device_time_str(self) -> str:
        """`device_time` with its unit."""
        return format_time(0.0)

    device_time_total_str = self_device_time_total_str = device_time_str


class FunctionEvent(FormattedTimesMixin):
    """Something that ran once: an operation in a launch (`aten::`), a part of the engine's work (`weft::`), a named
    range. `count` is the number of operations that a batch put together, 1 as a rule; 0 where a second launch goes on
    with what another one has counted."""

    device_type = DeviceType.CPU
    device_index = 0
    is_async = is_remote = is_legacy = is_python_function = False
    node_id = sequence_nr = flow_id = -1
    overload_name = ""
    use_device: str | None = None
    fwd_thread: int | None = None
    scope = 0

    def __init__(
        self,
        id: int,  # noqa: A002 - PyTorch's name
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        input_shapes: Iterable[list[int]] | None = None,
        stack: Iterable[str] | None = None,
        cpu_memory_usage: int = 0,
        flops: int | None = None,
        is_user_annotation: bool = False,
        count: int = 1,
        **others: object,
    ) -> None:
        self.id, self.name, self.trace_name, self.thread, self.count = id, name, name, thread, count
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = list(input_shapes or ())
        self.concrete_inputs: list[Any] = []
        self.kwinputs: dict[str, Any] = {}
        self.kernels: list[Any] = []
        self.stack = list(stack or ())
        self.cpu_memory_usage, self.flops = cpu_memory_usage, flops
        self.is_user_annotation = is_user_annotation
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.__dict__.update(others)

    @property
    def key(self) -> str:
        """The name that equal events are put together by."""
        return self.name

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Let another event lie in this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Let this event lie in another one."""
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from its begin to its end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds in it, and in nothing that lies in it; 0 of what was under way meanwhile (`is_async`)."""
        if self.is_async:
            return 0.0
        return max(0.0, self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children))

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that were had less those that were freed in it, and in nothing that lies in it."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """The sums of equal events."""

    device_type = DeviceType.CPU
    is_async = is_remote = is_legacy = False
    node_id = 0
    overload_name = ""
    use_device: str | None = None
    scope = 0

    def __init__(self) -> None:
        self.key = ""
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []
        self.is_user_annotation = False
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Take another event, or the sums of others, in; the first one gives its name."""
        if not self.key:
            self.key, self.input_shapes, self.stack = other.key, other.input_shapes, other.stack
            self.cpu_parent, self.cpu_children = other.cpu_parent, other.cpu_children
            self.is_user_annotation = other.is_user_annotation
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.count += other.count
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class StringTable(defaultdict[str, str]):
    """Names as they are."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


Listed = FunctionEvent | FunctionEventAvg
