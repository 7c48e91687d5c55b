"""PyTorch's `torch.storage`: the types of storages. What they are is in `weft.tensor.storage`."""

from weft.tensor.storage import UntypedStorage
from weft.tensor.typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
