"""The operations on new sizes run, in a line each."""

from __future__ import annotations

import re

import pytest
from benchmarks import new_sizes

import weft

LINE = re.compile(r"\| .+ \| \d+\.\d\d \|")


def test_each_operation_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    threads = weft.get_num_threads()
    try:
        assert new_sizes.main(["--library", "weft", "--turns", "5"]) == 0
    finally:
        weft.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    found = [line.split(" | ")[0][2:] for line in lines if LINE.fullmatch(line)]
    assert found == list(new_sizes.CALLS)
