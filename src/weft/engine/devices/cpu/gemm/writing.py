"""The writer of GEMM kernels: from a variant's name to LLVM IR."""

from __future__ import annotations

from llvmlite import ir

from weft.engine.devices.cpu.gemm.driver import Driver
from weft.engine.devices.cpu.gemm.implicit import AxesDriver, parse_axes
from weft.engine.devices.cpu.gemm.integers import IntegerDriver
from weft.engine.devices.cpu.gemm.spec import INTEGERS, parse
from weft.engine.devices.cpu.llvm.builder import Builder, module_text
from weft.engine.devices.cpu.llvm.target import Target


def gemm(dtype: str, name: str, variant: str, target: Target) -> str:
    """LLVM IR of kernel `name`, a variant that `launch_gemm` gives."""
    module = ir.Module(name)
    builders: list[Builder]
    if variant == INTEGERS:
        builders = IntegerDriver(module, name, dtype, target.register_bits).build()
    else:
        builders = Driver(module, name, parse(dtype, variant, target)).build()
    return module_text(module, builders, target.register_bits)


def axes(dtype: str, name: str, variant: str, target: Target) -> str:
    """LLVM IR of kernel `name`, a variant that `launch_axes` gives."""
    module = ir.Module(name)
    builders = AxesDriver(module, name, parse_axes(dtype, variant, target)).build()
    return module_text(module, builders, target.register_bits)
