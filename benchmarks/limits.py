"""What the machine can do: arithmetic per second and bytes per second, measured in the run that they stand beside.

In: the work that a workload cannot avoid. Out: the seconds that the machine needs for it at least. Two small kernels of
our own, written here as LLVM IR, do nothing else: chains of fused multiply-adds in registers, and a walk over as much
memory as the workload reads and writes (so that what fits into a cache is compared with the cache). Each thread runs
them on its own part; the best of several runs counts. Nothing of Weft's code generator is used but the call of LLVM.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache, partial
from threading import Barrier, Thread
from typing import Any, NamedTuple

import numpy as np

REPEATS = 20
CHAINS = 16  # enough for two units of latency 4
ROUNDS = 100_000
WALKED = 1 << 25  # bytes walked over in one run: short ones are seldom interrupted
CHUNK = 8 * 64  # bytes in one turn of a kernel's loop: the parts of threads are multiples of it


class Work(NamedTuple):
    """Additions and multiplications of numbers of float32, and bytes that have to be moved."""

    operations: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def seconds(self, threads: int) -> float:
        """The least time: arithmetic and memory may overlap."""
        arithmetic = self.operations / arithmetic_rate(threads) if self.operations else 0.0
        moving = _moving_seconds(int(self.read), int(self.written), threads)
        return max(arithmetic, moving)


def moved(read: float, written: float) -> Work:
    """Work that only moves bytes."""
    return Work(0.0, read, written)


def multiplied(m: int, k: int, n: int, times: int = 1) -> Work:
    """Products (m, k) @ (k, n) of float32."""
    return Work(2.0 * m * k * n * times, 4.0 * (m * k + k * n) * times, 4.0 * m * n * times)


def words(threads: int) -> str:
    """The machine's limits in one line."""
    big = 1 << 27
    rates = {
        "read": big / _moving_seconds(big, 0, threads),
        "copy": 2 * big / _moving_seconds(big, big, threads),
    }
    shown = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in rates.items())
    return f"measured limits: {arithmetic_rate(threads) / 1e9:.0f} GFLOP/s; memory: {shown}"


@cache
def arithmetic_rate(threads: int) -> float:
    """Operations per second in chains of multiply-adds."""
    run, lanes = _kernels()["multiply_add"], _lanes()
    out = [np.zeros(lanes * CHAINS, np.float32) for _ in range(threads)]
    seconds = _best(threads, lambda part: run(out[part].ctypes.data, ROUNDS))
    return 2.0 * lanes * CHAINS * ROUNDS * threads / seconds


