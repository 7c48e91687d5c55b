"""Matrix products (GEMM): C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], generated for one target.

The result is defined element by element: one ascending chain of fused multiply-adds, from +0, within each chunk of
2048 values of k, and the chunks' sums added in ascending order. So a row's bits depend on nothing but its own
operands: not on M, N, the batch, strides, the variant, the split into units, or the processor. float16 and bfloat16
chain in float32 and round once at the end; complex numbers are two chains (see `microkernel`); integers wrap.

Kernel: pointers A, B, C, and of a `_bias` variant (for float32 and float64) a vector along n that is added to the
whole sums; arguments batch, M, N, K, then (batch, row, column) element strides of A (m, k), B (k, n) and C (m, n).
`lower_gemm` writes the LLVM IR of a variant, `launch_gemm` picks the variant and the number of units for a shape. The
runtime compiles and runs it. Modules that write kernels are imported when one is written: a process may find all of
its kernels on disk.
"""

from __future__ import annotations

from weft.engine.devices.cpu.gemm.choose import GemmLaunch, launch_axes, launch_gemm
from weft.engine.devices.cpu.llvm.target import Target, host

__all__ = ["GemmLaunch", "launch_axes", "launch_gemm", "lower_axes", "lower_gemm"]


def lower_gemm(dtype: str, name: str, variant: str, target: Target | None = None) -> str:
    """LLVM IR of kernel `name`; `variant` is one that `launch_gemm` gives for the same target."""
    from weft.engine.devices.cpu.gemm.writing import gemm

    return gemm(dtype, name, variant, target or host())


def lower_axes(dtype: str, name: str, variant: str, target: Target | None = None) -> str:
    """The LLVM IR of a product whose axes have several dimensions in memory (`implicit`); `dtype` is float32 or
    float64."""
    from weft.engine.devices.cpu.gemm.writing import axes

    return axes(dtype, name, variant, target or host())
