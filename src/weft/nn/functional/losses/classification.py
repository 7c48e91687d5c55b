# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Losses of classes: `nll_loss` and `cross_entropy`, against one class per example or against probabilities.

Scores and targets come in; one number goes out, or all of them with reduction="none".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.recorder import cast, record
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import DONE, Node
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.engine.frontend.recorder import record_gradient
from weft.engine.frontend.resolve import rename_record
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError
from weft.functional.reductions.softmax import log_softmax
from weft.functional.reductions.sums_and_extrema import mean, sum
from weft.nn.functional.losses.class_targets import (
    check_class_weights,
    check_classes,
    check_target_kind,
    pick_classes,
    target_classes,
)
from weft.nn.functional.losses.regression import reduced, reduction_of
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import gather, reshape, take, where
from weft.ops.registry import named
from weft.tensor.arguments import describe, need_tensor, untracked, widen

require(__name__, cython.compiled)

_int64 = cython.declare(DType, dtypes.int64)
_LAST = cython.declare(tuple, (-1,))  # the dimension of the classes, counted from the end
_LOSS = cython.declare(Primitive, named(OPS["cross_entropy"], "NllLossBackward0"))
_PICKED, _CROSS_ENTROPY = OPS["picked_log_softmax"], OPS["cross_entropy"]


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The negative of each target class's log probability. Shapes: (N, C, *), (N, *)."""
    reduction = reduction_of(reduction, size_average, reduce)
    if not input._shape:
        raise ArgumentError(
            "Expected 1 or more dimensions (got 0)",
            expected="log probabilities of classes, (C) or (N, C, *)",
            got=describe("input", input),
            fix="pass a score for each class",
        )
    result = _over_targets(_negative, input, target, weight, ignore_index, reduction)
    return rename_record(result, _record_name(input))


def _record_name(input: Tensor) -> str:
    return "NllLossBackward0" if len(input._shape) < 3 else "NllLoss2DBackward0"


def _class_axis(scores: Tensor) -> int:
    """The dimension of the classes: behind that of the examples, if there is one."""
    return 1 if len(scores._shape) > 1 else 0


def _negative(input: Tensor, classes: Tensor, known: bool) -> Any:
    """The negative of each class's log probability."""
    return -pick_classes(input, classes)


def _over_targets(
    losses_of: Callable[..., Tensor],
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
) -> Any:
    """The losses that `losses_of(input, classes, whether all are known to be in range)` gives for the targets that are
    not ignored, weighted and reduced."""
    check_classes(input, target)
    if len(input._shape) == 1:
        target = reshape(target, ())
    if weight is not None:
        check_class_weights(input, weight)
    classes, ignored, known = target_classes(input, target, ignore_index)
    losses = losses_of(input, classes, known)
    if weight is None and reduction == "mean" and math.prod(target._shape) == 1:
        return reshape(_but_ignored(ignored, math.nan, losses), ())
    if weight is None:
        losses = _but_ignored(ignored, 0, losses)
        if reduction != "mean":
            return reduced(losses, reduction)
        if ignored is None:
            return mean(losses)
        return sum(losses) / sum(cast(call("logical_not", ignored), input._dtype))
    weights = _but_ignored(ignored, 0, take(weight, 0, classes))
    losses = _but_ignored(ignored, 0, losses * weights)
    if reduction != "mean":
        return reduced(losses, reduction)
    return sum(losses) / sum(weights)


def _but_ignored(ignored: Tensor, number: float, losses: Tensor) -> Any:
    """Losses, with a number in place of those to be ignored, if there are any."""
    return losses if ignored is None else where(ignored, number, losses)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """-log softmax(input) at the target class, or against target probabilities. Shapes: (N, C, *), (N, *) or
    (N, C, *). Classes are int64, checked at the call or, while pending, by the kernel."""
    need_tensor("cross_entropy", input)
    reduction = reduction_of(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}",
            expected="0 <= label_smoothing <= 1",
            got=str(label_smoothing),
            fix="pass a fraction",
        )
    if weight is None and not label_smoothing:
        loss = _of_one_example(input, target, ignore_index)
        if loss is not None:
            return loss
    check_target_kind(input, target)
    wide = widen(input)
    if weight is not None and weight._dtype is input._dtype:
        weight = cast(weight, wide._dtype)
    if target._shape == input._shape and target._dtype.category == 2:
        if ignore_index >= 0:
            raise ArgumentError(
                "ignore_index is not supported for floating point target",
                expected="class indices",
                got=describe("target", target),
                fix="leave ignore_index out",
            )
        logs = log_softmax(wide, _class_axis(wide))
        result = _soft_targets(logs, target, weight, reduction, label_smoothing)
    elif label_smoothing:
        logs = log_softmax(wide, _class_axis(wide))
        result = _smoothed(logs, target, weight, ignore_index, reduction, label_smoothing)
    else:
        result = _of_classes(wide, target, weight, ignore_index, reduction)
    return cast(result, input._dtype)


