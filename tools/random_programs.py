"""Compares random programs (`tests/samples/random_cases.py`) with PyTorch, and with themselves run otherwise.

python tools/random_programs.py --count 1000000 --log programs.log  # a million, from where the log ends
python tools/random_programs.py --minutes 10                        # from a number of the moment on
python tools/random_programs.py --first 764 --count 1               # this one
WEFT_GUARD=1 python tools/random_programs.py --minutes 10           # with guarded memory

A batch runs in a child process, so that a crash costs one program: it is found again, and named. What differs is
made shorter and printed, with its number, as the steps of a program and how it runs; `random_cases.case_of(number)`
makes it again. The end is the count, the rate and the number of failures. A log has a line per batch: first program,
count, failures, guard. Memory that is not guarded comes filled with garbage.
"""

from __future__ import annotations

import argparse
import operator
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "samples"))

BATCH = 10_000  # in one process: the first of each compile what the later ones find in memory
GARBAGE = 0x41
MOST_FAILURES = 100  # that the exit status of a child can say


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--count", type=int, default=0, help="programs (0: until the time is up)")
    parser.add_argument("--log", type=Path, help="a file of what is done; goes on where it ends")
    parser.add_argument("--minutes", type=float, default=0, help="0: until the count is reached")
    return parser.parse_args()


def span_of(log: Path | None, first: int) -> tuple[int, int]:
    """The number of the first program of a log, and the one behind its last; `first` twice where there is none."""
    lines = log.read_text().splitlines() if log is not None and log.exists() else []
    starts, counts = [first], [0]
    if lines:
        starts, counts = zip(*(map(int, line.split()[:2]) for line in lines), strict=True)
    return min(starts), max(map(operator.add, starts, counts))


def run_batch(cases: ModuleType, first: int, count: int, here: Callable[[int], object]) -> int:
    """Run programs; `here` is told the number of each. How many differ."""
    failures = 0
    for number in range(first, first + count):
        here(number)
        case = cases.case_of(number)
        if not case.differences():
            continue
        failures += 1
        case = case.shortened()
        print(f"program {number} ({case.name}): steps = {case.steps}", flush=True)
        print("\n".join(case.differences()), flush=True)
    return failures


def in_child(cases: ModuleType, first: int, count: int) -> tuple[int, int]:
    """Run a batch in a child process: how many differ, and the number of the program that ended it, or -1."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = MOST_FAILURES + 1
        try:
            failures = run_batch(
                cases, first, count, lambda number: os.write(writing, number.to_bytes(8, "little"))
            )
            status = min(failures, MOST_FAILURES)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(writing)
    last = first
    with os.fdopen(reading, "rb") as stream:
        while seen := stream.read(8):
            last = int.from_bytes(seen, "little")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if 0 <= status <= MOST_FAILURES:
        return status, -1
    reason = signal.strsignal(-status) if status < 0 else f"status {status}"
    print(f"program {last} has ended the process: {reason}", flush=True)
    return 1, last


def prepared() -> ModuleType:
    """The cases, with everything imported that all children need."""
    import torch

    import random_cases
    from weft.config import config
    from weft.engine.devices.cpu import pool

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not config.guard:
        pool.set_fill(GARBAGE)
    return random_cases


def note(log: Path | None, *line: object) -> None:
    """Add a line to a log, if there is one."""
    if log is not None:
        with log.open("a") as file:
            print(*line, os.environ.get("WEFT_GUARD") or "-", file=file)


def main() -> int:
    """Run batches until the count or the time is reached."""
    given = arguments()
    cases = prepared()
    begun, failures = time.monotonic(), 0
    first, start = span_of(given.log, given.first)
    end = first + given.count if given.count else sys.maxsize
    number = start
    while number < end:
        if given.minutes and time.monotonic() - begun > 60 * given.minutes:
            break
        count = min(BATCH, end - number)
        different, stopped = in_child(cases, number, count)
        count = stopped + 1 - number if stopped >= 0 else count
        failures += different
        note(given.log, number, count, different)
        number += count
        rate = (number - start) / (time.monotonic() - begun)
        print(f"{number - start} programs, {rate:.1f}/s, {failures} failed", flush=True)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
