# cython: language_level=3
# cython: wraparound=True, boundscheck=True
"""Memory of tensors: copies into the pool, and memory that others can write.

It makes computed nodes, views of memory, and storages marked foreign from NumPy arrays and tensors. Memory shared with
NumPy (imported by `from_numpy`, or exported by `.numpy()`) may change at any moment, so operations copy what they read
of it at the call (`snapshot`), or run at once (`engine.frontend.recorder`, for elements that are looked up), and
in-place operations write to it at once (`write_through`). That ends when nobody else holds the memory. The pipeline
computes pending values.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import cython
import numpy as np
from cython.cimports.cpython.buffer import PyObject_CheckBuffer
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.capi.numpy_arrays import (
    C_CONTIGUOUS,
    MOST_DIMENSIONS,
    OWNDATA,
    WRITEABLE,
    head,
    memory_view,
    strided_array,
)
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer
from cython.cimports.weft.engine.devices.cpu.pool import allocate as pool_allocate
from cython.cimports.weft.engine.devices.cpu.pool import wrap as pool_wrap
from cython.cimports.weft.engine.frontend.node_factory import new_value
from cython.cimports.weft.engine.frontend.tensor import Py_REFCNT, Storage, Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.frontend.views import alias_of, logical_strides, share, view
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.memory import OwnedMemory
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.tape import ambient, current_tape

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.devices.api import device_at
from weft.engine.frontend.inplace import is_plain_write, mutate
from weft.engine.frontend.node_factory import MOST_ELEMENTS, make_value
from weft.engine.frontend.recorder import LEAST_LOOKED_UP_BYTES
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import replace_node
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.frontend.views import storage_of, store_in_order
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.memory import GRANTED, describe
from weft.engine.ir.strides import contiguous_strides, dense_order
from weft.engine.runtime.numpy_views import window_over
from weft.errors import ArgumentTypeError, OutOfMemoryError, user_line
from weft.ops import OPS, primitives

require(__name__, cython.compiled)

pipeline = later("weft.engine.pipeline.driver")
pool = later("weft.engine.devices.cpu.pool")
device_memory = later("weft.engine.devices.cpu.host_memory")

Shape = tuple[int, ...]
DONE = 1
BFLOAT16_BITS = np.dtype(np.uint16)


_ANY_MACHINE = 1 << 32  # bytes that any machine has: below, this one is not looked at


def need_room(shape: Shape, dtype: DType) -> None:
    """Errors: OutOfMemoryError for a new tensor larger than all memory. Nothing is allocated before it runs, and
    constants never are; what computes with so many elements would not end."""
    count = math.prod(shape)
    nbytes = count * dtype.itemsize
    if nbytes <= _ANY_MACHINE or count > MOST_ELEMENTS:  # those are refused as shapes
        return
    from weft.engine.devices.cpu.hardware import memory_limit

    if nbytes > memory_limit():
        raise OutOfMemoryError(
            f"can't allocate memory: a tensor of {nbytes:,} bytes",
            expected=f"at most {memory_limit():,} bytes, which is what this machine has",
            got=f"{dtype.name}{list(shape)}",
            fix="check how the sizes were computed; expand() repeats a value without memory",
        )


class Extent:
    """The size in bytes that a storage claims after it has been made smaller than its tensors."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


LISTED = 1 << 15  # bytes above which the pool knows whose value a buffer holds


@cython.cclass
class Foreign:
    """Memory that others can write: all of a storage as a flat array, and the array that was handed out (weakly);
    `exported` is None for memory that came from outside, and `source` the array that it came as, where its holders can
    be counted."""

    exported = cython.declare(object, visibility="public")
    memory = cython.declare(object, visibility="public")
    source = cython.declare(object, visibility="public")

    def __init__(
        self,
        memory: np.ndarray,
        exported: Callable[..., object] | None = None,
        source: np.ndarray | None = None,
    ) -> None:
        self.memory = memory
        self.exported = exported
        self.source = source

    @cython.ccall
    def is_left(self) -> cython.bint:
        """True if nobody outside holds the memory any more."""
        if self.exported is not None:
            return self.exported() is None
        if (
            self.source is None
            or Py_REFCNT(cython.cast(cython.pointer(PyObject), self.memory)) != 1
        ):
            return False  # an array that was handed out since holds the flat one
        root: object = self.source.base
        if root is None:  # it is held by the buffer, and by the flat view of it
            return (
                head(self.source).flags & OWNDATA != 0
                and Py_REFCNT(cython.cast(cython.pointer(PyObject), self.source)) == 3
            )
        if type(root) is not np.ndarray or head(root).flags & OWNDATA == 0:
            return False
        # The array is held by the buffer; its base by it, by the flat view and by this function.
        return (
            Py_REFCNT(cython.cast(cython.pointer(PyObject), self.source)) == 2
            and Py_REFCNT(cython.cast(cython.pointer(PyObject), root)) == 3
        )


