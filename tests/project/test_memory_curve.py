"""The table and the picture of time and peak against a memory budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import memory_curve

MEASURED = {
    "pytorch": (0.2, 8e6),
    "pytorch, checkpoints": (0.3, 4e6),
    "weft": (0.1, 6e6),
    "weft in 0.5": (0.12, 3e6),
}


def test_a_row_compares_each_way_with_its_own_library() -> None:
    assert memory_curve.rows("GPT", MEASURED) == [
        "| GPT | pytorch | 200.0 | 8.0 | 1.00 | 1.00 |",
        "| GPT | pytorch, checkpoints | 300.0 | 4.0 | 1.50 | 0.50 |",
        "| GPT | weft | 100.0 | 6.0 | 1.00 | 1.00 |",
        "| GPT | weft in 0.5 | 120.0 | 3.0 | 1.20 | 0.50 |",
    ]


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "other.svg"):
        memory_curve.draw({"GPT": MEASURED, "LSTM": MEASURED}, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "other.svg").read_bytes() and b"<path" in drawn
