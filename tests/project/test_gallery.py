"""Programs of the gallery are short, and say what they show; the site runs them (`make docs`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

GALLERY = Path(__file__).resolve().parents[2] / "examples" / "gallery"
PROGRAMS = sorted(GALLERY.glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_is_short_and_says_how_it_is_run(path: Path) -> None:
    text = path.read_text()
    said = ast.get_docstring(ast.parse(text)) or ""
    assert len(text.splitlines()) < 150
    assert f"``python examples/gallery/{path.name} [steps]``" in said
    assert said.splitlines()[1] == "=" * len(said.splitlines()[0])
    assert "plt.show()" in text


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 10


def test_each_program_has_been_measured_beside_pytorch() -> None:
    """The site shows the table; `python -m benchmarks.gallery` prints it."""
    results = GALLERY.parents[1] / "benchmarks" / "RESULTS.md"
    table = results.read_text().rpartition(": the gallery\n")[2].partition("\n## ")[0]
    titles = {path.read_text().splitlines()[1] for path in PROGRAMS}
    assert set(re.findall(r"^\| ([^|]+?) \| [\d.]+ \|", table, re.MULTILINE)) == titles
