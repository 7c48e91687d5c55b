"""Small kernels in LLVM IR for the tests of the runtime, and programs made of them."""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.engine.devices.cpu.background import KernelRequest
from weft.engine.devices.cpu.executor import CpuExecutable
from weft.engine.devices.cpu.jit import Compiler, KernelLibrary
from weft.engine.devices.cpu.kernel_files.disk_cache import DiskCache

LOOP = """
define void @{name}(ptr %pointers, ptr %arguments, i64 %begin, i64 %end) {{
entry:
  %second = getelementptr ptr, ptr %pointers, i64 1
  %source = load ptr, ptr %pointers
  %target = load ptr, ptr %second
  %argument = load i64, ptr %arguments
  %k = sitofp i64 %argument to float
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %source, i64 %i
  %to = getelementptr float, ptr %target, i64 %i
  %v = load float, ptr %from, align 4
{body}
  store float %w, ptr %to, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

NOP = "define void @nop(ptr %pointers, ptr %arguments, i64 %begin, i64 %end) {\n  ret void\n}\n"

# Turns on flush-to-zero and denormals-are-zero, as another library might.
FLUSH = """
declare void @llvm.x86.sse.ldmxcsr(ptr)
define void @flush(ptr %pointers, ptr %arguments, i64 %begin, i64 %end) {
  %place = alloca i32
  store i32 40896, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
define void @normal(ptr %pointers, ptr %arguments, i64 %begin, i64 %end) {
  %place = alloca i32
  store i32 8064, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
"""


def loop_ir(name: str, body: str) -> str:
    """A loop that reads %v from the first pointer and stores %w to the second."""
    return LOOP.format(name=name, body=body)


SLOW_BODY = "\n".join(
    ["  %w0 = fadd float %v, %k"]
    + [f"  %w{i} = fdiv float %w{i - 1}, %k" for i in range(1, 60)]
    + ["  %w = fadd float %w59, %v"]
)


@cache
def compiler() -> Compiler:
    """A compiler that leaves the disk alone."""
    return Compiler(disk=DiskCache(None))


@cache
def kernels() -> KernelLibrary:
    """`add`: target = source + k. `slow`: about 250 ns per element. `nop`."""
    text = loop_ir("add", "  %w = fadd float %v, %k") + loop_ir("slow", SLOW_BODY) + NOP
    return compiler().batch([KernelRequest("kernels", lambda: text, ["add", "slow", "nop"])])[0]


@cache
def flush_kernels() -> KernelLibrary:
    """`flush` and `normal` set the calling thread's floating-point mode (x86)."""
    return compiler().batch([KernelRequest("flush", lambda: FLUSH, ["flush", "normal"])])[0]


def addresses(*arrays: np.ndarray) -> list[int]:
    """Base addresses of arrays, as slots."""
    return [array.ctypes.data for array in arrays]


def add_program(
    elements: int, steps: int = 1, kernel: str = "add", work: int = -1, grain_size: int = 16
) -> CpuExecutable:
    """`steps` launches, the first from slot 0 to slot 1, the others within slot 1."""
    program = CpuExecutable()
    for step in range(steps):
        source = 0 if step == 0 else 1
        program.append(
            kernels()[kernel],
            [(source, 0), (1, 0)],
            [step + 1],
            elements,
            grain_size,
            work,
            owner=kernels(),
        )
    return program
