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
from weft.errors import OutOfMemoryError

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

    former = signal.signal(signal.SIGALRM, within)
    spill.set_folder(str(tmp_path))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        shown = moved(outer, numbers)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
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
