"""Kernels that are shipped with the package: found by key, refused where they are not what they should be."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.engine.devices.cpu.background import KernelRequest
from weft.engine.devices.cpu.jit import LANE_BY_LANE, Compiler, JitTarget
from weft.engine.devices.cpu.kernel_files import shipped_kernels
from weft.engine.devices.cpu.kernel_files.disk_cache import DiskCache
from weft.engine.devices.cpu.kernel_files.object_files import is_for_this_processor
from weft.engine.devices.cpu.llvm import target
from weft.engine.devices.cpu.llvm.target import host

REVISION = "0" * 64


def text(value: int) -> str:
    return f"define i64 @f() {{\n  ret i64 {value}\n}}\n"


def asked(value: int, revision: str = REVISION) -> KernelRequest:
    return KernelRequest("kernel", lambda: text(value), ["f"], revision)


def result(compiler: Compiler, request: KernelRequest) -> int:
    (library,) = compiler.batch([request])
    called: int = ctypes.CFUNCTYPE(ctypes.c_int64)(library["f"])()
    return called


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An archive in which the kernel gives 5, where each test's requests would compile one that gives 6."""
    monkeypatch.setattr(shipped_kernels, "FOLDER", tmp_path / "shipped")
    code = Compiler(disk=DiskCache(None)).compile(text(5))
    shipped_kernels.pack(host().name, REVISION, {"kernel": code, "other": code})
    yield Path(shipped_kernels.path_of(host().name))


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
    assert result(compiler, KernelRequest("third", lambda: text(6), ["f"], REVISION)) == 6
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


@pytest.mark.parametrize("lane_by_lane", [False, True])
def test_the_processor_chooses_between_two_codes_of_a_kernel(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lane_by_lane: bool
) -> None:
    monkeypatch.setattr(shipped_kernels, "reads_lane_by_lane", lambda: lane_by_lane)
    codes = {
        shipped_kernels.key_of_way("kernel", way): Compiler(disk=DiskCache(None)).compile(
            text(7 + way)
        )
        for way in (False, True)
    }
    shipped_kernels.pack(host().name, REVISION, codes)
    compiler = fresh(tmp_path)
    assert result(compiler, asked(6)) == 7 + lane_by_lane
    assert compiler.counters.compilations == 0


READ_FROM_ANYWHERE = """
declare <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr>, i32, <8 x i1>, <8 x float>)

define void @f(ptr %table, ptr %places, ptr %read) {
  %numbers = load <8 x i64>, ptr %places, align 8
  %at = getelementptr float, ptr %table, <8 x i64> %numbers
  %lanes = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> %at, i32 4, <8 x i1> splat (i1 true),
    <8 x float> zeroinitializer)
  store <8 x float> %lanes, ptr %read, align 4
  ret void
}
"""


@pytest.mark.skipif("avx" not in host().name, reason="this processor has one way")
def test_both_ways_of_reading_lanes_read_the_same(tmp_path: Path) -> None:
    table = (ctypes.c_float * 20)(*(n / 7 for n in range(20)))
    places = (ctypes.c_int64 * 8)(19, 0, 3, 3, 7, 1, 18, 2)
    found = []
    for feature in (LANE_BY_LANE, "+fast-gather"):
        level = {"avx2": "x86-64-v3", "avx512": "x86-64-v4"}[host().name]
        compiler = Compiler(JitTarget(level, f"+avx2,{feature}"), DiskCache(None))
        (library,) = compiler.batch([KernelRequest("read", lambda: READ_FROM_ANYWHERE, ["f"])])
        read = (ctypes.c_float * 8)()
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library["f"])(table, places, read)
        found.append(([*read], "vgather" in compiler.assembly(READ_FROM_ANYWHERE)))
    assert found == [([table[place] for place in places], by_it) for by_it in (False, True)]


@pytest.mark.parametrize("maker", ["GenuineIntel", "AuthenticAMD", ""])
def test_processors_of_amd_read_lane_by_lane(monkeypatch: pytest.MonkeyPatch, maker: str) -> None:
    monkeypatch.setattr(target, "processor", lambda: f"vendor_id\t: {maker}\nmodel name\t: AMD")
    wanted = maker == "AuthenticAMD" and os.uname().machine == "x86_64"
    assert target.reads_lane_by_lane.__wrapped__() == wanted


def test_an_archive_of_another_level_is_not_asked(shipped: Path, tmp_path: Path) -> None:
    shipped.rename(shipped.with_name("another.kernels"))
    assert result(fresh(tmp_path), asked(6)) == 6
