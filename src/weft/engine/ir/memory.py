# cython: language_level=3
"""Ownership of values' memory, by reference counts of our own.

`OwnedMemory.owners` counts the nodes that use a span of memory (`set_buffer` in `node.pxd`), and the views of others
through the buffer protocol. A debugger or a test that merely holds the object owns nothing: no decision depends on
Python's reference counts.
"""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)

# The size class of foreign memory that results may be written over: those who hold it are to see them.
GRANTED = -4


@cython.no_gc
@cython.freelist(8192)
@cython.cclass
class OwnedMemory:
    """A span of memory: `address`, `nbytes`, and for foreign memory the Python object that has it (`owner`). Devices
    derive theirs from it."""

    @property
    def capacity(self) -> int:
        """Bytes of the block behind the span."""
        return self.nbytes


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
