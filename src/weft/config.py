"""All settings and environment variables on one page.

WEFT_EXPLAIN    comma-separated parts to print at each flush: schedule, kernels, memory, passes (each one's text)
WEFT_VERIFY     1: run the verifier of every pass
WEFT_REPLAY     verify: do what is known for real as well as replaying it, and compare
WEFT_EAGER      1: run every operation at its call
WEFT_CACHE_DIR  directory of the kernel cache ("": no disk cache)
WEFT_NUM_THREADS  threads of the executor
WEFT_CHECK_BUILD  1: refuse a build that is older than its sources
WEFT_GUARD      1: put the end of every buffer against memory that cannot be touched; begin: its begin
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.errors import ArgumentError

PARTS = ("schedule", "kernels", "memory", "passes")
USUAL_PARTS = PARTS[:3]


def explained_parts(names: Any) -> frozenset[str]:
    """The parts to explain. Errors: ValueError for a name that is no part."""
    chosen = frozenset({names} if isinstance(names, str) else names)
    unknown = sorted(repr(name) for name in chosen - set(PARTS))
    if unknown:
        raise ArgumentError(
            "explain: there is no such part of the schedule",
            expected=", ".join(PARTS),
            got=", ".join(unknown),
            fix="name parts from this list, as in weft.explaining('schedule')",
        )
    return chosen


def _explained_by_environment() -> frozenset[str]:
    """WEFT_EXPLAIN; a wrong name there is no reason to stop a program that is not about it."""
    names = {part.strip() for part in os.environ.get("WEFT_EXPLAIN", "").split(",")} - {""}
    try:
        return explained_parts(names)
    except ArgumentError as error:
        warnings.warn(
            f"WEFT_EXPLAIN: {error.got} ignored; the parts are {error.expected}",
            RuntimeWarning,
            stacklevel=2,
        )
        return frozenset(names & set(PARTS))


def _guarded_side() -> str:
    """WEFT_GUARD: which side of buffers is guarded, "end" or "begin"; "" for none."""
    given = os.environ.get("WEFT_GUARD", "")
    return {"1": "end", "end": "end", "begin": "begin"}.get(given, "")


class Config:
    """The settings in force; change attributes directly or for a block with `explaining`."""

    def __init__(self) -> None:
        self.explain = _explained_by_environment()
        self.verify = os.environ.get("WEFT_VERIFY") == "1"
        self.batch = True
        self.cache = True
        self.interpreter = (
            "novel"  # which flushes run node by node: "novel" ones where it pays, "every", "none"
        )
        self.replay = os.environ.get("WEFT_REPLAY", "")  # read once, as replaying is first needed
        self.guard = _guarded_side()  # read once, when the pool is made

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, explained_parts(value) if name == "explain" else value)


config = Config()


@contextmanager
def explaining(*parts: str) -> Iterator[None]:
    """Print what the schedule decides within a block: parts of schedule, kernels, memory (these by default), passes.

    Errors: ValueError for a name that is no part.
    """
    previous = config.explain
    config.explain = explained_parts(parts or USUAL_PARTS)
    try:
        yield
    finally:
        config.explain = previous