# -- arrays and nodes ----------------------------------------------------------------------------------------------


def raw_dtype(dtype: DType) -> Any:
    """The NumPy type of the stored bits: bfloat16 is held as uint16."""
    return BFLOAT16_BITS if dtype.numpy is None else dtype.numpy


def node_of_array(array: np.ndarray, dtype: DType) -> Any:
    """A done node with a copy of an array of raw elements."""
    shape = array.shape
    buffer: Any = pool.allocate(array.nbytes)
    if array.nbytes > LISTED:
        describe(buffer, user_line(), 0, shape, dtype)
    if array.size:
        np.ndarray(shape, raw_dtype(dtype), buffer)[...] = array
    return make_value(dtype, shape, buffer, 0)


def tensor_of_array(array: np.ndarray, dtype: DType) -> Tensor:
    """A tensor with a copy of an array of raw elements."""
    made: Tensor = wrap_node(node_of_array(array, dtype))
    return made


def bfloat16_bits(values: np.ndarray) -> Any:
    """Round an array to bfloat16, half to even; nan stays nan."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, np.float32)
    bits = single.view(np.uint32)
    half = ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    rounded = ((bits + half) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded).reshape(np.shape(values))


def bfloat16_values(bits: np.ndarray) -> Any:
    """The float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


@cython.cfunc
def _window(memory: np.ndarray, tensor: Tensor) -> object:
    """A tensor's region of a flat array."""
    dtype = raw_dtype(tensor._dtype)  # not that of the memory, through a lens
    if 0 in tensor._shape:
        return np.zeros(tensor._shape, dtype)
    nbytes: cython.Py_ssize_t = memory.nbytes
    start: uintptr_t = cython.cast(uintptr_t, head(memory).data)
    itemsize: cython.Py_ssize_t = tensor._dtype.itemsize
    return strided_array(
        memory,
        start,
        start + nbytes,
        start + tensor.offset * itemsize,
        dtype,
        itemsize,
        tensor._shape,
        tensor.strides,
        head(memory).flags & WRITEABLE != 0,
    )


def raw_array(tensor: Tensor) -> Any:
    """The stored bits of a tensor as an array that must not be written; computes what is pending."""
    storage: Storage = tensor._storage
    if storage is not None and not tensor.view_transform:
        if storage.foreign is not None:
            return _window(cython.cast(Foreign, storage.foreign).memory, tensor)
        if storage.node.state == DONE and storage.node.dtype is tensor._dtype:
            pipeline.require(storage.node)
            return window_over(storage.node, tensor._shape, tensor.strides, tensor.offset)
    return pipeline.array_of(value_of(tensor))


def values_array(tensor: Tensor) -> Any:
    """The values of a tensor as an array to read; bfloat16 as float32."""
    raw = raw_array(tensor)
    return bfloat16_values(raw) if tensor._dtype is dtypes.bfloat16 else raw


def region(whole: Tensor, shape: Shape, strides: Shape, offset: int) -> Tensor:
    """An untracked handle of a strided region of another tensor's storage."""
    if shape == whole._shape and offset == 0 and tuple(strides) == contiguous_strides(shape):
        return alias_of(whole)
    return alias_of(view(OPS["strided"], whole, (offset, strides), shape, tuple(strides), offset))


# -- memory of others ----------------------------------------------------------------------------------------------


def is_compact(array: np.ndarray) -> bool:
    """True if an array's strides are those of its shape, or it has no elements. Dimensions of 1 have any strides."""
    return array.size == 0 or (head(array).flags & C_CONTIGUOUS != 0 and 1 not in array.shape)


