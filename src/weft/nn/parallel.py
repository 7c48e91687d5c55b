"""DataParallel on one device: the module itself, under the names that PyTorch's wrapper gives it.

`DistributedDataParallel` belongs to `weft.distributed`, which does not exist yet.
"""

from __future__ import annotations

from typing import Any

from weft.nn.module import Module


class DataParallel(Module):
    """Calls the module it holds as `module`: with one device there is nothing to split."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids: list[Any] = []
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)
