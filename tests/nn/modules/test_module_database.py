"""The module database of PyTorch, condensed: one sample per module and mode; `make conformance` runs all of them."""

from __future__ import annotations

import pytest

from oracle import conformance, torch

modules = conformance("modules")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(modules.entries()))
def test_state_results_gradients_and_errors_agree(name: str) -> None:
    found = modules.check(name, 1, (torch.float64,))
    assert not [part["failures"] for part in found.values() if part["failures"]]
