"""Conversions of a tensor's dtype or device, and copies: to, float, long, type, clone.

The result is the same tensor if nothing changes, else a recorded conversion or copy.
"""

from __future__ import annotations

from typing import Any

from weft._typing import DeviceLike
from weft.engine.frontend.recorder import cast, record_elementwise
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, class_name, rooted
from weft.ops import OPS
from weft.tensor.arguments import TYPE_NAMES
from weft.tensor.creation.factories import like_strides, read_dtype
from weft.tensor.device import check_device, on_meta
from weft.tensor.layout import MemoryFormat, format_strides, is_contiguous, preserve_format
from weft.tensor.meta import moved

BY_TYPE_NAME = {name: dtypes.by_name(dtype) for dtype, name in TYPE_NAMES.items()}


def clone(input: Tensor, *, memory_format: MemoryFormat = preserve_format) -> Tensor:  # noqa: A002
    """A copy, with a gradient that flows back. The layout is kept where it is dense, unless a format is named."""
    made: Tensor = record_elementwise(OPS["clone"], (input,), None)
    made.strides = like_strides(input, memory_format)
    return made


def _in_format(made: Tensor, memory_format: MemoryFormat | None) -> Tensor:
    """A tensor in a named format: itself where it is."""
    if memory_format is None or memory_format is preserve_format:
        return made
    strides = format_strides(made._shape, memory_format)
    if made.strides == strides or is_contiguous(made, memory_format):
        return made
    return clone(made, memory_format=memory_format)


def to(
    self: Tensor,
    *arguments: Any,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat | None = None,
    other: Tensor | None = None,
) -> Tensor:
    """This tensor with another dtype or on another device: `to(dtype)`, `to(device, dtype)`, `to(other)`; itself where
    nothing changes. Errors: NotImplementedError where a tensor on the device meta should get values."""
    for position, given in enumerate(arguments):
        if isinstance(given, Tensor):
            other = given
        elif type(given) is DType:
            dtype = given
        elif isinstance(given, bool):
            copy = copy or (given if position == len(arguments) - 1 and position > 1 else False)
        elif isinstance(given, type):
            dtype = read_dtype(given)
        elif given is not None:
            device = given
    if other is not None and not isinstance(other, Tensor):
        raise ArgumentTypeError(
            f"to(): argument 'other' must be Tensor, not {class_name(other)}",
            expected="a tensor whose dtype and device are wanted",
            got=type(other).__name__,
            fix="pass the tensor, or dtype= and device=",
        )
    if device is None and other is not None:
        device = other.device
    wanted = read_dtype(dtype, self._dtype if other is None else other._dtype)
    made = cast(self, wanted)
    if device is not None:
        made = moved(made, on_meta(device, "to"))
    made = _in_format(made, memory_format)
    return clone(made) if copy and made is self else made


def _conversion(name: str, dtype: DType) -> Any:
    def convert(self: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
        return _in_format(cast(self, dtype), memory_format)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"This tensor as {dtype.name}; itself where it is already."
    return convert


def cpu(self: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """The tensor itself. Errors: NotImplementedError where it is on the device meta."""
    return _in_format(moved(self, False), memory_format)


def cuda(
    self: Tensor,
    device: DeviceLike | None = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Refuse: there is no CUDA device. Errors: RuntimeError."""
    check_device("cuda" if device is None else device, "cuda")
    return self


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor in the dtype of another."""
    return cast(self, other._dtype)  # type: ignore[no-any-return]


def type_(self: Tensor, dtype: DType | None = None, non_blocking: bool = False) -> str | Tensor:
    """The type's name (`weft.FloatTensor`), or this tensor as another type. Errors: ValueError on unknown names."""
    if dtype is None:
        return rooted(f"weft.{'meta.' if self.is_meta else ''}{TYPE_NAMES[self._dtype.name]}Tensor")
    if isinstance(dtype, str):
        short = dtype.rsplit(".", 1)[-1].removesuffix("Tensor")
        if short not in BY_TYPE_NAME:
            raise ArgumentError(
                f"invalid type: {dtype!r}",
                expected="for example 'weft.FloatTensor'",
                got=dtype,
                fix="pass a dtype such as weft.float32",
            )
        return cast(self, BY_TYPE_NAME[short])  # type: ignore[no-any-return]
    return cast(self, getattr(dtype, "dtype", None) or read_dtype(dtype))  # type: ignore[no-any-return]


def is_cuda(self: Tensor) -> bool:
    """True if the tensor is on a CUDA device: never."""
    return False


def get_device(self: Tensor) -> int:
    """-1: the CPU has no index."""
    return -1


def _is_pinned(self: Tensor, device: DeviceLike | None = None) -> bool:
    """True if the memory is pinned for copies to another device: no."""
    return False


def pin_memory(self: Tensor, device: DeviceLike | None = None) -> Tensor:
    """The tensor itself: pinning serves copies to another device."""
    return self


CONVERSIONS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64,
    "int": dtypes.int32,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}

FUNCTIONS: dict[str, Any] = {"clone": clone}
METHODS: dict[str, Any] = {
    **{name: _conversion(name, dtype) for name, dtype in CONVERSIONS.items()},
    "to": to,
    "clone": clone,
    "cpu": cpu,
    "cuda": cuda,
    "type_as": type_as,
    "type": type_,
    "is_cuda": property(is_cuda),
    "is_cpu": property(lambda self: self.device.type == "cpu"),
    "is_meta": property(lambda self: self.device.type == "meta"),
    **{
        f"is_{name}": property(lambda self: False)
        for name in ("ipu", "maia", "mkldnn", "mps", "mtia", "vulkan", "xla", "xpu")
    },
    "is_quantized": property(lambda self: False),
    "is_nested": property(lambda self: False),
    "get_device": get_device,
    "pin_memory": pin_memory,
    "is_pinned": _is_pinned,
}
