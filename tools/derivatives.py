"""Prints each differentiable row of the op table in five columns, and a count of each column.

    python tools/derivatives.py [names of rows]

In come the tests under tests/autograd/derivatives: first order, second order, forward mode, forward over reverse and
vmap, in float64 and in complex128 where the row takes it. A row holds in a column where it holds in all its dtypes.
Below stand the public functions that PyTorch differentiates in complex128, where PyTorch is installed.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1] / "tests" / "autograd" / "derivatives"
COLUMNS = ("first_order", "second_order", "forward_mode", "forward_over_reverse", "vmap")
AGAINST = "gradients_against_torch"
CHECK = re.compile(r"::test_(\w+)\[(.+)-(float64|complex128)\]")


class Verdicts:
    """What became of each check: by what is checked, row, and dtype."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest after each phase of a test."""
        found = CHECK.search(report.nodeid)
        if found is None or (report.when != "call" and report.passed):
            return
        outcome = "missing" if hasattr(report, "wasxfail") else report.outcome
        self.found[found[1], found[2]][found[3]] = outcome

    def rows(self, check: str) -> list[str]:
        """What has been checked, in the order of the table."""
        return [name for kind, name in self.found if kind == check]

    def cell(self, check: str, name: str) -> str:
        """`yes`, or the dtypes that do not hold."""
        outcomes = self.found.get((check, name), {})
        wrong = [f"{dtype} {word}" for dtype, word in outcomes.items() if word != "passed"]
        return ", ".join(wrong) or ("yes" if outcomes else "")


def main() -> int:
    """Run the checks and print the table."""
    verdicts = Verdicts()
    chosen = ["-k", " or ".join(sys.argv[1:])] if len(sys.argv) > 1 else []
    quiet = ["-p", "no:terminal", "-o", "addopts="]  # the table is the report
    code = pytest.main([str(TESTS), *quiet, *chosen], plugins=[verdicts])
    print(f"{'':22}" + "".join(f"{column.replace('_', ' '):21} " for column in COLUMNS))
    names = verdicts.rows(COLUMNS[0])
    for name in names:
        cells = "".join(f"{verdicts.cell(column, name):21} " for column in COLUMNS)
        print(f"{name:22}{cells} {' '.join(verdicts.found[COLUMNS[0], name])}")
    for check in (*COLUMNS, AGAINST):
        rows = verdicts.rows(check)
        held = sum(verdicts.cell(check, name) == "yes" for name in rows)
        print(f"{check.replace('_', ' ')}: {held} of {len(rows)}")
    for name in verdicts.rows(AGAINST):
        if verdicts.cell(AGAINST, name) != "yes":
            print(f"  {name}: {verdicts.cell(AGAINST, name)}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
