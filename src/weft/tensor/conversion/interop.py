"""Interchange with NumPy and others: numpy(), the array protocol, the buffer protocol, DLPack.

Tensors and foreign arrays share memory. `memory` says what sharing means for recorded operations.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft._typing import DeviceLike
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, ExportError, GradientError
from weft.tensor.creation.factories import share_array
from weft.tensor.device import need_cpu
from weft.tensor.memory.host_memory import export_array, import_array
from weft.tensor.reading.values import describe


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The tensor as an array that shares its memory; `force` detaches it first.

    Errors: RuntimeError where a gradient is required and gradients are on, TypeError for bfloat16. Cost: runs what is
    pending; while the array lives, operations on the tensor copy what they read.
    """
    if self._dtype is dtypes.bfloat16:
        raise ArgumentTypeError(
            "Got unsupported ScalarType BFloat16",
            expected="a type that NumPy has",
            got="bfloat16",
            fix="convert with .float() first",
        )
    if self.requires_grad and not force and tapes.tape().mode.grad:
        raise GradientError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            expected="a tensor without gradient",
            got="requires_grad=True",
            fix="call .detach().numpy(), or .numpy(force=True)",
        )
    if is_on_meta(self):
        raise ArgumentTypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            expected="a tensor with memory",
            got=describe(self) + " on the device meta",
            fix="give the module memory with to_empty(device='cpu')",
        )
    if self.view_transform:
        self = _without_view_transform(self, force)
    return export_array(self)


def _without_view_transform(tensor: Tensor, force: bool) -> Tensor:
    """The values of a view that is computed where it is read. Errors: RuntimeError, unless forced."""
    for word, bit, is_set in (
        ("conj", "conjugate", tensor.is_conj()),
        ("neg", "negative", tensor.is_neg()),
    ):
        if is_set and not force:
            raise GradientError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{word}().numpy() instead.",
                expected="a tensor that shows what is in memory",
                got="a view that is computed where it is read",
                fix=f"call .resolve_{word}().numpy(), or .numpy(force=True)",
            )
    made: Tensor = tensor.resolve_conj().resolve_neg()
    return made


def as_array(tensor: Tensor, dtype: DType | None = None) -> Any:
    """`numpy.asarray(tensor)`."""
    array = numpy(tensor)
    return array if dtype is None else array.astype(dtype, copy=False)


def buffer_array(tensor: Tensor) -> Any:
    """The array whose memory a tensor shows through the buffer protocol. Errors: BufferError for bfloat16, which has no
    format, and where `_need_plain` says so."""
    _need_plain(tensor)
    if tensor._dtype is dtypes.bfloat16:
        raise ExportError(
            "bfloat16 has no format in the buffer protocol",
            expected="a type that Python's struct module or NumPy has",
            got=describe(tensor),
            fix="convert with .float(), or show the bits with .view(weft.uint16)",
        )
    return export_array(tensor)


def wrap_array(array: np.ndarray) -> Tensor:
    """A tensor of what a NumPy function made of a tensor; booleans come back as uint8, as in PyTorch."""
    return share_array(np.asarray(array, np.uint8) if array.dtype == bool else np.asarray(array))


BFLOAT, UINT = 4, 1  # codes of types in DLPack


class _Capsule:
    """A DLPack capsule in the protocol that NumPy asks for."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **keywords: object) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _Writable:
    """The memory of an array that NumPy marks as read-only because its capsule, of an old version, cannot say so."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = {
            **array.__array_interface__,
            "data": (array.ctypes.data, False),
        }


def _capsule_of(given: Any) -> Any:
    """Errors: BufferError for memory of another device, TypeError for an object without the protocol."""
    if type(given).__name__ == "PyCapsule":
        return given
    if isinstance(given, type) or not hasattr(given, "__dlpack__"):
        raise ArgumentTypeError(
            f"from_dlpack(): {type(given).__name__} has no __dlpack__",
            expected="an object with the DLPack protocol",
            got=type(given).__name__,
            fix="use weft.as_tensor for lists and numbers",
        )
    if given.__dlpack_device__()[0] != 1:
        raise BufferError(f"memory of the device {given.__dlpack_device__()}")
    try:
        return given.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before there were versions
        return given.__dlpack__()


