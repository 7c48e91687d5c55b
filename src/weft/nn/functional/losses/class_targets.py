"""Class indices as targets of losses: that they fit the input, and what the input says of each.

Predictions and targets come in; the checks that can be made at the call are made here, the others by the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from weft.functional.support.index_bounds import check_index, present_values, trusted
from weft.ops.primitives import gather, reshape, where
from weft.tensor.arguments import TYPE_NAMES, Shape, describe, need_tensor


def check_target_kind(input: Tensor, target: Tensor) -> None:
    """Errors: DTypeError on targets of the input's shape that are no probabilities, on others that are no classes."""
    need_tensor("cross_entropy", target, "target", 2)
    if target._shape == input._shape:
        if target._dtype.category < 2:
            raise DTypeError(
                f"Expected floating point type for target with class probabilities, got "
                f"{TYPE_NAMES[target._dtype.name]}",
                expected="probabilities as floating-point numbers",
                got=describe("target", target),
                fix="drop the dimension of classes, or convert with .float()",
            )
    elif target._dtype.category >= 2 and _fits(input, target):
        raise DTypeError(
            f"expected target dtype to be Long or Byte, but got {TYPE_NAMES[target._dtype.name]}",
            expected="classes as int64, or probabilities of the shape of the input",
            got=describe("target", target),
            fix="convert the targets with .long()",
        )


def _fits(input: Tensor, target: Tensor) -> bool:
    """True if both batches have one size."""
    return len(input._shape) < 2 or tuple(input._shape[:1]) == tuple(target._shape[:1])


def check_class_weights(input: Tensor, weight: Tensor) -> None:
    """Errors: ShapeError, DTypeError where weights are not one number per class in the input's type."""
    need_tensor("cross_entropy", weight, "weight", 3)
    classes = input._shape[1 if len(input._shape) > 1 else 0]
    if tuple(weight._shape) != (classes,):
        raise ShapeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got "
            f"weight tensor of shape: {list(weight._shape)}",
            expected=f"{classes} weights",
            got=describe("weight", weight),
            fix="give one weight per class",
        )
    if weight._dtype is not input._dtype:
        raise DTypeError(
            f"expected scalar type {TYPE_NAMES[input._dtype.name]} but found "
            f"{TYPE_NAMES[weight._dtype.name]}",
            expected=f"weights in {input._dtype.name}",
            got=describe("weight", weight),
            fix="convert the weights with .to(input.dtype)",
        )


def check_classes(input: Tensor, target: Tensor) -> None:
    """Errors: ArgumentError, DTypeError where targets are not one class per example."""
    if not isinstance(target, Tensor):
        need_tensor("cross_entropy", target, "target", 2)
    if target._dtype is not dtypes.int64 and target._dtype is not dtypes.uint8:
        raise DTypeError(
            f"expected target dtype to be Long or Byte, but got {TYPE_NAMES[target._dtype.name]}",
            expected="classes as int64, or probabilities of the shape of the input",
            got=describe("target", target),
            fix="convert the targets with .long()",
        )
    rank = len(input._shape)
    if rank == 0:
        raise ArgumentError(
            "Expected 1 or more dimensions (got 0)",
            expected="a number per class in the last dimension",
            got=describe("input", input),
            fix="unsqueeze the input",
        )
    want = (input._shape[0], *input._shape[2:]) if rank > 1 else ()
    if target._shape == want or (rank == 1 and target._shape == (1,)):
        return
    raise ArgumentError(
        _misfit(input._shape, target._shape, want),
        expected=f"targets {list(want)}",
        got=f"{describe('input', input)}, {describe('target', target)}",
        fix="classes are in dimension 1 of the input",
    )


def _misfit(input: Shape, target: Shape, want: Shape) -> str:
    """PyTorch's words for targets whose shape is not the one that is wanted."""
    if len(input) > 1 and target[:1] != input[:1]:
        size = target[0] if target else 1
        return f"Expected input batch_size ({input[0]}) to match target batch_size ({size})."
    if len(input) < 3:
        return "0D or 1D target tensor expected, multi-target not supported"
    if len(input) == 4 and len(target) != 3:
        return (
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{len(target)}"
        )
    if len(input) == 4:
        return f"size mismatch (got input: {list(input)} , target: {list(target)}"
    return f"Expected target size {list(want)}, got {list(target)}"


def _targets_known(target: Tensor, count: int, ignore_index: int) -> tuple[bool, bool]:
    """(True if all classes are known to be in range, True if none of them is to be ignored). Errors: IndexRangeError
    for a visible class that is out of range and not to be ignored."""
    try:
        known = bool(check_index("nll_loss", target, count, 0, False))
        return known, known and not 0 <= ignore_index < count
    except IndexRangeError:
        values = present_values(target)
        bad = (values != ignore_index) & ((values < 0) | (values >= count))
        if not bad.any():
            return True, False
        place = np.argwhere(bad)[0].tolist()
        number = int(values[tuple(place)])
        raise IndexRangeError(
            f"Target {number} is out of bounds.",
            expected=f"classes with 0 <= class < {count}, or ignore_index={ignore_index}",
            got=f"{number} at position {place} of the targets {list(values.shape)}",
            fix="check the number of classes, and the value that marks padding",
            operation="nll_loss",
        ) from None


def target_classes(input: Tensor, target: Tensor, ignore_index: int) -> tuple[Any, Any, bool]:
    """The classes to look up, the mask of ignored targets (None if there are known to be none), and True if all
    classes are known to be in range. Errors: IndexRangeError."""
    count = input._shape[1 if len(input._shape) > 1 else 0]
    known, all_count = _targets_known(target, count, ignore_index)
    classes, ignored = cast(target, dtypes.int64), None
    if not all_count:
        ignored = classes == ignore_index
        positive = where(classes < 0, count, classes)  # a negative one may not wrap
        classes = where(ignored, 0, positive)
        if known:
            trusted(classes, count)
    return classes, ignored, known


def pick_classes(input: Tensor, classes: Tensor, pick: Callable[..., Tensor] = gather) -> Any:
    """The elements that `pick` takes from the input at one class per example."""
    axis = 1 if len(input._shape) > 1 else 0
    shape = classes._shape
    index = reshape(classes, (*shape[:axis], 1, *shape[axis:]))
    return reshape(pick(input, axis, index), shape)
