# ruff: noqa: A001, A003 - PyTorch's names
"""Typed storages: memory as elements of one dtype, the classes named after dtypes, and the storage methods of tensors.

They are made from untyped storages, or from the arguments of these. `storage` has the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft._typing import DeviceLike
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError, DTypeError, ExportError, TensorIndexError, rooted
from weft.tensor.arguments import TYPE_NAMES, need_integer
from weft.tensor.conversion.dtype_and_device import CONVERSIONS
from weft.tensor.creation.factories import read_dtype
from weft.tensor.memory.storage_base import StorageBase, is_storage
from weft.tensor.storage import UntypedStorage, new_memory, no_elements_here


class TypedStorage(StorageBase):
    """The memory that a tensor shows, as elements of its type: `tensor.storage()`.

    Args:
        *args: a size, or the elements.
        wrap_storage: the bytes that are shown; None: new ones.
        dtype: the dtype of the elements; None: the default dtype.
        device: where it lies; None: the CPU.
    """

    dtype: DType

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: DType | None = None,
        device: DeviceLike | None = None,
        _internal: bool = False,
    ) -> None:
        self.dtype = read_dtype(dtype)
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        else:
            self._untyped_storage = UntypedStorage.of(new_memory(self.dtype, args, device))

    @property
    def _elements(self) -> Any:
        return self._untyped_storage.as_tensor(self.dtype)

    @classmethod
    def _of_elements(cls, elements: Tensor) -> TypedStorage:
        return _typed(elements)

    def shown_as(self, dtype: DType | None) -> Any:
        """All elements as a vector, shared.

        Args:
            dtype: the dtype of the elements.

        Raises:
            RuntimeError if they are of another dtype.
        """
        if dtype is None or dtype is self.dtype:
            return self._elements
        wanted, have = TYPE_NAMES[dtype.name], TYPE_NAMES[self.dtype.name]
        raise DTypeError(
            f"Expected a Storage of type {wanted} or an UntypedStorage, but got {have}",
            expected=f"elements of {dtype.name}, or bytes",
            got=f"a storage of {self.dtype.name}",
            fix="convert the storage, or pass its .untyped()",
        )

    def size(self) -> int:
        """The number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size

    def nbytes(self) -> int:
        """The number of bytes."""
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

    @classmethod
    def from_buffer(
        cls,
        buffer: object,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        dtype: DType | None = None,
    ) -> TypedStorage:
        """A copy of elements of a buffer: see `UntypedStorage.from_buffer`.

        Args:
            buffer: an object with the buffer protocol.
            byte_order: "native", "little" or "big"; None: the dtype has one byte.
            count: how many elements, -1 for all that are there. Default: -1.
            offset: the byte at which they begin. Default: 0.
            dtype: the dtype of the elements; None: the class's own, bytes in an UntypedStorage.
        """
        wanted = read_dtype(dtype)
        made = UntypedStorage.from_buffer(buffer, byte_order, count, offset, wanted)
        return TypedStorage(wrap_storage=made, dtype=wanted)

    @classmethod
    def from_file(
        cls, filename: str, shared: bool = False, size: int = 0, dtype: DType | None = None
    ) -> TypedStorage:
        """The first elements of a file as memory: see `UntypedStorage.from_file`.

        Args:
            filename: the path.
            shared: whether writes reach the file. Default: False.
            size: how many elements. Default: 0.
            dtype: the dtype of the elements; None: that of the class.
        """
        wanted = read_dtype(dtype)
        nbytes = need_integer("from_file", size, "size", 0) * wanted.itemsize
        made = UntypedStorage.from_file(filename, shared, nbytes)
        return TypedStorage(wrap_storage=made, dtype=wanted)

    @property
    def filename(self) -> str | None:
        """The file that the memory is, if it is one."""
        return self._untyped_storage.filename

    def resizable(self) -> bool:
        """True if `resize_` works."""
        return self._untyped_storage.resizable()

    def pickle_storage_type(self) -> str:
        """The name of the type of storage that elements like these have in PyTorch's files."""
        return f"{TYPE_NAMES[self.dtype.name]}Storage"

    def resize_(self, size: int) -> TypedStorage:
        """Make the memory as many elements long; see `UntypedStorage.resize_`.

        Args:
            size: how many elements.
        """
        self._untyped_storage.resize_(size * self.element_size())
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Write the elements of another storage, in this one's type.

        Args:
            source: the storage that is read, of the same size.
            non_blocking: accepted, as memory of one device is copied at once; None: False.
        """
        self._elements.copy_(source._elements)
        return self

    def fill_(self, value: int) -> TypedStorage:
        """Write one number everywhere.

        Args:
            value: the number.
        """
        self._elements.fill_(value)
        return self

    def type(self, dtype: DType | None = None, non_blocking: bool = False) -> Any:
        """The name of the storage's type, or its elements as another type, in new memory.

        Args:
            dtype: the type wanted, or its name; None: the name of this one is returned.
            non_blocking: accepted, without effect. Default: False.
        """
        if dtype is None:
            return rooted(f"weft.{TYPE_NAMES[self.dtype.name]}Storage")
        wanted = dtype.dtype if isinstance(dtype, LegacyStorage) else read_dtype(dtype)
        return _typed(self._elements.to(wanted))

    def tolist(self) -> list[Any]:
        """All elements as numbers. Errors: NotImplementedError on the device meta."""
        if self._untyped_storage.device.type == "meta":
            raise no_elements_here()
        return list(self._elements.tolist())

    def is_shared(self) -> bool:
        """True if other processes can write the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move the memory to where processes share it: see `Tensor.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def __array__(self, dtype: DType | None = None, copy: object = None) -> Any:
        return self._elements.__array__(dtype)

    def __getitem__(self, index: int | slice) -> Any:
        return self._elements[self._checked(index)].tolist()

    def __setitem__(self, index: int, value: float) -> None:
        self._elements[index if isinstance(index, slice) else self._checked(index)] = value

    def _checked(self, index: int | slice) -> Any:
        """An index of one element. Errors: NotImplementedError on the device meta, RuntimeError on a slice,
        IndexError."""
        if self._untyped_storage.device.type == "meta":
            raise no_elements_here()
        if isinstance(index, slice):
            raise ExportError(
                "slices are only supported in UntypedStorage.__getitem__",
                expected="the place of one element",
                got=repr(index),
                fix="slice .untyped(), or a tensor of the storage",
            )
        size = self.size()
        if not -size <= index < size:
            raise TensorIndexError(
                f"index {index} out of range for storage of size {size}",
                expected=f"{-size} <= index < {size}",
                got=str(index),
                fix="check len(storage)",
            )
        return index

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

    def __deepcopy__(self, memo: dict[int, object]) -> TypedStorage:
        copied = self._untyped_storage.__deepcopy__(memo)
        return TypedStorage(wrap_storage=copied, dtype=self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._untyped_storage, self.dtype.name)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __repr__(self) -> str:
        lines = "\n".join(f" {value}" for value in self.tolist())
        kind = f"dtype={self.dtype!r}, device={self.device}"
        return f"{lines}\n[TypedStorage({kind}) of size {self.size()}]"


def _conversion(name: str, dtype: DType) -> Any:
    def convert(self: TypedStorage | UntypedStorage) -> TypedStorage:
        if isinstance(self, UntypedStorage):
            return _typed(self.as_tensor(dtypes.uint8).to(dtype))
        return self if self.dtype is dtype else _typed(self._elements.to(dtype))

    convert.__name__ = name
    convert.__doc__ = f"The elements as {dtype.name}, in new memory unless they are."
    return convert


_COMPLEX = {"complex_float": dtypes.complex64, "complex_double": dtypes.complex128}
for _name, _dtype in (
    {k: v for k, v in CONVERSIONS.items() if not v.is_complex} | _COMPLEX
).items():
    setattr(TypedStorage, _name, _conversion(_name, _dtype))
    setattr(UntypedStorage, _name, _conversion(_name, _dtype))


_CALLED_INSIDE = (
    "data_ptr element_size is_shared nbytes pickle_storage_type resize_ share_memory_ size"
)
for _name in _CALLED_INSIDE.split():
    setattr(TypedStorage, f"_{_name}", getattr(TypedStorage, _name))  # as PyTorch calls them itself
TypedStorage._setitem = TypedStorage.__setitem__  # type: ignore[attr-defined]
TypedStorage._deepcopy = TypedStorage.__deepcopy__  # type: ignore[attr-defined]


def _rebuilt(memory: UntypedStorage, dtype: str) -> TypedStorage:
    """Rebuild a typed storage; unpickling calls it."""
    return TypedStorage(wrap_storage=memory, dtype=dtypes.by_name(dtype))


def _typed(memory: Tensor) -> TypedStorage:
    """The storage of a tensor, as elements of its type."""
    return TypedStorage(wrap_storage=UntypedStorage.of(memory), dtype=memory._dtype)


class LegacyStorage:
    """A type of storage such as `FloatStorage`: it makes typed storages of its `dtype`, and they are its instances.

    Args:
        *args: a size, or the elements.
        wrap_storage: the bytes that are shown; None: new ones.
        dtype: accepted if it is that of the name; None: the same.
        device: where it lies; None: the CPU.
    """

    def __init__(self, name: str, dtype: DType) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "weft"
        self.dtype = self._dtype = dtype

    def __reduce__(self) -> str:
        return self.__name__  # of `__module__`

    def __call__(
        self,
        *args: object,
        wrap_storage: UntypedStorage | None = None,
        dtype: DType | None = None,
        device: DeviceLike | None = None,
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

    def from_buffer(
        self, buffer: object, byte_order: str | None = None, count: int = -1, offset: int = 0
    ) -> TypedStorage:
        """A copy of elements of a buffer: see `UntypedStorage.from_buffer`."""
        return TypedStorage.from_buffer(buffer, byte_order, count, offset, self.dtype)

    _from_buffer = from_buffer

    def from_file(self, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first elements of a file as memory: see `UntypedStorage.from_file`."""
        return TypedStorage.from_file(filename, shared, size, self.dtype)

    def __instancecheck__(self, value: TypedStorage) -> bool:
        return isinstance(value, TypedStorage) and value.dtype is self.dtype

    def __repr__(self) -> str:
        return rooted(f"weft.{self.__name__}")


def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor shows a part of, as elements of its type."""
    return _typed(self)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor shows a part of, as bytes."""
    return UntypedStorage.of(self)


def storage_type(self: Tensor) -> LegacyStorage:
    """The type of storage that has elements of the tensor's type."""
    return _LEGACY[f"{TYPE_NAMES[self._dtype.name]}Storage"]


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: DType | None = None,
    requires_grad: bool = False,
) -> Any:
    """A vector of the first `size` elements of a file: see `UntypedStorage.from_file`."""
    wanted = read_dtype(dtype)
    made = TypedStorage.from_file(filename, bool(shared), size, wanted)
    return made._elements.requires_grad_(requires_grad)


_LEGACY = {
    f"{name}Storage": LegacyStorage(f"{name}Storage", dtypes.by_name(dtype))
    for dtype, name in TYPE_NAMES.items()
}
FUNCTIONS: dict[str, Any] = {
    **_LEGACY,
    "Storage": _LEGACY["FloatStorage"],
    "TypedStorage": TypedStorage,
    "UntypedStorage": UntypedStorage,
    "from_file": from_file,
    "is_storage": is_storage,
}
METHODS: dict[str, Any] = {
    "storage": storage,
    "storage_type": storage_type,
    "untyped_storage": untyped_storage,
    "_typed_storage": storage,
}
