"""The library that a sentence is tried on: PyTorch, which proves the test, and Weft, which the test proves.

`semantics_missing.MISSING` names what Weft does not fulfil yet; it has to fail there, so that the list can only shrink.
"""

import pytest
from semantics_missing import MISSING

import weft
from oracle import torch


@pytest.fixture(params=["torch", "weft"])
def lib(request):
    """The module under test."""
    if request.param == "weft":
        return weft
    torch.set_warn_always(True)  # some of its warnings come once in a process
    return torch


def pytest_collection_modifyitems(items):
    for item in items:
        reason = MISSING.get(item.name)
        if reason and item.path.name.startswith("test_semantics_"):
            item.add_marker(pytest.mark.xfail(strict=True, reason=reason))
