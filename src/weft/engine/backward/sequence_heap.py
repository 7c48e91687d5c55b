# cython: language_level=3
"""A binary heap in plain memory by sequence number, the latest first: what is ready in a walk.

It takes nodes, gradient functions and batches, with the sequence numbers that they wait at, and hands each out once.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.weft.engine.backward.sequence_heap import ReadyUnit

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class SequenceHeap:
    """Units by sequence number; the latest is at the top."""

    def __dealloc__(self):
        index: cython.Py_ssize_t
        for index in range(self.count):
            Py_DECREF(cython.cast(object, self.turns[index].unit))
        free(self.turns)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def push(self, unit, seq: cython.longlong) -> cython.int:
        """Put a unit on the heap. Errors: MemoryError."""
        if self.count == self.room:
            turns: cython.pointer(ReadyUnit) = cython.cast(
                cython.pointer(ReadyUnit),
                realloc(self.turns, (2 * self.room + 16) * cython.sizeof(ReadyUnit)),
            )
            if turns == cython.NULL:
                raise MemoryError
            self.turns = turns
            self.room = 2 * self.room + 16
        place: cython.Py_ssize_t = self.count
        self.count += 1
        while place > 0 and self.turns[(place - 1) >> 1].seq < seq:
            self.turns[place] = self.turns[(place - 1) >> 1]
            place = (place - 1) >> 1
        Py_INCREF(unit)
        self.turns[place].seq = seq
        self.turns[place].unit = cython.cast(cython.pointer(PyObject), unit)
        return 0

    @cython.cfunc
    def pop(self) -> object:
        """Take the latest unit off; there is one."""
        unit: object = cython.cast(object, self.turns[0].unit)
        self.count -= 1
        last: ReadyUnit = self.turns[self.count]
        place: cython.Py_ssize_t = 0
        below: cython.Py_ssize_t = 1
        while below < self.count:
            if below + 1 < self.count and self.turns[below + 1].seq > self.turns[below].seq:
                below += 1
            if self.turns[below].seq <= last.seq:
                break
            self.turns[place] = self.turns[below]
            place, below = below, 2 * below + 1
        self.turns[place] = last
        Py_DECREF(unit)
        return unit


def latest_first(units: list[tuple[int, object]]) -> list[object]:
    """Units in the order in which a heap hands them out, from each one's sequence number and itself."""
    heap: SequenceHeap = SequenceHeap()
    for seq, unit in units:
        heap.push(unit, seq)
    return [heap.pop() for _ in units]
