"""Kernels that are shipped with the package: found by key, refused where they are not what they should be."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.engine.devices.cpu import shipped_kernels
from weft.engine.devices.cpu.disk_cache import DiskCache
from weft.engine.devices.cpu.jit import Compiler, JitTarget, Request
from weft.engine.devices.cpu.llvm.target import host
from weft.engine.devices.cpu.object_files import is_for_this_processor

REVISION = "0" * 64


def text(value: int) -> str:
    return f"define i64 @f() {{\n  ret i64 {value}\n}}\n"


def asked(value: int, revision: str = REVISION) -> Request:
    return Request("kernel", lambda: text(value), ["f"], revision)


def result(compiler: Compiler, request: Request) -> int:
    (library,) = compiler.batch([request])
    called: int = ctypes.CFUNCTYPE(ctypes.c_int64)(library["f"])()
    return called


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An archive in which the kernel gives 5, where each test's requests would compile one that gives 6."""
    monkeypatch.setattr(shipped_kernels, "FOLDER", tmp_path / "shipped")
    code = Compiler(disk=DiskCache(None)).compile(text(5))
    shipped_kernels.pack(host().name, REVISION, {"kernel": code, "other": code})
    yield shipped_kernels.path_of(host().name)


def fresh(tmp_path: Path) -> Compiler:
    return Compiler(disk=DiskCache(tmp_path / "kernels"))


def test_a_shipped_kernel_is_neither_compiled_nor_asked_for_on_disk(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = fresh(tmp_path)
    monkeypatch.setattr(compiler, "_start", lambda: pytest.fail("LLVM is loaded"))
    assert result(compiler, asked(6)) == 5
    counters = compiler.counters
    assert (counters.shipped_hits, counters.compilations, counters.disk_hits) == (1, 0, 0)
    assert list((tmp_path / "kernels").glob("*")) == []


def test_what_was_not_shipped_is_compiled(shipped: Path, tmp_path: Path) -> None:
    compiler = fresh(tmp_path)
    assert result(compiler, Request("third", lambda: text(6), ["f"], REVISION)) == 6
    assert compiler.counters.compilations == 1


def test_an_archive_of_other_sources_is_none(shipped: Path, tmp_path: Path) -> None:
    assert result(fresh(tmp_path), asked(6, "1" * 64)) == 6


def test_without_an_archive_kernels_are_compiled(shipped: Path, tmp_path: Path) -> None:
    shipped.unlink()
    assert result(fresh(tmp_path), asked(6)) == 6


def test_a_chosen_target_gets_code_of_its_own(shipped: Path) -> None:
    assert result(Compiler(JitTarget(level=2), DiskCache(None)), asked(6)) == 6


@pytest.mark.parametrize("keep", [0, 10, 40, 100, 200, 300, -1])
def test_a_truncated_archive_is_compiled_instead(shipped: Path, tmp_path: Path, keep: int) -> None:
    shipped.write_bytes(shipped.read_bytes()[:keep])
    found = result(fresh(tmp_path), asked(6))
    assert found == 6 or (keep == -1 and found == 5)  # the last byte is another kernel's


def test_every_altered_byte_is_noticed(shipped: Path, tmp_path: Path) -> None:
    """No altered archive gives code that is not what was written."""
    whole = shipped.read_bytes()
    code = shipped_kernels.open_for(host().name, REVISION)
    assert code is not None
    right = code.load("kernel")
    for place in range(0, len(whole), 7):
        altered = bytearray(whole)
        altered[place] ^= 0x55
        shipped.write_bytes(altered)
        archive = shipped_kernels.open_for(host().name, REVISION)
        assert archive is None or archive.load("kernel") in (None, right)


def test_code_of_another_processor_is_compiled_instead(shipped: Path, tmp_path: Path) -> None:
    code = bytearray(Compiler(disk=DiskCache(None)).compile(text(5)))
    code[18:20] = (243).to_bytes(2, "little")  # ELF's number of RISC-V
    assert not is_for_this_processor(bytes(code))
    shipped_kernels.pack(host().name, REVISION, {"kernel": bytes(code)})
    assert result(fresh(tmp_path), asked(6)) == 6


def test_code_that_calls_what_no_kernel_may_is_refused(shipped: Path, tmp_path: Path) -> None:
    calling = (
        "declare i64 @getpid()\ndefine i64 @f() {\n  %r = call i64 @getpid()\n  ret i64 %r\n}\n"
    )
    code = Compiler(disk=DiskCache(None)).compile(calling)
    shipped_kernels.pack(host().name, REVISION, {"kernel": code})
    assert result(fresh(tmp_path), asked(6)) == 6


def test_an_archive_has_a_bound(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_kernels, "MOST_BYTES", 100)
    before = shipped.read_bytes()
    with pytest.raises(ValueError, match="more than 100"):
        shipped_kernels.pack(host().name, REVISION, {"kernel": b"x" * 1000})
    assert shipped.read_bytes() == before
