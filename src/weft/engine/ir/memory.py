# cython: language_level=3
"""Memory of values, and who owns it (reference counting by hand).

`OwnedMemory.owners` is how many nodes lie in a span of memory (`set_buffer` in `node.pxd` counts them), and how many
views of others look at it by the buffer protocol. Whoever only holds the object, as a debugger or a test does, owns
nothing: what is decided does not depend on references of Python.
"""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.no_gc
@cython.freelist(8192)
@cython.cclass
class OwnedMemory:
    """A span of memory: `address`, `nbytes`, and for foreign memory the Python object that has it (`owner`). Devices
    derive theirs from it."""


@cython.ccall
@cython.exceptval(-1, check=False)
def describe(
    buffer: OwnedMemory, code: object, offset_in_code: cython.int, shape: object, dtype: object
) -> cython.int:
    """Note whose value a large buffer holds: the user's line that made it (code and a place in it, or text), its shape
    and dtype. The first one counts."""
    if buffer.listed and buffer.code is None and code is not None:
        buffer.code, buffer.offset_in_code = code, offset_in_code
        buffer.shape, buffer.dtype = shape, dtype
    return 0
