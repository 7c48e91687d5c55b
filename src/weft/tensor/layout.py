"""Memory formats, and a tensor's layout as numbers: strides, offset, sizes in bytes, addresses.

`weft.engine.ir.strides` says what strides mean to operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from weft._build.lazy import later
from weft.engine.api.api_function import records_one
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import logical_strides, storage_of
from weft.engine.ir.strides import fastest_first
from weft.engine.ir.strides import is_contiguous as strides_are_contiguous
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, class_name, rooted
from weft.tensor.arguments import wrap_dim
from weft.tensor.memory.host_memory import settle

shared_memory = later("weft.tensor.memory.shared_memory")


class MemoryFormat:
    """The order in memory that a copy should have.

    Args:
        name: its name, such as "channels_last".

    Example:
        >>> import weft
        >>> x = weft.ones(1, 2, 3, 4).contiguous(memory_format=weft.channels_last)
        >>> x.stride()
        (24, 1, 8, 2)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return rooted(f"weft.{self.name}")

    def __reduce__(self) -> str:
        return self.name


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")


class Layout:
    """The layout of elements: `strided`, `jagged` (`weft.nested`), `sparse_coo` or `sparse_csr` (`weft.sparse`).

    Example:
        >>> import weft
        >>> weft.ones(2).layout, weft.eye(2).to_sparse().layout
        (weft.strided, weft.sparse_coo)
    """

    __slots__ = ("name",)
    name: str

    def __repr__(self) -> str:
        return rooted(f"weft.{self.name}")

    def __reduce__(self) -> str:
        return self.name


def _layout(name: str) -> Layout:
    made = Layout()
    made.name = name
    return made


strided, jagged = _layout("strided"), _layout("jagged")
sparse_coo, sparse_csr = _layout("sparse_coo"), _layout("sparse_csr")
# There are no tensors of these: names to compare with.
sparse_csc, sparse_bsr, sparse_bsc = map(_layout, ("sparse_csc", "sparse_bsr", "sparse_bsc"))


