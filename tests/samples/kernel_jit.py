"""Compile kernels and call them on NumPy arrays, for the tests of code generation.

bfloat16 arrays are uint16 bit patterns; every other dtype is NumPy's own.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from llvmlite import binding

from weft.engine.devices.cpu.llvm.target import Target, host
from weft.engine.kernels import loop_ir

NUMPY = {name: np.dtype(name) for name in loop_ir.SIZES if name != "bfloat16"}
NUMPY["bfloat16"] = np.dtype("uint16")
SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_names = itertools.count()


@cache
def _jit(target: str) -> binding.LLJIT:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    if target != host().name:
        cpu, features = "haswell", ""
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=1, jit=True
    )
    return binding.create_lljit_compiler(machine)


class Function:
    """Compiled functions of one module, called with pointers and arguments."""

    def __init__(self, source: str, symbols: Sequence[str], target: Target | None = None) -> None:
        builder = binding.JITLibraryBuilder().add_ir(source).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        jit = _jit((target or host()).name)
        self.library = builder.link(jit, f"test{next(_names)}")
        self.calls = {symbol: SIGNATURE(self.library[symbol]) for symbol in symbols}

    def __call__(
        self, symbol: str, pointers: Sequence[int], arguments: Sequence[int], begin: int, end: int
    ) -> None:
        table = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        values = (ctypes.c_int64 * max(1, len(arguments)))(*arguments)
        self.calls[symbol](ctypes.addressof(table), ctypes.addressof(values), begin, end)


def address(array: np.ndarray) -> int:
    """Where an array's element 0 lies."""
    return int(array.__array_interface__["data"][0])


def element_strides(array: np.ndarray) -> list[int]:
    """Strides counted in elements; without elements those of a contiguous array, where NumPy has zeros."""
    if array.size == 0:
        return [
            math.prod(max(size, 1) for size in array.shape[axis + 1 :])
            for axis in range(array.ndim)
        ]
    return [stride // array.itemsize for stride in array.strides]


def classes(array: np.ndarray) -> tuple[str, ...]:
    """The stride class of each axis."""
    return tuple({0: "0", 1: "1"}.get(stride, "s") for stride in element_strides(array))
