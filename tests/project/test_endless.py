"""The programs of a million steps run, in lines that say where they stand."""

from __future__ import annotations

import re

import pytest
from benchmarks import endless

import weft

LINE = re.compile(r"\| \w+ \| weft \| (\d+) \| \d+\.\d MB \| \d+ us \|")


@pytest.mark.parametrize("name", endless.PROGRAMS)
def test_lines_say_where_a_program_stands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    threads = weft.get_num_threads()
    try:
        endless.run(name, "weft", 50)
    finally:
        weft.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    found = [LINE.fullmatch(line) for line in lines]
    assert [int(line[1]) for line in found if line is not None] == [1, 2, 5, 10, 20, 30, 40, 50]
    assert len(found) == 8
