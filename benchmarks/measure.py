"""Timing two libraries on the same work.

In: a workload as a function from a library to a `Job`. Out: a `Line` with one figure for each
library. The libraries take turns (A B A B ...), each turn after an untimed run that wakes its
threads, and the median turn counts. Results are compared first: wrong work is not timed. What the
work is, and how lines are shown, is left to others.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.counting import Events
from benchmarks.limits import Work

PAUSE = 0.025  # between turns: the other library's workers stop spinning (those of libgomp after 8.5 ms)
Result = Sequence[Any]


class WrongWork(AssertionError):
    """The libraries computed different things."""


@dataclass(frozen=True)
class Job:
    """One library's side of a workload."""

    run: Callable[[], Any]  # one unit of work, up to the values that a user would read
    result: Callable[[], Result]  # arrays in which the libraries must agree; called before timing
    clean_up: Callable[[], Any] = lambda: None  # after each turn, untimed
    per: int = 1  # operations in one run; the time of one is reported
    compare: tuple[float, float] = (1e-4, 1e-6)  # relative and absolute tolerance


@dataclass(frozen=True)
class Line:
    """One line of the table: a figure for each library, in seconds or bytes."""

    title: str
    figures: dict[str, float]
    unit: str = "s"
    note: str = ""
    target: float | None = None  # the least ratio of PyTorch's figure to Weft's that is wanted
    limit: float | None = None  # the seconds that the machine needs at least


@dataclass(frozen=True)
class Context:
    """How to measure."""

    libraries: dict[str, Any]  # name -> module, in the order of turns
    threads: int
    quick: bool = False
    repeats: int = 11
    turn_seconds: float = 0.04
    budget_seconds: float = 5.0
    pause: float = PAUSE
    settle_seconds: float = 2.0  # of runs before the first turn, from the fourth on
    least_turns: int = 3
    rivals: dict[str, Any] = field(default_factory=dict)  # where there are any, only they are timed
    beside: dict[str, dict[str, float]] = field(default_factory=dict)  # by title: figures of rivals
    dynet: str = ""  # a Python that has DyNet
    calls: str = ""  # what the names of the calls that are scanned match, as a regular expression
    report: Callable[[Line], None] = field(default=print)
    # takes each workload by its title in place of measuring it (`builds.py`)
    instead: Callable[[str, Callable[[Any], Job]], None] | None = None

    def pick(self, full: Any, quick: Any) -> Any:
        """A size, by the kind of run."""
        return quick if self.quick else full

    def hurried(self, quick: bool) -> Context:
        """The same, or one that measures little: a check that all runs."""
        if not quick:
            return self
        return replace(self, quick=True, repeats=5, turn_seconds=0.01, budget_seconds=1.0)


Note = Callable[[dict[str, float]], str]


def compare(
    context: Context,
    title: str,
    make: Callable[[Any], Job],
    note: Note | None = None,
    *,
    target: float | None = None,
    work: Work | None = None,
    rivals: Mapping[str, Callable[[Any], Job]] | None = None,
) -> None:
    """Measure a workload and report its line; `note` makes words of the figures, `work` is what the limit is computed
    from, `rivals` says how others than PyTorch and Weft do it."""
    if context.instead is not None:
        context.instead(title, make)
        return
    offered = rivals or {}
    if context.rivals and not context.rivals.keys() & offered.keys():
        return
    jobs = {name: make(module) for name, module in context.libraries.items()}
    apart = {name: offered[name](module) for name, module in context.rivals.items()}
    check(title, jobs | apart)
    jobs = apart or jobs
    runs, turns = plan(
        context, {name: settle(job, context.settle_seconds) for name, job in jobs.items()}
    )
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    events = Events()
    for _ in range(turns):
        for name, job in jobs.items():
            time.sleep(context.pause)
            job.run()
            with events.of(name, runs):
                times[name].append(timed(job, runs) / job.per)
            job.clean_up()
    figures = {name: statistics.median(values) for name, values in times.items()}
    figures |= context.beside.get(title, {})
    words = [note(figures)] if note else []
    limit = work.seconds(context.threads) if work else None
    note_text = "; ".join([*words, *events.words()])
    context.report(Line(title, figures, "s", note_text, target, limit))


def check(title: str, jobs: dict[str, Job]) -> None:
    """Errors: WrongWork where two libraries' results differ."""
    first: Result | None = None
    for name, job in jobs.items():
        result = [np.asarray(array) for array in job.result()]
        first = result if first is None else first
        relative, absolute = job.compare
        for number, (ours, theirs) in enumerate(zip(result, first, strict=True)):
            try:
                np.testing.assert_allclose(ours, theirs, relative, absolute)
            except AssertionError as error:
                raise WrongWork(f"{title}: result {number} of {name} differs: {error}") from None


def settle(job: Job, limit: float = 2.0) -> float:
    """Run until nothing is new (kernels compiled, memory pooled); the seconds of the last run."""
    start = last = time.perf_counter()
    for number in range(12):
        job.run()
        now = time.perf_counter()
        if number >= 3 and now - start > limit:
            break
        seconds, last = now - last, now
    job.clean_up()
    return seconds


def plan(context: Context, seconds: dict[str, float]) -> tuple[int, int]:
    """Runs in a turn (the same for both, long enough for the faster) and turns in the budget."""
    fastest, slowest = min(seconds.values()), sum(seconds.values())
    runs = max(1, int(context.turn_seconds / max(slowest, 1e-9)))
    runs = min(max(runs, int(2e-3 / max(fastest, 1e-9))), 10_000)
    turns = int(context.budget_seconds / ((runs + 1) * slowest + 2 * context.pause))
    return runs, max(context.least_turns, min(context.repeats, turns))


def timed(job: Job, runs: int) -> float:
    """Seconds of one run, averaged over a turn."""
    run = job.run
    start = time.perf_counter()
    for _ in range(runs):
        run()
    return (time.perf_counter() - start) / runs