@cython.cfunc
@cython.locals(scores=Tensor, index=Tensor, node=Node, count=cython.longlong)
def _of_one_example(input: Tensor, target: object, ignore_index: int) -> Any:
    """Cross entropy of one example of a class that has been looked at before and fits; None elsewhere."""
    if not isinstance(target, Tensor):
        return None
    scores, index = input, target
    node = index.node
    if (
        node is None
        or node.state != DONE
        or len(scores._shape) != 1
        or len(index._shape) != 0
        or index._dtype is not _int64
        or index.view_transform != 0
        or scores._dtype.category != 2
        or scores._dtype.itemsize == 2
    ):
        return None
    count = scores._shape[0]
    if not 0 < node.max_index <= count or 0 <= ignore_index < count:
        return None
    return record(_LOSS, (scores, index), _LAST, index._shape, scores._dtype)


def _of_classes(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str
) -> Any:
    """Cross entropy of one class per example. Nothing has no largest element: then it is composed."""
    if 0 in input._shape:
        logs = log_softmax(input, _class_axis(input))
        return nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    result = _over_targets(_losses, input, target, weight, ignore_index, reduction)
    return rename_record(result, _record_name(input))


def _losses(input: Tensor, classes: Tensor, known: bool) -> Any:
    """The loss of each example: one record, or where a class may turn out to be none, what that stands for."""
    if known:
        after = (_class_axis(input) - len(input._shape),)
        return record(_CROSS_ENTROPY, (input, classes), after, classes._shape, input._dtype)
    with untracked():
        logs = log_softmax(input, _class_axis(input))
    return -pick_classes(logs, classes, functools.partial(_pick_logs, input))


def _pick_logs(input: Tensor, logs: Tensor, axis: int, index: Tensor) -> Any:
    """log_softmax at the targets with one gradient record for both: the probabilities, less one at the target."""
    with untracked():
        picked = gather(logs, axis, index)
    return record_gradient(_PICKED, (input, index), (axis,), picked)


def _class_weights(weight: Tensor, logs: Tensor) -> Any:
    check_class_weights(logs, weight)
    return reshape(weight, (weight._shape[0],) + (1,) * max(len(logs._shape) - 2, 0))


def _soft_targets(
    logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Any:
    axis = _class_axis(logs)
    target = cast(target, logs._dtype)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / logs._shape[axis]
    terms = logs * target
    if weight is not None:
        terms = terms * _class_weights(weight, logs)
    losses = -sum(terms, axis)
    if reduction == "mean":
        return sum(losses) / math.prod(losses._shape)
    return reduced(losses, reduction)


def _smoothed(
    logs: Tensor,
    target: object,
    weight: object,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Any:
    axis = _class_axis(logs)
    count = logs._shape[axis]
    sharp = nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    ignored = target == ignore_index
    weighted = logs if weight is None else logs * _class_weights(weight, logs)
    flat = where(ignored, 0, -sum(weighted, axis))
    if reduction == "mean":
        if weight is None:
            total = sum(cast(call("logical_not", ignored), logs._dtype))
        else:
            total = sum(
                where(ignored, 0, take(weight, 0, where(ignored, 0, cast(target, dtypes.int64))))
            )
        flat = sum(flat) / total
    else:
        flat = reduced(flat, reduction)
    return sharp * (1 - smoothing) + flat * (smoothing / count)


__all__ = ["cross_entropy", "nll_loss"]
