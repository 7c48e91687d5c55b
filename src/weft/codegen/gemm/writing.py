"""The text of a product's kernel: from a variant's name to LLVM IR."""

from __future__ import annotations

from llvmlite import ir

from ..target import Target
from ..text import Builder, module_text
from .axes import AxesDriver, parse_axes
from .driver import Driver
from .integers import IntegerDriver
from .spec import INTEGERS, parse


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
