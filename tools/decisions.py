"""The index of the decisions: `python tools/decisions.py` writes it, `--check` says what is wrong and changes nothing.

In: the pages in docs/decisions, each with front matter. Out: what stands below the marker in docs/decisions/README.md,
a table for each area. Checked are the front matter, the numbers, the pages that pages refer to, and that two pages
which refer to each other say the same: `supersedes` and `superseded-by`, `amends` and `amended-by`.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "decisions"
MARKER = "<!-- Below: written by tools/decisions.py -->\n"
STATUSES = ("accepted", "amended", "superseded")
OPPOSITE = {"supersedes": "superseded-by", "amends": "amended-by"}
LISTS = (*OPPOSITE, *OPPOSITE.values())
REQUIRED = ("status", "date", "area")
AREAS = {
    "recording": "Recording",
    "batching": "Batching",
    "autograd": "Autograd",
    "transforms": "Function transforms and map",
    "scheduling": "Scheduling: programs, fusion, memory",
    "kernels": "Kernels",
    "runtime": "Running: threads, interrupts, linking",
    "distributed": "Several processes",
    "errors": "Errors",
    "tensors": "Kinds of tensors",
    "optimizers": "Optimizers",
    "compatibility": "PyTorch's programs and other libraries",
    "files": "Files",
    "project": "The project",
}
HOLES = {
    13: "said that attention is a composition; removed when 46 took its place",
    71: "was never used",
}
_FRONT = re.compile(r"---\n(.*?)\n---\n\n?", re.DOTALL)
_NAME = re.compile(r"(\d{4})-[\w-]+\.md")
_MENTIONED = re.compile(r"\]\((\d{4})-[\w-]+\.md\)|\b(?:[Dd]ecision|page) (\d+)")


@dataclass
class Page:
    """One decision: its file, its title, the front matter."""

    name: str
    title: str
    body: str
    values: dict[str, str]
    lists: dict[str, list[int]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The number in the name of the file."""
        return int(self.name[:4])


def read(name: str, text: str) -> tuple[Page, list[str]]:
    """A page, and what is wrong with its form."""
    front = _FRONT.match(text)
    if front is None:
        return Page(name, "", text, {}), [f"{name}: no front matter between two lines of ---"]
    body = text[front.end() :]
    page = Page(name, body.partition("\n")[0], body, {})
    return page, [f"{name}: {fault}" for fault in _read_front(page, front[1])]


def _read_front(page: Page, front: str) -> Iterator[str]:
    """Fill in what the front matter says; the lines that are not of its form."""
    for line in front.splitlines():
        key, colon, value = line.partition(": ")
        if key in LISTS and re.fullmatch(r"\[\d+(, \d+)*\]", value):
            page.lists[key] = [int(number) for number in value[1:-1].split(", ")]
        elif key in REQUIRED and colon and key not in page.values:
            page.values[key] = value
        else:
            yield f"not understood: {line!r}; a list is written [4, 12], an empty one is left out"


def faults_of(page: Page) -> Iterator[str]:
    """What is wrong with one page, whatever the others say."""
    missing = [key for key in REQUIRED if key not in page.values]
    if missing:
        yield f"{page.name}: the front matter lacks {', '.join(missing)}"
        return
    if not page.title.startswith(f"# {page.number}. "):
        yield f"{page.name}: the title is not '# {page.number}. ...'"
    if page.values["area"] not in AREAS:
        yield f"{page.name}: no area {page.values['area']!r}; there are {', '.join(AREAS)}"
    if not _is_date(page.values["date"]):
        yield f"{page.name}: {page.values['date']!r} is no date YYYY-MM-DD"
    if page.values["status"] != status_by(page):
        yield f"{page.name}: status {page.values['status']}, by its lists it is {status_by(page)}"


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def status_by(page: Page) -> str:
    """The status that follows from who has superseded or amended a page."""
    if "superseded-by" in page.lists:
        return "superseded"
    return "amended" if "amended-by" in page.lists else "accepted"


