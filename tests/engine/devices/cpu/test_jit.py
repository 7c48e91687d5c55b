"""The compiler: memory and disk caches, what may be linked, unloading, forking."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from runtime_kernels import loop_ir
from weft.engine.devices.cpu.background import KernelRequest
from weft.engine.devices.cpu.jit import Compiler, JitTarget
from weft.engine.devices.cpu.kernel_files.disk_cache import DiskCache
from weft.errors import VerificationError

ADD = "  %w = fadd float %v, %k"


@pytest.fixture
def fresh(tmp_path):
    """Makes compilers that share one disk cache, as processes would."""
    return lambda **options: Compiler(disk=DiskCache(tmp_path / "kernels"), **options)


def request(name: str, body: str = ADD) -> KernelRequest:
    return KernelRequest(name, lambda: loop_ir(name, body), [name])


def returns(name: str, value: int) -> KernelRequest:
    """A function that returns a number."""
    return KernelRequest(name, lambda: f"define i64 @{name}() {{\n  ret i64 {value}\n}}\n", [name])


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()


def the_object(compiler: Compiler) -> Path:
    """The one entry that is code; the others are notes."""
    entries = Path(compiler.disk.directory).iterdir()
    (found,) = (entry for entry in entries if b"\x7fELF" in entry.read_bytes())
    return found


def test_a_kernel_is_compiled_once(fresh):
    compiler = fresh()
    (first,) = compiler.batch([returns("f", 5)])
    (again,) = compiler.batch([KernelRequest("f", pytest.fail, ["f"])])
    assert first is again and call(first["f"]) == 5
    counters = compiler.counters
    assert (counters.compilations, counters.memory_hits, counters.disk_hits) == (1, 1, 0)
    assert counters.seconds > 0


def test_the_next_process_finds_it_on_disk(fresh):
    fresh().batch([returns("f", 5)])
    compiler = fresh()
    (library,) = compiler.batch([returns("f", 5)])
    assert call(library["f"]) == 5
    assert (compiler.counters.compilations, compiler.counters.disk_hits) == (0, 1)


def test_a_key_of_one_revision_needs_no_text_again(fresh):
    build = returns("f", 5).build
    fresh().batch([KernelRequest("kernel", build, ["f"], "1")])
    compiler = fresh()
    (library,) = compiler.batch([KernelRequest("kernel", pytest.fail, ["f"], "1")])
    assert call(library["f"]) == 5 and compiler.counters.disk_hits == 1
    (library,) = fresh().batch([KernelRequest("kernel", returns("f", 6).build, ["f"], "2")])
    assert call(library["f"]) == 6
    written = []
    (library,) = fresh(target=JitTarget(level=2)).batch(
        [KernelRequest("kernel", lambda: written.append(build()) or written[0], ["f"], "1")]
    )
    assert call(library["f"]) == 5 and written


def test_a_note_of_an_entry_that_is_gone_is_of_no_use(fresh):
    build = returns("f", 5).build
    compiler = fresh()
    compiler.batch([KernelRequest("kernel", build, ["f"], "1")])
    for entry in Path(compiler.disk.directory).iterdir():
        if b"\x7fELF" in entry.read_bytes():
            entry.unlink()
    compiler = fresh()
    (library,) = compiler.batch([KernelRequest("kernel", build, ["f"], "1")])
    assert call(library["f"]) == 5 and compiler.counters.compilations == 1


def test_another_text_or_target_is_another_entry(fresh):
    fresh().batch([returns("f", 5)])
    compiler = fresh()
    (library,) = compiler.batch([returns("f", 6)])
    assert call(library["f"]) == 6 and compiler.counters.disk_hits == 0
    compiler = fresh(target=JitTarget(level=2))
    compiler.batch([returns("f", 5)])
    assert compiler.counters.disk_hits == 0


def test_a_corrupted_entry_is_compiled_and_written_anew(fresh):
    compiler = fresh()
    compiler.batch([returns("f", 5)])
    entry = the_object(compiler)
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    compiler = fresh()
    (library,) = compiler.batch([returns("f", 5)])
    assert call(library["f"]) == 5
    assert (compiler.counters.compilations, compiler.counters.disk_hits) == (1, 0)
    assert entry.read_bytes() == whole


CALLS_SIN = """
declare double @sin(double)
define double @f(double %x) {
  %y = call double @sin(double %x)
  ret double %y
}
"""


def test_code_that_calls_others_is_refused(fresh):
    with pytest.raises(VerificationError, match="calls of sin"):
        fresh().batch([KernelRequest("f", lambda: CALLS_SIN, ["f"])])


def test_a_cached_object_that_calls_others_is_refused_too(fresh):
    """Even under a right checksum: whoever can write there gains no call into this process."""
    compiler = fresh()
    compiler.batch([returns("f", 5)])
    entry = the_object(compiler)
    compiler.disk.store(entry.stem, compiler.compile(CALLS_SIN))
    compiler = fresh()
    (library,) = compiler.batch([returns("f", 5)])
    assert call(library["f"]) == 5
    assert (compiler.counters.refused, compiler.counters.compilations) == (1, 1)


def test_memory_functions_may_be_called(fresh):
    text = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @copy(ptr %to, ptr %from, i64 %bytes) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret void
}
"""
    (library,) = fresh().batch([KernelRequest("copy", lambda: text, ["copy"])])
    source, target = ctypes.create_string_buffer(b"weft"), ctypes.create_string_buffer(5)
    copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    copy(library["copy"])(ctypes.addressof(target), ctypes.addressof(source), 5)
    assert target.value == b"weft"


