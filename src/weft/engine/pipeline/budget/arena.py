# cython: language_level=3
"""Arena allocation: offsets in one block of memory, shared by values whose lifetimes do not meet.

It takes the instances of a schedule with their sizes, and returns an offset for each and the bytes of the arena. Some
go into the memory of values from outside that have been read for the last time (hosts). One by one, each gets the
lowest offset at which it overlaps no instance that lives at the same time (greedy offset calculation, Pisarchyk and
Lee, 2020). Several orders are tried, and the smallest arena is taken: mostly it is as large as the values live at the
peak. Where it is not, and has to be, what ends beyond the bound is placed first in the next turn (squeaky wheel
optimization, Joslin and Clements, 1999).
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memmove
from cython.cimports.weft.engine.pipeline.budget.arena import ArenaSpan

from weft._build.compiled import require

require(__name__, cython.compiled)

ALIGNMENT_BYTES = cython.declare(cython.longlong, 64)
MOST_TURNS = 30  # in which what ends beyond the bound comes first, for each order that is tried


@cython.final
@cython.cclass
class _Block:
    """A block of memory, and what lies in it, by offset: free behind action `gone`, of `capacity` bytes."""

    extents: cython.pointer(ArenaSpan)
    count: cython.Py_ssize_t
    room: cython.Py_ssize_t
    gone: cython.longlong
    capacity: cython.longlong

    def __init__(self, gone: cython.longlong, capacity: cython.longlong):
        self.gone, self.capacity = gone, capacity

    def __dealloc__(self):
        free(self.extents)

    @cython.cfunc
    @cython.exceptval(check=False)
    def lowest(
        self, first: cython.longlong, last: cython.longlong, size: cython.longlong
    ) -> cython.longlong:
        """The lowest offset with `size` free bytes between the instances that live at the same time."""
        offset: cython.longlong = 0
        place: cython.Py_ssize_t
        for place in range(self.count):
            if self.extents[place].first > last or self.extents[place].last < first:
                continue
            if self.extents[place].begin - offset >= size:
                break
            offset = max(offset, self.extents[place].end)
        return offset

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def insert(self, extent: ArenaSpan) -> cython.int:
        """Put an instance among the others. Errors: MemoryError."""
        if self.count == self.room:
            self._make_room()
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.count
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) // 2
            if self.extents[middle].begin <= extent.begin:
                low = middle + 1
            else:
                high = middle
        nbytes: cython.size_t = (self.count - low) * cython.sizeof(ArenaSpan)
        memmove(self.extents + low + 1, self.extents + low, nbytes)
        self.extents[low] = extent
        self.count += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _make_room(self) -> cython.int:
        room: cython.Py_ssize_t = 2 * self.room + 16
        extents: cython.pointer(ArenaSpan) = cython.cast(
            cython.pointer(ArenaSpan), realloc(self.extents, room * cython.sizeof(ArenaSpan))
        )
        if extents == cython.NULL:
            raise MemoryError
        self.extents, self.room = extents, room
        return 0


def place(spans: list, lent: list | None = None, bound: int | None = None) -> tuple:
    """Of (first action, last action, bytes), in order, the offsets and the hosts (-1: the arena), and the bytes of the
    arena. `lent` hosts are (last action, bytes). The search for a smaller arena ends with one of `bound` bytes."""
    turns: list = []
    for key in (_area, _size, _death):
        order: list = sorted(range(len(spans)), key=lambda index: key(spans[index]))
        turns.append((order, _place_in(spans, order, lent or [])))
    turns.sort(key=lambda turn: turn[1][2])
    best = turns[0][1]
    for order, found in turns:
        for _ in range(MOST_TURNS):
            if bound is None or best[2] <= bound:
                return best
            order = _beyond_first(spans, order, found, bound)
            found = _place_in(spans, order, lent or [])
            best = min(best, found, key=lambda found: found[2])
    return best


def _beyond_first(spans: list, order: list, found: tuple, bound: int) -> list:
    """The order in which those that end beyond a bound of the arena come first."""
    offsets, hosts, _ = found
    beyond: set = {
        index
        for index in order
        if hosts[index] < 0 and offsets[index] + _aligned(spans[index][2]) > bound
    }
    return [index for index in order if index in beyond] + [
        index for index in order if index not in beyond
    ]


def _area(span):
    """Those first that take most bytes for the longest time."""
    first, last, size = span
    return -size * (last - first + 1), first


def _size(span):
    """Those first that are largest."""
    return -span[2], span[0]


def _death(span):
    """Those first that live longest."""
    return -span[1], -span[2]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _aligned(size: cython.longlong) -> cython.longlong:
    return (size + ALIGNMENT_BYTES - 1) // ALIGNMENT_BYTES * ALIGNMENT_BYTES


@cython.cfunc
def _place_in(spans: list, order: list, lent: list) -> tuple:
    offsets: list = [0] * len(spans)
    hosts: list = [-1] * len(spans)
    arena: _Block = _Block(-1, 0)
    blocks: list = [_Block(gone, capacity) for gone, capacity in lent]
    first: cython.longlong
    last: cython.longlong
    size: cython.longlong
    for index in order:
        first, last, size = spans[index]
        size = _aligned(size)
        host: cython.Py_ssize_t = _host_of(blocks, first, last, size)
        block: _Block = arena if host < 0 else blocks[host]
        offset: cython.longlong = block.lowest(first, last, size)
        block.insert(ArenaSpan(offset, offset + size, first, last))
        offsets[index], hosts[index] = offset, host
        arena.capacity = max(arena.capacity, offset + size if host < 0 else 0)
    return offsets, hosts, arena.capacity


@cython.cfunc
def _host_of(
    blocks: list, first: cython.longlong, last: cython.longlong, size: cython.longlong
) -> cython.Py_ssize_t:
    """The smallest host that is free behind its last use and has room; -1 without one."""
    best: cython.Py_ssize_t = -1
    index: cython.Py_ssize_t
    block: _Block
    least: cython.longlong = 0
    for index in range(len(blocks)):
        block = blocks[index]
        if block.gone >= first or block.capacity < size or (best >= 0 and block.capacity >= least):
            continue
        if block.lowest(first, last, size) + size <= block.capacity:
            best, least = index, block.capacity
    return best
