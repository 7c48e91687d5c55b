"""Jacobians by differences, as PyTorch's tests of modules ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.autograd.gradient_checks.finite_differences import differences_of, outputs_of
from weft.engine.frontend.tensor import Tensor


def _iter_tensors(x: object, only_requiring_grad: bool = False) -> Iterator[Tensor]:
    """The tensors in nested lists and tuples, in their order; with `only_requiring_grad` those that need gradients."""
    if isinstance(x, Tensor):
        if x.requires_grad or not only_requiring_grad:
            yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _iter_tensors(item, only_requiring_grad)


def _get_numerical_jacobian(
    fn: Callable[..., object],
    inputs: object,
    outputs: object = None,
    target: object = None,
    eps: float = 1e-3,
    is_forward_ad: bool = False,
) -> list[list[Tensor]]:
    """For each tensor of `target` that needs a gradient, and each output, d output / d tensor: (elements, elements).

    `target` is `inputs` where it is left out; `fn` is called with `inputs`, which may share its tensors.
    """
    from weft.tensor.creation.factories import tensor

    given = tuple(_iter_tensors(inputs))

    def moved(varied: Tensor) -> object:
        return fn(*given)

    found = outputs_of(fn, given)
    return [
        [tensor(_jacobian(moved, varied, found, place, eps)) for place in range(len(found))]
        for varied in _iter_tensors(inputs if target is None else target, True)
    ]


def _jacobian(
    function: Callable[[Tensor], object],
    varied: Tensor,
    outputs: tuple[Tensor, ...],
    place: int,
    eps: float,
) -> Any:
    columns = differences_of(function, [varied], 0, outputs, place, eps)
    rows = [parts[0].reshape(-1) for parts in columns]
    return np.stack(rows) if rows else np.zeros((0, outputs[place].numel()))
