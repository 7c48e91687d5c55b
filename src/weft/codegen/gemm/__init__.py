"""Matrix products: C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], generated for one target.

The result is defined element by element: one ascending chain of fused multiply-adds, from +0,
within each chunk of 2048 values of k, and the chunks' sums added in ascending order.  So a row's
bits depend on nothing but its own operands: not on M, N, the batch, strides, the variant, the
split into units, or the processor.  float16 and bfloat16 chain in float32 and round once at the
end; complex numbers are two chains (see `micro`); integers wrap.

Kernel: pointers A, B, C, and of a `_bias` variant (for float32 and float64) a vector along n that
is added to the whole sums; arguments batch, M, N, K, then (batch, row, column) element strides of A
(m, k), B (k, n) and C (m, n).  `lower_gemm` writes the LLVM IR of a variant, `launch_gemm` picks
the variant and the number of units for a shape.  Compiling and running are the runtime's.
"""

from __future__ import annotations

from llvmlite import ir

from ..target import Target, host
from ..text import Builder, module_text
from .axes import AxesDriver, parse_axes
from .choose import Launch, launch_axes, launch_gemm
from .driver import Driver
from .integers import VARIANT as INTEGER_VARIANT
from .integers import IntegerDriver
from .spec import parse

__all__ = ["Launch", "launch_axes", "launch_gemm", "lower_axes", "lower_gemm"]


def lower_gemm(dtype: str, name: str, variant: str, target: Target | None = None) -> str:
    """LLVM IR of kernel `name`; `variant` is one that `launch_gemm` gives for the same target."""
    chosen = target or host()
    module = ir.Module(name)
    builders: list[Builder]
    if variant == INTEGER_VARIANT:
        builders = IntegerDriver(module, name, dtype).build()
    else:
        builders = Driver(module, name, parse(dtype, variant, chosen)).build()
    return module_text(module, builders, chosen.register_bits)


def lower_axes(dtype: str, name: str, variant: str, target: Target | None = None) -> str:
    """The same for operands whose axes lie in several dimensions (`axes`); `dtype` is float32 or float64."""
    chosen = target or host()
    module = ir.Module(name)
    builders = AxesDriver(module, name, parse_axes(dtype, variant, chosen)).build()
    return module_text(module, builders, chosen.register_bits)
