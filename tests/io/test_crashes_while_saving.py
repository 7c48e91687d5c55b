"""A process that dies while it saves, or a disk that fails, loses nothing: the file is what it was, or the new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import weft

STEP = """
import os, signal, sys
import weft

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, sys.argv[2], die)
weft.save({"step": 2, "weight": weft.full((4096,), 2.0)}, sys.argv[1])
"""
LOOP = """
import itertools, sys
import weft

for step in itertools.count(2):
    weft.save({"step": step, "weight": weft.full((1 << 20,), float(step))}, sys.argv[1])
"""


def first(path: Path, size: int = 4096) -> None:
    weft.save({"step": 1, "weight": weft.full((size,), 1.0)}, path)


def step_of(path: Path) -> int:
    """Which of the saved states a file holds. Errors: AssertionError where it is no whole one."""
    found = weft.load(path)
    assert (found["weight"] == found["step"]).all()
    return int(found["step"])


@pytest.mark.parametrize("moment", ["fsync", "chmod", "replace"])
def test_a_killed_process_leaves_the_file_as_it_was(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "checkpoint"
    first(path)
    done = subprocess.run([sys.executable, "-c", STEP, str(path), moment], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert step_of(path) == 1


def test_a_process_that_is_killed_at_any_time_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first(path, 1 << 20)
    for wait in (0.0, 0.003, 0.007, 0.016):
        child = subprocess.Popen([sys.executable, "-c", LOOP, str(path)])
        before = path.stat().st_ino
        limit = time.monotonic() + 60
        while path.stat().st_ino == before and time.monotonic() < limit:
            time.sleep(0.001)
        time.sleep(wait)
        child.kill()
        child.wait()
        assert step_of(path) >= 2


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_file_and_nothing_else(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint"
    first(path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, full)
        with pytest.raises(OSError, match="No space left on device"):
            weft.save({"step": 2, "weight": weft.full((4096,), 2.0)}, path)
    assert step_of(path) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
