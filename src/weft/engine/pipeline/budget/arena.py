# cython: language_level=3
"""Arena allocation: offsets in one block of memory, shared by values whose lifetimes do not meet.

It takes the instances of a schedule with their sizes, and returns an offset for each and the bytes of the arena. Some
go into the memory of values from outside that have been read for the last time (hosts). One by one, each gets the
lowest offset at which it overlaps no instance that lives at the same time (greedy offset calculation, Pisarchyk and
Lee, 2020). Instances that are joined, one where the other ends, get theirs together. Several orders are tried, and the
smallest arena is taken: mostly it is as large as the values live at the peak. Where it is not, and has to be, what ends
beyond the bound is placed first in the next turn (squeaky wheel optimization, Joslin and Clements, 1999).
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
class _Unit:
    """Instances that are placed together: of each its number, its life, and its bytes from the unit's begin."""

    extents: cython.pointer(ArenaSpan)
    count: cython.Py_ssize_t
    size: cython.longlong  # from the first byte to the last
    first: cython.longlong
    last: cython.longlong
    area: cython.longlong  # bytes times actions
    members: list  # (number of an instance, bytes from the begin)

    def __init__(self, members: list, spans: list):
        number: cython.Py_ssize_t
        extent: cython.pointer(ArenaSpan)
        nbytes: cython.size_t = len(members) * cython.sizeof(ArenaSpan)
        self.extents = cython.cast(cython.pointer(ArenaSpan), realloc(cython.NULL, nbytes))
        if self.extents == cython.NULL:
            raise MemoryError
        self.members, self.count = members, len(members)
        for number in range(self.count):
            index, begin = members[number]
            extent = self.extents + number
            extent.begin = begin
            extent.first, extent.last, size = spans[index]
            extent.end = extent.begin + _aligned(size)
            self.size = max(self.size, extent.end)
            self.last = max(self.last, extent.last)
            self.first = extent.first if number == 0 else min(self.first, extent.first)
            self.area += (extent.end - extent.begin) * (extent.last - extent.first + 1)

    def __dealloc__(self):
        free(self.extents)


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
    def lowest(self, unit: _Unit) -> cython.longlong:
        """The lowest offset at which each instance of a unit is apart from those that live at the same time."""
        offset: cython.longlong = 0
        before: cython.longlong = -1
        number: cython.Py_ssize_t
        while offset != before:
            before = offset
            for number in range(unit.count):
                offset = self._lowest_of(unit.extents + number, offset)
        return offset

    @cython.cfunc
    @cython.exceptval(check=False)
    def _lowest_of(
        self, extent: cython.pointer(ArenaSpan), offset: cython.longlong
    ) -> cython.longlong:
        """The lowest offset of a unit, from one on, at which this instance of it is apart from others."""
        place: cython.Py_ssize_t
        other: cython.pointer(ArenaSpan)
        for place in range(self.count):
            other = self.extents + place
            if other.first > extent.last or other.last < extent.first:
                continue
            if other.begin >= offset + extent.end:
                break
            offset = max(offset, other.end - extent.begin)
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


def place(
    spans: list, lent: list | None = None, bound: int | None = None, together: list | None = None
) -> tuple:
    """Of (first action, last action, bytes), in order, the offsets and the hosts (-1: the arena), and the bytes of the
    arena. `lent` hosts are (last action, bytes). `together` are lists of (a number of these, bytes from the begin) that
    are placed as one. The search for a smaller arena ends with one of `bound` bytes."""
    turns: list = []
    units: list = _units(spans, together or [])
    for key in (_area, _size, _death):
        order: list = sorted(units, key=key)
        turns.append((order, _place_in(len(spans), order, lent or [])))
    turns.sort(key=lambda turn: turn[1][2])
    best = turns[0][1]
    for order, found in turns:
        for _ in range(MOST_TURNS):
            if bound is None or best[2] <= bound:
                return best
            order = _beyond_first(order, found, bound)
            found = _place_in(len(spans), order, lent or [])
            best = min(best, found, key=lambda found: found[2])
    return best


@cython.cfunc
def _units(spans: list, together: list) -> list:
    """The units of instances: those that are together, and the others alone."""
    inside: set = {index for members in together for index, _ in members}
    alone: list = [[(index, 0)] for index in range(len(spans)) if index not in inside]
    return [_Unit(members, spans) for members in together + alone]


@cython.cfunc
def _beyond_first(order: list, found: tuple, bound: cython.longlong) -> list:
    """The order in which those that end beyond a bound of the arena come first."""
    offsets, hosts, _ = found
    beyond: list = []
    within: list = []
    unit: _Unit
    for unit in order:
        index, begin = unit.members[0]
        is_beyond: cython.bint = hosts[index] < 0 and offsets[index] - begin + unit.size > bound
        (beyond if is_beyond else within).append(unit)
    return beyond + within


def _area(unit: _Unit):
    """Those first that take most bytes for the longest time."""
    return -unit.area, unit.first


def _size(unit: _Unit):
    """Those first that are largest."""
    return -unit.size, unit.first


def _death(unit: _Unit):
    """Those first that live longest."""
    return -unit.last, -unit.size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _aligned(size: cython.longlong) -> cython.longlong:
    return (size + ALIGNMENT_BYTES - 1) // ALIGNMENT_BYTES * ALIGNMENT_BYTES


@cython.cfunc
def _place_in(count: cython.Py_ssize_t, order: list, lent: list) -> tuple:
    offsets: list = [0] * count
    hosts: list = [-1] * count
    arena: _Block = _Block(-1, 0)
    blocks: list = [_Block(gone, capacity) for gone, capacity in lent]
    unit: _Unit
    number: cython.Py_ssize_t
    extent: ArenaSpan
    for unit in order:
        host: cython.Py_ssize_t = _host_of(blocks, unit)
        block: _Block = arena if host < 0 else blocks[host]
        offset: cython.longlong = block.lowest(unit)
        for number in range(unit.count):
            extent = unit.extents[number]
            index, begin = unit.members[number]
            offsets[index], hosts[index] = offset + extent.begin, host
            extent.begin, extent.end = offset + extent.begin, offset + extent.end
            block.insert(extent)
        arena.capacity = max(arena.capacity, offset + unit.size if host < 0 else 0)
    return offsets, hosts, arena.capacity


@cython.cfunc
def _host_of(blocks: list, unit: _Unit) -> cython.Py_ssize_t:
    """The smallest host that is free behind its last use and has room; -1 without one."""
    best: cython.Py_ssize_t = -1
    index: cython.Py_ssize_t
    block: _Block
    least: cython.longlong = 0
    for index in range(len(blocks)):
        block = blocks[index]
        if block.gone >= unit.first or block.capacity < unit.size:
            continue
        if best >= 0 and block.capacity >= least:
            continue
        if block.lowest(unit) + unit.size <= block.capacity:
            best, least = index, block.capacity
    return best
