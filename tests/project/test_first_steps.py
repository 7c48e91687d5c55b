"""The table and the picture of first steps, of which `benchmarks.first_steps` measures a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import first_steps

MEASURED = {"pytorch": [0.3, 0.1] + [0.05] * 98, "weft": [0.15, 0.2] + [0.01] * 98}


def test_a_line_compares_the_first_the_longest_the_usual_and_all() -> None:
    assert first_steps.line("trees", MEASURED) == (
        "| trees | 300.0 / 150.0 = 2.00 | 100.0 / 200.0 = 0.50 | 50.0 / 10.0 = 5.00 | 5,300.0 / 1,330.0 = 3.98 |"
    )


def test_each_step_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_steps, "STEPS", 3)
    seconds = first_steps.step("formulas", "weft", 1, quick=True)
    assert len(seconds) == 3 and all(value > 0 for value in seconds)


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "other.svg"):
        first_steps.draw({"trees": MEASURED, "tagger": MEASURED}, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "other.svg").read_bytes() and b"<path" in drawn
