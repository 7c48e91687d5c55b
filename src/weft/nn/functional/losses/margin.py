# ruff: noqa: A001, A002 - PyTorch's names
"""Losses by margins, of pairs, triplets and several labels, and negative log likelihoods of distributions.

Predictions and targets come in; one number goes out, or all of them with reduction="none". Each is a composition of
elementwise operations and sums, which fuses with what made the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from weft.autograd.function import Function, FunctionCtx
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, class_name
from weft.functional.reductions.sums_and_extrema import sum
from weft.functional.support.index_bounds import check_index
from weft.nn.functional.activation import logsigmoid
from weft.nn.functional.losses.regression import pairwise_distance, reduced, reduction_of
from weft.ops.primitives import concat, cumulate, gather, reshape, scatter_add, take, where
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full as constant
from weft.tensor.arguments import TYPE_NAMES, describe, need_rank, need_tensor

PAIRS_AT_ONCE = 1 << 20  # pairs of labels and classes of the rows that are compared together


def _hinge(x: Tensor) -> Any:
    """max(x, 0), whose derivative at 0 is 1, as that of a clamp."""
    return call("clamp_min", x, 0)


# -- pairs and triplets --------------------------------------------------------------------------------------------


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, -target (input1 - input2) + margin). Errors: ShapeError on tensors of different ranks."""
    reduction = reduction_of(reduction, size_average, reduce)
    if not len(input1._shape) == len(input2._shape) == len(target._shape):
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: torch.Size({list(input1._shape)}), input2: torch.Size({list(input2._shape)}), "
            f"target: torch.Size({list(target._shape)}) ",
            expected="three tensors of one rank",
            got=describe("target", target),
            fix="unsqueeze or reshape the shorter ones",
        )
    return ranking_loss(input1, input2, target, margin, reduction)


def ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: str
) -> Any:
    """`margin_ranking_loss` of tensors that are broadcast."""
    return reduced(_hinge(-target * (input1 - input2) + margin), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """x for target 1, max(0, margin - x) for target -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    near = where(target != -1, input, 0)
    far = _hinge(cast(margin - input, input._dtype))  # in the input's type, integers too
    return reduced(near + where(target != 1, far, 0), reduction)


def _check_cosine_pair(input1: Tensor, input2: Tensor, target: Tensor) -> None:
    rank = len(target._shape)
    if rank > 1:
        text = "0D or 1D target tensor expected, multi-target not supported"
    elif len(input1._shape) != rank + 1 or len(input2._shape) != rank + 1:
        text = (
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(input1._shape)} and {list(input2._shape)}."
        )
    else:
        return
    raise ShapeError(
        text,
        expected="inputs (N, D) and targets (N), or inputs (D) and a target ()",
        got=f"{describe('input1', input1)}, {describe('target', target)}",
        fix="reshape the target to one number per pair",
    )


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """1 - cosine for target 1, max(0, cosine - margin) for target -1. Shapes: (N, D), (N, D), (N), or without N."""
    reduction = reduction_of(reduction, size_average, reduce)
    _check_cosine_pair(input1, input2, target)
    tiny = 1e-12  # keeps the root of zero vectors differentiable
    first, second = sum(input1 * input1, -1) + tiny, sum(input2 * input2, -1) + tiny
    cosine = sum(input1 * input2, -1) / call("sqrt", first * second)
    agreeing = where(target == 1, 1 - cosine, 0)
    return reduced(agreeing + where(target == -1, _hinge(cosine - margin), 0), reduction)


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ArgumentError(
            f"margin must be greater than 0, got {margin}",
            expected="margin > 0",
            got=str(margin),
            fix="pass a positive margin",
        )


def _check_triplet(anchor: Tensor, positive: Tensor, negative: Tensor) -> None:
    ranks = [len(x._shape) for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise ShapeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D "
            "inputs",
            expected="three tensors of one rank",
            got=f"{describe('anchor', anchor)}, {describe('negative', negative)}",
            fix="unsqueeze or reshape them",
        )


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, distance to positive - distance to negative + margin). Errors: ArgumentError, ShapeError."""
    reduction = reduction_of(reduction, size_average, reduce)
    _check_margin(margin)
    _check_triplet(anchor, positive, negative)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = call("minimum", far, pairwise_distance(positive, negative, p, eps))
    return reduced(_hinge(pairwise_distance(anchor, positive, p, eps) - far + margin), reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance function of the user."""
    reduction = reduction_of(reduction, None, None)
    _check_margin(margin)
    _check_triplet(anchor, positive, negative)
    distance = pairwise_distance if distance_function is None else distance_function
    if not callable(distance):
        raise ArgumentTypeError(
            f"distance_function must be callable, not {class_name(distance)}",
            expected="a function of two tensors",
            got=repr(distance),
            fix="pass the function itself",
        )
    far = distance(anchor, negative)
    if swap:
        far = call("minimum", far, distance(positive, negative))
    return reduced(_hinge(distance(anchor, positive) - far + margin), reduction)


# -- several classes or labels -------------------------------------------------------------------------------------


def _rows(input: Tensor) -> Any:
    """(C) or (N, C) as (N, C). Errors: ShapeError."""
    if len(input._shape) > 2 or 0 in input._shape[1:] or input._shape == (0,):
        raise ShapeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input._shape)}",
            expected="(N, C) or (C)",
            got=describe("input", input),
            fix="flatten all dimensions but the classes",
        )
    return input if len(input._shape) == 2 else reshape(input, (1, input.numel()))


def _check_labels(target: Tensor, good: bool, text: str, want: tuple[int, ...]) -> None:
    """Errors: ShapeError on labels of another shape, DTypeError on those that are not int64."""
    if not good:
        raise ShapeError(
            text,
            expected=f"a target {list(want)}",
            got=describe("target", target),
            fix="reshape the target",
        )
    if target._dtype is not dtypes.int64:
        raise DTypeError(
            f"expected scalar type Long but found {TYPE_NAMES[target._dtype.name]}",
            expected="labels in int64",
            got=describe("target", target),
            fix="convert the target with .long()",
        )


def _check_class_weights(weight: Tensor, classes: int) -> None:
    if len(weight._shape) != 1:
        text = "weight must be one-dimensional"
    elif weight._shape != (classes,):
        text = f"inconsistent weight size, expected {classes} but got {list(weight._shape)}"
    else:
        return
    raise ArgumentError(
        text,
        expected=f"a weight per class ({classes},)",
        got=describe("weight", weight),
        fix="pass one weight per class",
    )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The mean over the other classes j of max(0, margin - x[y] + x[j])^p. Shapes: (N, C), (N), or without N."""
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ArgumentError(
            "only p == 1 and p == 2 supported",
            expected="p = 1 or 2",
            got=repr(p),
            fix="choose one of these",
        )
    x = _rows(need_tensor("multi_margin_loss", input))
    rows, classes = x._shape
    if weight is not None:
        _check_class_weights(weight, classes)
    _check_labels(
        target,
        target._shape == (rows,) or len(input._shape) < 2 and not target._shape,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of "
        f"input samples (batch size). Expected target size [{rows}], but got {list(target._shape)}. Input has shape "
        f"{list(input._shape)}.",
        (rows,),
    )
    check_index("multi_margin_loss", target, classes, 0, False)
    place = reshape(cast(target, dtypes.int64), (rows, 1))
    gap = margin - gather(x, 1, place) + x  # (N, 1), (N, C) -> (N, C)
    costs = where(gap > 0, gap if p == 1 else gap * gap, 0)
    if weight is not None:
        costs = costs * take(weight, 0, place)
    own = scatter_add(constant((rows, classes), False, dtypes.bool_), 1, place, place == place)
    losses = sum(where(own, 0, costs), 1) / classes
    if len(input._shape) < 2:
        losses = reshape(losses, ())
    return reduced(losses, reduction)


class MultilabelMarginLoss(Function):
    """The losses (N) of scores `x`, where row by row `place` holds `valid` labels, and `others` are no labels; each
    (N, C). The slope is counted again from the scores: pairs of labels and classes are never kept."""

    _ending = "Backward0"
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, place: Tensor, valid: Tensor, others: Tensor) -> Any:
        """All losses."""
        parts = [
            sum(where(pairs, gaps, 0), (1, 2)) for pairs, gaps in _gaps(x, place, valid, others)
        ]
        return concat(tuple(parts), 0) / x._shape[1]

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Keep what the slope is counted from."""
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: FunctionCtx, *cotangents: Tensor) -> Any:
        """Each row's slope times its cotangent."""
        return _slope(*ctx.saved_tensors) * cotangents[0].unsqueeze(1), None, None, None

    @staticmethod
    def jvp(ctx: FunctionCtx, tangent: Tensor, *others: Tensor) -> Any:
        """Each row's slope along the tangent."""
        return sum(_slope(*ctx.saved_tensors) * tangent, 1)


def _gaps(
    x: Tensor, place: Tensor, valid: Tensor, others: Tensor, axis: int = 2
) -> Iterator[tuple[Any, Any]]:
    """For some rows at a time: which labels stand less than 1 above which other classes, and what is missing.
    Shapes: (N, C) four times -> (n, labels, classes) twice, with `axis` 1 (n, classes, labels), fused away."""
    rows, classes = x._shape
    chosen = gather(x, 1, place)
    each = max(1, PAIRS_AT_ONCE // max(1, classes * classes))
    for start in range(0, max(1, rows), each):
        part = [given[start : start + each] for given in (x, chosen, valid, others)]
        scores, labels, counted, free = part
        gaps = 1 - labels.unsqueeze(axis) + scores.unsqueeze(3 - axis)
        yield counted.unsqueeze(axis) & free.unsqueeze(3 - axis) & (gaps > 0), gaps


def _counts(x: Tensor, place: Tensor, valid: Tensor, others: Tensor, axis: int) -> Any:
    """The number of pairs of each label (`axis` 2) or class (1). Each goes along rows of its own pairs: sums by columns
    would keep them. Shapes: (N, C) four times -> (N, C)."""
    parts = _gaps(x, place, valid, others, axis)
    return concat(tuple(sum(pairs, 2) for pairs, _ in parts), 0)


def _slope(x: Tensor, place: Tensor, valid: Tensor, others: Tensor) -> Any:
    """The slope of each row's loss, which is constant by pieces: it has no derivative. Shapes: (N, C) four times ->
    (N, C)."""
    above, below = (_counts(x.detach(), place, valid, others, axis) for axis in (1, 2))
    counts = cast(scatter_add(above, 1, place, -below), x._dtype)
    return counts / x._shape[1]


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The sum over labels y and non-labels i of max(0, 1 - x[y] + x[i]), divided by the number of classes; the labels
    of a row end at its first -1. Shapes: (N, C), (N, C), or without N."""
    reduction = reduction_of(reduction, size_average, reduce)
    x = _rows(need_tensor("multilabel_margin_loss", input))
    shape = tuple(input._shape)
    text = f"inconsistent target size: {list(target._shape)} for input of size: {list(shape)}"
    _check_labels(target, tuple(target._shape) == shape, text, shape)
    labels = cast(reshape(target, x._shape), dtypes.int64)
    ended = cumulate("cumsum", cast(labels < 0, dtypes.int64), 1)
    valid = ended == 0
    place = where(valid, labels, 0)
    check_index("multilabel_margin_loss", place, x._shape[1], 1, False)
    counts = scatter_add(constant(x._shape, 0, dtypes.int64), 1, place, cast(valid, dtypes.int64))
    losses = MultilabelMarginLoss.apply(x, place, valid, counts == 0)
    if len(input._shape) < 2:
        losses = reshape(losses, ())
    return reduced(losses, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """log(1 + exp(-target input)), where targets are 1 and -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    losses = call("log1p", call("exp", -(input * target)))
    return reduced(cast(losses, input._dtype), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The mean over labels of the binary cross entropy of logits. Shapes: (N, C), (N, C)."""
    reduction = reduction_of(reduction, size_average, reduce)
    need_rank("multilabel_soft_margin_loss", need_tensor("multilabel_soft_margin_loss", input), 1)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduced(sum(losses, -1) / input._shape[-1], reduction)


# -- distributions -------------------------------------------------------------------------------------------------


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The negative log likelihood of Poisson distributions of the given (logarithm of the) rate; `full` adds
    Stirling's approximation of log(target!) above 1."""
    reduction = reduction_of(reduction, size_average, reduce)
    log = input if log_input else call("log", input + eps)
    losses = (call("exp", input) if log_input else input) - target * log
    if full:
        stirling = target * call("log", target) - target + call("log", target * (2 * math.pi)) * 0.5
        losses = losses + where(target <= 1, 0, stirling)
    return reduced(losses, reduction)


def _variance(input: Tensor, var: Tensor) -> Any:
    """The variances in a shape that broadcasts against the input. Errors: ArgumentError."""
    shape, wanted = tuple(var._shape), tuple(input._shape)
    if shape == wanted:
        return var
    if shape == wanted[:-1]:
        return reshape(var, (*shape, 1))
    if len(shape) == len(wanted):
        other = [size for size, want in zip(shape, wanted, strict=True) if size != want]
        if other == [1]:
            return var
    raise ArgumentError(
        "var is of incorrect size",
        expected=f"{list(wanted)}, {[*wanted[:-1], 1]} or {list(wanted[:-1])}",
        got=describe("var", var),
        fix="give one variance per element, or one per row",
    )


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """The negative log likelihood of normal distributions; variances below eps count as eps, and their gradient is
    that at eps. Errors: ArgumentError on negative variances, which reads them."""
    reduction = reduction_of(reduction, None, None)
    spread = var if isinstance(var, Tensor) else constant(tuple(input._shape), var, input._dtype)
    if spread.numel() and bool((spread < 0).any()):
        raise ArgumentError(
            "var has negative entry/entries",
            expected="variances >= 0",
            got=describe("var", spread),
            fix="predict a logarithm and take exp",
        )
    spread = _variance(input, spread)
    spread = spread + (call("clamp_min", spread, eps) - spread).detach()
    losses = (call("log", spread) + call("square", input - target) / spread) * 0.5
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)


__all__ = [
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]
