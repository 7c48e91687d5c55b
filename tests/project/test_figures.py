"""Figures of pages are those of benchmarks/RESULTS.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tool_modules import tool

ROOT = Path(__file__).resolve().parents[2]

FIGURES = tool("figures")
GUIDES = sorted({str(p.relative_to(ROOT)) for p in ROOT.glob("docs/guide/*.md")} - {*FIGURES.PAGES})

MEASURED = """# Results

## 2026-01-01

Old (avx2), 2 cores, 1 threads, Linux

| workload | PyTorch | Weft | ratio | note |
|---|---:|---:|---:|---|
| a step | 9.00 ms | 1.00 ms | 9.00x | |

## 2026-01-02

Old (avx2), 2 cores, 1 threads, Linux

| workload | PyTorch | Weft | ratio | note |
|---|---:|---:|---:|---|
| a step | 3.00 ms | 1.00 ms | 3.00x | |

## 2026-01-03

New (avx512f), 2 cores, 1 threads, Linux

| workload | PyTorch | Weft | ratio | note |
|---|---:|---:|---:|---|
| a step | 1.00 ms | 2.00 ms | 0.50x | |

## 2026-01-04

New (avx512f), 2 cores, 1 threads, Linux, load 20

| workload | PyTorch | Weft | ratio | note |
|---|---:|---:|---:|---|
| a step | 9.00 ms | 2.00 ms | 4.50x | |
"""


def test_pages_have_the_figures_that_were_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert FIGURES.main(["--check"]) == 0, capsys.readouterr().err


def test_the_newest_row_of_each_processor_counts() -> None:
    assert [row.ratio for row in FIGURES.newest(MEASURED, "a step")] == [3.0, 0.5]
    with pytest.raises(SystemExit, match="no table of RESULTS.md has a row another step"):
        FIGURES.newest(MEASURED, "another step")


def test_a_span_has_both_ends_where_they_differ() -> None:
    assert FIGURES.span([3.04, 0.5]) == "0.50 to 3.0"
    assert FIGURES.span([3.01, 3.04]) == "3.0"


def test_only_what_stands_between_the_marks_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FIGURES, "BLOCKS", {"some": lambda results: f"of {results}\n"})
    page = "before\n<!-- figures: some -->\nstale\n<!-- end of figures -->\nafter\n"
    fresh = "before\n<!-- figures: some -->\nof tables\n<!-- end of figures -->\nafter\n"
    assert FIGURES.written(page, "tables") == fresh


def test_every_page_with_a_mark_is_written() -> None:
    """A block on a page that the tool does not know would never be renewed."""
    marked = {
        str(path.relative_to(ROOT))
        for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
        if re.search("<!-- figures: [a-z ]+ -->", path.read_text())
    }
    assert marked == set(FIGURES.PAGES)


@pytest.mark.parametrize("page", [*FIGURES.PAGES, "docs/distributed.md", *GUIDES])
def test_no_measured_figure_is_typed_into_running_text(page: str) -> None:
    """What the engine waits for is a setting, not a measurement."""
    settings = ["10 ms"] if page == "docs/performance.md" else []
    assert FIGURES.typed((ROOT / page).read_text()) == settings


def test_typed_figures_are_found() -> None:
    page = "takes 3.5 ms, 10 to 20 % less\n`5 ms`\n| 6 ms |\n<!-- figures: some -->\n7 ms\n<!-- end of figures -->\n"
    assert FIGURES.typed(page) == ["3.5 ms", "10 to 20 %"]


def test_a_table_is_copied_from_its_section() -> None:
    results = "# R\n\n## one\n\n| a |\n|---|\n| 1 |\n\n## two\n\ntext\n\n| b |\n|---|\n| [2](../docs/x.md) |\n\n| c |\n"
    assert FIGURES.copied("two")(results) == "| b |\n|---|\n| [2](x.md) |\n"
    with pytest.raises(SystemExit, match="no table under three"):
        FIGURES.copied("three")(results)
