"""What agrees with PyTorch stays so: the first sample of the entries of PyTorch's op database that are listed beside
this file. `make conformance` checks everything; entries that pass there are added to the list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from oracle import conformance, torch

ROOT = Path(__file__).resolve().parents[2]
LISTED = (ROOT / "tests" / "samples" / "conformance.txt").read_text().split()


@pytest.fixture(scope="module")
def operators() -> Any:
    """The checks of `tools/conformance`."""
    return conformance("operators")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LISTED)
def test_the_first_sample_agrees(operators: Any, name: str) -> None:
    info = operators.entries()[name]
    found = operators.forward(info, conformance("convert").function(info.op, info.name), 1)[
        "forward"
    ]
    assert found.tried == 1
    assert found.failures == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("database", ["operators", "modules", "optimizers"])
def test_errors_have_the_words_of_pytorch(database: str) -> None:
    """Every error input of the databases, but for those with a reason: the class, and the words that PyTorch's tests
    look for."""
    assert torch.__version__
    errors, reasons = conformance("errors"), conformance("reasons").REASONS
    found = [
        (entry, *failure)
        for entry in errors.entries()
        if entry.startswith(f"{database}: ") and entry.partition(": ")[2] not in reasons
        for column in errors.check(entry).values()
        for failure in column["failures"]
    ]
    assert found == []


def test_a_difference_is_noticed(operators: Any) -> None:
    """The check itself: another function's values, a missing function, another type."""
    info = operators.entries()["sin"]
    assert operators.forward(info, weft.cos, 1)["forward"].failures
    assert (
        operators.forward(info, lambda x: weft.sin(x).double(), 1)["forward"].failures[0][1]
        == "dtype"
    )
