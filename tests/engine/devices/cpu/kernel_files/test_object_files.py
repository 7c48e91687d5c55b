"""Object files: what is read of them; and linking them without LLVM's linker."""

from __future__ import annotations

import ctypes
import gc
import struct
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_kernels import compiler, loop_ir
from weft.engine.devices.cpu import linking
from weft.engine.devices.cpu.background import KernelRequest
from weft.engine.devices.cpu.jit import Compiler
from weft.engine.devices.cpu.kernel_files.disk_cache import DiskCache
from weft.engine.devices.cpu.kernel_files.object_files import read, undefined_symbols
from weft.errors import VerificationError

CALLS = """
declare double @sin(double)
define double @f(double %x) {
  %y = call double @sin(double %x)
  ret double %y
}
"""


def test_undefined_symbols_are_found():
    assert undefined_symbols(compiler().compile(CALLS)) == {"sin"}
    assert undefined_symbols(compiler().compile(loop_ir("f", "  %w = fadd float %v, %k"))) == set()


@pytest.mark.parametrize("triple", ["arm64-apple-darwin", "aarch64-linux-gnu", "x86_64-linux-gnu"])
def test_undefined_symbols_are_found_in_objects_of_other_machines(triple):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine()
    code = machine.emit_object(llvm.parse_assembly(CALLS))
    assert undefined_symbols(code) == {"sin"}
    assert all(undefined_symbols(code[:end]) in (None, set()) for end in range(4, 32))


@given(st.binary(max_size=200))
def test_what_is_no_object_file_has_no_answer(noise):
    assert undefined_symbols(noise) is None
    assert undefined_symbols(b"\x7fELF\x02\x01" + noise) in (None, set())


def test_a_damaged_section_table_has_no_answer():
    code = bytearray(compiler().compile(CALLS))
    code[40:48] = struct.pack("<Q", len(code) + 5)
    assert undefined_symbols(bytes(code)) is None


TABLE = """
@squares = private constant [4 x double] [double 0.0, double 1.0, double 4.0, double 9.0]
define internal double @square(i64 %i) noinline {
  %at = getelementptr [4 x double], ptr @squares, i64 0, i64 %i
  %y = load double, ptr %at
  ret double %y
}
define double @f(i64 %i) {
  %y = call double @square(i64 %i)
  %z = fadd double %y, 0.12345
  ret double %z
}
"""
COPY = """
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define void @g(ptr %to, ptr %from, i64 %bytes) {
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret void
}
"""
STATE = """
@state = global i64 5
define i64 @f() {
  %y = load i64, ptr @state
  ret i64 %y
}
"""


def test_sections_symbols_and_relocations_are_read():
    file = read(compiler().compile(TABLE))
    assert file is not None and {"f", "square"} <= {symbol.name for symbol in file.symbols}
    assert all(relocation.section < len(file.sections) for relocation in file.relocations)


def test_functions_constants_and_calls_find_each_other():
    image = linking.link([compiler().compile(TABLE), compiler().compile(COPY)], ["f", "g"])
    if image is None:
        pytest.skip("kernels for this processor are linked by LLVM")
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(image["f"])
    assert [f(i) for i in range(4)] == [i * i + 0.12345 for i in range(4)]
    g = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(image["g"])
    text = ctypes.create_string_buffer(b"abcdef")
    g(ctypes.addressof(text) + 1, ctypes.addressof(text), 4)
    assert text.value == b"aabcdf"
    with pytest.raises(KeyError):
        image["square"]


def test_code_cannot_be_written_and_constants_cannot_be_executed():
    image = linking.link([compiler().compile(TABLE)], ["f"])
    if image is None or not Path("/proc/self/maps").exists():
        pytest.skip("only what is linked here, where Linux tells")
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, modes = line.split()[:2]
        start, end = (int(text, 16) for text in span.split("-"))
        rights.update({at: modes for at in (image["f"], image["f"] + 4096) if start <= at < end})
    assert rights == {image["f"]: "r-xp", image["f"] + 4096: "r--p"}


def test_an_image_is_unmapped_with_its_last_reference():
    def executable() -> int:
        """Bytes, not lines: the system joins neighbours of one kind to one line."""
        lines = Path("/proc/self/maps").read_text().splitlines()
        spans = [line.split()[0].split("-") for line in lines if "r-xp 00000000 00:00" in line]
        return sum(int(end, 16) - int(start, 16) for start, end in spans)

    if not Path("/proc/self/maps").exists():
        pytest.skip("only Linux tells")
    gc.collect()
    before = executable()
    image = linking.link([compiler().compile(TABLE)], ["f"])
    if image is None:
        pytest.skip("kernels for this processor are linked by LLVM")
    assert executable() > before
    del image
    assert executable() == before


@pytest.mark.parametrize("text", [STATE, CALLS], ids=["writable", "undefined"])
def test_what_is_no_kernel_is_left_to_llvm(text):
    assert linking.link([compiler().compile(text)], ["f"]) is None


def test_llvm_links_what_is_left_to_it(tmp_path):
    """A compiler accepts writable data as before: by way of LLVM's linker."""
    own = Compiler(disk=DiskCache(tmp_path / "kernels"))
    (library,) = own.batch([KernelRequest("f", lambda: STATE, ["f"])])
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(library["f"])() == 5
    with pytest.raises(VerificationError, match="sin"):
        own.batch([KernelRequest("c", lambda: CALLS, ["f"])])


def test_objects_of_other_processors_are_read_and_not_linked():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("aarch64-linux-gnu").create_target_machine()
    with llvm.parse_assembly(TABLE) as module:
        code = bytes(machine.emit_object(module))
    assert undefined_symbols(code) == set()
    assert linking.link([code], ["f"]) is None


def test_one_kernel_found_on_disk_does_without_llvm(tmp_path):
    """A second process neither compiles nor loads LLVM's library."""
    program = """
import pathlib, sys, weft
from weft.engine.devices.cpu import jit
from weft.engine.devices.cpu.kernel_files import shipped_kernels
shipped_kernels.FOLDER = pathlib.Path("none")
x = weft.arange(12.0).view(3, 4)
assert ((x @ x.T).relu() + 1).sum().item() == 1143.0
print(jit.compiler().counters.compilations, "llvmlite.binding" in sys.modules)
"""
    lines = []
    for _ in range(2):
        run = [sys.executable, "-c", program]
        environment = {
            "WEFT_CACHE_DIR": str(tmp_path / "kernels"),
            "PYTHONPATH": ":".join(sys.path),
        }
        done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
        lines.append(done.stdout.split())
    assert lines[0][1] == "True" and int(lines[0][0]) > 0
    plain = linking.link([compiler().compile(TABLE)], ["f"]) is not None
    if plain and Path("/proc/cpuinfo").exists():
        assert lines[1] == ["0", "False"]
