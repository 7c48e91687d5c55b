"""Wrappers for many devices or processes, for the one device and the one process there are: the module itself, under
the names that PyTorch's wrappers give it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft._lazy import join
from weft.errors import ArgumentError
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


class DistributedDataParallel(Module):
    """Calls the module it holds as `module`: gradients averaged over one process are as they are."""

    def __init__(self, module: Module, device_ids: Any = None, *args: Any, **options: Any) -> None:
        super().__init__()
        self.module = module
        self.device_ids = device_ids

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients are never sent anywhere."""
        yield


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """What the module gives for the inputs: with one device there is nothing to split."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """The inputs for each device; there is one. Errors: RuntimeError where there are to be more."""
    if len(target_gpus) > 1:
        raise ArgumentError(
            f"scatter: there are no {len(target_gpus)} devices",
            expected="one device",
            got=f"target_gpus={list(target_gpus)!r}",
            fix="leave it out: everything is on the CPU",
        )
    return [inputs]


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """What the devices gave, joined; there is one. Errors: RuntimeError where there are more."""
    if len(outputs) != 1:
        raise ArgumentError(
            f"gather: there are no {len(outputs)} devices",
            expected="what one device gave",
            got=f"{len(outputs)} outputs",
            fix="use weft.cat",
        )
    return outputs[0]


join(sys.modules[__name__], {"scatter_gather": {"scatter": scatter, "gather": gather}})
