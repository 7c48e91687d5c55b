"""A printed program says all that passes know of it: read back, it prints the same, and passes make the same of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_programs as programs
import weft
from pass_check import run_pass, summary
from properties import QUICK
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver
from weft.engine.pipeline.passes import PASSES, Compilation, Pass, run_passes
from weft.engine.pipeline.program_parser import parse
from weft.engine.pipeline.program_text import WITHOUT_MEMREFS, text
from weft.testing.tuned import tuned

CALL = re.compile(r"= \w+\(.*?\)(?= [(:])")  # an operation and its operands
NUMBER = re.compile(r"\[[^]]*\]|(?<=[(\s])-?\d+\.\d*(?:e[-+]?\d+)?(?=[\[,)])")  # or a region
BEFORE_TIERING = [each.name for each in PASSES].index("tiering")


def texts_of(function: Any) -> dict[str, str]:
    """What each pass up to fusion makes of what a function records."""
    driver.flush()
    result = function()
    one = Compilation(tape().pending(), whole=True)
    found: dict[str, str] = {}

    def note(each: Pass, one: Compilation) -> None:
        if each.stage in ("collect", "fuse"):
            found[each.name] = text(one.program)

    run_passes(one, PASSES[:BEFORE_TIERING], note)
    one.program.release()
    driver.flush()
    del result
    return found


def pending_program(steps: list[programs.Step], seed: int, hold: bool) -> Any:
    """The slots and gradients of a random program, nothing of which has run."""
    machine = programs.Machine(weft, "float64", seed, hold)
    for step in steps:
        machine.step(step)
    for total in machine.totals(2):
        total.backward(retain_graph=True)
    return machine


@pytest.fixture(autouse=True)
def much_is_rewritten() -> Iterator[None]:
    """Values are computed again however small they are; what programs warn about is no matter here."""
    with (
        tuned("rematerialization", peak_bytes=64, freed_bytes=8, cloned_bytes=8),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def as_one_mark(printed: str) -> str:
    """A value that is held under another name too is `live` in the one text, `kept` in the other."""
    return re.sub(" (live|kept)$", " held", printed, flags=re.MULTILINE)


@settings(QUICK, max_examples=15)
@given(steps=programs.program_steps, seed=st.integers(0, 1000), hold=st.booleans())
def test_a_pass_makes_the_same_of_a_program_that_is_read(
    steps: list[programs.Step], seed: int, hold: bool
) -> None:
    found = texts_of(lambda: pending_program(steps, seed, hold))
    for name, printed in found.items():
        assert text(parse(printed)) == printed, name
    names = list(found)
    for before, name in zip(names, names[1:], strict=False):
        if not found[name].startswith(
            WITHOUT_MEMREFS
        ):  # else it may order anew, from the oldest live node on
            made = summary(run_pass(name, found[before]))
            assert as_one_mark(made) == as_one_mark(found[name]), name


def with_numbers(printed: str, wanted: dict[str, str]) -> str:
    """A program with other numbers as operands."""

    def other(match: re.Match[str]) -> str:
        return wanted.get(match.group(), match.group())

    def of_call(match: re.Match[str]) -> str:
        return NUMBER.sub(other, match.group())

    return CALL.sub(of_call, printed)


@settings(QUICK, max_examples=15)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_a_pass_does_not_ask_which_number_an_operand_is(
    steps: list[programs.Step], seed: int
) -> None:
    found = texts_of(lambda: pending_program(steps, seed, False))
    names = list(found)
    for before, name in zip(names, names[1:], strict=False):
        if name != "decompose":  # it brings in numbers of its own
            operands = " ".join(CALL.findall(found[before]))
            present = sorted({n for n in NUMBER.findall(operands) if n[0] != "["})
            others = {number: f"{index}.0" for index, number in enumerate(present)}
            made = summary(run_pass(name, found[before]))
            changed = summary(run_pass(name, with_numbers(found[before], others)))
            assert changed == with_numbers(made, others), name


def test_rows_of_a_batch_of_macros_are_rows_of_what_stands_for_it() -> None:
    cell = weft.nn.LSTMCell(4, 4)
    rows = [weft.randn(1, 4) for _ in range(8)]
    weft.realize(*rows, *cell.parameters())
    found = texts_of(lambda: [cell(row) for row in rows])
    for name, printed in found.items():
        assert text(parse(printed)) == printed, name
    assert "= lstm_memory(" in found["extract"] and "= lstm_memory(" not in found["decompose"]
    assert re.search(r"= row 3 of %\d+ : float32\[1, 4\] live", found["decompose"])


@pytest.mark.parametrize(
    "line",
    [
        "%0 = matmul of two values",
        "%0 = no_such_operation(1) : float32[]",
        "%0 = take(1) (0,) : float32[]",
        "k0 [3] %0 -> %0",
    ],
)
def test_what_is_no_line_of_a_program_is_said(line: str) -> None:
    with pytest.raises(ValueError, match="not a line of a program"):
        parse(line)
