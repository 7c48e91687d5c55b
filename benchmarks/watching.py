"""What it costs to be watched: anomaly mode, the profiler, capture, watches, the board; memory over many iterations.

The two modes of one library take turns, so that the ratio stands also on a busy machine.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import weft
from benchmarks.measure import PAUSE, Context, Job, Line, plan, settle, timed
from benchmarks.novel import random_graphs
from benchmarks.training import gpt_size, gpt_step, mlp_step, tree_step
from weft.engine.frontend.node_factory import count_live_nodes


def anomaly(context: Context) -> None:
    """Training steps with anomaly mode on; the note says how much longer than with it off."""
    size = gpt_size(context)
    watched(context, "MLP step, anomaly mode on", mlp_step)
    watched(context, "GPT step, anomaly mode on", lambda lib: gpt_step(lib, size))


def watched(context: Context, title: str, make: Callable[[Any], Job]) -> None:
    """The time of a step with the mode on, and its ratio to one with it off."""
    figures, words = {}, []
    for name, lib in context.libraries.items():
        job = make(lib)
        watching = Job(_inside_mode(lib, job.run), job.result)
        sides = {"off": job, "on": watching}
        runs, turns = plan(context, {side: settle(one) for side, one in sides.items()})
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(turns):
            for side, one in sides.items():
                time.sleep(PAUSE)
                one.run()
                times[side].append(timed(one, runs))
        figures[name] = statistics.median(times["on"])
        words.append(f"{name} {figures[name] / statistics.median(times['off']):.2f}x of off")
    context.report(Line(title, figures, "s", ", ".join(words)))


def _inside_mode(lib: Any, run: Callable[[], Any]) -> Callable[[], Any]:
    warnings.filterwarnings("ignore", "Anomaly Detection has been enabled")

    def inside() -> Any:
        with lib.autograd.detect_anomaly():
            return run()

    return inside


def watching(context: Context) -> None:
    """Steps under the profiler, and under all else that watches."""
    profiler(context)
    watchers(context)
    long_board(context)


def profiler(context: Context) -> None:
    """Steps while a profile records, beside steps while none does; also of graphs that never come again, which share a
    job: what one has learned serves the other."""
    from weft.demo.syntax_trees import load_functions

    size = gpt_size(context)
    data = load_functions(limit=context.pick(None, 320))
    width = context.pick(128, 32)
    profiled(context, "MLP step, profiled", mlp_step)
    profiled(context, "GPT step, profiled", lambda lib: gpt_step(lib, size))
    profiled(
        context, f"Tree-LSTM step d {width}, profiled", lambda lib: tree_step(lib, data, width)
    )
    profiled(
        context,
        "random graph of 200 operations on 16, per op, profiled",
        lambda lib: random_graphs(lib, 200, 16),
    )


def profiled(context: Context, title: str, make: Callable[[Any], Job]) -> None:
    """The processor time of a step of Weft while a profile records, and its ratio to that of one while none does, by
    processor time and by the clock: medians over turns, whose two sides change places. What is recorded is read when
    the clock stands."""
    job = make(weft)
    seconds = settle(job)
    runs, turns = plan(context, {"off": seconds, "on": seconds})
    used: dict[bool, list[float]] = {False: [], True: []}
    passed: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(8 * turns):
        time.sleep(PAUSE)
        for watched in (turn % 2 == 0, turn % 2 == 1):
            with weft.profiler.profile() if watched else nullcontext():
                start, begin = time.process_time(), time.perf_counter()
                for _ in range(runs):
                    job.run()
                used[watched].append((time.process_time() - start) / runs)
                passed[watched].append((time.perf_counter() - begin) / runs)
    note = f"{_pairs(used)}; by the clock {_pairs(passed)}"
    context.report(Line(title, {"weft": statistics.median(used[True]) / job.per}, "s", note))


def _pairs(times: dict[bool, list[float]]) -> str:
    """The ratio of the medians of both sides, the median of the turns' ratios, and how sure that one is."""
    ratio = statistics.median(times[True]) / statistics.median(times[False])
    ratios = [on / off for on, off in zip(times[True], times[False], strict=True)]
    middle = statistics.median(ratios)
    spread = statistics.median(abs(one - middle) for one in ratios)
    error = 1.4826 * spread * 1.2533 / math.sqrt(len(ratios))  # of a median, by its deviation
    return f"{ratio:.3f}x of off, in turns {middle:.3f}x +- {error:.3f}"


def _thread_seconds(job: Job, runs: int) -> float:
    start = time.thread_time()
    for _ in range(runs):
        job.run()
    return (time.thread_time() - start) / runs


WATCHERS: dict[str, Callable[[str], Any]] = {  # contexts, by the path of a file
    "capture's ring": lambda path: weft.debug.capture.on_error(path),
    "a watch of another operation": lambda path: weft.debug.watch("erfinv", lambda out: True),
}


