"""Training steps under a memory budget: time and peak against the budget, beside PyTorch with checkpoints by hand.

In: the models of the other workloads, deep enough that activations are most of their memory. Weft keeps a share of its
own peak by itself, PyTorch recomputes every block (every tree) in `utils.checkpoint`, as one would write it. All ways
take turns in one process; Weft's peak is what its pool has counted, PyTorch's what a step adds to resident memory.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

from benchmarks.measure import Context, Job, Line, check, settle
from benchmarks.models import SMALL_GPT, GPTSize
from benchmarks.networks import LSTM, SMALL_LSTM, SMALL_RESNET, lstm_step, resnet_step
from benchmarks.processes import forget_peak, resident
from benchmarks.scan import give_back
from benchmarks.training import gpt_step, tree_step

SHARES = (0.5, 0.25)
MOST_TURNS, SETTLE_SECONDS = 5, 0.5
DEEP_GPT = GPTSize(layers=12, width=64, batch=16)
DEEP_RESNET = (32, 32, (32, 32, 32, 64, 64, 64, 128, 128, 128))
PEAK_RUNS = 4  # steps whose largest peak counts: those of other trees need more or less
Prepare = Callable[[Any, Any], Any]
Points = dict[str, tuple[float, float]]  # by way: seconds, peak bytes


def budget(context: Context) -> None:
    """GPT, ResNet and Tree-LSTM in shares of Weft's own peak."""
    for title in ("GPT", "ResNet", "Tree-LSTM"):
        _report(context, title, points(context, title, SHARES))


def gpt(context: Context) -> Callable[..., Job]:
    """Steps of a GPT with more layers than width."""
    return partial(gpt_step, size=context.pick(DEEP_GPT, SMALL_GPT))


def resnet(context: Context) -> Callable[..., Job]:
    """Steps of a ResNet of 9 blocks."""
    batch, size, widths = context.pick(DEEP_RESNET, SMALL_RESNET)
    return partial(resnet_step, batch=batch, size=size, widths=widths)


def trees(context: Context) -> Callable[..., Job]:
    """Steps of a Tree-LSTM, whose graphs are new at every step."""
    from weft.demo.syntax_trees import load_functions

    data = load_functions(limit=context.pick(None, 320))
    return partial(tree_step, data=data, width=context.pick(128, 32))


def lstm(context: Context) -> Callable[..., Job]:
    """Steps of an LSTM over characters."""
    batch, length, width = context.pick(LSTM, SMALL_LSTM)
    return partial(lstm_step, batch=batch, length=length, width=width)


def again(lib: Any, module: Any) -> Any:
    """A module whose values are computed again in the backward pass."""

    class Again(lib.nn.Module):  # type: ignore[misc,name-defined]
        """One checkpoint."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: Any) -> Any:
            return lib.utils.checkpoint.checkpoint(self.inner, *inputs, use_reentrant=False)

    return Again()


def blocks_again(lib: Any, model: Any) -> Any:
    """A GPT with a checkpoint around each block."""
    model.blocks = lib.nn.Sequential(*(again(lib, block) for block in model.blocks))
    return model


def children_again(lib: Any, model: Any) -> Any:
    """A sequence with a checkpoint around each of its modules that has parameters."""
    return lib.nn.Sequential(*(again(lib, one) if list(one.parameters()) else one for one in model))


MODELS: dict[str, tuple[Callable[[Context], Callable[..., Job]], Prepare | None]] = {
    "GPT": (gpt, blocks_again),
    "ResNet": (resnet, children_again),
    "Tree-LSTM": (trees, again),
    "LSTM": (lstm, None),  # there are no modules over time to put checkpoints around
}


def points(context: Context, title: str, shares: Sequence[float]) -> Points:
    """Seconds and peak bytes of a model's steps by way: as they are, with checkpoints by hand, under budgets."""
    model, prepare = MODELS[title]
    make = model(context)
    jobs = {name: make(lib) for name, lib in context.libraries.items()}
    check(title, jobs)
    ways: dict[str, tuple[Job, Any]] = {name: (job, None) for name, job in jobs.items()}
    if "pytorch" in jobs and prepare is not None:
        by_hand = make(context.libraries["pytorch"], prepare=prepare)
        ways["pytorch, checkpoints"] = (by_hand, None)
    if "weft" in jobs:
        settle(jobs["weft"], SETTLE_SECONDS)
        whole = max(_peak_of("weft", jobs["weft"]) for _ in range(PEAK_RUNS))
        for share in shares:
            ways[f"weft in {share:g}"] = (jobs["weft"], int(whole * share))
    times, peaks = _measured(context, ways)
    return {name: (times[name], peaks[name]) for name in times}


