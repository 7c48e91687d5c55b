"""Random programs by number, as `tools/random_programs.py` compares a million of them: some of each kind and tier, what
is made of one that goes wrong, and where a log goes on."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import random_cases
from oracle import torch
from random_cases import Case
from weft.engine.devices.cpu import pool

TOOL = Path(__file__).parents[3] / "tools" / "random_programs.py"

# What programs warn about is no matter here.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def tool() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("tool_of_random_programs", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path = sys.path.copy()
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path


@pytest.fixture
def garbage() -> Iterator[None]:
    pool.set_fill(0x41)
    yield
    pool.set_fill(None)


@pytest.mark.usefixtures("garbage")
def test_nothing_differs() -> None:
    assert torch.__version__
    for number in range(400):
        assert random_cases.case_of(number).differences() == [], number


def test_every_kind_and_every_tier_comes() -> None:
    names = [random_cases.case_of(number).name for number in range(0, 40_000, 8)]
    for kind in random_cases.KINDS:
        for tier in random_cases.TIERS:
            assert any(name.startswith(f"{kind}, {tier}") for name in names), (kind, tier)


def test_a_number_is_one_program() -> None:
    one, again = random_cases.case_of(7), random_cases.case_of(7)
    assert (one.name, one.steps) == (again.name, again.steps)


def wrong(steps: list[Any]) -> list[str]:
    """Wrong where 5 comes somewhere before 7."""
    return ["differs"] if 5 in steps and 7 in steps[steps.index(5) :] else []


def test_what_goes_wrong_is_made_shorter() -> None:
    case = Case("a name", [1, 5, 2, 3, 7, 4], wrong)
    assert case.differences() == ["differs"]
    assert case.shortened().steps == [5, 7]


class Cases:
    """Every tenth program goes wrong, and one of them ends the process."""

    @staticmethod
    def case_of(number: int) -> Case:
        if number == 25:
            raise SystemExit(number)
        return Case("a name", [5, 6, 7] if number % 10 == 3 else [1], wrong)


def test_a_program_that_ends_the_process_is_named(tool: Any, capfd: Any) -> None:
    assert tool.in_child(Cases, 0, 20) == (2, -1)
    shown = capfd.readouterr().out
    assert "program 3 (a name): steps = [5, 7]\ndiffers\n" in shown
    assert tool.in_child(Cases, 20, 10) == (1, 25)
    assert "program 25 has ended the process" in capfd.readouterr().out


def test_a_log_goes_on_where_it_ends(tool: Any, tmp_path: Path) -> None:
    log = tmp_path / "programs.log"
    assert tool.span_of(None, 7) == tool.span_of(log, 7) == (7, 7)
    tool.note(log, 40, 10, 0)
    tool.note(log, 50, 5, 2)
    assert tool.span_of(log, 7) == (40, 55)
