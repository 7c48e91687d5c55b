"""WEFT_GUARD: a read or write outside a buffer, or of one that is gone, ends the process. Results stay the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def run(code: str, guard: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python with guarded memory."""
    environment = {**os.environ, "WEFT_GUARD": guard, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


BUFFER = """
import ctypes, sys
from weft.engine.devices.cpu import pool
buffer = pool.allocate({nbytes})
start = buffer.address
"""


@pytest.mark.parametrize("nbytes", [1, 13, 64, 4096, 5000, 100_000])
@pytest.mark.parametrize(
    ("guard", "read"),
    [
        ("1", "start + {nbytes}"),
        ("begin", "start - 1"),
        ("1", "start - 4096"),
        ("begin", "start + {nbytes} + 4095"),
    ],
)
def test_a_read_outside_ends_the_process_at_its_line(guard: str, read: str, nbytes: int) -> None:
    code = BUFFER + "print(len(ctypes.string_at(start, {nbytes})), flush=True)\n"
    code += f"ctypes.string_at({read}, 1)\nprint('alive')"
    done = run(code.format(nbytes=nbytes), guard)
    assert done.returncode == -11, done
    assert done.stdout == f"{nbytes}\n"
    assert "Segmentation fault" in done.stderr and "line" in done.stderr


@pytest.mark.parametrize("guard", ["1", "begin"])
def test_what_is_freed_cannot_be_read(guard: str) -> None:
    done = run(BUFFER.format(nbytes=100) + "del buffer\nctypes.string_at(start, 1)", guard)
    assert done.returncode == -11


@pytest.mark.parametrize(("guard", "place"), [("1", "start - 1"), ("begin", "start + 100")])
def test_a_write_to_the_other_side_is_seen_when_the_memory_is_freed(guard: str, place: str) -> None:
    done = run(BUFFER.format(nbytes=100) + f"ctypes.memset({place}, 0, 1)\ndel buffer", guard)
    assert done.returncode == -6
    assert "WEFT_GUARD: something has written outside a buffer" in done.stderr


def test_fresh_memory_is_nan_and_no_index() -> None:
    code = """
import numpy as np
from weft.engine.devices.cpu import pool
buffer = pool.allocate(4096)
for kind in (np.float16, np.float32, np.float64):
    assert np.isnan(np.frombuffer(buffer, kind)).all()
for kind in (np.int16, np.int32, np.int64):
    assert (np.frombuffer(buffer, kind) > np.iinfo(kind).max * 0.99).all()
assert (np.frombuffer(buffer, np.uint8) > 1).all()
"""
    assert run(code, "1").stderr == ""


def test_numbers_have_guards_of_their_own() -> None:
    code = """
import ctypes
import weft
number = weft.tensor(3.0)
address = number.data_ptr()
ctypes.string_at(address, 4)
print("read", flush=True)
ctypes.string_at(address + 4, 1)
"""
    done = run(code, "1")
    assert done.stdout == "read\n" and done.returncode == -11


@pytest.mark.parametrize("guard", ["1", "begin"])
def test_guards_between_numbers_are_not_counted(guard: str) -> None:
    code = """
from weft.engine.devices.cpu import pool
before = pool.stats()["allocated"]
cells = pool.allocate_cells(10)
print(pool.stats()["allocated"] - before, cells.capacity)
del cells
print(pool.stats()["allocated"] - before)
"""
    assert run(code, guard).stdout == "160 160\n0\n"


@pytest.mark.parametrize("guard", ["1", "begin"])
def test_results_are_the_same(guard: str) -> None:
    code = """
import weft
weft.manual_seed(0)
x = weft.randn(33, 17, requires_grad=True)
for _ in range(4):
    y = (x @ x.t()).softmax(1)[weft.arange(5) % 3].cumsum(0)
    (y * weft.ones(17, 33)[:5]).sum().backward()
    print(y.sum().item().hex(), x.grad.sum().item().hex(), y.sort(1)[1][0].tolist())
"""
    assert run(code, guard).stdout == run(code, "").stdout != ""


@pytest.mark.parametrize(("guard", "read"), [("1", "start + 56"), ("begin", "start - 17")])
def test_arrays_of_numpy_are_guarded_too(guard: str, read: str) -> None:
    code = f"""
import ctypes
import weft
import numpy as np
array = np.arange(7.0)
assert weft.from_numpy(array).sum().item() == 21 and np.isnan(np.empty(5)).all()
array.resize(3, refcheck=False)
array = np.concatenate([array, np.arange(4.0)])
start = array.ctypes.data
ctypes.string_at(start, 56)
print("read", flush=True)
ctypes.string_at({read}, 1)
"""
    done = run(code, guard)
    assert done.stdout == "read\n" and done.returncode == -11


@pytest.mark.parametrize("guard", ["1", "begin"])
def test_garbage_fills_what_is_guarded_and_no_more(guard: str) -> None:
    code = """
import weft
from weft.engine.devices.cpu import pool
pool.set_fill(0x41)
assert bytes(memoryview(pool.allocate(5000))) == bytes([0x41]) * 5000
print((weft.tensor(2.0) * weft.tensor([1.0, 3.0]) + weft.tensor(1.0)).sum().item())
"""
    assert run(code, guard).stdout == "10.0\n"


def test_more_buffers_than_the_system_has_mappings() -> None:
    code = """
import weft
import numpy as np
kept = [np.ones(4) for _ in range(40_000)]
tensors = [weft.tensor([float(n), 2.0]) for n in range(10_000)]
print(sum(float(x.sum()) for x in kept), weft.stack(tensors).sum().item(), flush=True)
del kept, tensors
import ctypes
ctypes.string_at(weft.ones(4).data_ptr() + 16, 1)
"""
    done = run(code, "1")
    assert done.stdout == "160000.0 50015000.0\n" and done.returncode == -11, done.stderr


@pytest.mark.parametrize("guard", ["1", "begin"])
def test_memory_that_is_not_there_is_refused(guard: str) -> None:
    """What is mapped is filled at once: more than there is must not be."""
    code = """
import resource
import weft
import numpy as np
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
for make in (lambda: np.empty(10**13), lambda: weft.ones(10**13).cumsum(0).sum().item()):
    try:
        make()
    except MemoryError:
        print("refused")
"""
    assert run(code, guard).stdout == "refused\nrefused\n"
