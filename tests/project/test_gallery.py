"""Programs of the gallery are short, and say what they show; the site runs them (`make docs`)."""

from __future__ import annotations

import ast
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
