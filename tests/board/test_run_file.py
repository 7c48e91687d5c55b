"""Runs as files: what is saved is loaded; what is truncated, hostile or of another version is refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import recurrent_run

import weft
from weft.board.run_file import load
from weft.config import config


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in a file, whose time has kernels of programs: what is interpreted has none."""
    path = tmp_path_factory.mktemp("board") / "run.weft"
    before, config.interpreter = config.interpreter, "none"
    recurrent_run(save=path)
    config.interpreter = before
    return path


def test_a_saved_run_is_loaded(saved: Path, tmp_path: Path) -> None:
    run = load(saved)
    page = tmp_path / "run.html"
    page.write_text("before")
    weft.board.recording.save(run, page)
    assert load(page).parts() == run.parts()
    assert b"</script>" in page.read_bytes() and list(tmp_path.iterdir()) == [page]


def changed(saved: Path, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with some documents changed."""
    with zipfile.ZipFile(saved) as archive:
        documents = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    change(documents)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in documents.items():
            archive.writestr(name, json.dumps(document))
    return file.getvalue()


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another version": lambda d: d["run.json"].update(version=99),
    "no run": lambda d: d.pop("run.json"),
    "another name": lambda d: d.update({"../evil.json": {}}),
    "no graph": lambda d: d.pop("graph/1.json"),
    "a node out of range": lambda d: d["graph/1.json"]["edges"]["to"].__setitem__(0, 10**6),
    "a name out of range": lambda d: d["graph/1.json"]["nodes"]["op"].__setitem__(0, -1),
    "a number that is none": lambda d: d["graph/1.json"]["nodes"]["type"].__setitem__(0, "x"),
    "columns of other lengths": lambda d: d["graph/1.json"]["nodes"]["line"].pop(),
    "scopes in a circle": lambda d: d["graph/1.json"]["scopes"][0].update(parent=0),
    "a text that is none": lambda d: d["graph/1.json"]["operations"].__setitem__(0, ["<b>"]),
    "rows of other lengths": lambda d: d["steps.json"]["step"].pop(),
    "no time": lambda d: d.pop("time/0.json"),
    "an event out of range": lambda d: d["time/0.json"]["events"]["name"].__setitem__(0, 10**6),
    "an event within a later one": lambda d: d["time/0.json"]["events"]["parent"].__setitem__(0, 3),
    "a time that is none": lambda d: d["time/0.json"]["events"]["begin"].__setitem__(0, "<b>"),
    "a kernel without its ir": lambda d: d["time/0.json"]["kernels"][0].update(ir=10**6),
    "blocks of other lengths": lambda d: d["time/0.json"]["memory"]["end"].append(1),
    "nan": lambda d: d["steps.json"]["columns"]["scalars"]["loss"].__setitem__(0, float("nan")),
    "a list": lambda d: d.update({"memory.json": []}),
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_hostile_file_is_refused(fault: str, saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.weft"
    path.write_bytes(changed(saved, HOSTILE[fault]))
    with pytest.raises(ValueError, match="is no run that can be shown"):
        load(path)


def test_a_truncated_file_is_refused(saved: Path, tmp_path: Path) -> None:
    content, path = saved.read_bytes(), tmp_path / "run.weft"
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="is no run that can be shown"):
            load(path)


def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.board.run_file.MOST_BYTES", 1000)
    path = tmp_path / "run.weft"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", " " * 2000)
    with pytest.raises(ValueError, match="more than 1 GB"):
        load(path)


def test_a_page_without_a_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text("<!doctype html><p>nothing</p>")
    with pytest.raises(ValueError, match="no run in this page"):
        load(path)
