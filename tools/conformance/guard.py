"""Entries run in processes of their own: one that hangs or dies costs itself only.

In come a database and the names of entries; out come their results. A worker is this module run as a program: names
come in on its standard input, a line of JSON per entry goes out. The parent ends a worker that is silent for too long,
writes down why, and starts another for the rest. What the checked code prints is dropped.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

TOOLS = Path(__file__).resolve().parents[1]
START = 120.0  # seconds that imports may take


class Limits(NamedTuple):
    """Seconds per entry, samples per check (0 for all), processes at a time."""

    seconds: float = 120.0
    samples: int = 0
    jobs: int = 1


def exists(database: str) -> bool:
    """Whether a database has a runner. Errors: SystemExit where PyTorch is not installed."""
    if find_spec("torch") is None or find_spec("expecttest") is None:
        raise SystemExit("conformance needs PyTorch: python -m pip install -e '.[torch]'")
    return find_spec(f"conformance.{database}") is not None


def entries(database: str) -> list[str]:
    """The names of a database's entries, in its order."""
    return list(import_module(f"conformance.{database}").entries())


def failed(column: str, cause: str, detail: str = "") -> dict[str, Any]:
    """The result of an entry that never came to an end."""
    return {column: {"tried": 1, "failures": [["", cause, detail]]}}


class _Worker:
    """A process that checks entries one after the other."""

    def __init__(self, database: str, limits: Limits) -> None:
        command = [sys.executable, "-m", "conformance.guard", database, str(limits.samples)]
        path = os.pathsep.join([str(TOOLS), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        self.name, self.since = "", time.monotonic()
        self.limit = limits.seconds + START
        self.seconds = limits.seconds

    def give(self, name: str) -> None:
        """Have it check one entry."""
        assert self.process.stdin is not None
        self.name, self.since = name, time.monotonic()
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """The result, or None where there is none yet."""
        assert self.process.stdout is not None
        left = self.since + self.limit - time.monotonic()
        ready, _, _ = select.select([self.process.stdout], [], [], min(0.2, max(0.0, left)))
        if ready:
            line = self.process.stdout.readline()
            if line:
                self.limit = self.seconds
                found: dict[str, Any] = json.loads(line)
                return found
            code = self.process.wait()
            return failed("forward", "crash", f"the process ended with {code}")
        return failed("forward", "timeout", f"more than {self.limit:g} s") if left <= 0 else None

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.communicate()


def run(database: str, names: list[str], limits: Limits) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, result) of each entry, as they come."""
    waiting = list(reversed(names))
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < limits.jobs:
                workers.append(_Worker(database, limits))
                workers[-1].give(waiting.pop())
            for worker in list(workers):
                result = worker.answer()
                if result is None:
                    continue
                yield worker.name, result
                lost = any(
                    f[1] in ("crash", "timeout") for c in result.values() for f in c["failures"]
                )
                if waiting and not lost:
                    worker.give(waiting.pop())
                else:
                    worker.end()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.end()


def main() -> None:
    """Check what comes in on standard input."""
    database, samples = sys.argv[1], int(sys.argv[2])
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    checks = import_module(f"conformance.{database}")
    for line in sys.stdin:
        try:
            found = checks.check(line.strip(), samples)
        except Exception as error:  # the runner's own mistake is a failure of the entry
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"
            found = failed("forward", "runner", text)
        print(json.dumps(found), file=results, flush=True)


if __name__ == "__main__":
    main()
