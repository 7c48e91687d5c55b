"""The writer of attention kernels: from a variant's name to LLVM IR."""

from __future__ import annotations

from llvmlite import ir

from weft.engine.devices.cpu.attention.backward import Backward
from weft.engine.devices.cpu.attention.choose import tile_name
from weft.engine.devices.cpu.attention.forward import Forward
from weft.engine.devices.cpu.gemm.spec import parse
from weft.engine.devices.cpu.llvm.builder import module_text
from weft.engine.devices.cpu.llvm.target import Target


def attention(dtype: str, name: str, variant: str, target: Target) -> str:
    """LLVM IR of kernel `name`."""
    spec = parse(dtype, tile_name(dtype, target), target)
    kind, _, masked = variant.partition("_")
    module = ir.Module(name)
    made = Forward if kind == "forward" else Backward
    builders = made(module, name, spec, masked == "masked").build()
    return module_text(module, builders, target.register_bits)
