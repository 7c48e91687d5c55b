# cython: language_level=3
"""Table of looks with a bound: a small number for each look (hash of a structure) that has come.

There are two generations: the young one becomes the old one when it is full, and old looks are forgotten then unless
they have been asked for meanwhile. A look takes 16 bytes at its place and no object, since a program whose graphs are
new at every step adds one with each.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.replay.look_table import Generation, Look

from weft._build.compiled import require

require(__name__, cython.compiled)

FIRST_ROOM = cython.declare(cython.Py_ssize_t, 16)


@cython.final
@cython.no_gc
@cython.cclass
class LookTable:
    """Numbers that are not negative, by look; at most `most` (a power of two), half of them in each generation."""

    def __cinit__(self, most: cython.Py_ssize_t):
        self.half = most // 2

    def __dealloc__(self):
        free(self.young.places)
        free(self.old.places)

    @cython.ccall
    @cython.exceptval(-1, check=True)
    def get(self, look: cython.longlong) -> cython.longlong:
        """The number of a look; -1 where it is unknown."""
        place: cython.pointer(Look) = _place(cython.address(self.young), look)
        if place != cython.NULL and place.state > 0:
            return place.state - 1
        place = _place(cython.address(self.old), look)
        if place == cython.NULL or place.state == 0:
            return -1
        state: cython.longlong = place.state - 1
        self.add(look, state)
        return state

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def put(self, look: cython.longlong, state: cython.longlong) -> cython.int:
        """Give a look a number."""
        place: cython.pointer(Look) = _place(cython.address(self.young), look)
        if place == cython.NULL or place.state == 0:
            return self.add(look, state)
        place.state = state + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, look: cython.longlong, state: cython.longlong) -> cython.int:
        """Let a look that is not among the young ones be one of them."""
        if self.young.count == self.half:
            self.grow_old()
        elif 2 * self.young.count >= self.young.room:
            self.resize(max(FIRST_ROOM, 2 * self.young.room))
        place: cython.pointer(Look) = _place(cython.address(self.young), look)
        place.look = look
        place.state = state + 1
        self.young.count += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def resize(self, room: cython.Py_ssize_t) -> cython.int:
        """Give the young generation so many places. Errors: MemoryError."""
        larger: Generation = _empty(room)
        index: cython.Py_ssize_t
        for index in range(self.young.room):
            if self.young.places[index].state > 0:
                _place(cython.address(larger), self.young.places[index].look)[0] = (
                    self.young.places[index]
                )
        larger.count = self.young.count
        free(self.young.places)
        self.young = larger
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_old(self) -> cython.int:
        """Let the young generation be the old one. Errors: MemoryError."""
        next_one: Generation = _empty(self.young.room)
        free(self.old.places)
        self.old = self.young
        self.young = next_one
        return 0

    def clear(self):
        """Forget all looks."""
        free(self.young.places)
        free(self.old.places)
        self.young.places = self.old.places = cython.NULL
        self.young.room = self.old.room = self.young.count = self.old.count = 0

    def __len__(self) -> int:
        return self.young.count + self.old.count

    def nbytes(self) -> int:
        """Size of all places in bytes."""
        return (self.young.room + self.old.room) * cython.sizeof(Look)


@cython.cfunc
@cython.exceptval(check=True)
def _empty(room: cython.Py_ssize_t) -> Generation:
    """A generation of so many free places, a power of two. Errors: MemoryError."""
    made: Generation
    made.places = cython.cast(cython.pointer(Look), calloc(room, cython.sizeof(Look)))
    made.room = room
    made.count = 0
    if made.places == cython.NULL:
        raise MemoryError
    return made


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _place(generation: cython.pointer(Generation), look: cython.longlong) -> cython.pointer(Look):
    """The place of a look, or the free one where it would be; NULL where there are none."""
    if generation.room == 0:
        return cython.NULL
    index: cython.Py_ssize_t = (mix(0, look) >> 20) & (generation.room - 1)
    while generation.places[index].state > 0 and generation.places[index].look != look:
        index = (index + 1) & (generation.room - 1)
    return cython.address(generation.places[index])
