"""What agrees with PyTorch stays so: the first sample of the entries of PyTorch's op database that are listed beside
this file. `make conformance` checks everything; entries that pass there are added to the list."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
ROOT = Path(__file__).resolve().parents[1]
LISTED = (ROOT / "tests" / "conformance.txt").read_text().split()


@pytest.fixture(scope="module")
def operators() -> Any:
    """The checks of `tools/conformance`."""
    sys.path.insert(0, str(ROOT / "tools"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from conformance import operators

    return operators


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LISTED)
def test_the_first_sample_agrees(operators: Any, name: str) -> None:
    from conformance import convert

    info = operators.entries()[name]
    found = operators.forward(info, convert.function(info.op, info.name), 1)["forward"]
    assert found.tried == 1
    assert found.failures == []


def test_a_difference_is_noticed(operators: Any) -> None:
    """The check itself: another function's values, a missing function, another type."""
    info = operators.entries()["sin"]
    import weft

    assert operators.forward(info, weft.cos, 1)["forward"].failures
    assert (
        operators.forward(info, lambda x: weft.sin(x).double(), 1)["forward"].failures[0][1]
        == "dtype"
    )
