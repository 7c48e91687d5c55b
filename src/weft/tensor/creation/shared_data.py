"""Tensors over memory that somebody else holds: of arrays, buffers, DLPack's capsules.

It takes objects with memory of their own and returns tensors that share it, or copies where `asarray` allows them.
`factories` makes tensors of numbers, `memory` knows what may be shared.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from weft._build.lazy import later
from weft._typing import DeviceLike
from weft.engine.dispatch.type_names import TYPE_NAMES
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.ops import primitives as ops
from weft.tensor.creation.factories import as_tensor, leaf, read_dtype, share_array
from weft.tensor.device import on_meta
from weft.tensor.memory.host_memory import import_array, raw_dtype
from weft.tensor.memory.storage_base import StorageBase

_interop: Any = later("weft.tensor.conversion.interop")


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a tensor, an array, a capsule of DLPack, a buffer (its bytes, of the default dtype unless one is
    named) or numbers, sharing memory where it can; `copy=True` never shares, `copy=False` raises ValueError where it
    cannot share. The history of a tensor is kept where `requires_grad` is true, and left behind where it is not."""
    wanted = None if dtype is None else read_dtype(dtype)
    source = _over_memory(obj, wanted)
    if copy is False:
        _need_alias(obj, source, wanted, device)
    made = as_tensor(obj if source is None else source, wanted, device)
    if copy and (made is source or isinstance(obj, (np.ndarray, StorageBase))):
        made = ops.elementwise("clone", made)
    if made.requires_grad:
        return made if requires_grad else made.detach()
    return leaf(made.detach(), True) if requires_grad else made


def _over_memory(obj: object, dtype: DType | None) -> Any:
    """The tensor that shares an object's memory, in the object's type; None where it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return share_array(obj)
    if type(obj).__name__ == "PyCapsule":
        return _interop.from_dlpack(obj)
    if isinstance(obj, (np.generic, StorageBase)) or not _has_buffer(obj):
        return None
    return frombuffer(obj, dtype=dtypes.get_default() if dtype is None else dtype)


def _has_buffer(obj: object) -> bool:
    if hasattr(obj, "__array__") or hasattr(obj, "__array_interface__"):
        return False
    try:
        memoryview(obj)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _need_alias(
    obj: object, source: Tensor | None, dtype: DType | None, device: DeviceLike | None
) -> None:
    """Errors: ValueError where a tensor of this object, type and device has to be a copy."""
    if source is None:
        text = (
            "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray."
            if isinstance(obj, np.generic)
            else "can't alias arbitrary sequence into a tensor."
        )
    elif dtype not in (None, source._dtype):
        names = TYPE_NAMES[source._dtype.name], TYPE_NAMES[dtype.name]  # type: ignore[union-attr]
        text = f"can't alias tensor with dtype '{names[0]}' into dtype '{names[1]}'."
    elif device is not None and on_meta(device, "asarray") != source.is_meta:
        devices = ("meta", "cpu") if source.is_meta else ("cpu", "meta")
        text = f"can't alias tensor from device '{devices[0]}' to '{devices[1]}'."
    else:
        return
    raise ArgumentError(
        text,
        expected="a tensor, array or buffer of this dtype and device",
        got=type(obj).__name__,
        fix="pass copy=None",
    )


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A one-dimensional tensor over a buffer's memory. Errors: ValueError where the sizes do not fit."""
    wanted = read_dtype(dtype)
    try:
        seen = memoryview(buffer)
    except TypeError:
        raise ArgumentError(
            "object does not implement Python buffer protocol.",
            expected="an object with memory, such as a bytearray",
            got=type(buffer).__name__,
            fix="use weft.tensor(...) for numbers",
        ) from None
    _check_sizes(seen.nbytes, wanted.itemsize, count, offset)
    array = np.frombuffer(buffer, raw_dtype(wanted), max(count, -1), offset)
    if seen.readonly:
        warnings.warn(
            "The given buffer is not writable, and the memory of non-writable tensors is not shared: writing to this "
            "tensor will not reach it. Copy the buffer to a bytearray before converting it.",
            UserWarning,
            stacklevel=2,
        )
    return leaf(import_array(array, wanted), requires_grad)


def _check_sizes(length: int, size: int, count: int, offset: int) -> None:
    """Errors: ValueError where so many elements are not in a buffer behind an offset."""
    left = length - offset
    if not length or not count:
        text = f"both buffer length ({length}) and count ({count}) must not be 0"
    elif not 0 <= offset < length:
        text = (
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    elif count < 0 and left % size:
        text = f"buffer length ({left} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
    elif count > 0 and count * size > left:
        text = (
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    else:
        return
    raise ArgumentError(
        text,
        expected=f"elements of {size} bytes within the buffer",
        got=f"{length} bytes, count={count}, offset={offset}",
        fix="check count, offset and dtype",
    )


FUNCTIONS: dict[str, Any] = {"asarray": asarray, "frombuffer": frombuffer}
