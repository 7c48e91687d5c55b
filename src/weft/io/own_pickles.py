"""Constructors for pickles of Weft's own: tensors, parameters and their storages, made from checked parts.

They take the arguments that a pickle gives. Errors: Damaged for arguments that pickling never writes. `safe_unpickler`
calls these if a file may run nothing.
"""

from __future__ import annotations

from typing import Any

from weft.engine.frontend.tensor import Storage, Tensor
from weft.engine.ir import dtype as dtypes
from weft.io.safe_unpickler import Damaged, KnownGlobal, region_within
from weft.nn import parameter
from weft.tensor import copying, storage, typed_storage
from weft.tensor.memory.host_memory import handle_of


def own_globals() -> dict[str, KnownGlobal]:
    """The globals of pickled tensors and parameters; in programs that import PyTorch their classes have its names."""
    return {
        "weft.Tensor": KnownGlobal(Tensor),
        "torch.Tensor": KnownGlobal(Tensor),
        "weft.nn.parameter.Parameter": KnownGlobal(parameter.Parameter),
        "torch.nn.parameter.Parameter": KnownGlobal(parameter.Parameter),
        "weft.nn.parameter._rebuild": KnownGlobal(parameter._rebuild, _parameter),
        "weft.tensor.copying.rebuild_storage": KnownGlobal(copying.rebuild_storage, _storage),
        "weft.tensor.copying.rebuild_tensor": KnownGlobal(copying.rebuild_tensor, _tensor),
        **{
            f"{package}.tensor.{name}": known
            for package in ("weft", "torch")
            for name, known in _STORAGES.items()
        },
    }


def _storage(content: object, dtype: object) -> Storage:
    """The memory of some bytes."""
    known = {kind.name: kind for kind in dtypes.ALL}
    if not isinstance(content, bytes) or not isinstance(dtype, str) or dtype not in known:
        raise Damaged("a storage of something else than bytes")
    if len(content) % known[dtype].itemsize:
        raise Damaged(f"a storage of {len(content)} bytes of {dtype}")
    if dtype == "bool":
        content = bytes(map(bool, content))
    return copying.rebuild_storage(content, dtype)


def _tensor(
    cls: object,
    memory: object,
    shape: Any,
    strides: Any,
    offset: Any,
    requires_grad: object,
    state: Any,
) -> Tensor:
    """A region of a storage."""
    plain = type(shape) is type(strides) is tuple and type(state) is dict
    if (
        not (isinstance(cls, type) and issubclass(cls, Tensor) and isinstance(memory, Storage))
        or not plain
    ):
        raise Damaged("a tensor without a storage")
    region_within(handle_of(memory), shape, strides, offset)
    return copying.rebuild_tensor(cls, memory, shape, strides, offset, requires_grad is True, state)


def _parameter(cls: object, data: object, requires_grad: object) -> parameter.Parameter:
    """A parameter."""
    if not (
        isinstance(cls, type) and issubclass(cls, parameter.Parameter) and isinstance(data, Tensor)
    ):
        raise Damaged("a parameter without a tensor")
    return parameter._rebuild(cls, data, requires_grad is True)


def _untyped_storage(cell: object) -> storage.UntypedStorage:
    """A storage as bytes."""
    if not isinstance(cell, Storage):
        raise Damaged("a storage of something else than memory")
    return storage._of_cell(cell)


def _typed_storage(memory: object, dtype: object) -> typed_storage.TypedStorage:
    """A storage as elements of a type."""
    known = {kind.name for kind in dtypes.ALL}
    if (
        not isinstance(memory, storage.UntypedStorage)
        or not isinstance(dtype, str)
        or dtype not in known
    ):
        raise Damaged("a storage of elements without memory, or without a type")
    return typed_storage._rebuilt(memory, dtype)


_STORAGES = {
    "storage._of_cell": KnownGlobal(storage._of_cell, _untyped_storage),
    "typed_storage._rebuilt": KnownGlobal(typed_storage._rebuilt, _typed_storage),
}
