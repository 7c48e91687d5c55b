"""Central differences, with which gradient checks compare derivatives.

They take a function, its inputs and which of them to move, and return arrays: the differences of one output by each
element of that input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.autograd.gradient_checks.sparse_inputs import need_dense
from weft.engine.frontend.tensor import Tensor
from weft.errors import AssertedError, NoTensorError


def outputs_of(function: Callable[..., object], inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The outputs that can have a derivative. Errors: AttributeError (and TypeError) on one that is no tensor."""
    result = function(*inputs)
    items = result if isinstance(result, (tuple, list)) else (result,)
    for item in items:
        if not isinstance(item, Tensor):
            raise NoTensorError.of(
                item,
                "requires_grad",
                note="the function has returned it",
                expected="a tensor, or a tuple of tensors",
                fix="return tensors only",
            )
        need_dense(item)
    return tuple(t for t in items if t.dtype.category >= 2)


def differences_of(
    function: Callable[..., object],
    inputs: list[Tensor],
    index: int,
    outputs: Sequence[Tensor],
    output: int,
    eps: float,
) -> Any:
    """d output / d input as an array (input elements, output elements), each a complex conjugate-pair step.

    The input itself holds the changed values, so that a function may also read it from elsewhere (a module has it).
    Errors: AssertionError where the output's shape or dtype depends on them.
    """
    from weft.tensor.creation.factories import tensor as make_tensor

    varied, kept = inputs[index], inputs[index].data
    base = inputs[index].detach().numpy().copy()
    steps = (eps, 1j * eps) if np.iscomplexobj(base) else (eps,)
    columns = []
    try:
        for place in np.ndindex(base.shape):
            parts = []
            for step in steps:
                values = []
                for sign in (1, -1):
                    moved = base.copy()
                    moved[place] += sign * step
                    varied.data = make_tensor(moved)
                    values.append(_moved(function, inputs, outputs[output], output))
                parts.append((values[0] - values[1]) / (2 * eps))
            columns.append(parts)
    finally:
        varied.data = kept
    return columns


def _moved(
    function: Callable[..., object], inputs: list[Tensor], usual: Tensor, output: int
) -> Any:
    """An output for inputs of which one has been moved, as an array. Errors: AssertionError where its type depends on
    that."""
    found = outputs_of(function, inputs)[output].detach()
    for what, before, now in (
        ("shape", tuple(usual.shape), tuple(found.shape)),
        ("dtype", usual.dtype, found.dtype),
    ):
        if before != now:
            raise AssertedError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed on index {output}",
                expected=str(before),
                got=str(now),
                fix="check it at inputs where its outputs have one type",
            )
    return found.numpy().copy()


def along(direction: np.ndarray, numerical: list[list[np.ndarray]], like: np.ndarray) -> Any:
    """The differences along a direction: J v."""
    step = np.zeros(like.shape, like.dtype)
    for element, parts in zip(np.ravel(direction), numerical, strict=True):
        for unit, part in zip((np.real(element), np.imag(element)), parts, strict=False):
            step = step + unit * part
    return step
