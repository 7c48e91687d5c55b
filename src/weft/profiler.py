"""`weft.profiler`: what ran in a block, and how long named parts of it took.

It counts flushes, kernels and launches, and times the `record_function` blocks in it. Work is recorded first and runs
when a value is wanted: a named part is charged with what ran within it.
"""

from __future__ import annotations

import enum
import functools
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weft
from weft._build.lazy import gather as _gather
from weft.engine.pipeline import driver

_profiles: list[profile] = []


class ProfilerActivity(enum.Enum):
    """The activities that PyTorch's profiler watches; here it is always the CPU."""

    CPU = 0
    CUDA = 1
    XPU = 2


class ProfilerAction(enum.Enum):
    """The action of a step of a schedule in PyTorch's profiler; here every step counts."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = 0, 1, 2, 3


class DeviceType(enum.Enum):
    """Devices that PyTorch's profiler tells apart; here it is always the CPU."""

    CPU, CUDA = 0, 1


def supported_activities() -> set[ProfilerActivity]:
    """The activities that are watched: the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """True if PyTorch's tracer is there: no."""
    return False


class record_function:  # noqa: N801 - PyTorch's name
    """A context, and a decorator, that gives a part of a program a name."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        for running in _profiles:
            running._note(self.name, time.perf_counter() - self.begin)

    def __call__(self, function: Callable[..., object]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*args: object, **kwargs: object) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return named


@dataclass(frozen=True)
class FunctionEventAvg:
    """The count and the time of a named part; it can be taken apart as (key, count, seconds)."""

    key: str
    count: int
    seconds: float

    def __iter__(self) -> Iterator[str | int | float]:
        return iter((self.key, self.count, self.seconds))

    @property
    def cpu_time_total(self) -> float:
        """The time of all calls in microseconds."""
        return self.seconds * 1e6

    @property
    def cpu_time(self) -> float:
        """The time of a call in microseconds, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0


class EventList(list[FunctionEventAvg]):
    """Named parts; `table()` prints them. Options of PyTorch's are accepted."""

    def __init__(self, events: Iterable[FunctionEventAvg] = (), **options: object) -> None:
        super().__init__(events)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: object) -> str:
        """A line for each name, the longest first."""
        rows = sorted(self, key=lambda event: -event.seconds)[
            : row_limit if row_limit > 0 else None
        ]
        lines = [f"{'Name':40} {'# of calls':>10} {'CPU total':>12}"]
        lines += [f"{row.key:40} {row.count:>10} {row.seconds * 1e3:>9.3f} ms" for row in rows]
        return "\n".join(lines)


class profile:  # noqa: N801 - PyTorch's name
    """A context that counts what runs in it. Options of PyTorch's profiler are accepted; `schedule` and
    `on_trace_ready` are not followed, but `on_trace_ready(profile)` is called at the end."""

    def __init__(
        self, *args: object, on_trace_ready: Callable[..., object] | None = None, **options: object
    ) -> None:
        self.on_trace_ready = on_trace_ready
        self.times: dict[str, list[float]] = defaultdict(list)
        self.counts: dict[str, int] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to count."""
        weft.realize()
        self._before = dict(driver.counters)
        self._begin = time.perf_counter()
        _profiles.append(self)

    def stop(self) -> None:
        """Run what is pending, and stop."""
        weft.realize()
        self.counts = {key: driver.counters[key] - self._before[key] for key in self._before}
        self._note("total", time.perf_counter() - self._begin)
        _profiles.remove(self)
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Nothing: every step counts."""

    def _note(self, name: str, seconds: float) -> None:
        self.times[name].append(seconds)

    def key_averages(self, *args: object, **options: object) -> EventList:
        """The named parts, the whole as `total`, and what ran under `weft.` names."""
        parts = [FunctionEventAvg(name, len(t), sum(t)) for name, t in self.times.items()]
        parts += [FunctionEventAvg(f"weft.{name}", n, 0.0) for name, n in self.counts.items()]
        return EventList(parts)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: object
) -> Callable[[int], None]:
    """Accepted; every step counts."""
    return lambda step: None


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes the table of a profile to a text file in a folder."""

    def write(finished: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or 'worker'}.{time.time_ns()}.txt"
        (folder / name).write_text(finished.key_averages().table())

    return write


_PROFILING = "ProfilerAction profile schedule supported_activities tensorboard_trace_handler"
_gather(sys.modules[__name__], {"profiler": {"profiler": _PROFILING}})
