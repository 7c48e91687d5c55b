# cython: language_level=3
"""Lists of small integers as plain memory, for the tens of thousands of positions of batching and backward.

They are filled number by number, read as an array, and become a list for callers that need objects.
"""

import cython
from cython.cimports.libc.stdlib import free, qsort, realloc
from cython.cimports.libc.string import memcmp, memcpy

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _compare(
    one: cython.pointer(cython.const[cython.void]), other: cython.pointer(cython.const[cython.void])
) -> cython.int:
    """The order of two integers in memory, as `qsort` asks for it."""
    a: cython.int = cython.cast(cython.p_int, one)[0]
    b: cython.int = cython.cast(cython.p_int, other)[0]
    return (a > b) - (a < b)


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Integers:
    """A growing array of integers; `jvp_kind` (in the .pxd) puts one behind the others. An empty one has no memory."""

    def __dealloc__(self):
        free(self.items)

    @cython.cfunc
    def make_room(self, room: cython.Py_ssize_t) -> cython.void:
        """Room for so many. Errors: MemoryError."""
        items: cython.p_int = cython.cast(
            cython.p_int, realloc(self.items, (room + 1) * cython.sizeof(cython.int))
        )
        if items == cython.NULL:
            raise MemoryError
        self.items = items
        self.room = room

    @cython.cfunc
    @cython.exceptval(check=False)
    def consecutive(self) -> cython.bint:
        """True if they count up by one from a number that is not negative."""
        index: cython.Py_ssize_t
        for index in range(1, self.count):
            if self.items[index] != self.items[0] + index:
                return False
        return self.count == 0 or self.items[0] >= 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def ascending(self) -> cython.bint:
        """True if they count up by one from 0."""
        return self.count == 0 or (self.items[0] == 0 and self.consecutive())

    @cython.cfunc
    @cython.exceptval(check=False)
    def equals(self, other: Integers) -> cython.bint:
        """True if both have the same numbers in the same order."""
        if self.count != other.count:
            return False
        nbytes: cython.size_t = self.count * cython.sizeof(cython.int)
        return self.count == 0 or memcmp(self.items, other.items, nbytes) == 0

    @cython.cfunc
    def copy(self) -> Integers:
        """The same numbers in memory of their own."""
        made: Integers = Integers.__new__(Integers)
        made.make_room(self.count)
        if self.count > 0:
            memcpy(made.items, self.items, self.count * cython.sizeof(cython.int))
        made.count = self.count
        return made

    @cython.cfunc
    @cython.exceptval(check=False)
    def sort(self) -> cython.void:
        """Put them in order, the least first."""
        index: cython.Py_ssize_t
        for index in range(1, self.count):
            if self.items[index] < self.items[index - 1]:
                qsort(self.items, self.count, cython.sizeof(cython.int), _compare)
                return

    @cython.cfunc
    def listed(self) -> list:
        """A list of Python's integers."""
        return [self.items[index] for index in range(self.count)]


@cython.cfunc
def integers(count: cython.Py_ssize_t, item: cython.int) -> Integers:
    """So many times the same."""
    made: Integers = Integers.__new__(Integers)
    index: cython.Py_ssize_t
    if count > 0:
        made.make_room(count)
    for index in range(count):
        made.items[index] = item
    made.count = count
    return made


@cython.cfunc
def extend(numbers: Integers, others: Integers, shift: cython.int) -> cython.void:
    """Put others behind, each with `shift` added."""
    index: cython.Py_ssize_t
    if numbers.count + others.count > numbers.room:
        numbers.make_room(numbers.count + others.count)
    for index in range(others.count):
        numbers.items[numbers.count + index] = others.items[index] + shift
    numbers.count += others.count