def library_of(way: str) -> str:
    """The library of a way."""
    return way.partition(",")[0].partition(" in ")[0]


def _measured(
    context: Context, ways: dict[str, tuple[Job, Any]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds and peak bytes of each way; a way that does not fit is left out, also where only a later step
    does not."""
    fitting = {name: way for name, way in ways.items() if _fits(*way)}
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in fitting}
    for _ in range(min(context.repeats, MOST_TURNS)):
        for name, way in list(fitting.items()):
            time.sleep(context.pause)
            seconds = _timed(*way)
            if seconds is None:
                del fitting[name]
            else:
                times[name].append(seconds)
    torch = context.libraries.get("pytorch")
    peaks: dict[str, float] = {}
    for name, (job, bound) in fitting.items():
        with _within(bound), suppress(_out_of_memory()):
            peaks[name] = max(_peak_of(name, job, torch) for _ in range(PEAK_RUNS))
    return {name: statistics.median(times[name]) for name in peaks}, peaks


def _timed(job: Job, bound: int | None) -> float | None:
    """Seconds of a step behind another; None where one does not fit."""
    try:
        with _within(bound):
            job.run()
            start = time.perf_counter()
            job.run()
            return time.perf_counter() - start
    except _out_of_memory():
        gc.collect()
        return None


def _out_of_memory() -> type[Exception]:
    """The error of a step that does not fit."""
    import weft

    return weft.OutOfMemoryError


def _fits(job: Job, bound: int | None) -> bool:
    """Run until nothing is new; whether that is possible."""
    import weft

    try:
        with _within(bound):
            settle(job, SETTLE_SECONDS)
    except weft.OutOfMemoryError as error:
        print(error.fix)
        return False
    return True


def _within(bound: int | None) -> Any:
    """A context in which a budget holds."""
    import weft

    return nullcontext() if bound is None else weft.memory_budget(bound)


def _peak_of(name: str, job: Job, torch: Any = None) -> float:
    """The most bytes of a step; of PyTorch beside its parameters."""
    from weft.engine.devices.cpu import pool

    gc.collect()
    if name.startswith("weft"):
        pool.reset_peak()
        job.run()
        return float(pool.stats()["peak"])
    give_back(torch)
    before = resident("VmRSS")
    forget_peak()
    job.run()
    return float(max(resident("VmHWM") - before, 1))


def _report(context: Context, title: str, measured: Points) -> None:
    """One line for each way, with its time beside the library's own without a bound."""
    by_hand = measured.get("pytorch, checkpoints")
    for way, (seconds, peak) in measured.items():
        library = library_of(way)
        own_seconds, own_peak = measured[library]
        note = f"{seconds / own_seconds:.2f} of its time without, {peak / own_peak:.2f} of its peak"
        note += f" ({peak / 1e6:.1f} MB)"
        if library == "weft" and by_hand is not None:
            note += f"; PyTorch with checkpoints {by_hand[0] * 1e3:.1f} ms"
        figures = {library: seconds}
        if library == "weft" and "pytorch" in measured:
            figures = {"pytorch": measured["pytorch"][0], **figures}
        context.report(Line(f"{title} step, {way}", figures, "s", note))
