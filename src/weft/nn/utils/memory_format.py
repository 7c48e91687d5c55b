"""Weights of convolutions in another order in memory."""

from __future__ import annotations

from typing import Any

from weft.engine.api.api_function import publish
from weft.errors import ArgumentTypeError
from weft.nn.module.module import Module
from weft.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from weft.tensor.layout import MemoryFormat


def _converted(module: object, kinds: tuple[type, ...], memory_format: object) -> Any:
    if not isinstance(module, Module):
        raise ArgumentTypeError(
            f"convert_conv_weight_memory_format: '{type(module).__name__}' is no module",
            expected="a weft.nn.Module",
            got=f"{module!r:.60}",
            fix="convert tensors by contiguous(memory_format=...)",
        )
    if not isinstance(memory_format, MemoryFormat):
        raise ArgumentTypeError(
            f"convert_conv_weight_memory_format: no memory_format: '{type(memory_format).__name__}'",
            expected="weft.channels_last or its like",
            got=f"{memory_format!r:.60}",
            fix="pass weft.channels_last",
        )
    parts: list[Any] = [part for part in module.modules() if isinstance(part, kinds)]
    for part in parts:
        part.weight.data = part.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Any:
    """The module, whose 2-dimensional convolutions keep their weights in an order such as `channels_last`."""
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Any:
    """The module, whose 3-dimensional convolutions keep their weights in an order such as `channels_last_3d`."""
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


publish(globals())
