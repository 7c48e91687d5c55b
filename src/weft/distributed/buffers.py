"""Tensors as memory to send from, and received memory as tensors: neither copies what is contiguous.

What is sent is the value's own memory; reading it runs what is pending for it. What is received is new memory, which
becomes the value of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft._typing import Array
from weft.engine.devices.cpu import pool
from weft.engine.frontend.node_factory import make_value
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError
from weft.tensor.memory.host_memory import raw_array, raw_dtype
from weft.tensor.modes import no_grad


def need_tensor(name: str, tensor: object, argument: str = "tensor") -> Tensor:
    """The argument itself. Errors: TypeError for anything but a dense tensor."""
    if isinstance(tensor, Tensor) and not tensor.is_sparse:
        return tensor
    raise ArgumentTypeError(
        f"Invalid function argument. Expected parameter `{argument}` of type Tensor: {name}",
        expected="a dense tensor",
        got=f"a {type(tensor).__name__}",
        fix="pass a tensor; of a sparse one, to_dense()",
    )


def elements(tensor: Tensor) -> Array:
    """The raw elements of a tensor in row-major order, to be read: its memory where that is contiguous."""
    return np.ascontiguousarray(raw_array(tensor)).reshape(-1)


def as_bytes(array: Array) -> Array:
    """A flat contiguous array as bytes."""
    return array.view(np.uint8)


class Received:
    """New memory for elements of one type, of which tensors are made without a copy."""

    def __init__(self, dtype: DType, count: int) -> None:
        self.dtype = dtype
        self.memory: Any = pool.allocate(max(count * dtype.itemsize, 1))
        self.elements = np.frombuffer(self.memory, raw_dtype(dtype), count)

    def tensor(self, shape: Sequence[int], first: int = 0) -> Tensor:
        """A tensor of the elements from `first` on."""
        node = make_value(self.dtype, tuple(shape), self.memory, first * self.dtype.itemsize)
        made: Tensor = wrap_node(node)
        return made

    def fill(self, tensor: Tensor, first: int = 0) -> Tensor:
        """Write the elements from `first` on to a tensor; a contiguous one takes them over without a copy."""
        with no_grad():
            tensor.detach().copy_(self.tensor(tensor.shape, first))
        return tensor
