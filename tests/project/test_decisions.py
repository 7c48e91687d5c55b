"""Decisions agree with each other, and their index with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_modules import tool

ROOT = Path(__file__).resolve().parents[2]

DECISIONS = tool("decisions")


def test_the_index_of_decisions_is_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert DECISIONS.main(["--check"]) == 0, capsys.readouterr().err


def page(number: int, front: str = "", body: str = "") -> tuple[str, str]:
    """The name and the text of a decision."""
    status = (
        "superseded"
        if "superseded-by" in front
        else "amended"
        if "amended-by" in front
        else "accepted"
    )
    head = f"---\nstatus: {status}\ndate: 2026-01-02\narea: kernels\n{front}---\n\n"
    return f"{number:04}-words.md", f"{head}# {number}. Words\n\n{body}\n"


def faults(folder: Path, *pages: tuple[str, str], holes: dict[int, str] | None = None) -> str:
    """What the tool says of pages, in one line."""
    for name, text in pages:
        (folder / name).write_text(text)
    return "; ".join(DECISIONS.load(folder, holes or {})[1])


AGREEING = [
    [page(1, "superseded-by: [2]\n"), page(2, "supersedes: [1]\n")],
    [page(1, "amended-by: [2, 3]\n"), page(2, "amends: [1]\n"), page(3, "amends: [1]\n")],
    [page(1, body="as decision 2 says, [2](0002-words.md)"), page(2)],
]
DISAGREEING = {
    "lacks superseded-by 2": [page(1), page(2, "supersedes: [1]\n")],
    "lacks amends 1": [page(1, "amended-by: [2]\n"), page(2)],
    "supersedes 3, which is no page": [page(1, "supersedes: [3]\n")],
    "no page has the number 2": [page(1), page(3)],
    "2 pages have the number 1": [page(1), ("0001-other.md", page(1)[1])],
    "there is no decision 7": [page(1, body="see decision 7")],
    "there is no decision 8": [page(1, body="see [8](0008-words.md)")],
    "not NNNN-words.md": [("words.md", page(1)[1])],
    "no front matter": [("0001-words.md", "# 1. Words\n")],
    "not understood: 'amends: 2'": [page(1, "amends: 2\n")],
    "not understood: 'status: superseded'": [page(1, "status: superseded\n")],
    "lacks date": [("0001-words.md", page(1)[1].replace("date: 2026-01-02\n", ""))],
    "no date YYYY-MM-DD": [("0001-words.md", page(1)[1].replace("2026-01-02", "20260102"))],
    "no area 'things'": [("0001-words.md", page(1)[1].replace("kernels", "things"))],
    "by its lists it is accepted": [("0001-words.md", page(1)[1].replace("accepted", "amended"))],
    "the title is not '# 1. ...'": [("0001-words.md", page(2)[1])],
}


@pytest.mark.parametrize("pages", AGREEING, ids=["superseded", "amended", "mentioned"])
def test_pages_that_agree_have_no_faults(pages: list[tuple[str, str]], tmp_path: Path) -> None:
    assert faults(tmp_path, *pages) == ""


@pytest.mark.parametrize("fault", DISAGREEING)
def test_faults_of_decisions_are_named(fault: str, tmp_path: Path) -> None:
    assert fault in faults(tmp_path, *DISAGREEING[fault])


def test_a_number_without_a_page_has_its_story(tmp_path: Path) -> None:
    assert faults(tmp_path, page(1), page(3), holes={2: "was never used"}) == ""
    assert "there is a page 3" in faults(tmp_path, holes={2: "was never used", 3: "neither"})


def test_the_index_is_written_below_its_marker_and_checked(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Words.\n\n" + DECISIONS.MARKER + "old\n")
    faults(tmp_path, page(1, "superseded-by: [2]\n"), page(2, "supersedes: [1]\n"))
    assert DECISIONS.main(["--check"], tmp_path, {}) == 1
    assert DECISIONS.main([], tmp_path, {}) == DECISIONS.main(["--check"], tmp_path, {}) == 0
    written = (tmp_path / "README.md").read_text()
    assert written.startswith("Words.\n\n") and "old" not in written
    assert (
        "| [1. Words](0001-words.md) | superseded by [2](0002-words.md) | 2026-01-02 |" in written
    )
