"""Kernel emission: the LLVM IR of a kernel by its key, from its loop IR (`kernel_decoder`), its schedule, and the
lowering of its operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.devices.cpu.codegen.loop_kernel import lower
from weft.engine.devices.cpu.codegen.row_kernel import lower as lower_row_kernel
from weft.engine.devices.cpu.codegen.schedule import LoopSchedule
from weft.engine.pipeline.lowering.kernel_decoder import (
    KernelKey,
    indexed_kernel,
    loop_kernel,
    row_kernel_of,
)
from weft.ops.registry import OPS


def lookup(name: str) -> Callable[..., Any]:
    """The lowering that the op table gives for an elementwise op."""
    rule: Callable[..., Any] = OPS[name].lower
    return rule


def loop_text(key: KernelKey, symbol: str) -> str:
    """LLVM IR of a loop kernel under a symbol; the last word of its key is its schedule."""
    return lower(loop_kernel(key), lookup, symbol, schedule=LoopSchedule.of(key[-1]))


def indexed_text(key: KernelKey, symbol: str) -> str:
    """LLVM IR of an indexed read under a symbol."""
    return lower(indexed_kernel(key), lookup, symbol)


def row_kernel_text(key: KernelKey, symbol: str) -> str:
    """LLVM IR of a row kernel under a symbol: its phases go along their rows."""
    return lower_row_kernel(row_kernel_of(key), lookup, symbol)


LLVM_TEXTS = {"loop": loop_text, "indexed": indexed_text, "rows": row_kernel_text}


def llvm_text(key: KernelKey, symbol: str) -> str:
    """LLVM IR of any key under a symbol."""
    return LLVM_TEXTS[key[0]](key, symbol)
