"""The documents say what is so: examples run and print what stands there, named files and settings exist."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

import weft
import weft.autograd
import weft.config
import weft.nn.functional
import weft.optim

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WITH_EXAMPLES = [page for page in PAGES if ">>> " in page.read_text()]
PATH = re.compile(r"`((?:src|tests|docs|examples|benchmarks|tools|\.ci)/[\w./-]*)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
SOURCE_FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|pxd)|\w+\.py)`")
VARIABLE = re.compile(r"\bWEFT_[A-Z_]+\b")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(page: str) -> str:
    return (ROOT / page).read_text()


def exists(path: str, page: Path) -> bool:
    """A path as a document writes it: from the root, from the page, or from the package."""
    return any(
        (base / path).exists()
        for base in (ROOT, page.parent, ROOT / "src" / "weft", ROOT / "tests")
    )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page: Path) -> None:
    text = page.read_text()
    named = {*PATH.findall(text), *LINK.findall(text), *SOURCE_FILE.findall(text)}
    made_up = {"some.py", "program.py"}
    assert [path for path in sorted(named - made_up) if not exists(path, page)] == []


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_examples_print_what_stands_there(page: Path) -> None:
    result = doctest.testfile(str(page), module_relative=False, verbose=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_first_program_prints_what_the_readme_says() -> None:
    program, expected = re.findall(r"```(?:python|text)\n(.*?)```", read("README.md"), re.DOTALL)[
        :2
    ]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "first.py", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == expected
    assert sum(1 for line in program.splitlines() if line.strip()) <= 24


def test_reasons_for_missing_batches_are_quoted_as_explain_prints_them() -> None:
    """From the table of the performance guide, and the list in that on batching."""
    printed = read("src/weft/debug/explanation.py")
    table = read("docs/guide/performance.md").split("| what it says |")[1].split("\n\n")[0]
    listed = read("docs/guide/batching.md").split("prints what did not join and why:")[1]
    quoted = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    quoted += re.findall(r"`([^`]+)`", listed.split("\n\n")[0])
    assert len(quoted) > 5
    assert [words for words in quoted if words not in printed] == []


def test_what_the_readme_misses_is_missing() -> None:
    section = (
        read("README.md").split("## What is not there yet")[1].split("\nA name that is missing")[0]
    )
    names = re.findall(r"`(\w+)`", section)
    places = (weft, weft.nn, weft.nn.functional, weft.optim, weft.autograd)
    assert names
    assert [name for name in names if any(hasattr(place, name) for place in places)] == []


def test_the_architecture_stays_short() -> None:
    assert len(read("ARCHITECTURE.md").splitlines()) <= 200


def test_the_life_of_an_expression_covers_every_stage() -> None:
    text = read("ARCHITECTURE.md")
    assert "((x @ w).relu() - y).square().mean()" in text
    shown = re.findall(r'print\(text\["(\w+)"\]', text)
    assert set(shown) == {"record", "batch", "collect", "fuse", "plan", "kernels", "lower"}


def test_every_package_has_its_line_among_the_layers() -> None:
    tops = {path.parent.name for path in ROOT.glob("src/weft/*/__init__.py")} - {
        "testing",
        "engine",
    }
    engine = {path.parent.name for path in ROOT.glob("src/weft/engine/*/__init__.py")} - {"devices"}
    folders = tops | {f"engine/{name}" for name in engine} | {"engine/devices/cpu"}
    text = read("ARCHITECTURE.md")
    assert [folder for folder in sorted(folders) if f"`{folder}/`" not in text] == []


def test_the_page_of_settings_is_the_configuration() -> None:
    documented = set(VARIABLE.findall(weft.config.__doc__ or ""))
    assert set(VARIABLE.findall(read("docs/environment.md"))) == documented
    assert 0 < len(documented) <= 12


def test_a_decision_says_what_why_and_where() -> None:
    for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        text = page.read_text()
        assert all(f"**{part}.**" in text for part in ("Decision", "Why", "In the code")), page.name
        assert len(text.partition("\n# ")[2].splitlines()) <= 40, page.name


def test_the_code_that_a_decision_names_is_there() -> None:
    for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        evidence = page.read_text().split("**In the code.**")[1]
        sources = "\n".join(read(path) for path in PATH.findall(evidence))
        names = set(re.findall(r"`(\w+)`", evidence))
        assert sources, page.name
        assert [n for n in sorted(names) if not re.search(rf"\b{n}\b", sources)] == [], page.name


def test_make_targets_that_documents_name_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    named = {t for page in PAGES for t in re.findall(r"\bmake ([a-z]+)\b(?=[`\s]|$)", code(page))}
    assert named <= targets


def code(page: Path) -> str:
    """The literal parts of a page: fenced blocks and inline code."""
    text = page.read_text()
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


WRITTEN = [
    path
    for path in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/guide/*.md")])
    if path.read_text().startswith("# ") and path.name != "index.md"  # that of the site
]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_page_says_what_it_is_for_and_leads_on(path: Path) -> None:
    """Its first paragraph says what the reader will know or be able to do; its last section where to go."""
    text = path.read_text()
    assert re.match(r"# .*\n\n(After this page you|In ten minutes you)", text)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[-1] == "Where to go next"
