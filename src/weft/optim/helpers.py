"""Helpers that optimizers of packages take from PyTorch's module `optim.optimizer`. Every step is fused here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Tensor


def _use_grad_for_differentiable(func: Callable[..., object]) -> Callable[..., Any]:
    """Record the step of an optimizer for derivatives where its option `differentiable` says so."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with weft.set_grad_enabled(self.defaults.get("differentiable", False)):
            return func(self, *args, **kwargs)

    return step


def _get_value(x: object) -> Any:
    """A number of a tensor of one element; a number as it is."""
    return x.item() if isinstance(x, weft.Tensor) else x


_to_scalar = _get_value


def _stack_if_compiling(x: object) -> Any:
    """Numbers as they are: nothing is traced."""
    return x


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): true if a step is to be one of PyTorch's kernels over lists, which it never is."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices whose steps can be captured: none."""
    return []


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The type of counted steps."""
    return weft.float64 if weft.get_default_dtype() == weft.float64 else weft.float32


def _view_as_real(params: list[Tensor], *state_and_grads: list[Any]) -> None:
    """Show complex tensors of lists as pairs of real numbers, in place."""
    for place, parameter in enumerate(params):
        if parameter.is_complex():
            for values in (params, *state_and_grads):
                values[place] = weft.view_as_real(values[place])


def _disable_dynamo_if_unsupported(single_tensor_fn: object = None) -> Callable[..., Any]:
    """A decorator that leaves a function as it is: nothing is traced."""
    return lambda function: function


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[Any, Any]:
    """(device, type) -> the same lists with the tensors of which the first list's is of that type, and where they
    stood."""
    groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
    for index, first in enumerate(tensorlistlist[0]):
        key = (first.device, first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        indices.append(index)
        for column, tensors in zip(lists, tensorlistlist, strict=True):
            if tensors:
                column.append(tensors[index])
    return {
        key: (lists, indices if with_indices else []) for key, (lists, indices) in groups.items()
    }
