"""Runs random programs of tests/samples/random_index_programs.py against PyTorch in batches, while there is time.

python tools/random_index_programs.py --minutes 10              # from a seed of the day on
python tools/random_index_programs.py --first 0 --count 100000  # these
WEFT_GUARD=1 python tools/random_index_programs.py --minutes 10 # with guarded memory
python tools/random_index_programs.py --count 1000000 --log programs.log  # goes on where the log ends

Each batch runs in a child process, so that a crash costs one program: it is found again, and named. What differs is
made shorter and printed as steps and seed; the end is the count, the rate and the number of failures. A log has a line
per batch: first program, count, failures, guard.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "samples"))

BATCH = 5000  # in one process: the first of each compile what the later ones find in memory


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--count", type=int, default=0, help="programs (0: until the time is up)")
    parser.add_argument("--log", type=Path, help="a file of what is done; goes on where it ends")
    parser.add_argument("--minutes", type=float, default=0, help="0: until the count is reached")
    return parser.parse_args()


def end_of(log: Path | None) -> int | None:
    """The number behind the last program of a log; None where there is none."""
    lines = log.read_text().split("\n") if log is not None and log.exists() else []
    ends = [int(first) + int(count) for first, count, *_ in map(str.split, filter(None, lines))]
    return max(ends, default=None)


def shortened(steps: list[Any], fails: Any) -> list[Any]:
    """The steps without which it fails as well left out, one by one."""
    place = len(steps)
    while place > 0:
        place -= 1
        shorter = steps[:place] + steps[place + 1 :]
        if fails(shorter):
            steps = shorter
    return steps


def run_batch(first: int, count: int, here: Any) -> int:
    """Run programs; `here` is told the number of each. How many differ."""
    import torch

    import random_index_programs as programs

    torch.set_num_threads(1)
    failures = 0
    for number in range(first, first + count):
        here(number)
        steps, way = programs.program_of(number), programs.way_of(number)
        if programs.compare(steps, number, torch, way):
            failures += 1
            steps = shortened(
                steps, lambda part, n=number, w=way: programs.compare(part, n, torch, w)
            )
            print(f"program {number} {way}: steps = {steps}", flush=True)
            print("\n".join(programs.compare(steps, number, torch, way)), flush=True)
    return failures


def in_child(first: int, count: int) -> tuple[int, int]:
    """Run a batch in a child process: how many differ, and the number of the program that ended it, or -1."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        failures = run_batch(first, count, lambda n: os.write(writing, n.to_bytes(8, "little")))
        sys.stdout.flush()
        os._exit(min(failures, 100))
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        seen = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if 0 <= status <= 100:
        return status, -1
    last = int.from_bytes(seen[-8:], "little")
    reason = signal.strsignal(-status) if status < 0 else f"status {status}"
    print(f"program {last} has ended the process: {reason}", flush=True)
    return 1, last


def guard() -> str:
    """How memory is guarded, for the log."""
    return os.environ.get("WEFT_GUARD") or "-"


def main() -> int:
    """Run batches until the count or the time is reached."""
    given = arguments()
    warnings.simplefilter("ignore")
    import torch  # noqa: F401 - once, for all children

    import random_index_programs  # noqa: F401

    begun, done, failures = time.monotonic(), 0, 0
    behind = end_of(given.log)
    given.first = given.first if behind is None else behind
    while not given.count or done < given.count:
        spent = time.monotonic() - begun
        if given.minutes and spent > 60 * given.minutes:
            break
        count = min(BATCH, given.count - done) if given.count else BATCH
        first = given.first + done
        different, stopped = in_child(first, count)
        done = stopped + 1 - given.first if stopped >= 0 else done + count
        failures += different
        if given.log is not None:
            with given.log.open("a") as log:
                print(first, given.first + done - first, different, guard(), file=log)
        print(
            f"{done} programs, {done / (time.monotonic() - begun):.1f}/s, {failures} failed",
            flush=True,
        )
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
