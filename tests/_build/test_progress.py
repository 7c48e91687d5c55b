"""Bars of progress: none unless they are asked for, and what they stand beside is the same."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import _progress
from weft.config import config


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Bars at once instead of after a second."""
    pytest.importorskip("tqdm")
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0)
    yield
    config.progress = False


def _work(folder: Path) -> str:
    path = folder / "weights.safetensors"
    weft.save({"x": weft.ones(3)}, path)
    assert weft.load(path)["x"].tolist() == [1.0, 1.0, 1.0]
    assert weft.map(lambda number: (weft.ones(2) * number).sum().item(), [1, 2, 3]) == [2, 4, 6]
    return path.name


@pytest.mark.parametrize("choice, terminal", [(False, True), (True, False)])
def test_nothing_is_printed_unless_it_is_asked_for(
    choice: bool, terminal: bool, at_once: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors")
    told = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    config.progress = choice
    _work(tmp_path)
    assert told.getvalue() == ""


@pytest.mark.parametrize("choice, terminal", [(True, True), ("always", False)])
def test_bars_are_shown_where_they_are_asked_for(
    choice: Any, terminal: bool, at_once: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors")
    told = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    config.progress = choice
    name = _work(tmp_path)
    assert f"reading {name}" in told.getvalue() and "weft.map" in told.getvalue()


def test_compiling_has_a_bar() -> None:
    """In a process of its own, whose kernels are new."""
    pytest.importorskip("tqdm")
    program = (
        "import weft, weft._progress; weft._progress.DELAY_SECONDS = 0\n"
        "print((weft.ones(5).exp() * 3).sin().sum().item())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={
            "PYTHONPATH": str(Path(weft.__file__).parents[1]),
            "WEFT_PROGRESS": "always",
            "WEFT_CACHE_DIR": "",
            "WEFT_BACKGROUND_COMPILATION": "0",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "compiling" in told.stderr


def test_errors_and_generators_are_as_without_bars(
    at_once: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    config.progress = True
    with pytest.raises(ZeroDivisionError):
        weft.map(lambda number: 1 / number, iter([1, 0]))
    with pytest.raises(TypeError, match="not iterable"):
        weft.map(lambda number: number, 3)
    with pytest.raises(FileNotFoundError):
        weft.load("no such file")


def test_without_tqdm_a_warning_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(config, "progress", "always")
    with pytest.warns(RuntimeWarning, match="pip install tqdm"):
        assert weft.map(lambda number: number, [1, 2]) == [1, 2]
    assert config.progress is False
    assert weft.map(lambda number: number, [1, 2]) == [1, 2]


def test_other_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="config.progress"):
        config.progress = "sometimes"
    assert config.progress is False
