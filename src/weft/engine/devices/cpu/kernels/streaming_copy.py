"""Streaming copies: lines of bytes, more than the caches hold, written past the caches.

Pointers: source, target. Arguments: lines, bytes of one, bytes from line to line in the source and in the target. An
ordinary store first reads the cache line from memory, and evicts another one; data that is written whole and not read
again soon need not be in the cache. The processor's streaming stores need whole cache lines: an unaligned target, and
the end of a line of the copy, are written by ordinary stores.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.llvm.builder import I64, Value, counted, integer
from weft.engine.devices.cpu.llvm.target import NEON, Target

CACHE_LINE = 64
BYTES_PER_GRAIN = 1 << 17


def lower_lines(name: str, target: Target | None = None) -> str:
    """The LLVM module of the kernel."""
    family = Family(name, "uint8", target)
    b = family.builder
    source, out = family.pointers(2)
    _, length, source_step, out_step = family.arguments(4)

    def line(number: Value) -> None:
        first = b.gep(source, [b.mul(number, source_step)])
        to = b.gep(out, [b.mul(number, out_step)])
        place = b.and_(b.ptrtoint(to, I64), integer(CACHE_LINE - 1))
        whole = b.and_(length, integer(-CACHE_LINE))
        whole = b.select(b.icmp_signed("==", place, integer(0)), whole, integer(0))
        _past_caches(family, first, to, whole)
        family.pieces(
            whole,
            length,
            lambda index, count: family.store(
                family.load(b.gep(first, [index]), count), b.gep(to, [index]), count
            ),
        )

    each(b, family.begin, family.end, line)
    if family.target != NEON:  # others see what was written once this one has finished
        b.intrinsic("llvm.x86.sse.sfence", llvm.VoidType(), [])
    return family.finish() + "!0 = !{i32 1}\n"


def _past_caches(family: Family, source: Value, target: Value, length: Value) -> None:
    """Copy whole lines of the cache."""
    b = family.builder
    type_ = llvm.VectorType(llvm.IntType(8), CACHE_LINE)

    def one(index: Value, carry: list[Value]) -> list[Value]:
        value = b.load(b.gep(source, [index]), typ=type_)
        place = b.gep(target, [index])
        b.effect(f"store {type_} {value.ref}, ptr {place.ref}, align {CACHE_LINE}, !nontemporal !0")
        return carry

    counted(b, integer(0), length, CACHE_LINE, [], one)


def launch_lines(lines: int, length: int) -> tuple[int, int]:
    """Units (lines), and the grain at which they may be split."""
    return lines, max(1, BYTES_PER_GRAIN // max(1, length))
