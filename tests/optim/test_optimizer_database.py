"""The optimizer database of PyTorch, condensed: two configurations of each; `make conformance` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")
sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
optimizers = pytest.importorskip("conformance.optimizers")
report = pytest.importorskip("conformance.report")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(optimizers.entries()))
def test_parameters_and_state_agree(name: str) -> None:
    assert not report.failures(optimizers.check(name, 2))