@cache
def _moving_seconds(read: int, written: int, threads: int) -> float:
    """The time to read and write so many bytes, as often as `WALKED` allows."""
    if not read + written:
        return 0.0
    times = max(1, WALKED // (read + written))
    both, rest = min(read, written), abs(read - written)
    seconds = _walk("copy", both, times, threads) if both else 0.0
    if rest:
        seconds += _walk("read" if read > written else "write", rest, times, threads)
    return seconds / times


def _walk(name: str, size: int, times: int, threads: int) -> float:
    """The best time of plain stores and, where there are any, of stores past the caches."""
    part_size = max(size // threads // CHUNK, 1) * CHUNK
    memory = [[_aligned(part_size) for _ in range(threads)] for _ in range(2)]
    best = min(
        _best(threads, partial(_one_walk, _kernels()[each], memory, part_size // CHUNK, times))
        for each in ([name] if name == "read" else [name, f"{name}_past_caches"])
    )
    return best * size / (part_size * threads)


def _one_walk(run: Any, memory: Any, chunks: int, times: int, part: int) -> None:
    source, target = (one[part].ctypes.data for one in memory)
    run(source, target, chunks, times)


def _aligned(size: int) -> np.ndarray[Any, Any]:
    raw = np.ones(size + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size]


def _best(threads: int, run: Callable[[int], Any]) -> float:
    """The shortest time of the slowest thread; a call leaves the lock of Python."""
    times = np.zeros((REPEATS, threads))
    barrier = Barrier(threads)

    def work(part: int) -> None:
        for repeat in range(REPEATS):
            barrier.wait()
            start = time.perf_counter()
            run(part)
            times[repeat, part] = time.perf_counter() - start

    workers = [Thread(target=work, args=(part,)) for part in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return float(times.max(axis=1).min())


# -- the kernels -------------------------------------------------------------------------------------


def _lanes() -> int:
    """Numbers of float32 in a register."""
    from weft.engine.devices.cpu.llvm.target import host

    return host().register_bits // 32


@cache
def _kernels() -> dict[str, Any]:
    from weft.engine.devices.cpu.jit import compile_kernel

    lanes = _lanes()
    moves = {
        "read": (True, ""),
        "write": (False, "plain"),
        "copy": (True, "plain"),
        "write_past_caches": (False, "past"),
        "copy_past_caches": (True, "past"),
    }
    text = _multiply_add(lanes) + "".join(_move(name, *how) for name, how in moves.items())
    text += "!0 = !{i32 1}\ndeclare void @llvm.assume(i1)\n"
    library = compile_kernel("benchmarks.limits", lambda: text, ["multiply_add", *moves])
    address, count = ctypes.c_void_p, ctypes.c_int64
    types = {name: ctypes.CFUNCTYPE(None, address, address, count, count) for name in moves}
    types["multiply_add"] = ctypes.CFUNCTYPE(None, address, count)
    _kept.append(library)
    return {name: kind(library[name]) for name, kind in types.items()}


_kept: list[Any] = []  # the code stays loaded while its library is held


def _loop(name: str, arguments: str, bound: str, start: list[str], body: list[str]) -> str:
    """A function with one counted loop; `start` are the loop's other phis."""
    return "\n".join(
        [
            f"define void @{name}({arguments}) {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            *start,
            *body,
            "  %next = add i64 %i, 1",
            f"  %more = icmp ult i64 %next, {bound}",
            "  br i1 %more, label %loop, label %done",
            "done:",
        ]
    )


def _multiply_add(lanes: int) -> str:
    """Independent chains a = a * a + a from zero."""
    kind = f"<{lanes} x float>"
    phis = [
        f"  %a{n} = phi {kind} [zeroinitializer, %entry], [%b{n}, %loop]" for n in range(CHAINS)
    ]
    call = f"call {kind} @llvm.fma.v{lanes}f32"
    body = [f"  %b{n} = {call}({kind} %a{n}, {kind} %a{n}, {kind} %a{n})" for n in range(CHAINS)]
    text = _loop("multiply_add", "ptr %out, i64 %count", "%count", phis, body)
    stores = [
        f"  %p{n} = getelementptr {kind}, ptr %out, i64 {n}\n"
        f"  store {kind} %b{n}, ptr %p{n}, align 4"
        for n in range(CHAINS)
    ]
    declared = f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})\n"
    return "\n".join([text, *stores, "  ret void", "}", declared])


def _move(name: str, reads: bool, stores: str) -> str:
    """Over `count` chunks of memory, `times` times: read from `a`, write to `b`."""
    kind = "<16 x i32>"
    body = []
    for n in range(CHUNK // 64):
        place = f"  %x{n} = getelementptr i8, ptr %base, i64 {64 * n}"
        value = "splat (i32 1)"
        if reads:
            body += [
                place.replace("%base", "%from"),
                f"  %v{n} = load volatile {kind}, ptr %x{n}, align 64",
            ]
            value = f"%v{n}"
        if stores:
            past = ", !nontemporal !0" if stores == "past" else ""
            body += [
                place.replace("%base", "%to").replace(f"%x{n}", f"%y{n}"),
                f"  store {kind} {value}, ptr %y{n}, align 64{past}",
            ]
    inner = [
        f"  %offset = mul i64 %i, {CHUNK}",
        "  %from = getelementptr i8, ptr %a, i64 %offset",
        "  %to = getelementptr i8, ptr %b, i64 %offset",
        *body,
    ]
    once = _loop(f"{name}_once", "ptr %a, ptr %b, i64 %count", "%count", [], inner)
    once = once.replace("define void", "define internal void") + "\n  ret void\n}\n"
    call = [f"  call void @{name}_once(ptr %a, ptr %b, i64 %count)"]
    text = _loop(name, "ptr %a, ptr %b, i64 %count, i64 %times", "%times", [], call)
    return once + text + "\n  ret void\n}\n"