def import_array(array: np.ndarray, dtype: DType) -> Tensor:
    """A tensor that shares the memory of an array with non-negative strides of whole elements."""
    shape: tuple[int, ...] = array.shape
    size: cython.Py_ssize_t = dtype.itemsize
    strides = plain = contiguous_strides(shape)
    if not is_compact(array):
        strides = tuple([stride // size for stride in array.strides])
    whole_shape = shape
    if strides != plain or type(array) is not np.ndarray:
        reach = sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
        whole_shape = (1 + reach if array.size else 0,)
    count: cython.Py_ssize_t = math.prod(whole_shape)
    address: uintptr_t = cython.cast(uintptr_t, head(array).data)
    end: uintptr_t = address + max(count, 1) * size
    writable: cython.bint = head(array).flags & WRITEABLE != 0
    flat = strided_array(array, address, end, address, array.dtype, size, (count,), None, writable)
    memory: PooledBuffer = pool_wrap(address, count * size, array, not writable)
    whole: Tensor = wrap(new_value(dtype, whole_shape, memory, 0), None)
    share(whole).foreign = Foreign(flat, None, array if whole_shape is shape else None)
    return alias_of(whole) if whole_shape is shape else region(whole, shape, strides, 0)


def export_array(tensor: Tensor) -> Any:
    """An array that shares a tensor's memory; from now on the storage is foreign, until the last export is gone."""
    if tensor._storage is None and tensor.strides is not None and ambient == 0:
        _order_memory(tensor)
    storage: Storage = share(tensor)
    if storage.foreign is None:
        _expose(storage)
    foreign: Foreign = storage.foreign
    if foreign.exported is None:
        return _window(foreign.memory, tensor)
    root = foreign.exported()
    if root is None:
        root = _fresh_root(storage.node)
        foreign.exported = weakref.ref(root)
    return _window(root, tensor)


@cython.cfunc
def _order_memory(tensor: Tensor) -> cython.void:
    """Bring a small value that is there into the memory order of its strides at once: a program would cost more."""
    node: Node = tensor.node
    if (
        node.state != DONE
        or node.buffer is None
        or node.strides is not None
        or not 0 < node.numel * node.dtype.itemsize <= LISTED
        or len(node.shape) > MOST_DIMENSIONS
    ):
        return
    order = dense_order(tensor._shape, tensor.strides)
    if order is not None:
        store_in_order(tensor, _permuted(node, order))


@cython.cfunc
def _permuted(node: Node, order: tuple[int, ...]) -> Node:
    """A value that is there with its dimensions in another order."""
    sizes = cython.declare(cython.Py_ssize_t[MOST_DIMENSIONS])
    steps = cython.declare(cython.Py_ssize_t[MOST_DIMENSIONS])
    places = cython.declare(cython.Py_ssize_t[MOST_DIMENSIONS])
    rank: cython.Py_ssize_t = len(order)
    axis: cython.Py_ssize_t
    itemsize: cython.Py_ssize_t = node.dtype.itemsize
    strides: tuple[int, ...] = contiguous_strides(node.shape)
    for axis in range(rank):
        sizes[axis] = node.shape[cython.cast(cython.Py_ssize_t, order[axis])]
        steps[axis] = strides[cython.cast(cython.Py_ssize_t, order[axis])] * itemsize
        places[axis] = 0
    buffer: PooledBuffer = pool_allocate(node.numel * itemsize)
    source = cython.cast(cython.p_char, node.buffer.address + node.offset)
    target = cython.cast(cython.p_char, buffer.address)
    last: cython.Py_ssize_t = rank - 1
    index: cython.Py_ssize_t
    while True:
        for index in range(sizes[last]):
            memcpy(target, source + index * steps[last], itemsize)
            target += itemsize
        axis = last - 1
        while axis >= 0:
            places[axis] += 1
            source += steps[axis]
            if places[axis] < sizes[axis]:
                break
            source -= sizes[axis] * steps[axis]
            places[axis] = 0
            axis -= 1
        if axis < 0:
            break
    shape = tuple([node.shape[axis] for axis in order])
    return new_value(node.dtype, shape, buffer, 0)


def bytes_of(storage: Storage) -> Any:
    """A storage's memory as a flat array of bytes, which its holder can write for as long as the storage lives."""
    if storage.foreign is None or _reclaim(storage):
        settle(storage)
        storage.foreign = Foreign(_fresh_root(storage.node))
    storage.foreign.exported = None
    return storage.foreign.memory.view(np.uint8)


@cython.cfunc
def _fresh_root(node: Node) -> object:
    # Every array has a base of its own, a view of the buffer: NumPy lets views of views keep only the last base alive.
    buffer: OwnedMemory = node.buffer
    dtype = raw_dtype(node.dtype)
    if node.numel == 0:  # a view of no elements may begin behind its buffer's end
        return np.ndarray((0,), dtype, cython.cast(object, buffer))
    start: uintptr_t = buffer.address
    end: uintptr_t = start + buffer.nbytes
    first: uintptr_t = start + node.offset
    writable: cython.bint = not buffer.readonly
    view = memory_view(buffer)
    itemsize: cython.Py_ssize_t = node.dtype.itemsize
    return strided_array(view, start, end, first, dtype, itemsize, (node.numel,), None, writable)


@cython.cfunc
def _expose(storage: Storage) -> cython.void:
    settle(storage)
    storage.foreign = Foreign(_fresh_root(storage.node), _gone)


def _gone() -> None:
    """The exported array of a storage that has none."""


def settle(storage: Storage) -> None:
    """Give a storage's value memory of its own that outsiders may know: the same for as long as the storage lives and
    fits into it. Others that read or saved the value go on with a copy. Cost: runs the pending operations of the
    value. Errors: TypeError where the host cannot read it."""
    pipeline.require(storage.node)
    if storage.node.device != 0 and not PyObject_CheckBuffer(storage.node.buffer):
        raise _out_of_reach(storage.node)
    if _has_home(storage):
        if storage.home is not storage.node or not _is_sole_owner(storage):
            pipeline.alone(_move_home, storage)
    elif _is_dense(storage) and _is_sole_owner(storage):
        storage.home = storage.node
    else:
        pipeline.alone(_find_home, storage)
    storage.node.max_index = 0  # a holder of the address can write any index


def _out_of_reach(node: Node) -> ArgumentTypeError:
    name = device_at(node.device).name
    return ArgumentTypeError(
        f"can't convert {name} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        expected="a value in host memory",
        got=f"one on the device {name!r}",
        fix="copy it to the CPU first",
    )


@cython.cfunc
def _has_home(storage: Storage) -> cython.bint:
    home: Node = storage.home
    if home is None or home.buffer is None:
        return False
    return home.numel * home.dtype.itemsize >= storage.node.numel * storage.node.dtype.itemsize


@cython.cfunc
def _is_dense(storage: Storage) -> cython.bint:
    return storage.node.buffer is not None and storage.node.strides is None


def _find_home(storage: Storage) -> None:
    """Give a value memory that nobody else sees: its own, or a copy."""
    storage.home = None
    if not _is_dense(storage) or not _is_sole_owner(storage):
        _put(storage, node_of_array(pipeline.array_of(storage.node), storage.node.dtype))
    storage.home = storage.node


def _move_home(storage: Storage) -> None:
    """Bring a value back to where it was, and see to it that nobody else is there."""
    is_there = storage.node.buffer is storage.home.buffer
    if is_there and _is_sole_owner(storage):
        return
    lent = pool.is_lent(storage.home.buffer)
    moves = is_there or Py_REFCNT(cython.cast(cython.pointer(PyObject), storage.home)) > 1
    moves = (
        moves or Py_REFCNT(cython.cast(cython.pointer(PyObject), storage.home.buffer)) > 1 + lent
    )
    if moves:
        pipeline.need_no_run()
    home, storage.home = storage.home, None  # where the rest fails, there is none
    buffer = pool.take_over(home.buffer) if moves else home.buffer
    node = make_value(storage.node.dtype, storage.node.shape, buffer, home.offset)
    if not is_there:
        _fresh_root(node)[...] = pipeline.array_of(storage.node).reshape(-1)
    _put(storage, node)
    storage.home = node


def _put(storage: Storage, node: Node) -> None:
    """Replace a storage's value by an equal one."""
    if isinstance(storage.node.info, Extent):
        node.info = storage.node.info
    replace_node(storage, node)


@cython.cfunc
def _is_sole_owner(storage: Storage) -> cython.bint:
    """True if nothing but a storage, which may have had another value in this memory before, sees its node and its
    buffer."""
    at_home: cython.bint = storage.home is storage.node
    earlier: cython.bint = storage.home is not None and not at_home
    if (
        storage.node.external_refs != 1
        or Py_REFCNT(cython.cast(cython.pointer(PyObject), storage.node)) != 1 + at_home
    ):
        return False
    if earlier and Py_REFCNT(cython.cast(cython.pointer(PyObject), storage.home)) > 1:
        return False
    lent: cython.bint = pool.is_lent(storage.node.buffer)  # its lender needs the memory alone
    return (
        Py_REFCNT(cython.cast(cython.pointer(PyObject), storage.node.buffer)) == 1 + earlier + lent
    )


@cython.cfunc
def _reclaim(storage: Storage) -> cython.bint:
    """End the foreign state of a storage whose memory nobody outside holds any more: its exported arrays are gone, or
    the array that it came as."""
    if not cython.cast(Foreign, storage.foreign).is_left():
        return False
    storage.foreign = None
    return True


def snapshot(tensor: Tensor) -> Any:
    """The node of what a foreign region holds now."""
    storage, dtype = tensor._storage, tensor._dtype
    if _reclaim(storage):
        return value_of(tensor)
    nbytes = tensor.numel() * dtype.itemsize
    if storage.foreign.source is None or tensor.strides is not None or nbytes > LISTED:
        return node_of_array(_window(storage.foreign.memory, tensor), dtype)
    start = storage.node.buffer.address + tensor.offset * dtype.itemsize
    return make_value(dtype, tensor._shape, device_memory.copied(start, nbytes), 0)


def write_through(tensor: Tensor, new: Tensor) -> None:
    """Write a value into foreign memory now. Read-only memory stays as it is: the storage parts from it."""
    storage = tensor._storage
    if not _reclaim(storage):
        memory = storage.foreign.memory
        if memory.flags.writeable:
            _window(memory, tensor)[...] = pipeline.array_of(value_of(new))
            return
        replace_node(storage, node_of_array(memory.reshape(storage.node.shape), storage.node.dtype))
        storage.foreign = None
    whole = primitives.put(
        wrap_node(storage.node), new.detach(), tensor.offset, logical_strides(tensor)
    )
    replace_node(storage, value_of(whole))


def write_where_it_lies(
    tensor: Tensor, operands: tuple[object, ...], update: Callable[[Tensor], object]
) -> bool:
    """Let `update`, an operation in place of a tensor and these operands, change memory that others can write without
    copying all of it. It gets a tensor of the same bytes whose value nobody else seems to have, so that the program
    writes what changes over it, and runs at once. False where the operation has to go the usual way: where it is
    followed by more than the write, and where a copy costs less than a run."""
    storage: Storage = tensor._storage
    if storage is None or storage.foreign is None:
        return False
    if not is_plain_write(tensor, operands) or storage.node.nbytes < LEAST_LOOKED_UP_BYTES:
        return False
    foreign: Foreign = storage.foreign
    if foreign.is_left() or head(foreign.memory).flags & WRITEABLE == 0 or current_tape().running:
        return False
    for operand in operands:
        _read_index(operand)
    _update(storage, foreign.memory, tensor, update)
    mutate(tensor, alias_of(tensor))
    return True


@cython.cfunc
def _update(
    storage: Storage, memory: np.ndarray, tensor: Tensor, update: Callable[[Tensor], object]
) -> cython.void:
    granted: PooledBuffer = _granted(storage.node.buffer)
    whole: Tensor = wrap(
        new_value(storage.node.dtype, storage.node.shape, granted, storage.node.offset), None
    )
    share(whole)
    part: Tensor = whole
    if tensor.offset or tensor.strides is not None or tensor._shape != whole._shape:
        strides = logical_strides(tensor)
        part = view(
            OPS["strided"], whole, (tensor.offset, strides), tensor._shape, strides, tensor.offset
        )
    update(part)
    written: Storage = whole._storage
    pipeline.require(written.node)
    if written.node.buffer is not granted:
        _window(memory, tensor)[...] = raw_array(part)


@cython.cfunc
def _granted(memory: OwnedMemory) -> PooledBuffer:
    """The same span as a foreign buffer that results may be written over: what is computed of it is to be seen by those
    who hold the memory."""
    buffer: PooledBuffer = pool_wrap(memory.address, memory.nbytes, memory)
    buffer.size_class = GRANTED
    return buffer


@cython.cfunc
def _read_index(operand: object) -> cython.void:
    """Compute a pending operand that says where to write, so that the write cannot fail."""
    if isinstance(operand, Tensor) and cython.cast(Tensor, operand)._dtype.category < 2:
        found: Tensor = operand
        node: Node = (
            found.node if found._storage is None else cython.cast(Storage, found._storage).node
        )
        if node.state != DONE:
            pipeline.require(node)


def handle_of(storage: Storage) -> Tensor:
    """A handle of all elements of a storage."""
    whole: Tensor = wrap_node(storage.node)
    storage_of(whole)
    whole._storage = storage
    whole.version_seen = storage.version
    return whole


def copy_of_storage(storage: Storage) -> Tensor:
    """A contiguous handle of a new storage with the same value."""
    if storage.foreign is None or _reclaim(storage):
        whole: Tensor = wrap_node(storage.node)
    else:
        whole = tensor_of_array(
            storage.foreign.memory.reshape(storage.node.shape), storage.node.dtype
        )
    storage_of(whole)
    return whole
