"""The optimizer database of PyTorch, condensed: two configurations of each; `make conformance` runs all of them."""

from __future__ import annotations

import pytest

from oracle import conformance

optimizers, report = conformance("optimizers"), conformance("report")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(optimizers.entries()))
def test_parameters_and_state_agree(name: str) -> None:
    assert not report.failures(optimizers.check(name, 2))
