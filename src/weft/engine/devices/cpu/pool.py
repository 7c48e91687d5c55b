# cython: language_level=3
"""The memory pool: buffers of 64-byte aligned memory, in size classes, kept for the next taker.

`allocate(nbytes)` hands out a `PooledBuffer`; its memory returns to its size class when the last reference goes. `wrap`
makes a `PooledBuffer` of memory that another Python object owns. Sizes are rounded up by at most an eighth (above 512
bytes; multiples of 64 below). Blocks up to 32 KB are carved from slabs and stay; larger ones have mappings of their
own, with huge pages advised from 2 MB, and go back to the system after idling, above a cap, or by `trim()`. Under
`WEFT_GUARD` each buffer is a mapping of its own, of exactly nbytes, made and unmade by `guard`. The planner decides
which buffer a value lives in, and for how long. Everything here runs under the GIL.
"""

import cython
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import realloc
from cython.cimports.libc.string import memmove, memset
from cython.cimports.weft.engine.capi.atomics import (
    MADV_HUGEPAGE,
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_PRIVATE,
    PROT_READ,
    PROT_WRITE,
    count_leading_zeros,
    madvise,
    mmap,
    munmap,
)
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.api import note_budgets
from cython.cimports.weft.engine.devices.cpu.guard import (
    CELL_STEP,
    map_cells,
    map_guarded,
    unmap_guarded,
)
from cython.cimports.weft.engine.devices.cpu.live_buffers import enlist, unlist
from cython.cimports.weft.engine.devices.cpu.pool import CELL_BYTES
from cython.cimports.weft.engine.devices.trace import ALLOCATE, FREE, put, tracing_memory
from cython.cimports.weft.engine.ir.memory import OwnedMemory

from weft._build.compiled import require
from weft.config import config
from weft.engine.devices.cpu.hardware import UNLIMITED, memory_limit, physical_memory
from weft.engine.devices.cpu.live_buffers import largest_lines
from weft.errors import ArgumentError, OutOfMemoryError

require(__name__, cython.compiled)

_slab_next = cython.declare(uintptr_t, 0)
_slab_end = cython.declare(uintptr_t, 0)

_live = 0
_peak = cython.declare(cython.Py_ssize_t, 0)
_reserved = cython.declare(cython.Py_ssize_t, 0)
_idle_bytes = cython.declare(cython.Py_ssize_t, 0)  # free blocks that could go back
_from_system = cython.declare(cython.Py_ssize_t, 0)
_arena = cython.declare(uintptr_t, 0)  # the free block for arenas, its bytes, and when it was freed
_arena_bytes = cython.declare(cython.Py_ssize_t, 0)
_arena_freed_at = cython.declare(int64_t, 0)
_arenas = cython.declare(dict, {})  # bytes of the blocks for arenas, by address
_swept_at = cython.declare(int64_t, 0)
_limit = cython.declare(cython.Py_ssize_t, 0)  # 0: not yet asked
_keep = cython.declare(cython.Py_ssize_t, 0)
_idle_after = cython.declare(int64_t, 10 * 1_000_000_000)  # ns a free block is kept
_budget = config.memory_budget or 0
_fill = cython.declare(cython.int, -1)
# By id, so that buffers stay as large as what they derive from, whose free list has them: how many views there are by
# the buffer protocol, and the id of the buffer whose views look at memory that this one has taken over (`take_over`).
_views = cython.declare(dict, {})
_lenders = cython.declare(dict, {})
_guard = cython.declare(cython.bint, config.guard != "")
_at_end = cython.declare(cython.bint, config.guard == "end")
if config.guard:
    import faulthandler

    from weft.engine.devices.cpu import guarded_arrays

    faulthandler.enable()  # which line of Python it was
    guarded_arrays.install()


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _class_of(nbytes: cython.Py_ssize_t) -> cython.int:
    """The smallest size class that holds nbytes: multiples of 64, then eight steps per doubling."""
    octave: cython.int
    if nbytes <= 512:
        return 0 if nbytes <= 64 else cython.cast(cython.int, (nbytes - 1) >> 6)
    octave = 63 - count_leading_zeros(nbytes - 1)
    return (octave - 8) * 8 + cython.cast(cython.int, (nbytes - 1) >> (octave - 3)) - 8


