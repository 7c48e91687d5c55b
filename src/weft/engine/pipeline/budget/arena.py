# cython: language_level=3
"""Arena allocation: offsets in one block of memory, shared by values whose lifetimes do not meet.

It takes the instances of a schedule with their sizes, and returns an offset for each and the bytes of the arena. Some
go into the memory of values from outside that have been read for the last time (hosts). One by one, each gets the
lowest offset at which it overlaps no instance that lives at the same time (greedy offset calculation, Pisarchyk and
Lee, 2020). Several orders are tried, and the smallest arena is taken: mostly it is as large as the values live at the
peak.
"""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)

ALIGNMENT = 64


def place(spans: list, lent: list | None = None) -> tuple:
    """Of (first action, last action, bytes), in order, the offsets and the hosts (-1: the arena), and the bytes of the
    arena. `lent` hosts are (last action, bytes)."""
    best = None
    for key in (_area, _size, _death):
        order = sorted(range(len(spans)), key=lambda index: key(spans[index]))
        found = _place_in(spans, order, lent or [])
        if best is None or found[2] < best[2]:
            best = found
    return best


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
def _place_in(spans: list, order: list, lent: list) -> tuple:
    offsets: list = [0] * len(spans)
    hosts: list = [-1] * len(spans)
    placed: list = []  # (offset, end, first, last), by offset
    guests: list = [[] for _ in lent]  # the same in each host
    total: cython.longlong = 0
    first: cython.longlong
    last: cython.longlong
    size: cython.longlong
    for index in order:
        first, last, size = spans[index]
        size = (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        host: cython.Py_ssize_t = _host_of(lent, guests, first, last, size)
        if host >= 0:
            hosts[index] = host
            offsets[index] = _lowest(guests[host], first, last, size)
            _insert(guests[host], (offsets[index], offsets[index] + size, first, last))
            continue
        offset: cython.longlong = _lowest(placed, first, last, size)
        offsets[index] = offset
        total = max(total, offset + size)
        _insert(placed, (offset, offset + size, first, last))
    return offsets, hosts, total


@cython.cfunc
def _host_of(
    lent: list,
    guests: list,
    first: cython.longlong,
    last: cython.longlong,
    size: cython.longlong,
) -> cython.Py_ssize_t:
    """The smallest host that is free behind its last use and has room; -1 without one."""
    best: cython.Py_ssize_t = -1
    index: cython.Py_ssize_t
    gone: cython.longlong
    capacity: cython.longlong
    least: cython.longlong = 0
    for index in range(len(lent)):
        gone, capacity = lent[index]
        if gone >= first or capacity < size or (best >= 0 and capacity >= least):
            continue
        if _lowest(guests[index], first, last, size) + size <= capacity:
            best, least = index, capacity
    return best


@cython.cfunc
def _lowest(
    placed: list, first: cython.longlong, last: cython.longlong, size: cython.longlong
) -> cython.longlong:
    """The lowest offset with `size` free bytes between the instances that live at the same time."""
    offset: cython.longlong = 0
    begin: cython.longlong
    end: cython.longlong
    phase_of: cython.longlong
    gone: cython.longlong
    for begin, end, phase_of, gone in placed:
        if phase_of > last or gone < first:
            continue
        if begin - offset >= size:
            break
        offset = max(offset, end)
    return offset


@cython.cfunc
def _insert(placed: list, entry: tuple) -> cython.void:
    """Keep the list in order of offsets."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(placed)
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) // 2
        if placed[middle][0] <= entry[0]:
            low = middle + 1
        else:
            high = middle
    placed.insert(low, entry)
