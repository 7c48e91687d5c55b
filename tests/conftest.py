"""What all tests begin with."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from types import ModuleType

import pytest

import weft
from weft.graph.tape import tape

# A shell that runs the suite in the background has it ignore these signals, and what it starts would, too.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    """The library that a test of both runs on."""
    from oracle import torch  # not imported before a test asks

    return weft if request.param == "weft" else torch


_kept = 0  # nodes that are pending in spite of a collection


def pytest_collection_finish() -> None:
    """What the tests import stays for as long as they run: no collection has to look through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_pending_garbage() -> Iterator[None]:
    """What a test leaves pending in cycles (an exception's frames, as a rule) is no matter of the tests after it. What
    no collection frees is not looked for again after every other test."""
    global _kept
    yield
    for generation in range(3):
        if tape().count > _kept:
            gc.collect(generation)
    _kept = tape().count
