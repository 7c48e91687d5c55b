# ruff: noqa: A001, A003 - PyTorch's names
"""Untyped storages: the memory of tensors as an object of bytes, as PyTorch has it. `typed_storage` has elements.

A storage is made from a tensor, or with a size, and is measured, compared, read, written and resized. Every tensor of
the memory shows what is written to it. `memory` and the engine keep the memory.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft._build.lazy import later
from weft._typing import DeviceLike
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Storage, Tensor, replace_node
from weft.engine.frontend.views import storage_of
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExportError,
    NotDefinedError,
    ShapeError,
    rooted,
)
from weft.ops import primitives as ops
from weft.tensor.arguments import need_integer
from weft.tensor.creation.factories import filled, read_dtype, read_size, tensor
from weft.tensor.device import on_meta
from weft.tensor.layout import data_ptr
from weft.tensor.memory.host_memory import (
    Extent,
    bytes_of,
    copy_of_storage,
    handle_of,
    import_array,
    need_room,
    tensor_of_array,
)
from weft.tensor.memory.storage_base import StorageBase

shared_memory = later("weft.tensor.memory.shared_memory")


class UntypedStorage(StorageBase):
    """The memory that a tensor shows, as bytes. Tensors that share memory have equal ones, with one address.

    `UntypedStorage(n)` is new memory of n bytes, `UntypedStorage([1, 2])` of these.

    Args:
        *args: a number of bytes, or bytes as integers.
        **kwargs: `device`, where it lies.
    """

    _storage: Storage
    filename: str | None = None  # of the file that the memory is, if it is one

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._show(storage_of(new_memory(dtypes.uint8, args, kwargs.get("device"))))

    def _show(self, cell: Storage) -> None:
        """Stand for a storage of the graph; it knows its object, which is the same one as long as somebody has it."""
        self._storage = cell
        cell.shown = weakref.ref(self)

    @classmethod
    def of(cls, tensor: Tensor) -> UntypedStorage:
        """The memory of a tensor: one object for all that share it.

        Args:
            tensor: a tensor with memory.
        """
        cell = storage_of(tensor)
        known = None if cell.shown is None else cell.shown()
        if known is not None:
            return known  # type: ignore[no-any-return]
        made = cls.__new__(cls)
        made._show(cell)
        return made

    def shown_as(self, dtype: DType | None) -> Any:
        """The bytes as elements of a dtype, int64 by default: a vector that shares the memory.

        Args:
            dtype: the dtype of the elements.
        """
        return self.as_tensor(dtypes.int64 if dtype is None else dtype)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        dtype: DType | None = None,
    ) -> UntypedStorage:
        """A copy of `count` elements (all, unless given) of a buffer from a byte on, in the order of this machine.
        `byte_order`, "native", "little" or "big", is wanted where elements have more than one byte.

        Args:
            buffer: an object with the buffer protocol.
            byte_order: "native", "little" or "big"; None: the dtype has one byte.
            count: how many elements, -1 for all that are there. Default: -1.
            offset: the byte at which they begin. Default: 0.
            dtype: the dtype of the elements; None: the class's own, bytes in an UntypedStorage.

        Raises:
            RuntimeError without it, ValueError on another word, and where the buffer is too
            short.
        """
        wanted = dtypes.uint8 if dtype is None else read_dtype(dtype)
        if byte_order is None and wanted.itemsize > 1:
            raise DTypeError(
                "function missing required argument 'byte_order' (pos 2)",
                expected="'native', 'little' or 'big'",
                got="no byte_order",
                fix="say in which order the bytes of an element are",
            )
        content = np.frombuffer(
            buffer, np.uint8, -1 if count < 0 else count * wanted.itemsize, offset
        )
        made = cls.of(tensor_of_array(content, dtypes.uint8))
        if byte_order not in (None, "native", sys.byteorder):
            made.byteswap(wanted)
        return made

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file as memory, read when they are wanted. What is written to it is
        written to the file if it is `shared`, which is made long enough; else nobody sees it.

        Args:
            filename: the path.
            shared: whether writes reach the file. Default: False.
            nbytes: how many bytes. Default: 0.

        Raises:
            OSError.
        """
        made = cls.of(
            import_array(shared_memory.mapped_file(filename, shared, nbytes), dtypes.uint8)
        )
        made.filename = os.fspath(filename) if shared else None
        return made

    @property
    def _whole(self) -> Tensor:
        """All elements, as the tensors have them; what is written to it counts no version of theirs."""
        return handle_of(self._storage).data

    @property
    def _elements(self) -> Any:
        return self.as_tensor(dtypes.uint8)

    @classmethod
    def _of_elements(cls, elements: Tensor) -> UntypedStorage:
        return cls.of(elements)

    def nbytes(self) -> int:
        """The number of bytes."""
        node = self._storage.node
        return node.info.nbytes if isinstance(node.info, Extent) else int(node.nbytes)

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """The address of the first byte now, 0 without bytes. Cost: runs what is pending of the tensor."""
        return data_ptr(self._whole) if self.nbytes() else 0

    def as_tensor(self, dtype: DType) -> Any:
        """The bytes as a vector of a type: shared, not copied. Bytes that are no whole element are left out.

        Args:
            dtype: the dtype of the elements.
        """
        whole = self._whole.reshape(-1)
        shown = whole if whole._dtype is dtype else whole.view(dtype)
        return shown[: self.nbytes() // dtype.itemsize]

    def resize_(self, size: int) -> UntypedStorage:
        """Make the memory as many bytes long, with zeros behind. With 0 bytes nothing is kept:
        tensors of this memory show zeros until they are written to.

        Args:
            size: how many bytes.

        Raises:
            RuntimeError where the memory belongs to others.
        """
        if self._storage.foreign is not None:
            raise ExportError(
                "Trying to resize storage that is not resizable",
                expected="memory of Weft",
                got="memory that is shared with NumPy",
                fix="clone the tensor first",
            )
        _resize(self._storage, size)
        return self

    def resizable(self) -> bool:
        """True if `resize_` works."""
        return self._storage.foreign is None

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> UntypedStorage:
        """Write the bytes of another storage.

        Args:
            source: the storage that is read, of the same size.
            non_blocking: accepted, as memory of one device is copied at once; None: False.

        Raises:
            RuntimeError where it has another size.
        """
        self._elements.copy_(source._elements)
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Write one number into every byte.

        Args:
            value: a number from 0 to 255.
        """
        self._elements.fill_(value)
        return self

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    def element_size(self) -> int:
        """Bytes per element: 1."""
        return 1

    def is_shared(self) -> bool:
        """True if other processes can write the memory."""
        return self.filename is not None or bool(shared_memory.is_shared(self._storage))

    def share_memory_(self) -> UntypedStorage:
        """Move the memory to where processes share it: see `Tensor.share_memory_`."""
        shared_memory.share(self._storage)
        return self

    @property
    def _cdata(self) -> int:
        return id(self._storage)

    def tolist(self) -> list[int]:
        """All bytes as numbers. Errors: NotImplementedError on the device meta."""
        if is_on_meta(self._whole):
            raise no_elements_here()
        return list(self._elements.tolist())

    def __getitem__(self, index: int | slice) -> Any:
        """A byte as a number; of a slice, the storage of these bytes, which is the same memory."""
        if not isinstance(index, slice):
            return self.tolist()[index]
        start, stop, step = index.indices(self.nbytes())
        if step != 1:
            raise ExportError(
                f"Trying to slice with a step of {step}, but only a step of 1 is supported",
                expected="neighbouring bytes",
                got=repr(index),
                fix="slice a tensor of the storage",
            )
        if is_on_meta(self._whole):
            return type(self)(max(stop - start, 0), device="meta")
        part = bytes_of(self._storage)[start : max(start, stop)]
        return type(self).of(import_array(part, dtypes.uint8))

    def __setitem__(self, index: int, value: int) -> None:
        self._elements[index] = value

    def type(self, dtype: object = None, non_blocking: bool = False) -> Any:
        """The name of the class, or the storage itself as of this class, the only one of untyped memory.

        Args:
            dtype: the class wanted, or its name; None: the name of this one is returned.
            non_blocking: accepted, without effect. Default: False.
        """
        return rooted("weft.storage.UntypedStorage") if dtype is None else self

    def byteswap(self, dtype: DType) -> None:
        """Turn the bytes of each element of a type around, in place.

        Args:
            dtype: the dtype of the elements.

        Raises:
            RuntimeError where one is not whole.
        """
        wanted = read_dtype(dtype)
        size = wanted.itemsize // (2 if wanted.is_complex else 1)
        if self.nbytes() % size:
            raise ShapeError(
                f"the length of data is not a multiple of {size}",
                expected=f"whole elements of {wanted.name}",
                got=f"{self.nbytes()} bytes",
                fix="pass the type that the bytes are of",
            )
        rows = self._elements.reshape(-1, size)
        rows.copy_(rows.flip(1))

    def new(self) -> UntypedStorage:
        """A storage without bytes."""
        return type(self)()

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return (
            self._storage is other._storage if isinstance(other, UntypedStorage) else NotImplemented
        )

    def __hash__(self) -> int:
        return id(self._storage)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        """The copy that tensors of this memory have, too."""
        if id(self._storage) not in memo:
            memo[id(self._storage)] = copy_of_storage(self._storage)
        return type(self).of(memo[id(self._storage)])

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_cell, (self._storage,)

    def __repr__(self) -> str:
        shown = " ..." if is_on_meta(self._whole) else "\n".join(f" {value}" for value in self)
        return f"{shown}\n[UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def _resize(cell: Storage, size: int) -> None:
    if need_integer("resize_", size, "size") < 0:
        raise ArgumentError(
            "resize_: the size of a storage must not be negative",
            expected="bytes >= 0",
            got=str(size),
            fix="check how it was computed",
        )
    node = cell.node
    dtype, have = node.dtype, int(node.nbytes)
    if size == 0:
        made = ops.full(node.shape, 0, dtype)
    elif size > have:
        more = -(-(size - have) // dtype.itemsize)
        need_room((more,), dtype)
        kept = handle_of(cell).detach().reshape(-1)
        made = ops.concat((kept, ops.full((more,), 0, dtype)), 0)
    else:
        made = ops.elementwise("clone", handle_of(cell).detach())
    fresh = value_of(made)
    if size != int(fresh.nbytes):
        fresh.info = Extent(size)
    replace_node(cell, fresh)


def _of_cell(cell: Storage) -> UntypedStorage:
    """Rebuild a storage; unpickling calls it."""
    return UntypedStorage.of(handle_of(cell))


def no_elements_here() -> NotDefinedError:
    """The error of wanting an element of a storage on the device meta."""
    return NotDefinedError(
        "Not available for 'meta' device type",
        expected="a storage that has memory",
        got="one on the device meta",
        fix="make it on the CPU",
    )


def new_memory(
    dtype: DType, arguments: tuple[int | list[int], ...], device: DeviceLike | None
) -> Tensor:
    """New memory: of so many elements, or with these. Errors: TypeError on anything else."""
    first: Any = arguments[0] if arguments else 0
    if isinstance(first, np.integer):
        first = int(first)
    if len(arguments) > 1 or not (isinstance(first, int) or hasattr(first, "__len__")):
        raise ArgumentTypeError(
            f"a storage of {dtype.name} takes a number of elements, or a sequence of them",
            expected="an integer or a sequence",
            got=", ".join(type(value).__name__ for value in arguments),
            fix="pass such as 4, or [1, 2]",
        )
    if isinstance(first, int):
        return filled(read_size("Storage", (first,)), 0, dtype, on_meta(device, "Storage"))
    return tensor(first, dtype=dtype, device=device)
