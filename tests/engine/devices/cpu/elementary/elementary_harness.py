"""Compiles elementary functions and measures their errors in units in the last place."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from weft.engine.devices.cpu import elementary

LANES = {"float32": 16, "float64": 8}
TYPES: dict[str, ir.Type] = {"float32": ir.FloatType(), "float64": ir.DoubleType()}


@functools.cache
def jit(features: str | None = None) -> tuple[llvm.LLJIT, list[object]]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    own = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=own if features is None else features, opt=2
    )
    return llvm.create_lljit_compiler(machine), []


def kernel_text(name: str, dtype: str, arity: int, lanes: int) -> str:
    """void kernel(T* out, i64 vectors, T* in0, ...): `lanes` elements a step; 0 lanes: scalars."""
    module = ir.Module(name=f"{name}_{dtype}_{lanes}")
    module.triple = llvm.get_default_triple()
    lane, word = TYPES[dtype], ir.IntType(64)
    value_type = ir.VectorType(lane, lanes) if lanes else lane
    pointer = value_type.as_pointer()
    signature = ir.FunctionType(ir.VoidType(), [pointer, word, *[pointer] * arity])
    function = ir.Function(module, signature, f"{name}_{dtype}_{lanes}")
    entry, loop, done = (function.append_basic_block(n) for n in ("entry", "loop", "done"))
    ir.IRBuilder(entry).branch(loop)
    builder = ir.IRBuilder(loop)
    index = builder.phi(word)
    size = 4 if dtype == "float32" else 8
    inputs = [
        builder.load(builder.gep(operand, [index]), align=size) for operand in function.args[2:]
    ]
    result = elementary.emit(builder, name, *inputs)
    builder.store(result, builder.gep(function.args[0], [index]), align=size)
    following = builder.add(index, word(1))
    index.add_incoming(word(0), entry)
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, function.args[1]), loop, done)
    ir.IRBuilder(done).ret_void()
    return str(module)


Array = np.ndarray


@functools.cache
def compiled(
    name: str, dtype: str, arity: int = 1, lanes: int = -1, features: str | None = None
) -> Callable[..., Array]:
    lanes = LANES[dtype] if lanes < 0 else lanes
    compiler, libraries = jit(features)
    text = kernel_text(name, dtype, arity, lanes)
    symbol = f"{name}_{dtype}_{lanes}"
    library = llvm.JITLibraryBuilder().add_ir(text).export_symbol(symbol).link(compiler, symbol)
    libraries.append(library)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 2))(library[symbol])
    step = max(lanes, 1)

    def call(*arrays: Array) -> Array:
        count = len(arrays[0])
        padded = [np.ones(-(-count // step) * step, dtype) for _ in arrays]
        for target, source in zip(padded, arrays, strict=True):
            target[:count] = source
        out = np.empty_like(padded[0])
        function(out.ctypes.data, len(out) // step, *(a.ctypes.data for a in padded))
        return out[:count]

    return call


def ulps(got: Array, reference: Array) -> Array:
    """|got - reference| in spacings of got's type at the reference; reference is wider."""
    with np.errstate(all="ignore"):
        info = np.finfo(got.dtype)
        wide = reference.astype(np.longdouble)
        _, exponent = np.frexp(wide)
        unit = np.ldexp(np.longdouble(1), np.maximum(exponent, info.minexp + 1) - 1 - info.nmant)
        error = np.abs(got.astype(np.longdouble) - wide) / unit
        over = np.abs(wide) >= np.longdouble(info.max) * (1 + np.longdouble(info.eps) / 4)
        infinite = np.isinf(got) & (np.signbit(got) == np.signbit(wide))
        error = np.where(over, np.where(infinite, 0.0, error), error)
        error = np.where(np.isnan(wide), np.where(np.isnan(got), 0.0, np.inf), error)
        exact = (got.astype(np.longdouble) == wide) & (np.signbit(got) == np.signbit(wide))
        return np.where(exact, 0.0, np.where(np.isnan(error), np.inf, error))