def test_a_batch_is_linked_once_and_answers_in_order(fresh):
    compiler = fresh()
    compiler.batch([returns("b", 2)])
    names = "cabac"
    libraries = compiler.batch([returns(name, ord(name)) for name in names])
    assert [call(library[n]) for n, library in zip(names, libraries, strict=True)] == [
        99,
        97,
        2,
        97,
        99,
    ]
    assert compiler.counters.links == 2 and compiler.counters.compilations == 3


def test_one_name_in_two_libraries(fresh):
    compiler = fresh()
    (first,) = compiler.batch([KernelRequest("k1", returns("f", 1).build, ["f"])])
    (second,) = compiler.batch([KernelRequest("k2", returns("f", 2).build, ["f"])])
    assert (call(first["f"]), call(second["f"])) == (1, 2)


def test_the_least_recently_used_are_unloaded_unless_held(fresh):
    compiler = fresh(in_memory=2)
    (held,) = compiler.batch([returns("f0", 0)])
    trackers = []
    for number in range(1, 5):
        (library,) = compiler.batch([returns(f"f{number}", number)])
        trackers.append(weakref.ref(library.tracker))
        del library
    gc.collect()
    assert len(compiler) == 2
    assert [tracker() is not None for tracker in trackers] == [False, False, True, True]
    assert call(held["f0"]) == 0


def test_forget_drops_everything(fresh):
    compiler = fresh()
    compiler.batch([returns("f", 5)])
    compiler.forget()
    assert len(compiler) == 0
    compiler.batch([returns("f", 5)])
    assert compiler.counters.disk_hits == 1


def test_text_that_does_not_parse_says_so(fresh):
    with pytest.raises(RuntimeError, match="expected"):
        fresh().batch([KernelRequest("f", lambda: "define nonsense", ["f"])])


def test_threads_compile_at_once(fresh):
    compiler = fresh()
    wrong = []

    def work(first: int) -> None:
        for number in range(first, first + 6):
            (library,) = compiler.batch([returns(f"f{number}", number)])
            if call(library[f"f{number}"]) != number:
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(first,)) for first in (0, 3, 6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and compiler.counters.compilations == 12


def test_assembly_can_be_read(fresh):
    assert "f:" in fresh().assembly(returns("f", 5).build())


def test_llvmlite_is_imported_by_the_first_kernel_only():
    program = "import sys, weft.engine.devices.cpu.jit; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_print_what_compiling_costs(capsys, fresh):
    """Figures to look at; no timing is asserted."""
    body = "\n".join(
        ["  %w0 = fadd float %v, %k"]
        + [f"  %w{i} = fmul float %w{i - 1}, %k" for i in range(1, 7)]
        + ["  %w = fadd float %w6, %v"]
    )
    figures = {}
    for label, compiler in (("cold", fresh()), ("from disk", fresh())):
        compiler.batch([request("warm_up")])
        start = time.perf_counter()
        for number in range(5):
            compiler.batch([request(f"k{number}", body)])
        figures[label] = (time.perf_counter() - start) / 5 * 1000
    with capsys.disabled():
        print("\n  a kernel of 8 operations:", {k: f"{v:.2f} ms" for k, v in figures.items()})


def test_an_interrupt_while_llvms_lock_is_taken_leaves_it_free(fresh):
    """llvmlite takes its lock and calls what is registered; an exception there leaves the lock with the thread."""
    from llvmlite.binding import ffi

    def interrupt():
        raise KeyboardInterrupt

    def ignore():
        pass

    compiler = fresh()
    compiler.batch([request("before")])
    ffi.register_lock_callback(interrupt, ignore)
    try:
        with pytest.raises(KeyboardInterrupt):
            compiler.batch([request("interrupted")])
    finally:
        ffi.unregister_lock_callback(interrupt, ignore)
    made = []

    def compile_after():
        made.extend(compiler.batch([request("after")]))

    thread = threading.Thread(target=compile_after, daemon=True)
    thread.start()
    thread.join(60)
    assert len(made) == 1
