# cython: language_level=3
"""Scripts: what a reverse walk over a graph of one outline records, and the memory of all that are known.

A script is steps side by side: a row, params, shape, dtype and where the operands come from, or a leaf that gets its
gradient. It holds no tensor, and nothing of the graph that it was learned from.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcmp
from cython.cimports.weft.engine.backward.fingerprint import Outline
from cython.cimports.weft.engine.backward.trace import Step
from cython.cimports.weft.engine.capi.hashing import equal

from weft._build.compiled import require

require(__name__, cython.compiled)

MOST_STEPS = 200_000  # of all scripts
_scripts = {}  # the outline's key -> script
_steps = 0
counters = {"learned": 0, "repeated": 0}


@cython.final
@cython.cclass
class Script:
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

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def suits(self, outline: Outline) -> cython.bint:
        """Whether an outline is the one that the script is for."""
        size: cython.Py_ssize_t = outline.length * cython.sizeof(cython.longlong)
        if len(self.words) != size or len(self.parts) != len(outline.parts):
            return False
        if memcmp(cython.cast(cython.p_char, self.words), outline.words, size) != 0:
            return False
        index: cython.Py_ssize_t
        for index in range(len(self.parts)):
            if not equal(self.parts[index], outline.parts[index]):
                return False
        return True


@cython.cfunc
def find_script(outline: Outline) -> Script:
    """What is known of walks over a graph; None where nothing is."""
    script: Script = _scripts.get(outline.key)
    return script if script is not None and script.suits(outline) else None


@cython.cfunc
def keep_script(key: cython.longlong, script: Script) -> cython.void:
    """Remember a script; where there are too many, those that were learned first are forgotten."""
    global _steps
    former: Script = _scripts.pop(key, None)
    if former is not None:
        _steps -= former.count
    _scripts[key] = script
    _steps += script.count
    counters["learned"] += 1
    while _steps > MOST_STEPS and len(_scripts) > 1:
        oldest: Script = _scripts.pop(next(iter(_scripts)))
        _steps -= oldest.count


def clear():
    """Forget all scripts."""
    global _steps
    _scripts.clear()
    _steps = 0
