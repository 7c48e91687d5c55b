"""Checks of parametrizations, in PyTorch's words.

They take the result of a part or of its `right_inverse`, and raise a ValueError that says what it should have been.
"""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft import Tensor
from weft._typing import Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.nn.module.module import Module


def _refusal(text: str, expected: str, got: Sequence[int] | str | DType | int) -> ArgumentError:
    return ArgumentError(
        text,
        expected=expected,
        got=str(got),
        fix="change it, or pass unsafe=True where it is meant",
    )


def one_tensor(what: str, value: Tensor | tuple[Tensor, ...]) -> Tensor:
    """A tensor. Errors: ValueError on anything else."""
    if not isinstance(value, Tensor):
        text = f"{what} must return a tensor. Got {type(value).__name__}."
        raise _refusal(text, "a tensor", type(value).__name__)
    return value


def several(values: object) -> Sequence[Tensor]:
    """A sequence of tensors from a `right_inverse`. Errors: ValueError on anything else."""
    text = "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
    if not isinstance(values, Sequence):
        text += f"Got {type(values).__name__}"
        raise _refusal(text, "a tensor, or a list or tuple of them", type(values).__name__)
    for number, value in enumerate(values):
        if not isinstance(value, Tensor):
            text += f"Got element {number} of the sequence with type {type(value).__name__}."
            raise _refusal(text, "tensors", type(value).__name__)
    return values


def same_number(values: Sequence[Tensor], count: int) -> None:
    """Errors: ValueError where a `right_inverse` gave another number of tensors than at first."""
    if len(values) != count:
        text = f"'right_inverse' must return a sequence of tensors of length {count}. Got one of length {len(values)}."
        raise _refusal(text, f"{count} tensors", len(values))


def same_dtype(text: str, old: Tensor, new: Tensor) -> None:
    """Errors: ValueError with this text where the types differ."""
    if new.dtype is not old.dtype:
        raise _refusal(
            f"{text} original.dtype: {old.dtype}, got: {new.dtype}", old.dtype.name, new.dtype
        )


def registered(result: Tensor, shape: Shape, dtype: DType) -> None:
    """Errors: ValueError where a parametrized tensor has not the shape and type of the plain one."""
    one_tensor("A parametrization", result)
    text = "Registering a parametrization may not change the {0} of the tensor, unless the `unsafe` flag is enabled. "
    text += "unparametrized {0}: {1}, parametrized {0}: {2}"
    if result.dtype is not dtype:
        raise _refusal(text.format("dtype", dtype, result.dtype), str(dtype), result.dtype)
    if tuple(result.shape) != tuple(shape):
        shapes = list(shape), list(result.shape)
        raise _refusal(text.format("shape", *shapes), str(shapes[0]), shapes[1])


def another(part: Module, value: Tensor, name: str) -> None:
    """Check a part that is put behind others; `value` is what it will be given. Errors: ValueError."""
    with weft.no_grad():
        result = part(value)
        registered(result, value.shape, value.dtype)
        if not hasattr(part, "right_inverse"):
            return
        try:
            back = part.right_inverse(result)
        except NotImplementedError:  # it has no inverse for this configuration
            return
    one_tensor("parametrization.right_inverse", back)
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(value, what):
            text = f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}."
            raise _refusal(text, str(getattr(value, what)), getattr(back, what))
