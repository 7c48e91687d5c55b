"""The kernel decoder: from the key of a kernel to its loop IR, once per kernel, when it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.engine.kernels import loop_ir, row_ir
from weft.engine.kernels.loop_ir import Instr, LoopKernel, Operand, Reduce, Store
from weft.engine.kernels.row_ir import Local, RowKernel

# What a kernel is specialised on, in plain tuples, numbers and names; the first item says what kind it is.
KernelKey = tuple[Any, ...]
VIRTUAL = -2  # as in `weft.engine.pipeline.lowering.kernel_encoder`


def loop_kernel(key: KernelKey) -> LoopKernel:
    """The loop IR of a key made by `weft.engine.pipeline.lowering.loop_kernel`."""
    _, rank, reduced, operands, body, reduces, epilogue, stores, *_ = key
    base = {"b": 0, "r": len(body), "e": len(body) + len(reduces)}

    def number(value: tuple[str, int]) -> int:
        return base[value[0]] + value[1]

    def instr(item: tuple[str, str, Sequence[tuple[str, int]], int]) -> Instr:
        return Instr(item[0], item[1], tuple(number(a) for a in item[2]), item[3])

    return LoopKernel(
        rank=rank,
        reduced=reduced,
        operands=tuple(
            Operand(name, tuple(classes), 0, kind == VIRTUAL, max(kind, -1))
            for name, classes, kind in operands
        ),
        body=tuple(instr(item) for item in body),
        reduces=tuple(Reduce(kind, number(value), dtype) for kind, value, dtype in reduces),
        epilogue=tuple(instr(item) for item in epilogue),
        stores=tuple(
            Store(
                name, number(value), tuple(classes), "epilogue" if late else "body", max(kind, -1)
            )
            for name, value, classes, late, kind in stores
        ),
    )


def indexed_kernel(key: KernelKey) -> LoopKernel:
    """The loop IR of an indexed read."""
    _, rank, (index, table), target = key
    return LoopKernel(
        rank=rank,
        reduced=0,
        operands=(Operand(index[0], tuple(index[1])), Operand(table[0], tuple(table[1]), 1)),
        body=(Instr("load", index[0], (), 0), Instr("load_indexed", table[0], (0,), 1)),
        stores=(Store(table[0], 1, tuple(target)),),
    )


def row_kernel_of(key: KernelKey) -> RowKernel:
    """The phases of a key made by `weft.engine.pipeline.lowering.row_kernel`."""
    _, phases, memory = key
    return RowKernel(
        tuple(loop_kernel(phase) for phase in phases),
        tuple(Local(*item) for item in memory),
    )


def kernel_text(key: KernelKey) -> str:
    """The loop IR of a key, printed."""
    return loop_ir.text(loop_kernel(key)) if key[0] == "loop" else row_ir.text(row_kernel_of(key))
