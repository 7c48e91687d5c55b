"""PyTorch's `torch.storage`: the types of storages, which `weft.tensor.storage` defines."""

from typing import Any

from weft.compat.absent import TYPES
from weft.engine.ir.dtype import by_name
from weft.io.torch_format import read_stream
from weft.tensor.arguments import TYPE_NAMES
from weft.tensor.storage import UntypedStorage
from weft.tensor.typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

_QUANTIZED = {
    "quint8": "QUInt8",
    "qint8": "QInt8",
    "qint32": "QInt32",
    "quint4x2": "QUInt4x2",
    "quint2x4": "QUInt2x4",
}


def _dtype_to_storage_type_map() -> dict[Any, str]:
    """The name of the type of storage of each type of elements, those that no tensor has included."""
    absent = {TYPES[name]: f"{word}Storage" for name, word in _QUANTIZED.items()}
    return {by_name(name): f"{word}Storage" for name, word in TYPE_NAMES.items()} | absent


def _storage_type_to_dtype_map() -> dict[str, Any]:
    """The type of elements by the name of the type of storage."""
    return {name: dtype for dtype, name in _dtype_to_storage_type_map().items()}


def _load_from_bytes(b: bytes) -> Any:
    """The storage of a tensor in a pickle of PyTorch's, as `torch._utils._rebuild_tensor_v2` takes it. Errors:
    PickledError, Damaged."""
    return read_stream(b, {}, trusted=False)