@cython.cfunc
@cython.exceptval(check=False)
def _size_of(size_class: cython.int) -> cython.Py_ssize_t:
    if size_class < 8:
        return 64 * cython.cast(cython.Py_ssize_t, size_class + 1)
    return cython.cast(cython.Py_ssize_t, 9 + size_class % 8) << (size_class // 8 + 5)


@cython.final
@cython.no_gc
@cython.cclass
class PooledBuffer(OwnedMemory):
    """A span of memory: `address`, `nbytes`, and for foreign memory its `owner`.

    Made by `allocate` and `wrap`. Exports the buffer protocol, so `numpy.frombuffer(b)` is a view
    that keeps the buffer alive, and owns it.
    """

    def __init__(self):
        raise TypeError("a Buffer is made by allocate() or wrap()")

    def __dealloc__(self):
        if self.listed:
            unlist(self)
        if self.address == 0 or self.foreign:
            return
        if tracing_memory:
            _note(FREE, self.address, self.capacity)
        if self.size_class == ARENA:
            _release_arena(self.address, self.nbytes)
        elif self.size_class < 0:
            _release_guarded(self.address, self.nbytes, self.size_class)
        else:
            _release(self.address, self.size_class)

    def __getbuffer__(self, view: cython.pointer(Py_buffer), flags: cython.int):
        memory = cython.cast(cython.p_void, self.address)
        PyBuffer_FillInfo(view, self, memory, self.nbytes, self.readonly, flags)
        self.owners += 1
        if flags != PyBUF_SIMPLE:  # compiled code, which asks so, lets go at once
            _views[id(self)] = _views.get(id(self), 0) + 1
            view.internal = memory

    def __releasebuffer__(self, view: cython.pointer(Py_buffer)):
        self.owners -= 1
        if view.internal != cython.NULL:
            left = _views.pop(id(self)) - 1
            if left > 0:
                _views[id(self)] = left
            elif self.owner is not None and not self.foreign:
                _end_lending(self)

    def __len__(self):
        return self.nbytes

    def __repr__(self):
        kind = "foreign buffer" if self.foreign else "buffer"
        return f"<{kind} of {self.nbytes} bytes at {self.address:#x}>"

    @property
    def capacity(self) -> int:
        """Bytes of the block behind the buffer."""
        if self.foreign:
            return self.nbytes
        if self.size_class < 0:
            return _guarded_size(self.nbytes, self.size_class)
        return _size_of(self.size_class)


@cython.cfunc
@cython.exceptval(check=False)
def _note(kind: cython.int, address: uintptr_t, size: cython.Py_ssize_t) -> cython.void:
    """Let whoever records memory know of a block."""
    at: int64_t = now()
    put(kind, at, at, address, size)


@cython.ccall
def allocate(nbytes: cython.Py_ssize_t) -> PooledBuffer:
    """A buffer of at least nbytes, 64-byte aligned, contents undefined.

    Errors: OutOfMemoryError before anything is touched when this much can never be had here.
    Cost: about 30 ns for a block that was used before.
    """
    if nbytes < 0:
        raise ArgumentError("allocate", expected="nbytes >= 0", got=f"{nbytes}")
    if nbytes > HUGE_PAGE or _budget != 0:
        _check_limit(nbytes if _budget == 0 else capacity_of(nbytes))
    if _guard:
        guarded: PooledBuffer = _guarded(map_guarded(nbytes, _at_end), nbytes, GUARDED)
        if guarded is not None:
            if _fill >= 0:
                memset(cython.cast(cython.p_void, guarded.address), _fill, nbytes)
            return guarded
    size_class: cython.int = _class_of(nbytes)
    return _taken(nbytes, _choose(size_class) if _budget == 0 else size_class)


@cython.cfunc
def allocate_arena(nbytes: cython.Py_ssize_t) -> PooledBuffer:
    """The same for memory that a program has while it runs, of no size class: one block is kept for the programs that
    take turns, unless it is much larger than one needs. It is as large as the largest of them."""
    if _guard or nbytes <= SLAB_BYTES:
        return allocate(nbytes)
    _check_limit(nbytes)
    size: cython.Py_ssize_t = _mapped_size(nbytes)
    most: cython.Py_ssize_t = size if _budget != 0 else MOST_TIMES_LARGER * size
    address: uintptr_t = _arena
    if address != 0 and size <= _arena_bytes <= most:
        _keep_arena(0, 0)
    else:
        _unmap_arena()
        address = _map(size)
        _arenas[address] = size
    return _hand_out(address, size, size, ARENA)


@cython.cfunc
@cython.exceptval(check=False)
def _release_arena(address: uintptr_t, size: cython.Py_ssize_t) -> cython.void:
    """Keep the block of an arena, if it is larger than the one that is kept."""
    global _live
    _live -= size
    mapped: cython.Py_ssize_t = _arenas[address]
    if _arena != 0 and _arena_bytes >= mapped:
        _unmap(address, mapped)
        _arenas.pop(address)
        return
    _unmap_arena()
    _keep_arena(address, mapped)
    _give_back_idle(now())


@cython.cfunc
@cython.exceptval(check=False)
def _keep_arena(address: uintptr_t, size: cython.Py_ssize_t) -> cython.void:
    """Note the free block of an arena; 0: there is none."""
    global _arena, _arena_bytes, _arena_freed_at, _idle_bytes
    _idle_bytes += size - _arena_bytes
    _arena, _arena_bytes, _arena_freed_at = address, size, now()


@cython.cfunc
@cython.exceptval(check=False)
def _unmap_arena() -> cython.void:
    """Give the free block of an arena back to the system."""
    if _arena != 0:
        _unmap(_arena, _arena_bytes)
        _arenas.pop(_arena)
        _keep_arena(0, 0)


@cython.cfunc
@cython.exceptval(check=False)
def _unmap(address: uintptr_t, size: cython.Py_ssize_t) -> cython.void:
    """Give mapped memory back to the system."""
    global _reserved
    munmap(cython.cast(cython.p_void, address), size)
    _reserved -= size


@cython.cfunc
def _taken(nbytes: cython.Py_ssize_t, chosen: cython.int) -> PooledBuffer:
    """A buffer of a size class."""
    global _idle_bytes
    slot: cython.pointer(SizeClass) = cython.address(_classes[chosen])
    size: cython.Py_ssize_t = _size_of(chosen)
    address: uintptr_t
    if slot.free > 0:
        slot.free -= 1
        address = slot.blocks[slot.free]
        if size > SLAB_BYTES:
            _idle_bytes -= size
    else:
        address = _fresh(size)
    slot.live += 1
    return _hand_out(address, nbytes, size, chosen)


@cython.cfunc
@cython.inline
def _hand_out(
    address: uintptr_t, nbytes: cython.Py_ssize_t, size: cython.Py_ssize_t, size_class: cython.int
) -> PooledBuffer:
    """A buffer of nbytes in a block of this size."""
    if _fill >= 0:
        memset(cython.cast(cython.p_void, address), _fill, size)
    return _counted(address, nbytes, size, size_class)


@cython.cfunc
@cython.inline
def _counted(
    address: uintptr_t, nbytes: cython.Py_ssize_t, size: cython.Py_ssize_t, size_class: cython.int
) -> PooledBuffer:
    """A new buffer, which counts for `size` bytes."""
    global _live, _peak
    _live += size
    _peak = max(_peak, _live)
    if tracing_memory:
        _note(ALLOCATE, address, size)
    buffer: PooledBuffer = PooledBuffer.__new__(PooledBuffer)
    buffer.address = address
    buffer.nbytes = nbytes
    buffer.size_class = size_class
    if size > SLAB_BYTES:
        enlist(buffer)
    return buffer


@cython.ccall
def allocate_cells(count: cython.Py_ssize_t) -> PooledBuffer:
    """Memory of so many numbers, each of at most CELL bytes: `cell` says where. Contents undefined."""
    if _guard:
        guarded: PooledBuffer = _guarded(map_cells(count), count * CELL_STEP, GUARDED_CELLS)
        if guarded is not None:
            return guarded
    return allocate(CELL_BYTES * count)


@cython.cfunc
@cython.exceptval(check=False)
def cell(cells: PooledBuffer, index: cython.Py_ssize_t, itemsize: cython.Py_ssize_t) -> uintptr_t:
    """The address of a number of `itemsize` bytes in an array of cells."""
    if cells.size_class != GUARDED_CELLS:
        return cells.address + index * CELL_BYTES
    return cells.address + index * CELL_STEP + (PAGE - itemsize if _at_end else 0)


@cython.cfunc
@cython.exceptval(check=False)
def _guarded_size(nbytes: cython.Py_ssize_t, size_class: cython.int) -> cython.Py_ssize_t:
    """Bytes that guarded memory counts for: those that it has for values, without the guards between numbers."""
    return nbytes // CELL_STEP * CELL_BYTES if size_class == GUARDED_CELLS else nbytes


@cython.cfunc
def _guarded(address: uintptr_t, nbytes: cython.Py_ssize_t, size_class: cython.int) -> PooledBuffer:
    """The buffer of guarded memory; None where the system had no room for more mappings."""
    if address == 0:
        return None
    return _counted(address, nbytes, _guarded_size(nbytes, size_class), size_class)


@cython.cfunc
@cython.exceptval(check=False)
def _release_guarded(
    address: uintptr_t, nbytes: cython.Py_ssize_t, size_class: cython.int
) -> cython.void:
    global _live
    _live -= _guarded_size(nbytes, size_class)
    unmap_guarded(address, nbytes)


@cython.ccall
def wrap(
    address: uintptr_t, nbytes: cython.Py_ssize_t, owner: object, readonly: cython.bint = False
) -> PooledBuffer:
    """A foreign buffer: memory that `owner` holds, kept alive with it and never pooled."""
    if nbytes < 0:
        raise ArgumentError("wrap", expected="nbytes >= 0", got=f"{nbytes}")
    buffer: PooledBuffer = PooledBuffer.__new__(PooledBuffer)
    buffer.address = address
    buffer.nbytes = nbytes
    buffer.foreign = True
    buffer.readonly = readonly
    buffer.owner = owner
    return buffer


def address_of(array: object) -> object:
    """The address of the elements of a row-major array without gaps."""
    view: Py_buffer
    PyObject_GetBuffer(array, cython.address(view), PyBUF_SIMPLE)
    address: uintptr_t = cython.cast(uintptr_t, view.buf)
    PyBuffer_Release(cython.address(view))
    return address


@cython.ccall
def take_over(buffer: PooledBuffer) -> PooledBuffer:
    """A buffer that takes over the memory of another one, which keeps a copy of it, as does whoever holds that one.
    Views by the buffer protocol stay where they are: the memory is lent to them until the last one is released. It has
    one owner more meanwhile, the buffer that they are of."""
    taken: PooledBuffer = allocate(buffer.nbytes)
    memmove(
        cython.cast(cython.p_void, taken.address),
        cython.cast(cython.p_void, buffer.address),
        buffer.nbytes,
    )
    taken.address, buffer.address = buffer.address, taken.address
    taken.size_class, buffer.size_class = buffer.size_class, taken.size_class
    taken.foreign, buffer.foreign = buffer.foreign, taken.foreign
    taken.readonly, buffer.readonly = buffer.readonly, taken.readonly
    taken.owner, buffer.owner = buffer.owner, taken.owner
    if id(buffer) in _views or id(buffer) in _lenders:
        buffer.owner = taken
        taken.owners += 1
        _lenders[id(taken)] = cython.cast(uintptr_t, cython.cast(cython.p_void, buffer))
        if id(buffer) not in _views:
            _end_lending(buffer)
    if taken.listed:  # the memory that is counted has changed hands
        unlist(taken)
        enlist(buffer)
    return taken


@cython.cfunc
def _end_lending(buffer: PooledBuffer) -> cython.void:
    """Let a buffer without views hold on no more to the one that has taken its memory over. Where views of a former
    buffer look at that memory, it goes on from that one directly: lenders are a list, each of which has views."""
    taken: PooledBuffer = buffer.owner
    lender: object = _lenders.pop(id(buffer), None)
    buffer.owner = None
    if lender is None:
        del _lenders[id(taken)]
        taken.owners -= 1
        return
    _lenders[id(taken)] = lender
    buffer.owners -= 1
    address: uintptr_t = lender
    cython.cast(PooledBuffer, cython.cast(cython.p_void, address)).owner = taken


def is_lent(buffer: PooledBuffer) -> bool:
    """True if views of a former buffer look at this one's memory; that buffer holds this one."""
    return id(buffer) in _lenders


# -- bounds ---------------------------------------------------------------------------------------------------------


@cython.ccall
@cython.exceptval(-1, check=False)
def capacity_of(nbytes: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The bytes of the budget that a buffer of nbytes takes."""
    return nbytes if _guard else _size_of(_class_of(nbytes))


@cython.ccall
@cython.exceptval(-1, check=False)
def arena_capacity_of(nbytes: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The bytes of the budget that an arena of nbytes takes."""
    return capacity_of(nbytes) if _guard or nbytes <= SLAB_BYTES else _mapped_size(nbytes)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _choose(size_class: cython.int) -> cython.int:
    """The class to take from: for a big block a free one of the next two sizes will do."""
    step: cython.int
    if _classes[size_class].free == 0 and _size_of(size_class) > SLAB_BYTES:
        for step in range(1, 3):
            if size_class + step < CLASSES and _classes[size_class + step].free > 0:
                return size_class + step
    return size_class


@cython.cfunc
def _check_limit(nbytes: cython.Py_ssize_t) -> cython.bint:
    """Raise when nbytes more would pass the budget, or what the machine has at all."""
    global _limit, _keep
    if _limit == 0:
        _limit = memory_limit()
        _keep = physical_memory() // 2
    bound: cython.Py_ssize_t = min(_limit, _budget) if _budget != 0 else _limit
    if nbytes > bound - _live:
        raise _too_much(nbytes, bound)
    return True


def _too_much(nbytes, bound):
    owner = "the memory budget" if _budget != 0 else "this machine"
    fix = "make the result smaller, free tensors that are no longer needed, or raise the budget"
    if _budget != 0:
        fix += f" to {_live + nbytes:,} bytes at least; the largest live tensors: {largest_lines()}"
    return OutOfMemoryError(
        f"allocation of {nbytes:,} bytes",
        expected=f"at most {max(bound - _live, 0):,} bytes: {owner} allows {bound:,}, "
        f"{_live:,} are in use",
        got=f"{nbytes:,} bytes",
        fix=fix,
    )


@cython.cfunc
@cython.exceptval(0)
def _fresh(size: cython.Py_ssize_t) -> uintptr_t:
    """A block from the system, or a piece of the current slab."""
    global _slab_next, _slab_end
    address: uintptr_t
    if size > SLAB_BYTES:
        return _map(size)
    if _slab_end - _slab_next < cython.cast(uintptr_t, size):
        address = _map(SLAB)
        _slab_next = address
        _slab_end = address + SLAB
    address = _slab_next
    _slab_next += size
    return address


@cython.cfunc
@cython.exceptval(check=False)
def _mapped_size(size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return (size + PAGE - 1) & -PAGE


@cython.cfunc
@cython.exceptval(0)
def _map(size: cython.Py_ssize_t) -> uintptr_t:
    """Map pages; when there are none, give back what is idle and try once more."""
    global _reserved, _from_system
    address: uintptr_t = 0
    if _budget != 0 and _reserved + size > _budget:
        trim()  # what idles counts against the budget
    if _limit == 0 or _reserved + size <= _limit:
        address = _try_map(_mapped_size(size))
    if address == 0:
        trim()
        address = _try_map(_mapped_size(size))
    if address == 0:
        raise _too_much(size, _live)
    _reserved += _mapped_size(size)
    _from_system += 1
    return address


@cython.cfunc
@cython.exceptval(check=False)
def _try_map(size: cython.Py_ssize_t) -> uintptr_t:
    """An anonymous mapping, from 2 MB on aligned to huge pages; 0 when the system refuses."""
    slack: cython.Py_ssize_t = HUGE_PAGE if size >= HUGE_PAGE else 0
    start: cython.p_void = mmap(
        cython.NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0
    )
    if start == MAP_FAILED:
        return 0
    address: uintptr_t = cython.cast(uintptr_t, start)
    if slack == 0:
        return address
    aligned: uintptr_t = address + cython.cast(uintptr_t, -address) % HUGE_PAGE
    if aligned > address:
        munmap(start, aligned - address)
    if aligned < address + slack:
        munmap(cython.cast(cython.p_void, aligned + size), address + slack - aligned)
    madvise(cython.cast(cython.p_void, aligned), size, MADV_HUGEPAGE)
    return aligned


@cython.cfunc
@cython.exceptval(check=False)
def _release(address: uintptr_t, size_class: cython.int) -> cython.void:
    """Put a block on its free list; look now and then for blocks that have idled."""
    global _live, _idle_bytes
    slot: cython.pointer(SizeClass) = cython.address(_classes[size_class])
    size: cython.Py_ssize_t = _size_of(size_class)
    slot.live -= 1
    _live -= size
    if slot.free == slot.room and not _grow(slot):
        return  # no room even to remember it: the block is lost, the process is about to be too
    slot.blocks[slot.free] = address
    if size > SLAB_BYTES:
        slot.freed_at[slot.free] = now()
        slot.free += 1
        _idle_bytes += size
        _give_back_idle(slot.freed_at[slot.free - 1])
    else:
        slot.free += 1


@cython.cfunc
@cython.exceptval(check=False)
def _grow(slot: cython.pointer(SizeClass)) -> cython.bint:
    room: cython.Py_ssize_t = 16 if slot.room == 0 else 2 * slot.room
    blocks: cython.p_void = realloc(slot.blocks, room * cython.sizeof(uintptr_t))
    if blocks == cython.NULL:
        return False
    slot.blocks = cython.cast(cython.pointer(uintptr_t), blocks)
    stamps: cython.p_void = realloc(slot.freed_at, room * cython.sizeof(int64_t))
    if stamps == cython.NULL:
        return False
    slot.freed_at = cython.cast(cython.pointer(int64_t), stamps)
    slot.room = room
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _give_back_idle(now: int64_t) -> cython.void:
    """Return blocks that have idled too long, and the oldest ones above the cap."""
    global _swept_at
    size_class: cython.int
    if _keep != 0 and _idle_bytes > _keep:
        _unmap_arena()
        for size_class in range(CLASSES - 1, -1, -1):
            while _idle_bytes > _keep and _return_oldest(size_class, now):
                pass
    if now - _swept_at > min(_idle_after, SECOND):
        _swept_at = now
        if _arena_freed_at <= now - _idle_after:
            _unmap_arena()
        for size_class in range(CLASSES):
            while _return_oldest(size_class, now - _idle_after):
                pass


@cython.cfunc
@cython.exceptval(check=False)
def _return_oldest(size_class: cython.int, before: int64_t) -> cython.bint:
    """Unmap the block of a class that has been free longest, if it was freed by `before`."""
    global _idle_bytes
    slot: cython.pointer(SizeClass) = cython.address(_classes[size_class])
    size: cython.Py_ssize_t = _size_of(size_class)
    if slot.free == 0 or size <= SLAB_BYTES or slot.freed_at[0] > before:
        return False
    _unmap(slot.blocks[0], _mapped_size(size))
    slot.free -= 1
    memmove(slot.blocks, slot.blocks + 1, slot.free * cython.sizeof(uintptr_t))
    memmove(slot.freed_at, slot.freed_at + 1, slot.free * cython.sizeof(int64_t))
    _idle_bytes -= size
    return True


def trim() -> int:
    """Give every free block above 32 KB back to the system; the number of bytes returned."""
    before: cython.Py_ssize_t = _reserved
    at: int64_t = now()
    size_class: cython.int
    _unmap_arena()
    for size_class in range(CLASSES):
        while _return_oldest(size_class, at):
            pass
    return before - _reserved


def budget() -> int | None:
    """The number of bytes that may be live; None if there is no bound."""
    return _budget or None


def set_budget(nbytes: int | None) -> None:
    """Let at most nbytes be live; None lifts the bound."""
    global _budget
    if nbytes is not None and nbytes <= 0:
        raise ArgumentError("set_budget", expected="a positive number of bytes", got=f"{nbytes}")
    _budget = 0 if nbytes is None else min(nbytes, UNLIMITED)
    note_budgets()


def set_idle(nbytes: int | None = None, seconds: float | None = None) -> None:
    """Keep at most nbytes of free blocks, each for so many seconds; None leaves a bound as it is.

    By default half of the machine's memory, and ten seconds. What has idled longer goes back when
    the next big block is freed.
    """
    global _keep, _limit, _idle_after
    if nbytes is not None:
        _limit = _limit or memory_limit()
        _keep = max(1, nbytes)
    if seconds is not None:
        _idle_after = int(seconds * 1e9)


def set_fill(byte: int | None) -> None:
    """For tests: fill every buffer with this byte when it is handed out; None stops it."""
    global _fill
    _fill = -1 if byte is None else byte & 255


def reset_peak() -> None:
    """Start the peak anew from what is live now."""
    global _peak
    _peak = _live


def stats() -> dict[str, int]:
    """Bytes: `allocated` live, `peak` of it, `reserved` from the system, `idle` ready to go back.

    `mappings` counts requests to the system since the start.
    """
    return {
        "allocated": _live,
        "peak": _peak,
        "reserved": _reserved,
        "idle": _idle_bytes,
        "mappings": _from_system,
    }
