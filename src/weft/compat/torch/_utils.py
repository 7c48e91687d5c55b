"""Helpers that packages import from PyTorch's `torch._utils`: tensors as one vector, parts of files, devices."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from typing import Any

import weft
from weft.engine.api.deprecation import warn_deprecated
from weft.engine.frontend.tensor import Tensor
from weft.io.torch_format import functions_in_pickles

__all__ = ["ExceptionWrapper"]

globals().update(functions_in_pickles("torch._utils"))


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Any:
    """The elements of all tensors in one vector."""
    return weft.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Iterable[Tensor]) -> tuple[Any, ...]:
    """Parts of a vector in the shapes of tensors."""
    like = list(tensors)
    parts = flat.split([tensor.numel() for tensor in like])
    return tuple(part.view_as(tensor) for part, tensor in zip(parts, like, strict=True))


def _element_size(dtype: Any) -> int:
    """Bytes of an element."""
    return int(dtype.itemsize)


def is_compiling() -> bool:
    """True if a graph is being compiled from a function's text: never; warns."""
    warn_deprecated(
        "`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.",
        UserWarning,
    )
    return False


def _get_available_device_type() -> None:
    """The device other than the CPU: none."""


def _is_privateuse1_backend_available() -> bool:
    """True if there is a device of a user's own: no."""
    return False


def _get_device_module(device_type: str) -> Any:
    """The module that answers for a device."""
    return weft.get_device_module(device_type)


def _get_all_device_indices() -> list[int]:
    """The numbers of devices other than the CPU: none."""
    return []


def _get_device_index(device: object, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device; -1 for the CPU where it is allowed. Errors: ValueError on the CPU where it is not."""
    if isinstance(device, int):
        return device
    made = weft.device(device) if device is not None else weft.device("cpu")
    if made.type == "cpu" and not (allow_cpu or optional):
        raise ValueError(f"Expected a non cpu device, but got: {made}")
    return -1 if made.index is None else int(made.index)


class ExceptionWrapper:
    """An exception with its traceback as text, which goes from one process to another."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        exc_info = exc_info or sys.exc_info()
        self.exc_type: Any = exc_info[0]
        self.where = where
        self.exc_msg = "".join(traceback.format_exception(*exc_info))

    def reraise(self) -> None:
        """Raise it here. Errors: the exception's type, with the text."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = self.exc_type(text)
        except Exception:  # it takes other arguments
            error = RuntimeError(text)
        raise error
