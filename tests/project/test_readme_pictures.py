"""The pictures of the README are those of its first program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_pictures_are_of_the_program_that_stands_there(tmp_path: Path) -> None:
    tool = ROOT / "tools" / "readme_pictures.py"
    subprocess.run([sys.executable, str(tool), str(tmp_path)], check=True, timeout=300)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == ["one_tree.svg", "sixteen_trees.svg"]
    for name in drawn:
        assert (ROOT / "docs" / "pictures" / name).read_text() == (tmp_path / name).read_text()


@pytest.mark.parametrize("name", ["one_tree.svg", "sixteen_trees.svg"])
def test_the_readme_shows_them(name: str) -> None:
    assert f"docs/pictures/{name}" in (ROOT / "README.md").read_text()


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150