def _type_code(capsule: object) -> Any:
    """The type code within a capsule's tensor: after pointer, device and rank; after the version, if it has one.
    Errors: BufferError for a capsule that has been taken."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    name = api.PyCapsule_GetName(ctypes.py_object(capsule))
    if not name or not name.startswith(b"dltensor"):
        raise BufferError("a capsule can be taken once")
    start = api.PyCapsule_GetPointer(ctypes.py_object(capsule), ctypes.c_char_p(name))
    return ctypes.c_uint8.from_address(start + (32 if name.endswith(b"_versioned") else 0) + 20)


def _need_plain(tensor: Tensor) -> None:
    """Errors: BufferError for what requires a gradient or does not show its memory as it is."""
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        why = "have the conjugate bit set" if tensor.is_conj() else "have the negative bit set"
        why = "require gradient" if tensor.requires_grad else why
        fix = "detach()" if tensor.requires_grad else "resolve_conj().resolve_neg()"
        raise ExportError(
            f"Can't export tensors that {why}, use tensor.{fix}",
            expected="a tensor without gradient that shows what is in memory",
            got=describe(tensor),
            fix=f"call .{fix} first",
        )


def to_dlpack(
    tensor: Tensor,
    stream: int | None = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule that shares a tensor's memory, or has a copy; bfloat16 goes through NumPy as bits.

    Errors: BufferError, also for another device; TypeError and AssertionError for a stream: there are none on a CPU.
    """
    _need_plain(tensor)
    if stream not in (None, -1):
        if not isinstance(stream, int):
            raise TypeError("stream must be ``int`` or ``none``")
        raise AssertionError("stream should be None on cpu.")
    array = export_array(tensor)
    capsule = array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
    if tensor._dtype is dtypes.bfloat16:
        _type_code(capsule).value = BFLOAT
    return capsule


def _array_of_bits(capsule: object) -> Any:
    """The array of a capsule of bfloat16, as uint16; the capsule of an array that NumPy refuses stays what it was."""
    code = _type_code(capsule)
    code.value = UINT
    try:
        return np.from_dlpack(_Capsule(capsule))
    except BaseException:
        code.value = BFLOAT
        raise


def from_dlpack(
    ext_tensor: object, *, device: DeviceLike | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor that shares the memory of an object with the DLPack protocol (on the CPU), or of a capsule; with
    `copy`, of its own. Errors: RuntimeError (and ValueError) for what memory or types do not allow, TypeError."""
    need_cpu(device, "from_dlpack")
    try:
        capsule = _capsule_of(ext_tensor)
        is_bfloat = _type_code(capsule).value == BFLOAT
        has_version = '"dltensor_versioned"' in repr(capsule)
        array = _array_of_bits(capsule) if is_bfloat else np.from_dlpack(_Capsule(capsule))
    except BufferError as error:
        raise ArgumentError(
            f"from_dlpack(): {error}",
            expected="numbers in contiguous or strided memory of the CPU",
            got=type(ext_tensor).__name__,
            fix="convert or copy the array first",
        ) from error
    if not has_version:
        array = np.asarray(_Writable(array))
    made = import_array(array, dtypes.bfloat16) if is_bfloat else share_array(array)
    return made.clone() if copy else made


def to_device(self: Tensor, device: DeviceLike, /, *, stream: int | None = None) -> Tensor:
    """The tensor itself: the array API's way to another device. Errors: RuntimeError on one that is not there."""
    need_cpu(device, "to_device")
    if stream is not None:
        raise ArgumentTypeError(
            "to_device(): streams belong to devices with queues",
            expected="stream=None",
            got=repr(stream),
            fix="leave stream out",
        )
    return self


FUNCTIONS: dict[str, Any] = {"from_dlpack": from_dlpack}
METHODS: dict[str, Any] = {"numpy": numpy, "to_device": to_device}
