"""From the key of a loop kernel to its loop IR and LLVM text: runs once per kernel, when it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.devices.cpu.codegen import row_kernel
from weft.engine.devices.cpu.codegen.loop_kernel import lower
from weft.engine.devices.cpu.codegen.row_kernel import Local, RowKernel
from weft.engine.devices.cpu.codegen.row_kernel import lower as lower_row_kernel
from weft.engine.kernels import loop_ir
from weft.engine.kernels.loop_ir import Instr, LoopKernel, Operand, Reduce, Store
from weft.ops.registry import OPS

VIRTUAL = -2  # as in `weft.engine.pipeline.lowering.kernel_encoder`


def lookup(name: str) -> Callable[..., Any]:
    """The lowering that the op table gives for an elementwise row."""
    rule: Callable[..., Any] = OPS[name].lower
    return rule


def loop_kernel(key: tuple[Any, ...]) -> LoopKernel:
    """The loop IR of a key made by `weft.engine.pipeline.lowering.loop_kernel`."""
    _, rank, reduced, axis, operands, body, reduces, epilogue, stores, *narrow = key
    base = {"b": 0, "r": len(body), "e": len(body) + len(reduces)}

    def number(value: tuple[str, int]) -> int:
        return base[value[0]] + value[1]

    def instr(item: tuple[Any, ...]) -> Instr:
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
        vector_axis=axis,
        narrow=bool(narrow),
    )


def loop_text(key: tuple[Any, ...], symbol: str) -> str:
    """LLVM IR of a loop kernel under a symbol."""
    return lower(loop_kernel(key), lookup, symbol)


def indexed_kernel(key: tuple[Any, ...]) -> LoopKernel:
    """The loop IR of an indexed read."""
    _, rank, (index, table), target = key
    return LoopKernel(
        rank=rank,
        reduced=0,
        operands=(Operand(index[0], tuple(index[1])), Operand(table[0], tuple(table[1]), 1)),
        body=(Instr("load", index[0], (), 0), Instr("load_indexed", table[0], (0,), 1)),
        stores=(Store(table[0], 1, tuple(target)),),
    )


def indexed_text(key: tuple[Any, ...], symbol: str) -> str:
    """LLVM IR of an indexed read under a symbol."""
    return lower(indexed_kernel(key), lookup, symbol)


def row_kernel_of(key: tuple[Any, ...]) -> RowKernel:
    """The phases of a key made by `weft.engine.pipeline.lowering.row_kernel`."""
    _, phases, memory = key
    return RowKernel(
        tuple(loop_kernel(phase) for phase in phases),
        tuple(Local(*item) for item in memory),
    )


def row_kernel_text(key: tuple[Any, ...], symbol: str) -> str:
    """LLVM IR of a staged kernel under a symbol."""
    return lower_row_kernel(row_kernel_of(key), lookup, symbol)


LLVM_TEXTS = {"loop": loop_text, "indexed": indexed_text, "rows": row_kernel_text}


def llvm_text(key: tuple[Any, ...], symbol: str) -> str:
    """LLVM IR of any key under a symbol."""
    return LLVM_TEXTS[key[0]](key, symbol)


def kernel_text(key: tuple[Any, ...]) -> str:
    """The loop IR of a key, printed."""
    return (
        loop_ir.text(loop_kernel(key)) if key[0] == "loop" else row_kernel.text(row_kernel_of(key))
    )