def faults_between(pages: Sequence[Page], holes: dict[int, str]) -> Iterator[str]:
    """Numbers that two pages have, that none has, or that lead nowhere; lists that do not agree."""
    counts = Counter(page.number for page in pages)
    yield from (f"{count} pages have the number {n}" for n, count in counts.items() if count > 1)
    missing = set(range(1, max(counts, default=0) + 1)) - set(counts)
    for number in sorted(missing ^ set(holes)):
        found = "no page has the number" if number in missing else "there is a page"
        yield f"{found} {number}: mend HOLES in tools/decisions.py"
    by_number = {page.number: page for page in pages}
    for page in pages:
        named = {int(n) for found in _MENTIONED.findall(page.body) for n in found if n}
        yield from (f"{page.name}: there is no decision {n}" for n in sorted(named - set(counts)))
        for key, opposite in OPPOSITE.items():
            yield from _one_sided(page, key, opposite, by_number)
            yield from _one_sided(page, opposite, key, by_number)


def _one_sided(page: Page, key: str, opposite: str, pages: dict[int, Page]) -> Iterator[str]:
    for number in page.lists.get(key, ()):
        if number not in pages:
            yield f"{page.name}: {key} {number}, which is no page"
        elif page.number not in pages[number].lists.get(opposite, ()):
            yield f"{page.name}: {key} {number}, but {pages[number].name} lacks {opposite} {page.number}"


def index(pages: Sequence[Page], holes: dict[int, str]) -> str:
    """What stands below the marker: a table for each area, and the numbers that no page has."""
    lines: list[str] = []
    for area, title in AREAS.items():
        rows = [_row(page, pages) for page in pages if page.values["area"] == area]
        if rows:
            head = ["| decision | status | since |", "|---|---|---|"]
            lines += ["", f"## {title}", "", f"Area `{area}`.", "", *head, *rows]
    lines += ["", "## Numbers without a page", ""]
    lines += [f"- {number} {story}." for number, story in sorted(holes.items())]
    return "\n".join(lines) + "\n"


def _row(page: Page, pages: Sequence[Page]) -> str:
    names = {other.number: other.name for other in pages}
    by = page.lists.get("superseded-by", page.lists.get("amended-by", []))
    links = ", ".join(f"[{number}]({names[number]})" for number in by)
    status = f"{page.values['status']} by {links}" if by else page.values["status"]
    return f"| [{page.title.removeprefix('# ')}]({page.name}) | {status} | {page.values['date']} |"


def load(folder: Path, holes: dict[int, str] = HOLES) -> tuple[list[Page], list[str]]:
    """The pages of a folder, and all that is wrong with them."""
    paths = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    named = [path for path in paths if _NAME.fullmatch(path.name)]
    faults = [f"{path.name}: not NNNN-words.md" for path in paths if path not in named]
    pages = []
    for path in named:
        page, found = read(path.name, path.read_text())
        pages.append(page)
        faults += found or faults_of(page)
    return pages, [*faults, *faults_between(pages, holes)]


def main(
    arguments: Sequence[str] | None = None, folder: Path = FOLDER, holes: dict[int, str] = HOLES
) -> int:
    """Write the index, or check everything; the exit status."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--check", action="store_true", help="write nothing")
    check = options.parse_args(arguments).check
    pages, faults = load(folder, holes)
    faults = faults or write(folder / "README.md", index(pages, holes), check)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def write(readme: Path, generated: str, check: bool) -> list[str]:
    """Put the index below the marker, or say that it is not the one that stands there."""
    head, marker, present = readme.read_text().partition(MARKER)
    if not marker:
        return [f"{readme.name}: the line {MARKER.strip()} is missing"]
    if not check:
        readme.write_text(head + marker + generated)
    elif present != generated:
        return [f"{readme.name} is not fresh: run python tools/decisions.py"]
    return []


if __name__ == "__main__":
    sys.exit(main())
