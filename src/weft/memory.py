"""A memory budget that the engine keeps by itself, and a report of where memory goes.

`set_memory_budget` bounds the bytes of all values; what does not fit is computed again when it is needed, and spilled
to a file where that is not enough. How is decided in `engine.pipeline.budget`; bits are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from weft.config import bytes_of
from weft.engine.devices.cpu import live_buffers, pool, spill
from weft.engine.pipeline.budget import accounts
from weft.errors import OutOfMemoryError

MOST_LINES = 10  # lines of each part of a report as text


def set_memory_budget(
    budget: int | str | None, *, spill: str | os.PathLike[str] | None = None
) -> None:
    """Bound the bytes of all values that are in memory at a time.

    Programs that would need more drop values and compute them again before they are needed, those first that free most
    for the time that this takes. Values, gradients and random numbers have the same bits. Where that is not enough,
    values go to a file in the folder `spill`; without one, or where even that is not enough, running what is pending
    raises `OutOfMemoryError`, which names the largest values and the least budget that would do.

    Args:
        budget: bytes, or text as "2 GB" or "512 MiB"; None lifts the bound.
        spill: a folder for a file of values that cannot be computed again for their price; None: values are not
            spilled (or to the folder in `WEFT_SPILL_DIR`).

    Raises:
        ValueError: for text that is no amount, or an amount below one.
        TypeError: for what is neither text nor an integer.
        OutOfMemoryError: where more is in use already (parameters, say).
        OSError: where the folder does not exist or cannot be written.

    Example:
        >>> import weft
        >>> weft.set_memory_budget("2 GB")
        >>> weft.set_memory_budget(None)

    Cost: a program that does not fit is planned for each of its sizes, in 40 to 200 ms for 300 kernels.
    """
    nbytes = None if budget is None else bytes_of(budget)
    live = pool.stats()["allocated"]
    if nbytes is not None and nbytes < live:
        raise OutOfMemoryError(
            "the memory budget is smaller than what is in use",
            expected=f"at least {live:,} bytes",
            got=f"{nbytes:,} bytes; the largest live tensors: {live_buffers.largest_lines()}",
            fix="give a larger budget, or free tensors first",
        )
    _spill.set_folder(None if spill is None else os.fsdecode(spill))
    pool.set_budget(nbytes)


_spill = spill  # the module: `spill` is an argument of the functions here


@contextmanager
def memory_budget(
    budget: int | str | None, *, spill: str | os.PathLike[str] | None = None
) -> Iterator[None]:
    """Keep a memory budget within a block, as `set_memory_budget` does; what was in force before comes back.

    Args:
        budget: bytes, or text as "2 GB"; None: no bound within the block.
        spill: a folder for values that cannot be computed again; None: none, or that in `WEFT_SPILL_DIR`.

    Returns:
        A context manager.

    Raises:
        As `set_memory_budget`, on entry.

    Example:
        >>> import weft
        >>> with weft.memory_budget("1 GB"):
        ...     weft.ones(3).sum().item()
        3.0
    """
    previous = pool.budget(), _spill.given_folder()
    set_memory_budget(budget, spill=spill)
    try:
        yield
    finally:
        pool.set_budget(previous[0])
        _spill.set_folder(previous[1])


@dataclass(frozen=True)
class MemoryReport:
    """The use of memory, as `memory_report` returns it; its text is a table.

    `live` and `peak` are bytes by the line that made the values ("" for small ones and those of unknown origin),
    largest first; `peak` is that of the program that needed most since the last reset, under a budget.
    `computed_again` and `spilled` say by line how often that was, and how many nanoseconds it took by estimate.

    Args:
        budget: the bound in bytes; None: there is none.
        live_bytes: what values take now.
        peak_bytes: what values took at most since the last reset.
        live: bytes now, by line.
        peak: bytes at the peak, by line.
        computed_again: how often, and for how many nanoseconds by estimate, by line.
        spilled: how often, and for how many nanoseconds by estimate, by line.
    """

    budget: int | None
    live_bytes: int
    peak_bytes: int
    live: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    computed_again: dict[str, tuple[int, float]] = field(default_factory=dict)
    spilled: dict[str, tuple[int, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        bound = "no budget" if self.budget is None else f"budget {_with_unit(self.budget)}"
        lines = [f"{bound}, {_with_unit(self.live_bytes)} live, peak {_with_unit(self.peak_bytes)}"]
        for title, sizes in (("live", self.live), ("at the peak", self.peak)):
            lines += _table(title, {line: _with_unit(size) for line, size in sizes.items()})
        for title, events in (("computed again", self.computed_again), ("spilled", self.spilled)):
            words = {
                line: f"{count} times, about {ns / 1e6:.1f} ms"
                for line, (count, ns) in events.items()
            }
            lines += _table(title, words)
        return "\n".join(lines)


def _table(title: str, rows: dict[str, str]) -> list[str]:
    """The first rows under a title; empty without rows."""
    if not rows:
        return []
    lines = [f"{title}:"]
    lines += [f"  {text:>12}  {line or 'other'}" for line, text in list(rows.items())[:MOST_LINES]]
    return lines + ([f"  and {len(rows) - MOST_LINES} more"] if len(rows) > MOST_LINES else [])


def _with_unit(nbytes: int) -> str:
    """An amount of memory in words."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"


def memory_report(*, reset: bool = False) -> MemoryReport:
    """The use of memory: live bytes and peak by the user's line, what was computed again or spilled, and its cost.

    Args:
        reset: begin anew afterwards: the peak from what is live now, all counts from nothing.

    Returns:
        A `MemoryReport`; `print` shows it as a table.

    Example:
        >>> import weft
        >>> report = weft.memory_report()
        >>> report.budget is None, report.peak_bytes >= report.live_bytes
        (True, True)"""
    stats = pool.stats()
    live = live_by_line()
    report = MemoryReport(
        budget=pool.budget(),
        live_bytes=stats["allocated"],
        peak_bytes=stats["peak"],
        live=_sorted({**live, "": stats["allocated"] - sum(live.values())}),
        peak=_sorted(accounts.peak_lines),
        computed_again=_sorted(accounts.computed_again, by=1),
        spilled=_sorted(accounts.spilled, by=1),
    )
    if reset:
        pool.reset_peak()
        accounts.reset()
    return report


def live_by_line() -> dict[str, int]:
    """Bytes of the live buffers above 32 KB by the line that made their values."""
    found: dict[str, int] = {}
    for buffer in live_buffers.listed_buffers():
        if buffer.code is not None:
            line = live_buffers.line_of(buffer)
            found[line] = found.get(line, 0) + buffer.capacity
    return found


def _sorted(rows: dict[str, Any], by: int | None = None) -> dict[str, Any]:
    """Largest first; rows of nothing are left out."""
    value = (lambda row: row[1]) if by is None else (lambda row: row[1][by])
    return dict(sorted((row for row in rows.items() if value(row) > 0), key=value, reverse=True))
