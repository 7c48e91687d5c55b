# cython: language_level=3
"""Scripts: what a reverse walk over a graph of one outline records.

A script is steps side by side: a row, params, shape, dtype and where the operands come from, or a leaf that gets its
gradient. It holds no tensor, and nothing of the graph that it was learned from.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.weft.engine.backward.trace import Step
from cython.cimports.weft.engine.replay.cache import Entry

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class Script(Entry):
    """What a walk over a graph of one outline records."""

    def __cinit__(self):
        self.numbers = []
        self.held = []

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def allot(self, steps: cython.Py_ssize_t, operands: cython.Py_ssize_t) -> cython.int:
        """Room for so many. Errors: MemoryError."""
        self.steps = cython.cast(cython.pointer(Step), calloc(steps + 1, cython.sizeof(Step)))
        self.operands = cython.cast(
            cython.p_longlong, calloc(operands + 1, cython.sizeof(cython.longlong))
        )
        if self.steps == cython.NULL or self.operands == cython.NULL:
            raise MemoryError
        return 0

    def __dealloc__(self):
        free(self.steps)
        free(self.operands)
