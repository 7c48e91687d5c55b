"""Prints each sentence of the semantics with Weft's and PyTorch's verdict, and a count.

    python tools/semantics.py

In come the tests under tests/autograd/semantics, whose names begin with the number of a sentence; a sentence holds
where all its tests pass. What is expected to fail counts as missing. Where PyTorch is not installed its column is
empty.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1] / "tests" / "autograd" / "semantics"
SENTENCE = re.compile(r"test_(\d{3})_\w+\[(?:.*-)?(torch|weft)")
LAST = 112


class Verdicts:
    """What became of the tests of each sentence, by library."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, str], list[str]] = defaultdict(list)
        self.names: dict[int, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest after each phase of a test."""
        found = SENTENCE.search(report.nodeid)
        if found is None or (report.when != "call" and not report.failed):
            return
        number = int(found[1])
        self.names.setdefault(number, report.nodeid.split("::")[1].split("[")[0][9:])
        missing = hasattr(report, "wasxfail")
        self.found[number, found[2]].append("missing" if missing else report.outcome)

    def of(self, number: int, library: str) -> str:
        """One word for a sentence."""
        outcomes = self.found.get((number, library), [])
        for word in ("failed", "missing", "passed"):
            if word in outcomes:
                return "holds" if word == "passed" else word
        return ""


def main() -> int:
    verdicts = Verdicts()
    quiet = ["-p", "no:terminal", "-o", "addopts="]  # the table is the report
    code = pytest.main([str(TESTS), *quiet], plugins=[verdicts])
    for number in range(1, LAST + 1):
        name = verdicts.names.get(number, "has no test").replace("_", " ")
        print(f"{number:4} {verdicts.of(number, 'weft'):8} {verdicts.of(number, 'torch'):8} {name}")
    for library in ("weft", "torch"):
        count = sum(verdicts.of(number, library) == "holds" for number in range(1, LAST + 1))
        print(f"{library}: {count} of {LAST}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
