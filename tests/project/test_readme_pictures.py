"""The pictures of the README are those of its first program."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_pictures_are_of_the_program_that_stands_there(tmp_path: Path) -> None:
    tool = ROOT / "tools" / "readme_pictures.py"
    subprocess.run([sys.executable, str(tool), str(tmp_path)], check=True, timeout=300)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == ["growing.svg", "one_tree.svg", "sixteen_trees.svg"]
    for name in drawn:
        assert (ROOT / "docs" / "pictures" / name).read_text() == (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("growing.svg", "README.md"),
        ("one_tree.svg", "docs/guide/looking_inside.md"),
        ("sixteen_trees.svg", "docs/guide/looking_inside.md"),
    ],
)
def test_a_page_shows_them(name: str, page: str) -> None:
    assert f"pictures/{name}" in (ROOT / page).read_text()


def test_each_record_is_drawn_once_and_in_the_batch_that_ran_it() -> None:
    """As many dots of each batch's colour as the report says that ran together."""
    drawn = (ROOT / "docs" / "pictures" / "growing.svg").read_text()
    said = {
        colour: int(size)
        for colour, size in re.findall(r'r="6" fill="(#\w+)"/><text [^>]*>\w+ x (\d+)<', drawn)
    }
    dots = Counter(re.findall(r'r="3.9" fill="(#\w+)"', drawn))
    assert len(said) == 10 and dots == said


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150
