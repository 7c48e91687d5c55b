# cython: language_level=3
"""Topological order of a pending graph: readers, heights and levels of its nodes.

It takes pairs of positions (an operand, its reader) and finds, for each node, its readers, its height (the longest
path to a live value) and its level (how many nodes of its kind are on the longest path to it). All of it is arrays of
numbers by position; no node is read.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memset
from cython.cimports.weft.engine.pipeline.batching.topology import LAST_LEVEL

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.no_gc
@cython.cclass
class Order:
    """Places 0 to `count`, and which waits for which."""

    def __cinit__(self, count: cython.Py_ssize_t):
        self.count = count
        self.waits = self.numbers(count + 1)
        self.starts = self.numbers(count + 2)
        self.height = self.numbers(count + 1)
        self.slot = self.numbers(count + 1)
        self.level = self.numbers(count + 1)
        self.sorted = self.numbers(count + 1)
        memset(self.slot, 255, count * cython.sizeof(cython.int))

    def __dealloc__(self):
        free(self.waits)
        free(self.starts)
        free(self.readers)
        free(self.height)
        free(self.slot)
        free(self.level)
        free(self.sorted)
        free(self.pairs)

    @cython.cfunc
    def numbers(self, count: cython.Py_ssize_t) -> cython.p_int:
        """Room for so many numbers, all 0. Errors: MemoryError."""
        found: cython.p_int = cython.cast(cython.p_int, calloc(count, cython.sizeof(cython.int)))
        if found == cython.NULL:
            raise MemoryError
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def note(self, source_position: cython.longlong, reader: cython.longlong) -> cython.int:
        """Keep that a reader waits for the node at a place."""
        if self.filled == self.room:
            room: cython.Py_ssize_t = 2 * self.room + 1024
            grown: cython.p_int = cython.cast(
                cython.p_int, realloc(self.pairs, 2 * room * cython.sizeof(cython.int))
            )
            if grown == cython.NULL:
                raise MemoryError
            self.pairs, self.room = grown, room
        self.pairs[2 * self.filled] = source_position
        self.pairs[2 * self.filled + 1] = reader
        self.filled += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def link(self) -> cython.int:
        """List the readers of each node, count what each waits for, and sort the nodes, operands first."""
        source_position: cython.longlong
        position: cython.Py_ssize_t
        index: cython.Py_ssize_t
        for index in range(self.filled):
            self.starts[self.pairs[2 * index] + 2] += 1
            self.waits[self.pairs[2 * index + 1]] += 1
        for position in range(self.count):
            self.starts[position + 2] += self.starts[position + 1]
        self.readers = self.numbers(self.filled + 1)
        for index in range(self.filled):
            source_position = self.pairs[2 * index]
            self.readers[self.starts[source_position + 1]] = self.pairs[2 * index + 1]
            self.starts[source_position + 1] += 1
        self.sort()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def sort(self) -> cython.int:
        waits: cython.p_int = self.numbers(self.count + 1)
        filled: cython.Py_ssize_t = 0
        done: cython.Py_ssize_t = 0
        position: cython.Py_ssize_t
        index: cython.int
        for position in range(self.count):
            waits[position] = self.waits[position]
            if waits[position] == 0:
                self.sorted[filled] = position
                filled += 1
        while done < filled:
            source_position: cython.int = self.sorted[done]
            done += 1
            for index in range(self.starts[source_position], self.starts[source_position + 1]):
                reader: cython.int = self.readers[index]
                waits[reader] -= 1
                if waits[reader] == 0:
                    self.sorted[filled] = reader
                    filled += 1
        self.sorted_count = filled
        free(waits)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def measure(self, needed: cython.p_char) -> cython.void:
        """Give every node its height: above those of its readers, where something needs it or one of them."""
        at: cython.Py_ssize_t = self.sorted_count
        index: cython.int
        while at > 0:
            at -= 1
            source_position: cython.int = self.sorted[at]
            highest: cython.int = 0
            for index in range(self.starts[source_position], self.starts[source_position + 1]):
                highest = max(highest, self.height[self.readers[index]])
            if highest > 0 or needed[source_position]:
                self.height[source_position] = highest + 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def rank(self, width: cython.Py_ssize_t) -> cython.int:
        """Give every node of the kinds 0 to `width` (`slot`) its level, the largest number of nodes of its kind on one
        path to it. Returns the deepest level."""
        deepest: cython.int = 0
        counts: cython.pointer(cython.short) = cython.cast(
            cython.pointer(cython.short),
            calloc(self.count * width + 1, cython.sizeof(cython.short)),
        )
        if counts == cython.NULL:
            raise MemoryError
        at: cython.Py_ssize_t
        index: cython.int
        kind: cython.Py_ssize_t
        for at in range(self.sorted_count):
            source_position: cython.int = self.sorted[at]
            mine: cython.pointer(cython.short) = counts + source_position * width
            if self.slot[source_position] >= 0:
                if mine[self.slot[source_position]] < LAST_LEVEL:
                    mine[self.slot[source_position]] += 1
                self.level[source_position] = mine[self.slot[source_position]]
                deepest = max(deepest, self.level[source_position])
            for index in range(self.starts[source_position], self.starts[source_position + 1]):
                theirs: cython.pointer(cython.short) = counts + self.readers[index] * width
                for kind in range(width):
                    theirs[kind] = max(mine[kind], theirs[kind])
        free(counts)
        return deepest
