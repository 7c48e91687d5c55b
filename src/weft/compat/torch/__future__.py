"""Settings of PyTorch's under `torch.__future__`: how a module's parameters take converted and loaded values.

By default a parameter stays the object that it is and takes the new value, whatever its type; optimizers keep what they
hold. It may be overwritten by a new parameter, or exchange what it is with one (`utils.swap_tensors`).
"""

from __future__ import annotations

from weft.nn.module.to_device import Conversion

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]


def get_overwrite_module_params_on_conversion() -> bool:
    """True if converting a module makes new parameters. Default: False."""
    return Conversion.overwrites


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Let conversions of modules make new parameters, or let the old ones take the values."""
    Conversion.overwrites = value


def get_swap_module_params_on_conversion() -> bool:
    """True if converting or loading a module swaps its parameters with new ones. Default: False."""
    return Conversion.swaps


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Let parameters be swapped with the converted and the loaded ones, which `Tensor.module_load` makes."""
    Conversion.swaps = value
