"""What Weft's engine did during timed runs: kernels, launches, compilations, known programs.

In: the engine's counters before and after. Out: words for the last column of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


def snapshot() -> Counter[str]:
    """The engine's counters as they stand."""
    from weft import pipeline
    from weft.runtime import jit, programs

    return Counter(
        {
            **pipeline.counters,
            "compiled": jit.compiler().counters.compilations,
            "known": programs.counters["hits"],
        }
    )


class Events:
    """Counts over the timed runs of Weft."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self.runs = 0

    @contextmanager
    def of(self, library: str, runs: int) -> Iterator[None]:
        """Count what happens within the block, if it is Weft's turn."""
        if library != "weft":
            yield
            return
        before = snapshot()
        yield
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
            f"{each['compiled']:.3g} compiled"
        ]
