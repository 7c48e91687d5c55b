"""Legacy constructors: Tensor(2, 3), FloatTensor([1, 2]), x.new(3).

They take sizes, sequences, arrays or tensors, and make tensors of the constructor's dtype.
"""

from __future__ import annotations

from typing import Any, NoReturn, Union

from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import become
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError, rooted
from weft.tensor.arguments import TYPE_NAMES
from weft.tensor.creation.factories import filled, read_size, tensor
from weft.tensor.device import on_meta
from weft.tensor.memory.storage_base import StorageBase
from weft.tensor.size import Size

_FIRST = ("data", "other", "storage")  # the names of the first argument if it is no size


def build(name: str, dtype: DType, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
    """The tensor that an old constructor makes. Errors: TypeError on keywords other than device, on numbers that are
    no size."""
    absent = on_meta(keywords.pop("device", None), name)
    if not arguments and len(keywords) == 1:
        arguments = tuple(keywords.pop(key) for key in _FIRST if key in keywords)
        if "size" in keywords:
            arguments = (Size(keywords.pop("size")),)
    if keywords:
        raise ArgumentTypeError(
            f"{name}() got an unexpected keyword argument '{next(iter(keywords))}'",
            expected="sizes or data",
            got=", ".join(keywords),
            fix="use weft.tensor(...)",
        )
    if not arguments:
        return filled((0,), 0, dtype, absent)
    first = arguments[0]
    if isinstance(first, Tensor):
        if first._dtype is not dtype and name != "Tensor":
            raise ArgumentTypeError(
                f"expected a {dtype.name} tensor (got {first._dtype.name})",
                expected=dtype.name,
                got=first._dtype.name,
                fix=f"convert with .to(weft.{dtype.name})",
            )
        return first.detach()
    if isinstance(first, StorageBase):
        return first.shown_as(dtype).detach()  # type: ignore[no-any-return]
    if isinstance(first, Size) or _is_integer(first):
        return filled(read_size(name, arguments), 0, dtype, absent)
    if not hasattr(first, "__len__"):
        raise ArgumentTypeError(
            f"new(): data must be a sequence (got {type(first).__name__})",
            expected="sizes or a sequence",
            got=repr(first),
            fix="use weft.tensor(...)",
        )
    return tensor(first, dtype=dtype, device="meta" if absent else "cpu")


def _is_integer(value: object) -> bool:
    """True if a value is a size; an array is data, though one of a single integer can be an index."""
    return hasattr(type(value), "__index__") and not hasattr(type(value), "__len__")


def construct(handle: Tensor, *arguments: object, **keywords: object) -> None:
    """`Tensor(...)` and subclasses: fill a fresh handle, of the default dtype.

    What a `__new__` of a subclass has filled already, of arguments that only it knows, stays.
    """
    if handle._dtype is not None:
        return
    become(handle, build("Tensor", dtypes.get_default(), arguments, keywords))


class TensorType:
    """An old constructor such as `FloatTensor`; its `dtype` is what it makes, and what its instances have.

    Args:
        *arguments: sizes, or data: `FloatTensor(2, 3)`, `FloatTensor([1.0, 2.0])`.
        **keywords: `device`, where it lies.
    """

    def __init__(self, name: str, dtype: DType) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "weft"
        self.dtype = dtype

    def __call__(self, *arguments: object, **keywords: object) -> Tensor:
        return build(self.__name__, self.dtype, arguments, keywords)

    def __instancecheck__(self, value: Tensor | int) -> bool:
        return isinstance(value, Tensor) and value._dtype is self.dtype and not value.is_sparse

    def __mro_entries__(self, bases: tuple[object, ...]) -> NoReturn:
        raise ArgumentTypeError(
            rooted(f"type 'weft.{self.__name__}' is not an acceptable base type"),
            expected="a class",
            got=f"the constructor {self.__name__}",
            fix="inherit from weft.Tensor",
        )

    def __reduce__(self) -> str:
        return self.__name__  # of `__module__`

    def __or__(self, other: object) -> Any:
        """`LongTensor | None`, in annotations."""
        return Union[self, other]  # noqa: UP007 - `|` is what is being defined

    def __ror__(self, other: object) -> Any:
        return Union[other, self]  # noqa: UP007 - as above

    def __repr__(self) -> str:
        return rooted(f"weft.{self.__name__}")


def new(self: Tensor, *arguments: list[int], **keywords: object) -> Tensor:
    """A tensor of this one's dtype, from sizes or data as `Tensor(...)` takes them."""
    return build("new", self._dtype, arguments, {"device": self.device, **keywords})


FUNCTIONS: dict[str, Any] = {
    f"{name}Tensor": TensorType(f"{name}Tensor", dtypes.by_name(dtype))
    for dtype, name in TYPE_NAMES.items()
    if not name.startswith("Complex")
}
METHODS: dict[str, Any] = {"new": new}