def _channels_last_order(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def format_strides(
    shape: tuple[int, ...], memory_format: MemoryFormat | None
) -> tuple[int, ...] | None:
    """The strides of a memory format, None where they are row-major. Errors: ShapeError on another rank."""
    if not isinstance(memory_format, MemoryFormat):
        raise ArgumentTypeError(
            f"argument 'memory_format' must be weft.memory_format, not {class_name(memory_format)}",
            expected="such as weft.channels_last",
            got=f"{memory_format!r:.100}",
            fix="pass one of the memory formats, or leave it out",
        )
    ranks = {"contiguous_format": len(shape), "channels_last": 4, "channels_last_3d": 5}
    rank = ranks.get(memory_format.name)
    if rank != len(shape):
        raise ShapeError(
            "unsupported memory format option preserve_format"
            if rank is None
            else f"required rank {rank} tensor to use {memory_format.name} format",
            expected="one of the named formats" if rank is None else f"{rank} dimensions",
            got=f"{len(shape)} dimensions, {memory_format!r}",
            fix="leave memory_format out",
        )
    if memory_format.name == "contiguous_format":
        return None
    strides, step = [1] * rank, 1
    for axis in reversed(_channels_last_order(rank)):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return None if strides_are_contiguous(shape, tuple(strides)) else tuple(strides)


@records_one
def is_contiguous(self: Tensor, memory_format: MemoryFormat = contiguous_format) -> bool:
    """True if elements are row-major in memory, or in the order of the named format."""
    if memory_format in (channels_last, channels_last_3d):
        if len(self._shape) != (4 if memory_format is channels_last else 5):
            return False
        order = _channels_last_order(len(self._shape))
        strides = logical_strides(self)
        return bool(
            strides_are_contiguous(
                tuple(self._shape[a] for a in order), tuple(strides[a] for a in order)
            )
        )
    return self.strides is None or bool(strides_are_contiguous(self._shape, self.strides))


@records_one
def stride(self: Tensor, dim: int | None = None) -> Any:
    """Elements between neighbours along each dimension, or along one."""
    strides = logical_strides(self)
    return strides if dim is None else strides[wrap_dim(dim, len(strides))]


def dim_order(
    self: Tensor, *, ambiguity_check: bool | Sequence[MemoryFormat] = False
) -> tuple[int, ...]:
    """The dimensions in the order in which they lie in memory, the one with the largest steps first. With
    `ambiguity_check`, errors: RuntimeError where another order would do as well, unless exactly one of the given
    memory formats fits."""
    strides = logical_strides(self)
    if ambiguity_check is not False:
        formats = () if ambiguity_check is True else _need_formats(ambiguity_check)
        ambiguous = 1 in self._shape or any(a == b for a, b in pairwise(strides))
        if ambiguous and sum(is_contiguous(self, each) for each in formats) != 1:
            raise _no_unique_order(
                self, ", or cannot map to exact one of the given memory formats."
            )
        if 0 in strides:
            raise _no_unique_order(self, ".")
    return tuple(reversed(fastest_first(self._shape, [(self._shape, strides)])))


def _need_formats(value: object) -> list[MemoryFormat]:
    if not isinstance(value, list) or not all(isinstance(each, MemoryFormat) for each in value):
        raise ArgumentTypeError(
            "The ambiguity_check argument must be a bool or a list of memory formats.",
            expected="True, False, or a list such as [weft.contiguous_format, weft.channels_last]",
            got=f"{value!r:.100}",
            fix="pass True, or leave it out",
        )
    return value


def _no_unique_order(self: Tensor, ending: str) -> ArgumentError:
    return ArgumentError(
        f"The tensor does not have unique dim order{ending}",
        expected="dimensions of more than one element, each with steps of its own",
        got=f"shape {list(self._shape)}, strides {list(logical_strides(self))}",
        fix="leave ambiguity_check out",
    )


@records_one
def storage_offset(self: Tensor) -> int:
    """The tensor's start in its storage, in elements."""
    return int(self.offset)


@records_one
def numel(input: Tensor) -> int:  # noqa: A002
    """The number of elements."""
    return math.prod(input._shape)


@records_one
def dim(self: Tensor) -> int:
    """The number of dimensions."""
    return len(self._shape)


@records_one
def element_size(self: Tensor) -> int:
    """Bytes per element."""
    return int(self._dtype.itemsize)


def nbytes(self: Tensor) -> int:
    """Bytes of all elements."""
    return numel(self) * int(self._dtype.itemsize)


def data_ptr(self: Tensor) -> int:
    """The address of the first element, 0 without elements and on the device meta. Tensors have one memory only where
    they share a storage, not where they have equal values; it stays where it is for as long as the storage lives.

    What is written to the address, the tensor shows; operations recorded before have read what was there. What the
    tensor was given in place since the call is at the address after the next call.

    Cost: runs what is pending of the tensor; copies its value where somebody else has it, too.
    """
    if 0 in self._shape or is_on_meta(self):
        return 0
    storage = storage_of(self)
    start = self.offset * self._dtype.itemsize
    if storage.foreign is not None:
        storage.foreign.source = None  # whoever has the address can write, without being counted
        return int(storage.foreign.memory.ctypes.data) + start
    settle(storage)
    return int(storage.node.buffer.address) + int(storage.node.offset) + start


@records_one
def is_floating_point(input: Tensor) -> bool:  # noqa: A002
    """True if the dtype is a real floating-point type."""
    return bool(input._dtype.is_floating_point)


@records_one
def is_complex(input: Tensor) -> bool:  # noqa: A002
    """True if the dtype is complex."""
    return bool(input._dtype.is_complex)


@records_one
def is_signed(self: Tensor) -> bool:
    """True if the dtype has negative values."""
    return bool(self._dtype.is_signed)


def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor, with all that shares its memory, to memory that processes share: those that are forked from now
    on, and those that it is sent to, see what the others write, at once.

    Cost: runs what is pending of the tensor; from now on operations copy what they read of it, and writes to it run.
    """
    shared_memory.share(storage_of(self))
    return self


def is_shared(self: Tensor) -> bool:
    """True if other processes can write the memory: after `share_memory_`, or if it came from one."""
    return bool(shared_memory.is_shared(storage_of(self)))


@records_one
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """True if both show the same elements of the same storage."""
    return (
        storage_of(self) is storage_of(tensor)
        and self.offset == tensor.offset
        and self._shape == tensor._shape
        and logical_strides(self) == logical_strides(tensor)
    )


FUNCTIONS: dict[str, Any] = {
    "numel": numel,
    "is_floating_point": is_floating_point,
    "is_complex": is_complex,
    "is_signed": is_signed,
    "contiguous_format": contiguous_format,
    "preserve_format": preserve_format,
    "channels_last": channels_last,
    "channels_last_3d": channels_last_3d,
    "strided": strided,
    "jagged": jagged,
    "sparse_coo": sparse_coo,
    "sparse_csr": sparse_csr,
    "sparse_csc": sparse_csc,
    "sparse_bsr": sparse_bsr,
    "sparse_bsc": sparse_bsc,
    "memory_format": MemoryFormat,
    "layout": Layout,
}
METHODS: dict[str, Any] = {
    "stride": stride,
    "dim_order": dim_order,
    "storage_offset": storage_offset,
    "numel": numel,
    "nelement": numel,
    "dim": dim,
    "ndimension": dim,
    "element_size": element_size,
    "nbytes": property(nbytes),
    "itemsize": property(element_size),
    "data_ptr": data_ptr,
    "is_contiguous": is_contiguous,
    "is_floating_point": is_floating_point,
    "is_complex": is_complex,
    "is_signed": is_signed,
    "is_set_to": is_set_to,
    "share_memory_": share_memory_,
    "is_shared": is_shared,
    "layout": property(lambda self: strided),
    "names": property(lambda self: (None,) * len(self._shape)),
}
