"""The module database of PyTorch, condensed: one sample per module and mode; `make conformance` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
modules = pytest.importorskip("conformance.modules")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(modules.entries()))
def test_state_results_gradients_and_errors_agree(name: str) -> None:
    found = modules.check(name, 1, (torch.float64,))
    assert not [part["failures"] for part in found.values() if part["failures"]]
