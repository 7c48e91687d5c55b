"""Two builds of Weft on the same workloads, turn by turn:
`python -m benchmarks.builds BEFORE AFTER [--only NAME ...] [--threads N] [--quick]`.

In: two checkouts, each built in place; the workloads are this checkout's. Out: a table with both
times and the ratio AFTER / BEFORE. Each build runs in a process of its own (`--work`), which waits
between its turns; times are of the processor, so that what else runs counts little. What a build
fails at is named, and not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.libraries import load
from benchmarks.measure import Context, Job, plan, settle
from benchmarks.report import print_cells, with_unit
from benchmarks.suite import CORE, SUITE

ROOT = Path(__file__).resolve().parent.parent
END = "the end"  # in place of a title: there are no more workloads
WIDTHS = (58, 9, 9, 8, 0)


class Build:
    """A process that runs one build's side, a line of JSON at a time."""

    def __init__(self, checkout: Path, arguments: Sequence[str]) -> None:
        environment = os.environ | {"PYTHONPATH": f"{checkout.resolve() / 'src'}:{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.builds", "--work", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._commands, self._answers = self._process.stdin, self._process.stdout

    def answer(self) -> Any:
        """Its next line. Errors: SystemExit where it has ended."""
        line = self._answers.readline()
        if not line:
            raise SystemExit("a build ended without a word: see above")
        return json.loads(line)

    def turn(self, runs: int) -> float:
        """Seconds of the processor for one run, averaged over a turn."""
        self._send(runs)
        seconds: float = self.answer()
        return seconds

    def go_on(self) -> None:
        """Go to the next workload."""
        self._send(0)

    def _send(self, runs: int) -> None:
        print(runs, file=self._commands, flush=True)


def work(names: Sequence[str], context: Context) -> None:
    """The side of one build: each workload is announced, then run as often as is asked for."""
    with answers_alone() as answer:

        def measured(title: str, make: Callable[[Any], Job]) -> None:
            try:
                job = make(context.libraries["weft"])
                answer({"title": title, "seconds": settle(job, context.settle_seconds)})
            except Exception as error:  # noqa: BLE001 - another build than these workloads are for
                answer({"title": title, "failed": f"{type(error).__name__}: {error}"[:100]})
                job = None
            while runs := int(sys.stdin.readline()):
                assert job is not None
                answer(timed(job, runs))

        for name in names:
            SUITE[name](replace(context, instead=measured, report=lambda line: None))
        answer({"title": END})


@contextmanager
def answers_alone() -> Iterator[Callable[[object], None]]:
    """A function that writes answers; what else is printed goes to the errors."""
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        yield lambda value: print(json.dumps(value), file=answers, flush=True)
    finally:
        sys.stdout = answers


def timed(job: Job, runs: int) -> float:
    """Seconds of the processor for one operation, after a run that wakes threads."""
    job.run()
    begun = time.process_time()
    for _ in range(runs):
        job.run()
    seconds = time.process_time() - begun
    job.clean_up()
    return seconds / runs / job.per


def compare_builds(builds: Sequence[Build], context: Context) -> None:
    """Take both through all workloads, and print a line for each."""
    ratios = []
    print_cells(("workload", "before", "after", "ratio", ""), WIDTHS)
    while True:
        found = [build.answer() for build in builds]
        title = found[0]["title"]
        assert title == found[1]["title"], found
        if title == END:
            break
        failed = [one["failed"] for one in found if "failed" in one]
        if failed:
            print_cells((title, "", "", "", failed[0]), WIDTHS)
        else:
            before, after = take_turns(builds, context, [one["seconds"] for one in found])
            ratios.append(after / before)
            figures = with_unit(before, "s"), with_unit(after, "s")
            print_cells((title, *figures, f"{ratios[-1]:.2f}x", ""), WIDTHS)
        for build in builds:
            build.go_on()
    if ratios:
        slower = sum(ratio > 1.03 for ratio in ratios)
        median = statistics.median(ratios)
        print(f"{len(ratios)} workloads: median {median:.2f}x, {slower} above 1.03x")


def take_turns(builds: Sequence[Build], context: Context, seconds: Sequence[float]) -> list[float]:
    """The median turn of each."""
    runs, turns = plan(context, {str(number): one for number, one in enumerate(seconds)})
    times: list[list[float]] = [[] for _ in builds]
    for _ in range(turns):
        for build, kept in zip(builds, times, strict=True):
            kept.append(build.turn(runs))
    return [statistics.median(kept) for kept in times]


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.builds", description=__doc__)
    top.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT", help="before, after")
    top.add_argument("--only", nargs="+", choices=SUITE, default=CORE, metavar="NAME")
    top.add_argument("--threads", type=int, default=1)
    top.add_argument("--quick", action="store_true", help="small sizes, few turns: a check")
    top.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return top


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser().parse_args(arguments)
    libraries = load(["weft"], options.threads) if options.work else {}
    context = Context(libraries, options.threads, pause=0.0).hurried(options.quick)
    if options.work:
        work(options.only, context)
    elif len(options.checkouts) == 2:
        handed_on = ["--threads", str(options.threads), *["--quick"] * options.quick]
        handed_on += ["--only", *options.only]
        compare_builds([Build(path, handed_on) for path in options.checkouts], context)
    else:
        parser().error("name two checkouts, the one before and the one after")


if __name__ == "__main__":
    main()
