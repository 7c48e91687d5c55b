# cython: language_level=3
"""The CPU's lowerer: `loops` schedules loop kernels, `launches` makes launches, `emit` writes LLVM IR."""

import cython
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.weft.engine.devices.api import Lowerer
from cython.cimports.weft.engine.devices.cpu.lowering import calls
from cython.cimports.weft.engine.devices.cpu.lowering.loops import ends, schedule_of
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.engine.devices.cpu.lowering import compile_kernels, launches

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class CpuLowerer(Lowerer):
    """Launches of machine code."""

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def schedule(self, encoder: object) -> cython.longlong:
        return schedule_of(encoder)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def ends(self, encoder: object) -> cython.bint:
        return ends(encoder)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def call(self, node: Node, target: uintptr_t) -> cython.bint:
        return calls.call(node, target)

    @cython.ccall
    def lower(self, program: object, plan: object) -> object:
        return launches.lower(program, plan)

    @cython.ccall
    def emit(self, key: object, symbol: str) -> object:
        from weft.engine.devices.cpu.lowering.emit import llvm_text

        return llvm_text(key, symbol)

    @cython.ccall
    def compile(self, specs: list) -> object:
        return compile_kernels.compile_specs(specs)

    @cython.ccall
    def compile_in_background(self, specs: list, seconds: cython.double) -> list:
        return compile_kernels.specs_in_background(specs, seconds)
