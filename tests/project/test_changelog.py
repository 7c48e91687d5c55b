"""The changelog has one form, its newest version is the package's, and the version stands once."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import weft

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = ROOT / "CHANGELOG.md"
VERSION = re.compile(r"## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)")
GROUPS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]  # in this order
ENTRY = re.compile(r"^- .*(?:\n  .*)*", re.MULTILINE)
LONGEST_LINE = 112


def released() -> list[tuple[str, str]]:
    """The versions of the changelog with their dates, newest first."""
    return VERSION.findall(CHANGELOG.read_text())


def test_the_newest_version_of_the_changelog_is_the_package() -> None:
    assert released()[0][0] == weft.__version__


def test_versions_and_dates_fall() -> None:
    versions = [tuple(map(int, version.split("."))) for version, _ in released()]
    assert versions == sorted(set(versions), reverse=True)
    dates = [date for _, date in released()]
    assert dates == sorted(dates, reverse=True)


def test_the_version_stands_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "weft.__version__"}
    written = re.findall(
        r'^__version__ = "(.+?)"', (ROOT / "src/weft/__init__.py").read_text(), re.M
    )
    assert written == [weft.__version__]


def test_the_command_says_the_version() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "weft", "--version"], capture_output=True, text=True
    )
    assert said.stdout == f"weft {weft.__version__}\n", said.stderr


def sections() -> list[str]:
    """What stands below each version's heading."""
    return re.split(r"^## .*\n", CHANGELOG.read_text(), flags=re.MULTILINE)[1:]


def test_headings_are_those_of_keep_a_changelog() -> None:
    headings = re.findall(r"^## .*", CHANGELOG.read_text(), re.MULTILINE)
    assert headings[0] == "## [Unreleased]"
    assert [line for line in headings[1:] if not VERSION.fullmatch(line)] == []
    for section in sections():
        named = re.findall(r"^### (.*)", section, re.MULTILINE)
        assert named == [group for group in GROUPS if group in named]


def areas() -> list[str]:
    """The areas that the head of the changelog names, in their order."""
    named = re.search(r"^Areas: (.*?)\.$", CHANGELOG.read_text(), re.DOTALL | re.MULTILINE)
    assert named
    return [area.strip() for area in named[1].split(",")]


def groups() -> list[str]:
    """What stands below each Added, Changed, Fixed."""
    return [
        group for section in sections() for group in re.split(r"^### .*\n", section, flags=re.M)[1:]
    ]


def test_an_entry_is_a_line_or_two_and_nothing_stands_beside_entries() -> None:
    for group in groups():
        found = ENTRY.findall(group)
        assert [entry for entry in found if len(entry.splitlines()) > 2] == []
        assert [line for line in group.splitlines() if len(line) > LONGEST_LINE] == []
        assert ENTRY.sub("", group).strip() == ""


def test_entries_name_their_area_and_stand_in_its_order() -> None:
    order = areas()
    for group in groups():
        named = [re.match(r"- \*\*(.+?)\*\*: \S", entry) for entry in ENTRY.findall(group)]
        places = [order.index(area[1]) if area else -1 for area in named]
        assert places == sorted(places) and -1 not in places, ENTRY.findall(group)
