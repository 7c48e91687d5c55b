"""What all tests begin with."""

from __future__ import annotations

import gc
import os
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

# Kernels are compiled where they are wanted, so that counts of them do not depend on how fast a thread is.
os.environ.setdefault("WEFT_BACKGROUND_COMPILATION", "0")

import weft
from weft.config import config
from weft.engine.ir.tape import tape
from weft.engine.replay import cache as replay_cache
from weft.engine.runtime import executable_cache
from weft.testing.tuned import tuned

sys.path.insert(0, str(Path(__file__).parent / "samples"))  # what tests of several rooms share

# A shell that runs the suite in the background has it ignore these signals, and what it starts would, too.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

# Tests of the checkout rather than of the package: its pages, tools, examples, sources. A wheel is tested without them.
OF_THE_CHECKOUT = [
    "_build/test_build.py",
    "_build/test_compile_modules.py",
    "autograd/grad_fn/test_record_names.py",
    "engine/devices/cpu/elementary/test_elementary.py",
    "engine/runtime/test_random_cases.py",
    "nn/modules/test_module_database.py",
    "optim/test_optimizer_database.py",
    "project/test_changelog.py",
    "project/test_commit_message.py",
    "project/test_conformance.py",
    "project/test_counted_events.py",
    "project/test_decisions.py",
    "project/test_docs.py",
    "project/test_examples.py",
    "project/test_layers.py",
    "project/test_optional_imports.py",
    "project/test_stubs.py",
    "project/test_timelines_of_steps.py",
    "project/test_wheels.py",
]
collect_ignore = [] if Path(__file__).parents[1].joinpath("src").is_dir() else OF_THE_CHECKOUT


def share(text: str) -> tuple[int, int]:
    """`1/10`: the first of ten shares."""
    which, _, count = text.partition("/")
    if not (which.isdecimal() and count.isdecimal() and 1 <= int(which) <= int(count)):
        raise pytest.UsageError(f"--share {text}: write 1/10 for the first of ten shares")
    return int(which), int(count)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--share 1/10`."""
    words = "run one of N shares of the tests: which test is in which depends on its name alone"
    parser.addoption("--share", metavar="K/N", type=share, help=words)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of other shares out."""
    if config.getoption("share") is None:
        return
    which, count = config.getoption("share")
    mine = [item for item in items if zlib.crc32(item.nodeid.encode()) % count == which - 1]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(mine)])
    items[:] = mine


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


@pytest.fixture
def verified() -> Iterator[None]:
    """Every stage of a flush checks what it made."""
    before, config.verify = config.verify, True
    yield
    config.verify = before


@pytest.fixture
def known_soon() -> Iterator[None]:
    """What comes back soon is scheduled the second time, and not interpreted for a few times more."""
    with tuned("tiering", soon_part=0.0):
        yield


@pytest.fixture(autouse=True)
def draws_of_its_own(request: pytest.FixtureRequest) -> None:
    """What a test draws depends on its name, not on the tests before it."""
    weft.manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def empty_caches() -> None:
    """What a test finds known depends on itself, not on the tests before it: counts of nodes, kernels and hits too."""
    executable_cache.clear()
    replay_cache.clear()


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
