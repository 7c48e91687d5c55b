"""PyTorch's `torch.storage`: the types of storages. What they are is in `weft.tensor.storage`."""

from weft.tensor.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
