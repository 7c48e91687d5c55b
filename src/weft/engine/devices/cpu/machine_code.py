# cython: language_level=3
"""A compiled kernel of the CPU: the addresses of its functions, and the library that they belong to."""

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.devices.api import Code
from cython.cimports.weft.engine.devices.cpu.threads import Kernel

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class MachineCode(Code):
    """Functions (pointers, arguments, begin, end) over units of work; the final one where there is one."""

    def __init__(self, library, symbols: tuple):
        self.library = library
        self.address = library[symbols[0]]
        self.final_address = library[symbols[1]] if len(symbols) > 1 else 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def call(
        self,
        pointers: cython.pp_void,
        arguments: cython.pointer(int64_t),
        units: int64_t,
    ) -> cython.int:
        cython.cast(Kernel, self.address)(pointers, arguments, 0, units)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def call_final(
        self,
        pointers: cython.pp_void,
        arguments: cython.pointer(int64_t),
        units: int64_t,
    ) -> cython.int:
        cython.cast(Kernel, self.final_address)(pointers, arguments, 0, units)
        return 0