def watchers(context: Context) -> None:
    """Steps under the ring of `capture.on_error`, under a watch, and under a board, beside steps under none."""
    from weft.demo.syntax_trees import load_functions

    size, width = gpt_size(context), context.pick(128, 32)
    data = load_functions(limit=context.pick(None, 320))
    jobs: dict[str, Callable[[Any], Job]] = {
        "MLP step": mlp_step,
        "GPT step": lambda lib: gpt_step(lib, size),
        f"Tree-LSTM step d {width}": lambda lib: tree_step(lib, data, width),
        "random graph of 200 operations on 16, per op": lambda lib: random_graphs(lib, 200, 16),
    }
    for title, make in jobs.items():
        job = make(weft)
        under_watchers(context, title, job)
        under_board(context, title, job)


def under_watchers(context: Context, title: str, job: Job) -> None:
    """The processor time of a step under each of `WATCHERS`, and its ratio to one under none. They take turns."""
    runs = max(int(context.pick(1.0, 0.05) / settle(job)), 1)
    times: dict[str, list[float]] = {name: [] for name in ("", *WATCHERS)}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(context.pick(7, 1)):
            for name in times:
                time.sleep(PAUSE)
                watcher = WATCHERS[name](f"{folder}/step.weft") if name else nullcontext()
                with watcher:
                    times[name].append(_thread_seconds(job, runs))
    off = statistics.median(times.pop(""))
    for name, seconds in times.items():
        median = statistics.median(seconds)
        note = f"{median / off:.3f}x of off"
        context.report(Line(f"{title}, under {name}", {"weft": median / job.per}, "s", note))


def under_board(context: Context, title: str, job: Job) -> None:
    """The processor time of a step under a board, over so long a time that it pays for its looks, beside that of steps
    before and after; what the first look takes stands apart."""
    wanted = context.pick(20.0, 0.1)
    before = _mean_seconds(job.run, wanted / 4)
    board = weft.board.Board(serve=False)

    def told() -> None:
        job.run()
        board.step()

    with board:
        first = _mean_seconds(told, 0.0)
        on = _mean_seconds(told, wanted)
    off = (before + _mean_seconds(job.run, wanted / 4)) / 2
    note = f"{on / off:.3f}x of off; the first look took {max(first - off, 0.0):.2g} s"
    context.report(Line(f"{title}, under a board", {"weft": on / job.per}, "s", note))


def long_board(context: Context) -> None:
    """Very many small steps under a board whose page is asked for its parts, and under one that serves none, beside
    steps under none: processor time of a step, and what the process has grown by."""
    steps = context.pick(100_000, 2_000)
    step = small_step()
    for _ in range(context.pick(2000, 100)):
        step()
    off = _seconds_of(step, steps // 4)
    for title, serve in (("with its page open", True), ("without a page", False)):
        resident = resident_bytes()
        with weft.board.Board(serve=serve, port=0, quiet=True) as board:
            reader = Reader(board.address) if serve else nullcontext()
            with reader:
                on = _seconds_of(step, steps)
            grown = max(resident_bytes() - resident, 0) >> 20
            board.close()
        note = f"{on / off:.3f}x of off; {grown} MB more after {steps} steps"
        context.report(Line(f"small training step, board {title}", {"weft": on}, "s", note))


def _seconds_of(run: Callable[[], Any], runs: int) -> float:
    start = time.thread_time()
    for _ in range(runs):
        run()
    return (time.thread_time() - start) / runs


READER = """
import json, sys, time, urllib.request
known = {}
while True:
    for name, version in json.load(urllib.request.urlopen(sys.argv[1] + "versions")).items():
        if known.get(name) != version:
            try:
                urllib.request.urlopen(sys.argv[1] + "part/" + name).read()
            except urllib.error.HTTPError:
                pass  # it has gone meanwhile
            known[name] = version
    time.sleep(1)
"""


class Reader:
    """A process that asks a board for what is new, each second, as its page does."""

    def __init__(self, address: str) -> None:
        self._command = [sys.executable, "-c", READER, address]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()


def _mean_seconds(run: Callable[[], Any], wanted: float) -> float:
    """The processor time of a run: the mean of as many as take so long by the clock, or of one."""
    start, until, runs = time.thread_time(), time.perf_counter() + wanted, 0
    while runs == 0 or time.perf_counter() < until:
        run()
        runs += 1
    return (time.thread_time() - start) / runs


def leaks(context: Context) -> None:
    """A million small training steps of Weft: nodes and resident bytes that they leave behind."""
    steps = context.pick(1_000_000, 20_000)
    step = small_step()
    for _ in range(2000):
        step()
    nodes, resident = count_live_nodes(), resident_bytes()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    seconds = time.perf_counter() - start
    left = count_live_nodes() - nodes
    grown = max(resident_bytes() - resident, 0)
    note = f"{left} nodes and {grown / 1024:.0f} kB more after {steps} steps"
    context.report(Line("small training step, over and over", {"weft": seconds / steps}, "s", note))


def small_step() -> Callable[[], None]:
    """A layer, a loss and an update on a handful of numbers."""
    layer = weft.nn.Linear(4, 2)
    optimizer = weft.optim.SGD(layer.parameters(), lr=1e-3, momentum=0.9)
    x = weft.randn(8, 4)

    def step() -> None:
        loss = layer(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def resident_bytes() -> int:
    """The memory of this process that is in RAM."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
