"""Settings of PyTorch's under `torch.__future__`: how `Module.to` replaces parameters. Here there is one way.

A parameter stays the object that it is and takes the new value, whatever its type; optimizers keep what they hold.
"""

from __future__ import annotations

from weft.errors import NotDefinedError

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]


def _refuse(name: str, value: bool) -> None:
    if value:
        raise NotDefinedError(
            f"{name}(True): parameters stay the objects that they are",
            expected="False",
            got="True",
            fix="leave the setting as it is; assign new parameters with setattr or load_state_dict(assign=True)",
        )


def get_overwrite_module_params_on_conversion() -> bool:
    """True if converting a module makes new parameters: False."""
    return False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Errors: NotImplementedError on True."""
    _refuse("set_overwrite_module_params_on_conversion", value)


def get_swap_module_params_on_conversion() -> bool:
    """True if converting a module swaps parameters with new ones: False."""
    return False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Errors: NotImplementedError on True."""
    _refuse("set_swap_module_params_on_conversion", value)
