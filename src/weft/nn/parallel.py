"""Wrappers for many devices, for the one that there is: the module itself, under the names that PyTorch's wrappers give
it. That for many processes is `distributed.data_parallel`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from weft import Tensor
from weft._build.lazy import gather as _gather_names
from weft._build.lazy import load as _load
from weft._build.subscripted import subscripted
from weft._typing import DeviceLike
from weft.errors import ArgumentError
from weft.nn.module.module import Module


class DataParallel(Module):
    """Calls the module it holds as `module`: with one device there is nothing to split."""

    __class_getitem__ = subscripted

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[DeviceLike] | None = None,
        output_device: DeviceLike | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids: list[Any] = []
        self.output_device = output_device

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        """The result of the module.

        Args:
            *inputs: the arguments of the module.
            **kwargs: the same by name.
        """
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: object = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: dict[str, object] | None = None,
) -> Any:
    """The result of the module for the inputs: with one device there is nothing to split.

    Args:
        module: the module.
        inputs: its argument, or a tuple of them.
        device_ids: accepted: there is one device; None: the same.
        output_device: accepted; None: the same.
        dim: accepted: nothing is split. Default: 0.
        module_kwargs: arguments by name; None: none.
    """
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))


def scatter(inputs: object, target_gpus: Sequence[object], dim: int = 0) -> list[Any]:
    """The inputs for each device; there is one.

    Args:
        inputs: the arguments.
        target_gpus: a list of one device.
        dim: accepted: nothing is split. Default: 0.

    Raises:
        RuntimeError where there are to be more.
    """
    if len(target_gpus) > 1:
        raise ArgumentError(
            f"scatter: there are no {len(target_gpus)} devices",
            expected="one device",
            got=f"target_gpus={list(target_gpus)!r}",
            fix="leave it out: everything is on the CPU",
        )
    return [inputs]


def gather(outputs: Sequence[object], target_device: object, dim: int = 0) -> Any:
    """The joined outputs of the devices, of which there is one.

    Args:
        outputs: the output of each device.
        target_device: accepted.
        dim: accepted: there is nothing to join. Default: 0.

    Raises:
        RuntimeError if there are more.
    """
    if len(outputs) != 1:
        raise ArgumentError(
            f"gather: there are no {len(outputs)} devices",
            expected="what one device gave",
            got=f"{len(outputs)} outputs",
            fix="use weft.cat",
        )
    return outputs[0]


def scatter_kwargs(
    inputs: object, kwargs: dict[str, object] | None, target_gpus: Sequence[object], dim: int = 0
) -> tuple[Any, Any]:
    """`scatter` of positional and named arguments.

    Args:
        inputs: the arguments.
        kwargs: arguments by name, or None.
        target_gpus: a list of one device.
        dim: accepted: nothing is split. Default: 0.
    """
    return tuple(scatter(inputs, target_gpus, dim)), tuple(scatter(kwargs or {}, target_gpus, dim))


def replicate(network: Module, devices: Sequence[object], detach: bool = False) -> list[Module]:
    """The module for each device; there is one.

    Args:
        network: the module.
        devices: a list of one device.
        detach: accepted. Default: False.

    Raises:
        RuntimeError where there are to be more.
    """
    return scatter(network, devices)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[object],
    kwargs_tup: Any = None,
    devices: object = None,
) -> list[Any]:
    """The results of the modules for their inputs, one after the other.

    Args:
        modules: the modules.
        inputs: for each its argument, or a tuple of them.
        kwargs_tup: for each its arguments by name; None: none.
        devices: accepted; None: the same.
    """
    given = [one if isinstance(one, tuple) else (one,) for one in inputs]
    named = kwargs_tup or [{}] * len(given)
    return [
        module(*args, **options)
        for module, args, options in zip(modules, given, named, strict=True)
    ]


def get_a_var(obj: object) -> Any:
    """The first tensor in lists, tuples and dictionaries, or None.

    Args:
        obj: a tensor, or a nest of them.
    """
    parts = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    if isinstance(obj, Tensor):
        return obj
    return next((found for part in parts if (found := get_a_var(part)) is not None), None)


def __getattr__(name: str) -> Any:
    if name != "DistributedDataParallel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load("weft.distributed.data_parallel.ddp").DistributedDataParallel


_gather_names(
    sys.modules[__name__],
    {
        "data_parallel": {"nn.parallel": "DataParallel data_parallel"},
        "distributed": {"distributed.data_parallel.ddp": "DistributedDataParallel"},
        "parallel_apply": {"nn.parallel": "get_a_var parallel_apply"},
        "replicate": {"nn.parallel": "replicate"},
        "scatter_gather": {"nn.parallel": "gather scatter scatter_kwargs"},
    },
)
