"""Tensors and NumPy: numpy(), the array protocol, DLPack.

In come tensors and foreign arrays; out go arrays and tensors that share memory. What sharing means for recorded
operations is left to `memory`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import ArgumentError, ArgumentTypeError, GradientError
from weft.graph import dtype as dtypes
from weft.graph.tensor import Tensor
from weft.tensor.creation import share_array
from weft.tensor.device import check_device
from weft.tensor.memory import export_array, values_array


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The tensor as an array that shares its memory; `force` detaches it first.

    Errors: RuntimeError where a gradient is required, TypeError for bfloat16. Cost: runs what is pending; while the
    array lives, operations on the tensor copy what they read.
    """
    if self._dtype is dtypes.bfloat16:
        raise ArgumentTypeError(
            "Got unsupported ScalarType BFloat16",
            expected="a type that NumPy has",
            got="bfloat16",
            fix="convert with .float() first",
        )
    if self.requires_grad and not force:
        raise GradientError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            expected="a tensor without gradient",
            got="requires_grad=True",
            fix="call .detach().numpy(), or .numpy(force=True)",
        )
    for word, is_set in (("conj", self.is_conj()), ("neg", self.is_neg())):
        if is_set and not force:
            raise GradientError(
                f"Can't call numpy() on Tensor that has {word} bit set. Use tensor.resolve_{word}().numpy() instead.",
                expected="a tensor that shows what is in memory",
                got="a view that is computed where it is read",
                fix=f"call .resolve_{word}().numpy(), or .numpy(force=True)",
            )
    return export_array(self.resolve_conj().resolve_neg())


def as_array(tensor: Tensor, dtype: Any = None) -> Any:
    """`numpy.asarray(tensor)`."""
    array = numpy(tensor)
    return array if dtype is None else array.astype(dtype, copy=False)


def wrap_array(array: Any) -> Tensor:
    """A tensor of what a NumPy function made of a tensor; booleans come back as uint8, as in PyTorch."""
    return share_array(np.asarray(array, np.uint8) if array.dtype == bool else np.asarray(array))


def from_dlpack(ext_tensor: Any, **keywords: Any) -> Tensor:
    """A tensor that shares the memory of any object with the DLPack protocol (on the CPU)."""
    if isinstance(ext_tensor, type) or not hasattr(ext_tensor, "__dlpack__"):
        raise ArgumentTypeError(
            f"from_dlpack(): {type(ext_tensor).__name__} has no __dlpack__",
            expected="an object with the DLPack protocol",
            got=type(ext_tensor).__name__,
            fix="use weft.as_tensor for lists and numbers",
        )
    try:
        array = np.from_dlpack(ext_tensor)
    except BufferError as error:
        raise ArgumentError(
            f"from_dlpack(): {error}",
            expected="numbers in contiguous or strided memory of the CPU",
            got=type(ext_tensor).__name__,
            fix="convert or copy the array first",
        ) from error
    return share_array(array)


def reading_array(tensor: Tensor) -> Any:
    """A tensor's values to read, without sharing memory (bfloat16 as float32)."""
    return values_array(tensor)


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor itself: the array API's way to another device. Errors: RuntimeError on one that is not there."""
    check_device(device, "to_device")
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
