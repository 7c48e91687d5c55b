"""What Weft's engine did during timed runs: kernels, launches, compilations, known programs, scheduling.

In: the engine's counters before and after, and the time in its stages. Out: words for the last column of the table.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def snapshot() -> Counter[str]:
    """The engine's counters as they stand. What a walk records counts as recorded, as what the program does."""
    from weft.engine.devices.cpu import jit
    from weft.engine.ir.tape import last_sequence
    from weft.engine.pipeline import driver
    from weft.engine.runtime import executable_cache

    return Counter(
        {
            **driver.counters,
            "compiled": jit.compiler().counters.compilations,
            "known": executable_cache.counters["hits"],
            "recorded": last_sequence(),
        }
    )


class Stages:
    """The time in the stages between recording and running: batching, fusing, planning, lowering, compiling."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count within the block: each function is called through one that looks at the clock."""
        from weft.engine.devices.cpu.lowering import compile_kernels as compiling
        from weft.engine.pipeline import passes
        from weft.engine.pipeline.batching import batch

        places = [(passes, "schedule"), (batch, "group"), (compiling, "compile_specs")]
        previous = [(module, name, getattr(module, name)) for module, name in places]
        for module, name, function in previous:
            setattr(module, name, self.clocked(function))
        try:
            yield
        finally:
            for module, name, function in previous:
                setattr(module, name, function)

    def clocked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, its time counted."""

        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - start

        return call


class Events:
    """Counts over the timed runs of Weft."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self.runs, self.seconds, self.stages = 0, 0.0, Stages()

    @contextmanager
    def of(self, library: str, runs: int) -> Iterator[None]:
        """Count what happens within the block, if it is Weft's turn."""
        if library != "weft":
            yield
            return
        before = snapshot()
        start = time.perf_counter()
        with self.stages.timed():
            yield
        self.seconds += time.perf_counter() - start
        after = snapshot()
        self.total.update({name: after[name] - before[name] for name in after})
        self.runs += runs

    def words(self) -> list[str]:
        """Per run: nodes, kernels, launches, flushes; how many were known; compilations."""
        if not self.total["flushes"]:
            return []
        each = {name: count / self.runs for name, count in self.total.items()}
        known = self.total["known"] / self.total["flushes"]
        return [
            f"{each['nodes']:.4g} nodes in {each['kernels']:.4g} kernels, "
            f"{each['launches']:.4g} launches, {each['flushes']:.3g} flushes ({known:.0%} known), "
            f"{each['compiled']:.3g} compiled, {self.stages.seconds / self.seconds:.0%} scheduling "
            f"({self.stages.seconds / self.total['recorded'] * 1e9:.0f} ns per recorded operation)"
        ]
