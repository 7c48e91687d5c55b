"""Where the time of a step goes, kernel by kernel: the engine's own clock around each launch of known programs.

In: a job, run until its programs are known. Out: the time of each launch with its kernel's name, in the order of
launches; `python -m benchmarks.timeline` prints and draws them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np


class Launch(NamedTuple):
    """One launch of a known program: its kernel, its size, and its mean seconds in a run."""

    kernel: str
    units: int
    seconds: float


class Timing(NamedTuple):
    """One run of a job: all of it, and the launches that the engine's clock was around."""

    seconds: float
    launches: list[Launch]

    @property
    def in_kernels(self) -> float:
        """The share of the time that kernels took."""
        return sum(launch.seconds for launch in self.launches) / self.seconds


@contextmanager
def stored_programs() -> Iterator[list[tuple[list[str], Any]]]:
    """The programs that are stored within the block: names of their kernels, and what runs them, with its clock on."""
    from weft import pipeline

    kept: list[tuple[list[str], Any]] = []
    store = pipeline.store

    def keeping(form: Any, program: Any, memory: Any, lowering: Any, run: Any, *rest: Any) -> None:
        store(form, program, memory, lowering, run, *rest)
        executable = rest[0]
        executable.record_times()
        kept.append(([launch.spec.name for launch in lowering.launches], executable))

    pipeline.store = keeping
    try:
        yield kept
    finally:
        pipeline.store = store


def timing(run: Callable[[], Any], runs: int, warm: int = 4) -> Timing:
    """The quickest of so many runs after `warm` others, and of each launch the quickest."""
    with stored_programs() as kept:
        for _ in range(warm):
            run()
        quickest: list[Any] = [None] * len(kept)
        seconds = []
        for _ in range(runs):
            for _, executable in kept:
                executable.record_times()  # from zero
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
            for number, (_, executable) in enumerate(kept):
                times = np.array(executable.recorded_times())
                before = quickest[number]
                quickest[number] = times if before is None else np.minimum(before, times)
    launches = []
    for (names, executable), times in zip(kept, quickest, strict=True):
        units = [instruction[3] for instruction in executable.instructions()]
        for name, count, nanoseconds in zip(names, units, times, strict=True):
            launches.append(Launch(name, count, float(nanoseconds) * 1e-9))
    return Timing(min(seconds), launches)
