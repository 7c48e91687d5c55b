# ruff: noqa: A001, A003 - PyTorch's names
"""The memory that tensors show, as an object: PyTorch's untyped storages (bytes) and typed ones (elements).

In come tensors, or how much memory is wanted; out go storages, to be measured, compared, read, written and resized.
What they write, every tensor of the memory shows. How memory is kept is left to `memory` and the graph layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft._lazy import later
from weft.errors import ArgumentError, ArgumentTypeError, ExportError
from weft.functional.arguments import TYPE_NAMES, need_integer
from weft.graph import dtype as dtypes
from weft.graph.dtype import DType
from weft.graph.edges import value_of
from weft.graph.meta import is_on_meta, no_data_here
from weft.graph.tensor import Storage, Tensor, replace_node
from weft.graph.views import storage_of
from weft.ops import primitives as ops
from weft.tensor.conversion import CONVERSIONS
from weft.tensor.creation import filled, read_dtype, read_size, tensor
from weft.tensor.device import on_meta
from weft.tensor.layout import data_ptr
from weft.tensor.memory import Extent, handle_of, need_room

sharing = later("weft.tensor.sharing")


class UntypedStorage:
    """The memory that a tensor shows, as bytes. Tensors that share memory have equal ones, with one address.

    `UntypedStorage(n)` is new memory of n bytes, `UntypedStorage([1, 2])` of these.
    """

    __slots__ = ("_cell",)

    _cell: Storage

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._cell = storage_of(_memory(dtypes.uint8, args, kwargs.get("device")))

    @classmethod
    def of(cls, tensor: Tensor) -> UntypedStorage:
        """The memory of a tensor."""
        made = cls.__new__(cls)
        made._cell = storage_of(tensor)
        return made

    @property
    def _whole(self) -> Tensor:
        """All elements, as the tensors have them; what is written to it counts no version of theirs."""
        return handle_of(self._cell).data

    def nbytes(self) -> int:
        """How many bytes there are."""
        node = self._cell.node
        return node.info.nbytes if isinstance(node.info, Extent) else int(node.nbytes)

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """The address of the first byte now, 0 without bytes. Cost: runs what is pending of the tensor."""
        return data_ptr(self._whole) if self.nbytes() else 0

    def as_tensor(self, dtype: Any) -> Any:
        """The bytes as a vector of a type: shared, not copied. Bytes that are no whole element are left out."""
        whole = self._whole.reshape(-1)
        shown = whole if whole._dtype is dtype else whole.view(dtype)
        return shown[: self.nbytes() // dtype.itemsize]

    def resize_(self, size: int) -> UntypedStorage:
        """Make the memory as many bytes long, with zeros behind. With 0 bytes nothing is kept: tensors of this memory
        show zeros until they are written to. Errors: RuntimeError where the memory belongs to others."""
        if self._cell.foreign is not None:
            raise ExportError(
                "Trying to resize storage that is not resizable",
                expected="memory of Weft",
                got="memory that is shared with NumPy",
                fix="clone the tensor first",
            )
        _resize(self._cell, size)
        return self

    def resizable(self) -> bool:
        """Whether `resize_` works."""
        return self._cell.foreign is None

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> UntypedStorage:
        """Write the bytes of another storage. Errors: RuntimeError where it has another size."""
        self.as_tensor(dtypes.uint8).copy_(source.as_tensor(dtypes.uint8))
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Write one number into every byte."""
        self.as_tensor(dtypes.uint8).fill_(value)
        return self

    def clone(self) -> UntypedStorage:
        """New memory with the same bytes."""
        return type(self).of(self.as_tensor(dtypes.uint8).clone())

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    def element_size(self) -> int:
        """Bytes per element: 1."""
        return 1

    def cpu(self) -> UntypedStorage:
        """The storage itself."""
        return self

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self._whole.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a CUDA device: no."""
        return False

    def is_shared(self) -> bool:
        """Whether other processes can write the memory."""
        return bool(sharing.is_shared(self._cell))

    def share_memory_(self) -> UntypedStorage:
        """Move the memory to where processes share it: see `Tensor.share_memory_`."""
        sharing.share(self._cell)
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is pinned for copies to another device: no."""
        return False

    @property
    def filename(self) -> None:
        """The file that the memory stands in: none."""
        return

    @property
    def _cdata(self) -> int:
        return id(self._cell)

    def tolist(self) -> list[int]:
        """All bytes as numbers. Errors: NotImplementedError on the device meta."""
        if is_on_meta(self._whole):
            raise no_data_here()
        return list(self.as_tensor(dtypes.uint8).tolist())

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.as_tensor(dtypes.uint8)[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return self._cell is other._cell if isinstance(other, UntypedStorage) else NotImplemented

    def __hash__(self) -> int:
        return id(self._cell)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        return memo.setdefault(id(self._cell), self.clone())

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_tensor, (self.as_tensor(dtypes.uint8).clone(),)

    def __repr__(self) -> str:
        return f"[UntypedStorage(device={self.device}) of size {self.nbytes()}]"


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


def _of_tensor(memory: Tensor) -> UntypedStorage:
    """What unpickling calls."""
    return UntypedStorage.of(memory)


def _memory(dtype: DType, arguments: tuple[Any, ...], device: Any) -> Tensor:
    """New memory: of so many elements, or with these. Errors: TypeError on anything else."""
    first = arguments[0] if arguments else 0
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


class TypedStorage:
    """The memory that a tensor shows, as elements of its type: `tensor.storage()`."""

    dtype: DType

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: Any = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        self.dtype = read_dtype(dtype)
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        else:
            self._untyped_storage = UntypedStorage.of(_memory(self.dtype, args, device))

    @property
    def _elements(self) -> Any:
        """All elements as a vector, shared."""
        return self._untyped_storage.as_tensor(self.dtype)

    def size(self) -> int:
        """How many elements there are."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self.dtype.itemsize)

    def data_ptr(self) -> int:
        """The address of the first element now. Cost: runs what is pending of the tensor."""
        return self._untyped_storage.data_ptr()

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    def resize_(self, size: int) -> TypedStorage:
        """Make the memory as many elements long; see `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.element_size())
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Write the elements of another storage, in this one's type."""
        self._elements.copy_(source._elements)
        return self

    def fill_(self, value: Any) -> TypedStorage:
        """Write one number everywhere."""
        self._elements.fill_(value)
        return self

    def clone(self) -> TypedStorage:
        """New memory with the same elements."""
        return _typed(self._elements.clone())

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the storage's type, or its elements as another type, in new memory."""
        if dtype is None:
            return f"weft.{TYPE_NAMES[self.dtype.name]}Storage"
        wanted = dtype.dtype if isinstance(dtype, LegacyStorage) else read_dtype(dtype)
        return _typed(self._elements.to(wanted))

    def tolist(self) -> list[Any]:
        """All elements as numbers."""
        return list(self._elements.tolist())

    def cpu(self) -> TypedStorage:
        """The storage itself."""
        return self

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a CUDA device: no."""
        return False

    def is_shared(self) -> bool:
        """Whether other processes can write the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move the memory to where processes share it: see `Tensor.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._elements.__array__(dtype)

    def __getitem__(self, index: Any) -> Any:
        return self._elements[index].tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self.dtype is other.dtype and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return memo.setdefault(id(self), self.clone())

    def __reduce__(self) -> tuple[Any, ...]:
        return _typed, (self._elements.clone(),)

    def __repr__(self) -> str:
        lines = "\n".join(f" {value}" for value in self.tolist())
        kind = f"dtype={self.dtype!r}, device={self.device}"
        return f"{lines}\n[TypedStorage({kind}) of size {self.size()}]"


def _conversion(name: str, dtype: DType) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        return self if self.dtype is dtype else _typed(self._elements.to(dtype))

    convert.__name__ = name
    convert.__doc__ = f"The elements as {dtype.name}, in new memory unless they are."
    return convert


for _name, _dtype in CONVERSIONS.items():
    if not _dtype.is_complex:
        setattr(TypedStorage, _name, _conversion(_name, _dtype))


def _typed(memory: Tensor) -> TypedStorage:
    """The storage of a tensor, as elements of its type."""
    return TypedStorage(wrap_storage=UntypedStorage.of(memory), dtype=memory._dtype)


class LegacyStorage:
    """A type of storage such as `FloatStorage`: it makes typed storages of its `dtype`, and they are its instances."""

    def __init__(self, name: str, dtype: DType) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "weft"
        self.dtype = dtype

    def __reduce__(self) -> str:
        return self.__name__  # of `__module__`

    def __call__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: Any = None,
        device: Any = None,
        _internal: bool = False,
    ) -> TypedStorage:
        if dtype is not None:
            raise ArgumentTypeError(
                f"{self.__name__}() takes no dtype: its name says it",
                expected="no dtype",
                got=repr(dtype),
                fix="call TypedStorage for another type",
            )
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=self.dtype, device=device)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, TypedStorage) and value.dtype is self.dtype

    def __repr__(self) -> str:
        return f"weft.{self.__name__}"


def is_storage(obj: Any) -> bool:
    """Whether something is a storage."""
    return isinstance(obj, TypedStorage | UntypedStorage)


def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor shows a part of, as elements of its type."""
    return _typed(self)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor shows a part of, as bytes."""
    return UntypedStorage.of(self)


_LEGACY = {
    f"{name}Storage": LegacyStorage(f"{name}Storage", dtypes.by_name(dtype))
    for dtype, name in TYPE_NAMES.items()
}
FUNCTIONS: dict[str, Any] = {
    **_LEGACY,
    "Storage": _LEGACY["FloatStorage"],
    "TypedStorage": TypedStorage,
    "UntypedStorage": UntypedStorage,
    "is_storage": is_storage,
}
METHODS: dict[str, Any] = {
    "storage": storage,
    "untyped_storage": untyped_storage,
    "_typed_storage": storage,
}
