"""The spill file: whose it is while programs run within each other, what it holds of values written in parts."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.devices.cpu import pool, spill
from weft.engine.devices.cpu.executor import CpuExecutable
from weft.errors import OutOfMemoryError, SpillError

pytestmark = pytest.mark.filterwarnings("ignore:the memory budget is kept by spilling")


def peak_of(function: Callable[[], float]) -> tuple[float, int, int]:
    """What a function returns, the bytes that were live before, and the most that were."""
    gc.collect()
    live = pool.stats()["allocated"]
    pool.reset_peak()
    return function(), live, pool.stats()["peak"]


def written_late(parts: int = 6, rows: int = 1024, width: int = 64) -> float:
    """Values that idle while memory is short, and of which a part is written then."""
    weft.manual_seed(0)
    x = y = weft.randn(rows, width)
    w = weft.randn(width, width) / 8
    values = [x @ weft.randn(width, width) for _ in range(parts)]
    for value in values:
        y = (y @ w + value).tanh()
    wide = y @ weft.randn(width, 8 * width)
    y = (wide.sigmoid() @ weft.randn(8 * width, width)) / 100
    for number, value in enumerate(values):
        value[:4] = y[:4] + number
    del value
    while values:
        y = (y @ w + values.pop()).tanh()
    return float(y.sum().item())


def spilling_budget(folder: Path) -> int:
    """A budget under which `written_late` spills, and shows what it shows without."""
    value, live, peak = peak_of(written_late)
    weft.memory_report(reset=True)
    for share in (0.95, 0.9, 0.85, 0.8):
        gc.collect()
        budget = live + int(share * (peak - live))
        with weft.memory_budget(budget, spill=folder):
            try:
                assert written_late() == value
            except OutOfMemoryError:
                continue
        if weft.memory_report().spilled:
            return budget
    raise AssertionError("nothing was spilled")


def test_a_part_is_written_to_what_was_there_before_the_spill(tmp_path: Path) -> None:
    assert spilling_budget(tmp_path) > 0


def there_and_back(slots: int) -> CpuExecutable:
    """A program that writes slot 0 to the file, chunk by chunk, and reads it into slot 1."""
    program = CpuExecutable()
    units = -(-slots // spill.CHUNK)
    for slot, out in ((0, 1), (1, 0)):
        program.append(spill.transfer_address(), [(slot, 0)], [0, slots, out], units, 1, 10**8)
    program.need_file(slots)
    return program


def moved(program: CpuExecutable, source: Any) -> Any:
    """What comes back of an array."""
    target = np.zeros_like(source)
    assert program.run([source.ctypes.data, target.ctypes.data]) == len(program)
    return target


def test_a_run_within_a_run_has_a_file_of_its_own(tmp_path: Path) -> None:
    nbytes = 24 * spill.CHUNK
    outer, inner = there_and_back(nbytes), there_and_back(spill.CHUNK)
    numbers = np.arange(nbytes // 8)
    others = np.full(spill.CHUNK, 7, np.uint8)
    back: list[Any] = []

    def within(*_: object) -> None:
        spill.close()
        back.append(moved(inner, others))
        if len(back) < 3:
            signal.setitimer(signal.ITIMER_REAL, 0.002)

    previous = signal.signal(signal.SIGALRM, within)
    spill.set_folder(str(tmp_path))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        shown = moved(outer, numbers)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        spill.set_folder(None)
    assert back and all((one == others).all() for one in back)
    assert (shown == numbers).all()


def test_files_are_closed(tmp_path: Path) -> None:
    program = there_and_back(spill.CHUNK)
    numbers = np.arange(spill.CHUNK // 8)
    spill.set_folder(None)
    before = len(os.listdir("/proc/self/fd"))
    spill.set_folder(str(tmp_path))
    moved(program, numbers)
    moved(program, numbers)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    spill.break_for_tests()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    spill.set_folder(None)
    spill.close()
    assert len(os.listdir("/proc/self/fd")) == before


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_run_that_begins_while_room_is_reserved_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = there_and_back(spill.CHUNK), there_and_back(2 * spill.CHUNK)
    numbers = np.arange(spill.CHUNK // 8)
    seen: list[int] = []
    reserve = os.posix_fallocate

    def within(*given: int) -> None:
        monkeypatch.setattr(os, "posix_fallocate", reserve)
        assert (moved(small, numbers) == numbers).all()
        seen.append(open_files())
        reserve(*given)

    spill.set_folder(str(tmp_path))
    try:
        moved(small, numbers)
        before = open_files()
        monkeypatch.setattr(os, "posix_fallocate", within)
        moved(large, np.concatenate([numbers, numbers]))
    finally:
        spill.set_folder(None)
    assert seen == [before + 1]


def test_a_file_for_which_there_is_no_more_room_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = there_and_back(spill.CHUNK), there_and_back(2 * spill.CHUNK)
    numbers = np.arange(spill.CHUNK // 8)

    def full(*given: int) -> None:
        raise OSError(28, "full")

    spill.set_folder(str(tmp_path))
    try:
        moved(small, numbers)
        before = open_files()
        with monkeypatch.context() as patched:
            patched.setattr(os, "posix_fallocate", full)
            with pytest.raises(SpillError):
                moved(large, np.concatenate([numbers, numbers]))
        assert open_files() == before
        moved(small, numbers)
        assert open_files() == before
    finally:
        spill.set_folder(None)


def test_a_file_that_could_not_be_made_closes_none() -> None:
    there = os.fstat(0)
    with pytest.raises(TypeError):
        spill.SpillFile("no descriptor", 0, "")
    assert os.fstat(0) == there


def test_the_folder_may_be_a_path_of_any_form(tmp_path: Path) -> None:
    for path in (tmp_path, str(tmp_path), os.fsencode(tmp_path)):
        with weft.memory_budget(None, spill=path):
            assert spill.folder() == str(tmp_path)


def test_a_known_program_spills_only_where_there_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    budget = spilling_budget(tmp_path)
    with weft.memory_budget(budget, spill=tmp_path):
        for _ in range(3):
            written_late()
    made: list[int] = []
    real = spill.os.open
    monkeypatch.setattr(os, "open", lambda *given, **named: made.append(1) or real(*given, **named))
    with weft.memory_budget(budget), pytest.raises(OutOfMemoryError, match="folder to spill to"):
        written_late()
    assert not made
