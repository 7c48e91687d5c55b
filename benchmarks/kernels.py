"""Where the time of a step goes, kernel by kernel: the engine's own clock around each launch.

In: a job. Out: the time of each launch with its kernel's name, in the order of launches; `python -m
benchmarks.timeline` prints and draws them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import weft
from weft.config import config
from weft.engine.devices.trace import Recording


class Launch(NamedTuple):
    """One launch: its kernel and its seconds."""

    kernel: str
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
def whole_programs() -> Iterator[None]:
    """Within the block what runs is made anew, as programs whose kernels are compiled where they are wanted."""
    from weft.engine.replay import cache

    before = config.background_compilation, config.interpreter
    config.background_compilation, config.interpreter = False, "none"
    cache.clear()
    try:
        yield
    finally:
        config.background_compilation, config.interpreter = before


def timing(run: Callable[[], Any], runs: int, warm: int = 4) -> Timing:
    """The quickest of so many runs after `warm` others, and of each launch the quickest. On one thread the time of the
    processor counts, which other work on the machine does not lengthen; where it has lengthened launches beyond that,
    they are shortened alike."""
    clock = time.process_time if weft.get_num_threads() == 1 else time.perf_counter
    seconds: list[float] = []
    names: list[str] = []
    quickest: Any = None
    with whole_programs():
        for _ in range(warm):
            run()
        for _ in range(runs):
            recording = Recording()
            start = clock()
            run()
            seconds.append(clock() - start)
            have, times = _launches(recording.close())
            same = have == names
            names, quickest = have, np.minimum(times, quickest) if same else times
    scale = 1e-9 * min(1.0, min(seconds) / max(float(quickest.sum()) * 1e-9, 1e-12))
    pairs = zip(names, quickest, strict=True)
    return Timing(min(seconds), [Launch(name, float(time) * scale) for name, time in pairs])


def _launches(events: list[Any]) -> tuple[list[str], Any]:
    """The kernels that have run, in order, and their nanoseconds: the launches of a program come before it."""
    names: list[str] = []
    times: list[int] = []
    for kind, begin, end, _, payload, _ in events:
        if kind == "launch":
            times.append(end - begin)
        elif kind == "program":
            names += [spec.name for spec in payload.specs]
    return names, np.array(times)
