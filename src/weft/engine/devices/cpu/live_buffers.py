# cython: language_level=3
"""The live large buffers: an intrusive list of them, and words about the largest for errors and for the board.

A buffer above 32 KB is linked in when the pool hands it out, and unlinked when its last reference goes. `describe` of
`engine.ir.memory` notes whose value it holds.
"""

import cython
from cython.cimports.weft.engine.ir.memory import OwnedMemory

from weft._build.compiled import require
from weft.errors import describe_position

require(__name__, cython.compiled)

_first = cython.declare(cython.p_void, cython.NULL)


@cython.cfunc
@cython.exceptval(check=False)
def enlist(buffer: OwnedMemory) -> cython.void:
    """Put a buffer in front of the list."""
    global _first
    if buffer.listed:
        return
    buffer.previous = cython.NULL
    buffer.following = _first
    if _first != cython.NULL:
        cython.cast(OwnedMemory, _first).previous = cython.cast(cython.p_void, buffer)
    _first = cython.cast(cython.p_void, buffer)
    buffer.listed = True


@cython.cfunc
@cython.exceptval(check=False)
def unlist(buffer: OwnedMemory) -> cython.void:
    """Take a buffer off the list."""
    global _first
    if buffer.previous == cython.NULL:
        _first = buffer.following
    else:
        cython.cast(OwnedMemory, buffer.previous).following = buffer.following
    if buffer.following != cython.NULL:
        cython.cast(OwnedMemory, buffer.following).previous = buffer.previous
    buffer.listed = False


def listed_buffers() -> list:
    """The live buffers above 32 KB, the newest first."""
    found: list = []
    place: cython.p_void = _first
    while place != cython.NULL:
        buffer: OwnedMemory = cython.cast(OwnedMemory, place)
        found.append(buffer)
        place = buffer.following
    return found


def line_of(buffer: OwnedMemory) -> str:
    """The user's line that made the value in a buffer."""
    if isinstance(buffer.code, str):
        return buffer.code
    return describe_position(buffer.code, buffer.offset_in_code)


def largest_lines(most: int = 5) -> str:
    """The largest live values, with the lines that made them, as words for an error."""
    buffers = sorted(listed_buffers(), key=lambda buffer: -buffer.nbytes)[:most]
    words: list = []
    for buffer in buffers:
        what = f"{buffer.nbytes:,} bytes"
        if buffer.code is not None:
            what = f"{buffer.dtype.name}{list(buffer.shape)} of {line_of(buffer)} ({what})"
        words.append(what)
    return "; ".join(words) or "none above 32 KB"
