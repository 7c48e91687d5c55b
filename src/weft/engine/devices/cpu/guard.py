# cython: language_level=3
"""Guarded memory (`WEFT_GUARD`): a read or write outside of a buffer ends the process at the instruction that did it.

It maps a number of bytes between two inaccessible pages, the last byte (or the first) against one of them. Fresh
memory is filled with a pattern that is nan in every floating dtype and out of range as an index. Freed memory stays
inaccessible for long. The gap on the other side, up to the page's end, is compared with the pattern when the memory is
freed. The pool decides whose memory is guarded.
"""

import cython
from cython.cimports.libc.stdint import uint8_t, uintptr_t
from cython.cimports.libc.stdio import fprintf, stderr
from cython.cimports.libc.stdlib import abort
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.capi.atomics import (
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_FIXED,
    MAP_NORESERVE,
    MAP_PRIVATE,
    PROT_NONE,
    PROT_READ,
    PROT_WRITE,
    mmap,
    mprotect,
    munmap,
)

from weft._build.compiled import require

require(__name__, cython.compiled)

_PAGE = cython.declare(cython.Py_ssize_t, 4096)
_KEPT = cython.declare(cython.Py_ssize_t, 4096)  # freed mappings that stay inaccessible
_freed = cython.declare(uintptr_t[4096])
_freed_sizes = cython.declare(cython.Py_ssize_t[4096])
_next = cython.declare(cython.Py_ssize_t, 0)
# Linux lets a process have 65,530 mappings: a buffer needs two, what is freed keeps some, and malloc has to find more.
_MOST_OPEN = cython.declare(cython.Py_ssize_t, 24_000)
_open_count = cython.declare(cython.Py_ssize_t, 0)
# 0x7ff4: nan as any float; large as integers; as a bool neither 0 nor 1.
_LOW = cython.declare(cython.int, 0xF4)
_HIGH = cython.declare(cython.int, 0x7F)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _pages(nbytes: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return (nbytes + _PAGE - 1) & -_PAGE


@cython.cfunc
@cython.exceptval(check=False)
def _fill(start: uintptr_t, end: uintptr_t, origin: uintptr_t) -> cython.void:
    """Write the pattern, which begins at `origin`, to [start, end)."""
    size: uintptr_t = end - start
    done: uintptr_t = min(size, 64)
    place: uintptr_t
    for place in range(start, start + done):
        cython.cast(cython.pointer(uint8_t), place)[0] = _HIGH if (place - origin) & 1 else _LOW
    while done < size:
        more: uintptr_t = min(done, size - done)
        memcpy(cython.cast(cython.p_void, start + done), cython.cast(cython.p_void, start), more)
        done += more


@cython.cfunc
@cython.exceptval(check=False)
def _is_filled(start: uintptr_t, end: uintptr_t, origin: uintptr_t) -> cython.bint:
    place: uintptr_t
    for place in range(start, end):
        if cython.cast(cython.pointer(uint8_t), place)[0] != (
            _HIGH if (place - origin) & 1 else _LOW
        ):
            return False
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _reserve(size: cython.Py_ssize_t) -> uintptr_t:
    """Addresses of pages that cannot be touched; 0 where the system has none, or too much is open. Opening them fails
    where there is less memory: they are filled."""
    if _open_count >= _MOST_OPEN:
        return 0
    start: cython.p_void = mmap(cython.NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return 0 if start == MAP_FAILED else cython.cast(uintptr_t, start)


@cython.cfunc
@cython.exceptval(check=False)
def _open(address: uintptr_t, size: cython.Py_ssize_t) -> cython.bint:
    """Let pages be read and written; False where the system has no room for another mapping."""
    return (
        size == 0
        or mprotect(cython.cast(cython.p_void, address), size, PROT_READ | PROT_WRITE) == 0
    )


@cython.cfunc
@cython.exceptval(check=False)
def map_guarded(nbytes: cython.Py_ssize_t, at_end: cython.bint) -> uintptr_t:
    """Fresh memory, filled, its end (or its begin) against an inaccessible page; 0 if there is none."""
    global _open_count
    size: cython.Py_ssize_t = _pages(nbytes)
    start: uintptr_t = _reserve(size + 2 * _PAGE)
    if start == 0:
        return 0
    if not _open(start + _PAGE, size):
        munmap(cython.cast(cython.p_void, start), size + 2 * _PAGE)
        return 0
    _open_count += 1
    start += _PAGE
    address: uintptr_t = start + (size - nbytes if at_end else 0)
    _fill(start, start + size, address)
    return address


@cython.cfunc
@cython.exceptval(check=False)
def map_cells(count: cython.Py_ssize_t) -> uintptr_t:
    """Pages for `count` numbers, each just before an inaccessible page: the first one's address; 0 if there is no
    memory."""
    global _open_count
    start: uintptr_t = _reserve(count * CELL_STEP + 2 * _PAGE)
    if start == 0:
        return 0
    index: cython.Py_ssize_t
    for index in range(count):
        if not _open(start + _PAGE + index * CELL_STEP, _PAGE):
            munmap(cython.cast(cython.p_void, start), count * CELL_STEP + 2 * _PAGE)
            return 0
    _open_count += 1
    return start + _PAGE


@cython.cfunc
@cython.exceptval(check=False)
def unmap_guarded(address: uintptr_t, nbytes: cython.Py_ssize_t) -> cython.void:
    """Take back what `map_guarded` or `map_cells` gave: from now on it cannot be touched."""
    global _next, _open_count
    _open_count -= 1
    start: uintptr_t = address & -_PAGE
    size: cython.Py_ssize_t = _pages(address - start + nbytes)
    _check(start, address, address)
    _check(address + nbytes, start + size, address)
    flags: cython.int = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED
    if size > 0:
        mmap(cython.cast(cython.p_void, start), size, PROT_NONE, flags, -1, 0)
    if _freed[_next] != 0:
        munmap(cython.cast(cython.p_void, _freed[_next]), _freed_sizes[_next])
    _freed[_next] = start - _PAGE
    _freed_sizes[_next] = size + 2 * _PAGE
    _next = (_next + 1) % _KEPT


@cython.cfunc
@cython.exceptval(check=False)
def _check(start: uintptr_t, end: uintptr_t, origin: uintptr_t) -> cython.void:
    """Errors: the process ends where somebody has written outside."""
    if not _is_filled(start, end, origin):
        fprintf(
            stderr,
            "weft: WEFT_GUARD: something has written outside a buffer at %p, to between %p and %p\n",
            cython.cast(cython.p_void, origin),
            cython.cast(cython.p_void, start),
            cython.cast(cython.p_void, end),
        )
        abort()
