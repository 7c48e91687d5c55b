"""PyTorch's `torch.storage`: the types of storages, which `weft.tensor.storage` defines."""

from typing import Any

from weft.io.torch_format import read_stream
from weft.tensor.storage import UntypedStorage
from weft.tensor.typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes) -> Any:
    """The storage of a tensor in a pickle of PyTorch's, as `torch._utils._rebuild_tensor_v2` takes it. Errors:
    PickledError, Damaged."""
    return read_stream(b, {}, trusted=False)
