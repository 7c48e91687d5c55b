"""Passes on text: `check_pass(name, before, after)` runs one pass of the list on a program that is written down."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from weft.config import config
from weft.engine.ir.primitive import ELEMENTWISE
from weft.engine.pipeline.lowering.row_kernel import prepare
from weft.engine.pipeline.passes import PASSES, Compilation, Pass
from weft.engine.pipeline.program_parser import parse, parse_nodes
from weft.engine.pipeline.program_text import text

rounded = pytest.mark.skipif(
    config.guard != "", reason="slots are as large as their values where memory is guarded"
)
NAMED: dict[str, Pass] = {each.name: each for each in PASSES}


PREPARED = ("horizontal_fusion", "memory_plan", "lower")  # they ask for the kernels' specs


def run_pass(name: str, before: str, **how: bool) -> Compilation:
    """Run one pass, and its verifier, on a program; `how` are the flags of a Compilation."""
    one = Compilation(parse_nodes(dedent(before)) if name == "extract" else [], **how)
    if name != "extract":
        one.program = parse(dedent(before))
    if name in PREPARED:
        for kernel in one.program.kernels:
            if kernel.kind == ELEMENTWISE:
                prepare(one.program, kernel)
    if name == "lower":
        NAMED["memory_plan"].run(one)
    NAMED[name].run(one)
    NAMED[name].verify(one)
    return one


def check_pass(name: str, before: str, after: str, **how: bool) -> None:
    """Run one pass on a program; what comes out is printed as written down."""
    assert summary(run_pass(name, before, **how)) == dedent(after).strip()


def check_text(name: str, before: str, after: str) -> None:
    """Run one pass on a program; its own text of what it has made is as written down, without hashes."""
    printed = NAMED[name].text(run_pass(name, before))
    assert re.sub("_[0-9a-f]{16}", "", printed) == dedent(after).strip()


def stays(name: str, before: str, **how: bool) -> None:
    """A pass leaves a program as it is."""
    check_pass(name, before, before, **how)


def summary(one: Compilation) -> str:
    """The text of a program."""
    return text(one.program)
