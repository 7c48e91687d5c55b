"""PyTorch's `torch.storage`: the types of storages, which `weft.tensor.storage` defines."""

from weft.tensor.storage import UntypedStorage
from weft.tensor.typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
