"""Passes on text: `check_pass(name, before, after)` runs one pass of the list on a program that is written down."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from weft.engine.pipeline.lowering.row_kernel import prepare
from weft.engine.pipeline.passes import PASSES, Compilation, Pass
from weft.engine.pipeline.program_parser import parse, parse_nodes
from weft.engine.pipeline.program_text import text

NAMED: dict[str, Pass] = {each.name: each for each in PASSES}


def compilation(before: str) -> Compilation:
    """A flush whose program is written down. Its kernels are as they come out of tiering."""
    one = Compilation([], whole=True)
    one.program = parse(dedent(before))
    return one


def run_pass(name: str, before: str) -> Compilation:
    """Run one pass, and its verifier, on a program."""
    one = compilation(before)
    if name == "extract":
        one = Compilation(parse_nodes(dedent(before)))
    if name == "horizontal_fusion":
        for kernel in one.program.kernels:
            prepare(one.program, kernel)
    NAMED[name].run(one)
    NAMED[name].verify(one)
    return one


def check_pass(name: str, before: str, after: str) -> None:
    """Run one pass on a program; what comes out is printed as written down."""
    assert text(run_pass(name, before).program) == dedent(after).strip()


def check_text(name: str, before: str, after: str) -> None:
    """Run one pass on a program; its own text of what it has made is as written down."""
    one = run_pass(name, before)
    assert NAMED[name].text(one) == dedent(after).strip()


def stays(name: str, before: str) -> None:
    """A pass leaves a program as it is."""
    check_pass(name, before, before)


def summary(one: Any) -> str:
    """The text of a program."""
    return text(one.program)
