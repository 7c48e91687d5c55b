"""All settings and environment variables on one page.

WEFT_EXPLAIN    comma-separated parts to print at each flush: schedule, kernels, memory, passes (each one's text)
WEFT_VERIFY     1: run the verifier of every pass
WEFT_REPLAY     verify: do what is known for real as well as replaying it, and compare
WEFT_BACKGROUND_COMPILATION  0: compile every kernel in the step that wants it
WEFT_EAGER      1: run every operation at its call
WEFT_CACHE_DIR  directory of the kernel cache ("": no disk cache)
WEFT_NUM_THREADS  threads of the executor
WEFT_CHECK_BUILD  1: refuse a build that is older than its sources
WEFT_MEMORY_BUDGET  how much memory values may take, as "2 GB"
WEFT_SPILL_DIR  directory for values that do not fit into the budget and cannot be computed again
WEFT_PROGRESS   1: bars of progress on terminals, by tqdm, for long reads, compiles and maps; always: elsewhere too
WEFT_GUARD      1: put the end of every buffer against memory that cannot be touched; begin: its begin
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.errors import ArgumentError, ArgumentTypeError

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


def _checked_progress(value: object) -> bool | str:
    """False: no bars; True: on terminals; "always". Errors: ValueError for anything else."""
    if value is True or value is False:
        return value
    if value == "always":
        return "always"
    raise ArgumentError(
        "config.progress: there is no such choice",
        expected='False, True (on terminals) or "always"',
        got=f"{value!r:.40}",
        fix="config.progress = True",
    )


def _progress_of_environment() -> bool | str:
    """WEFT_PROGRESS: "1" or "always"."""
    given = os.environ.get("WEFT_PROGRESS", "")
    return given == "1" or (given == "always" and given)


def _guarded_side() -> str:
    """WEFT_GUARD: which side of buffers is guarded, "end" or "begin"; "" for none."""
    given = os.environ.get("WEFT_GUARD", "")
    return {"1": "end", "end": "end", "begin": "begin"}.get(given, "")


UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def bytes_of(amount: object) -> int:
    """An amount of memory in bytes: an integer, or a number with a unit ("2 GB", "512MiB").

    Errors: ValueError for what is no amount, TypeError for what is neither text nor an integer.

    Args:
        amount: the amount.

    Example:
        >>> from weft.config import bytes_of
        >>> bytes_of("2 KiB")
        2048
    """
    expected = 'a positive number of bytes, or text as "2 GB" with a unit of ' + ", ".join(
        ("B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")
    )
    if isinstance(amount, bool) or not isinstance(amount, int | str):
        raise ArgumentTypeError("memory budget", expected=expected, got=repr(amount))
    text = str(amount).strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    unit = UNITS.get(match[2].upper()) if match else None
    nbytes = int(float(match[1]) * unit) if match and unit else 0
    if not 0 < nbytes < 1 << 62:
        raise ArgumentError("memory budget", expected=expected, got=repr(amount))
    return nbytes


def _budget_of_environment() -> int | None:
    """WEFT_MEMORY_BUDGET; what is no amount is ignored, and said."""
    given = os.environ.get("WEFT_MEMORY_BUDGET", "")
    try:
        return bytes_of(given) if given else None
    except ArgumentError as error:
        warnings.warn(
            f"WEFT_MEMORY_BUDGET={given!r} ignored: expected {error.expected}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


_CHECKED = {"explain": explained_parts, "progress": _checked_progress}


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
        self.background_compilation = os.environ.get("WEFT_BACKGROUND_COMPILATION") != "0"
        self.replay = os.environ.get("WEFT_REPLAY", "")  # read once, as replaying is first needed
        self.memory_budget = _budget_of_environment()  # read once, when the pool is made
        self.spill_dir = os.environ.get("WEFT_SPILL_DIR", "")  # read once, as something is spilled
        self.progress = _progress_of_environment()
        self.guard = _guarded_side()  # read once, when the pool is made

    def __setattr__(self, name: str, value: object) -> None:
        checked = _CHECKED.get(name)
        object.__setattr__(self, name, value if checked is None else checked(value))


config = Config()


@contextmanager
def explaining(*parts: str) -> Iterator[None]:
    """Print what the schedule decides within a block: parts of schedule, kernels, memory (these by default), passes.
    Of more than 2,000 lines of a stage those in the middle are left out.

    Errors: ValueError for a name that is no part.
    """
    previous = config.explain
    config.explain = explained_parts(parts or USUAL_PARTS)
    try:
        yield
    finally:
        config.explain = previous
