"""Compiles GEMM kernels and runs them on NumPy arrays."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable

import llvmlite.binding as llvm
import numpy as np

from weft.engine.devices.cpu.gemm import launch_gemm, lower_gemm
from weft.engine.devices.cpu.gemm.choose import units_of
from weft.engine.devices.cpu.gemm.spec import NUMBERS, UNIT_ROWS
from weft.engine.devices.cpu.llvm.target import Target, host

Array = np.ndarray


@functools.cache
def jit() -> tuple[llvm.LLJIT, list[object]]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
    )
    return llvm.create_lljit_compiler(machine), []


@functools.cache
def kernel(dtype: str, variant: str, target: Target) -> Callable[..., None]:
    compiler, libraries = jit()
    name = f"gemm_{dtype}_{variant}_{target.name}"
    text = lower_gemm(dtype, name, variant, target)
    library = llvm.JITLibraryBuilder().add_ir(text).export_symbol(name).link(compiler, name)
    libraries.append(library)
    signature = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    )
    return signature(library[name])


def strides(array: Array) -> list[int]:
    return [s // array.itemsize for s in array.strides]


def unit_count(dtype: str, variant: str, target: Target, batch: int, m: int, n: int) -> int:
    if dtype not in NUMBERS:
        return batch * -(-m // UNIT_ROWS)
    return units_of(dtype, variant, target, batch, m, n)[0]


def product(
    dtype: str,
    a: Array,
    b: Array,
    out: Array,
    variant: str | None = None,
    target: Target | None = None,
    pieces: Iterable[tuple[int, int]] | None = None,
    bias: Array | None = None,
) -> Array:
    """out[b, m, n] = a[b, m, k] @ b[b, k, n] + bias[n]; bfloat16 arrays come as their uint16 bits."""
    batch, m, n = out.shape
    k = a.shape[2]
    chosen = target or host()
    along = strides(a)[2] == 1, strides(b)[1] == 1
    launch = launch_gemm(dtype, batch, m, n, k, chosen, along)
    variant = variant or launch.variant
    units = unit_count(dtype, variant, chosen, batch, m, n)
    if variant == launch.variant:
        assert units == launch.units
    places = [x.ctypes.data for x in (a, b, out)]
    if bias is not None:
        variant, places = f"{variant}_bias", [*places, bias.ctypes.data]
    pointers = (ctypes.c_void_p * len(places))(*places)
    values = [batch, m, n, k, *strides(a), *strides(b), *strides(out)]
    arguments = (ctypes.c_int64 * len(values))(*values)
    for begin, end in pieces or [(0, units)]:
        kernel(dtype, variant, chosen)(pointers, arguments, begin, min(end, units))
    return out
