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
def programs_made() -> Iterator[list[tuple[list[str], Any]]]:
    """The programs that are made within the block, known later or not: names of their kernels, and what runs them, with
    its clock on. Those of before are forgotten, and kernels are compiled where they are wanted: what runs is made
    here, as it will be."""
    from weft.engine.replay import cache
    from weft.engine.runtime.launch import watch_programs

    made: list[tuple[list[str], Any]] = []
    in_background, config.background_compilation = config.background_compilation, False
    cache.clear()
    watch_programs(made)
    try:
        yield made
    finally:
        watch_programs(None)
        config.background_compilation = in_background


def timing(run: Callable[[], Any], runs: int, warm: int = 4) -> Timing:
    """The quickest of so many runs after `warm` others, and of each launch the quickest. On one thread the time of the
    processor counts, which other work on the machine does not lengthen; where it has lengthened launches beyond that,
    they are shortened alike."""
    clock = time.process_time if weft.get_num_threads() == 1 else time.perf_counter
    seconds: list[float] = []
    names: list[str] = []
    quickest: Any = None
    with programs_made() as made:
        for _ in range(warm):
            run()
        for _ in range(runs):
            for _, executable in made:
                executable.record_times()  # from zero
            start = clock()
            run()
            seconds.append(clock() - start)
            have, times = _launches(made)
            same = have == names
            names, quickest = have, np.minimum(times, quickest) if same else times
    scale = 1e-9 * min(1.0, min(seconds) / max(float(quickest.sum()) * 1e-9, 1e-12))
    pairs = zip(names, quickest, strict=True)
    return Timing(min(seconds), [Launch(name, float(time) * scale) for name, time in pairs])


def _launches(made: list[tuple[list[str], Any]]) -> tuple[list[str], Any]:
    """The kernels that have run since the clocks stood at zero, and their nanoseconds."""
    names: list[str] = []
    times: list[int] = []
    for kernels, executable in made:
        found = executable.recorded_times()
        if any(found):
            names += kernels[: len(found)]
            times += found
    return names, np.array(times)
