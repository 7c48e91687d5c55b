"""Class indices as targets of losses: that they fit the input, and what the input says of each.

Predictions and targets come in; the checks that can be made at the call are made here, the others by the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import ArgumentError, DTypeError, IndexRangeError
from weft.functional.arguments import TYPE_NAMES, describe, need_tensor
from weft.functional.ranges import check_index, present_values, trusted
from weft.graph import dtype as dtypes
from weft.graph.recording import cast
from weft.graph.tensor import Tensor
from weft.ops.primitives import gather, reshape, where


def check_classes(input: Any, target: Any) -> None:
    """Errors: ArgumentError, DTypeError where targets are not one class per example."""
    if not isinstance(target, Tensor):
        need_tensor("cross_entropy", target, "target", 2)
    if target._dtype is not dtypes.int64 and target._dtype is not dtypes.uint8:
        raise DTypeError(
            f"expected scalar type Long but found {TYPE_NAMES[target._dtype.name]}",
            expected="classes as int64, or probabilities of the shape of the input",
            got=describe("target", target),
            fix="convert the targets with .long()",
        )
    rank = len(input._shape)
    want = (input._shape[0], *input._shape[2:]) if rank > 1 else ()
    if target._shape == want:
        return
    if rank > 1 and target._shape[:1] != input._shape[:1]:
        size = target._shape[0] if target._shape else 1
        text = f"Expected input batch_size ({input._shape[0]}) to match target batch_size ({size})."
    else:
        text = f"Expected target size {list(want)}, got {list(target._shape)}"
    raise ArgumentError(
        text,
        expected=f"targets {list(want)}",
        got=f"{describe('input', input)}, {describe('target', target)}",
        fix="classes are in dimension 1 of the input",
    )


def _targets_known(target: Any, count: int, ignore_index: int) -> bool:
    """Whether all classes are known to be in range. Errors: IndexRangeError where one is seen that is not, but for
    those to be ignored."""
    try:
        return bool(check_index("nll_loss", target, count, 0, False))
    except IndexRangeError:
        values = present_values(target)
        bad = (values != ignore_index) & ((values < 0) | (values >= count))
        if not bad.any():
            return True
        place = np.argwhere(bad)[0].tolist()
        number = int(values[tuple(place)])
        raise IndexRangeError(
            f"nll_loss: index out of range: Target {number} is out of bounds.",
            expected=f"classes with 0 <= class < {count}, or ignore_index={ignore_index}",
            got=f"{number} at position {place} of the targets {list(values.shape)}",
            fix="check the number of classes, and the value that marks padding",
        ) from None


def picked_classes(log_probabilities: Any, target: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """The log probability of each target class, the mask of ignored targets, and the classes to look up."""
    axis = 1 if len(log_probabilities._shape) > 1 else 0
    count = log_probabilities._shape[axis]
    known = _targets_known(target, count, ignore_index)
    target = cast(target, dtypes.int64)
    ignored = target == ignore_index
    checked = where(ignored, 0, where(target < 0, count, target))  # a negative class may not wrap
    if known:
        trusted(checked, count)
    index = reshape(checked, (*target._shape[:axis], 1, *target._shape[axis:]))
    return reshape(gather(log_probabilities, axis, index), target._shape), ignored, checked
