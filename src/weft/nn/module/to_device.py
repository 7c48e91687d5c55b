"""Conversion of a module's tensors by `Module.to` and its kin, and forgetting gradients.

Parameters and buffers get new values; parameters stay the same objects.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft._build.lazy import later
from weft._typing import DeviceLike
from weft.errors import ArgumentTypeError, NoDataError
from weft.nn.module.checks import typename
from weft.nn.module.members import own_values
from weft.tensor.leaves import show_data

swapping = later("weft.tensor.swapping")
parameters = later("weft.nn.parameter")

if TYPE_CHECKING:
    from weft.nn.module.module import Module
    from weft.tensor.layout import MemoryFormat


def clear_gradient(parameter: Tensor, set_to_none: bool) -> None:
    """Forget a gradient, or set it to zero in place without its history."""
    if parameter.grad is None:
        return
    if set_to_none:
        parameter.grad = None
        return
    if parameter.grad.grad_fn is not None:
        parameter.grad.detach_()
    else:
        parameter.grad.requires_grad_(False)
    parameter.grad.zero_()


def parse_to(
    *args: object,
    device: DeviceLike | None = None,
    dtype: object = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat | None = None,
) -> tuple[Any, Any, Any]:
    """The device, dtype and memory format that the arguments of `to` name, None for what they leave alone."""
    for position, argument in enumerate(args):
        if isinstance(argument, Tensor):
            device, dtype = argument.device, argument.dtype
        elif isinstance(argument, weft.dtype):
            dtype = argument
        elif isinstance(argument, bool):
            continue  # non_blocking and copy change nothing on one device
        elif isinstance(argument, str | int | weft.device):
            device = argument
        elif argument is not None or position > 1:
            raise ArgumentTypeError(
                f"to() received an invalid argument: {typename(argument)}",
                expected="a device, a dtype or a tensor",
                got=typename(argument),
                fix="pass such as weft.float64 or 'cpu'",
            )
    return device, dtype, memory_format


def conversion(*args: object, **kwargs: Any) -> Callable[[Tensor], Tensor]:
    """The conversion of one tensor by `Module.to`. Errors: TypeError on a dtype that parameters cannot have."""
    device, dtype, memory_format = parse_to(*args, **kwargs)
    if any(isinstance(flag, bool) for flag in args[:2]) and not isinstance(
        args[0], Tensor | weft.dtype
    ):
        raise ArgumentTypeError(
            f"to() received an invalid combination of arguments - got {[typename(one) for one in args]}",
            expected="to(device, dtype), or flags behind them",
            got=", ".join(typename(one) for one in args),
            fix="pass non_blocking by its name",
        )
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise ArgumentTypeError(
            "nn.Module.to only accepts floating point or complex dtypes, "
            f"but got desired dtype={dtype}",
            expected="a floating-point or complex dtype",
            got=str(dtype),
            fix="convert buffers one by one with .to(...)",
        )
    if dtype is not None and dtype.is_complex:
        warnings.warn(
            "Complex modules are a new feature: some may not work as expected with complex parameters or buffers.",
            stacklevel=3,
        )

    def convert(tensor: Tensor) -> Tensor:
        castable = tensor.is_floating_point() or tensor.is_complex()
        wanted = dtype if dtype is not None and castable else tensor.dtype
        try:
            moved = tensor if device is None else tensor.to(device)
        except NoDataError:
            raise NoDataError(
                "Cannot copy out of meta tensor; no data! Please use weft.nn.Module.to_empty() instead of "
                "weft.nn.Module.to() when moving module from meta to a different device."
            ) from None
        form = memory_format if memory_format is not None and tensor.dim() in (4, 5) else None
        return moved.to(wanted, memory_format=form)

    return convert


class Conversion:
    """Settings of `__future__`: parameters that take converted values stay the tensors that they are, unless they are
    overwritten or swapped."""

    overwrites = False
    swaps = False


def _give(module: Module, name: str, parameter: Tensor, new: Tensor) -> None:
    """Give a parameter a converted value, or put a new parameter in its place."""
    if not (Conversion.swaps or Conversion.overwrites):
        show_data(parameter, new)
        return
    made = parameters.Parameter(new, parameter.requires_grad)
    if Conversion.swaps:
        swapping.swap_tensors(parameter, made)
    else:
        module._parameters[name] = made


def replace_own(module: Module, fn: Callable[[Tensor], Tensor]) -> None:
    """Replace the value of each of a module's own parameters, gradients and buffers by `fn` of it."""
    with weft.no_grad():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                gradient, parameter.grad = parameter.grad, None
                new = fn(parameter)
                if new is not parameter or Conversion.swaps:
                    _give(module, name, parameter, new)
                    parameter = module._parameters[name]
                if gradient is not None:
                    new = fn(gradient)
                    if new is not gradient:
                        new = new.detach().requires_grad_(gradient.requires_grad)
                    parameter.grad = new
        for name, buffer in module._buffers.items():
            if buffer is not None:
                own_values(module)[name] = fn(buffer)
