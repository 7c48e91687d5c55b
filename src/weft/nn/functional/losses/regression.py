# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Losses: binary cross entropy, regression losses, divergences, similarities.

Predictions and targets come in; one number goes out, or all of them with reduction="none". Sums and divisions by
counts are recorded as they stand, so that losses fuse with what made the predictions.
"""

from __future__ import annotations

import warnings
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.recorder import cast
from cython.cimports.weft.engine.frontend.tensor import Tensor

from weft._build.compiled import require
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.recorder import record_gradient
from weft.engine.frontend.resolve import rename_record
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, class_name
from weft.functional.linalg.norms import vector_norm
from weft.functional.reductions.sums_and_extrema import mean, sum
from weft.functional.special.special import xlogy
from weft.functional.support.value_bounds import need_within
from weft.functional.support.variants import write_out
from weft.nn.functional.activation import logsigmoid
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, where
from weft.tensor.arguments import TYPE_NAMES, describe, need_floating, need_tensor, untracked, widen

require(__name__, cython.compiled)


def legacy_reduction(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that two older flags mean, with a warning that says it."""
    summed = "sum" if size_average is False else "mean"
    meant = "none" if reduce is False else summed
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction={meant!r} instead.",
            stacklevel=2,
        )
    return meant


def reduction_of(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction's name; the older flags are read as PyTorch reads them."""
    if size_average is not None or reduce is not None:
        return legacy_reduction(size_average, reduce)
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=2,
        )
        return "mean"
    if reduction not in ("none", "mean", "sum", "batchmean"):
        raise ArgumentError(
            f"{reduction} is not a valid value for reduction: {reduction} is not valid",
            expected="'none', 'mean' or 'sum'",
            got=repr(reduction),
            fix="choose one of these",
        )
    return reduction


def reduced(loss: object, reduction: str) -> Any:
    """All losses, their mean or their sum."""
    if reduction == "none":
        return loss
    return mean(loss) if reduction == "mean" else sum(loss)


# -- classification ------------------------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """-(target log(input) + (1 - target) log(1 - input)), logarithms limited to -100.

    Errors: RuntimeError on different shapes, and for elements outside [0, 1]: at the call or, while they are pending,
    where they are computed.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    need_tensor("binary_cross_entropy", input)
    need_tensor("binary_cross_entropy", target, "target", 2)
    if input._shape != target._shape:
        raise ArgumentError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) "
            "is deprecated. Please ensure they have the same size.",
            expected=f"targets {list(input._shape)}",
            got=describe("target", target),
            fix="reshape the target",
        )
    need_floating("binary_cross_entropy", input)
    input = need_within("binary_cross_entropy", "input", input)
    target = need_within("binary_cross_entropy", "target", target)
    x, y = widen(input), cast(target, widen(input)._dtype)
    with untracked():
        first = call("clamp_min", call("log", x), -100)
        second = call("clamp_min", call("log1p", -x), -100)
        losses = (y - 1) * second - y * first
    losses = record_gradient(OPS["binary_cross_entropy"], (x, y), None, losses)
    if weight is not None:
        losses = losses * weight
    return cast(reduced(losses, reduction), input._dtype)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Any:
    """binary_cross_entropy of sigmoid(input), without overflow. Errors: ArgumentError on different shapes."""
    reduction = reduction_of(reduction, size_average, reduce)
    if input._shape != target._shape:
        raise ArgumentError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})",
            expected=f"targets {list(input._shape)}",
            got=describe("target", target),
            fix="reshape the target",
        )
    log = logsigmoid(input)
    if pos_weight is not None:
        losses = (1 - target) * input - ((pos_weight - 1) * target + 1) * log
    else:
        losses = (1 - target) * input - log
    if weight is not None:
        losses = losses * weight
    return reduced(cast(losses, target._dtype), reduction)  # written to memory of the target's type


# -- regression ----------------------------------------------------------------------------------------------------


def _pair(name: str, input: Tensor, target: object) -> tuple[Any, Any]:
    """Both operands in their common shape; a difference in size is warned about."""
    if not isinstance(target, Tensor):
        raise ArgumentTypeError(
            f"{name}(): argument 'target' (position 2) must be Tensor, not {class_name(target)}",
            expected="a tensor",
            got=type(target).__name__,
            fix="convert it with weft.tensor(...)",
        )
    if input._shape == target._shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. Please "
        "ensure they have the same size.",
        UserWarning,
        stacklevel=3,
    )
    shape = broadcast_shapes([input._shape, target._shape], name)
    return expand(input, shape), expand(target, shape)


def _weighted(losses: Tensor, weight: object, reduction: str) -> Any:
    if weight is None:
        return reduced(losses, reduction)
    losses = losses * weight
    if reduction == "mean":
        return sum(losses) / sum(expand(weight, losses._shape))
    return reduced(losses, reduction)


def _gap(input: Tensor, target: Tensor) -> Any:
    """input - target; truth values beside numbers count as numbers."""
    mine, theirs = input._dtype, target._dtype
    if mine.category and not theirs.category:
        target = cast(target, mine)
    elif theirs.category and not mine.category:
        input = cast(input, theirs)
    return input - target


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Any:
    """The squared error, (input - target)^2, by default its mean."""
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = _pair("mse_loss", input, target)
    return rename_record(
        _weighted(call("square", _gap(input, target)), weight, reduction), "MseLossBackward0"
    )


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Any:
    """The absolute error, |input - target|, by default its mean."""
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = _pair("l1_loss", input, target)
    return _weighted(call("abs", input - target), weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """The squared error up to beta (divided by it), straight beyond."""
    reduction = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise ArgumentError(
            "smooth_l1_loss does not support negative values for beta.",
            expected="beta >= 0",
            got=str(beta),
            fix="pass 0 or more",
        )
    input, target = _pair("smooth_l1_loss", input, target)
    gap = _gap(input, target)
    size = call("abs", gap)
    if beta == 0:
        return reduced(size, reduction)
    curved = size < beta
    squares = _squares(gap, curved)
    return reduced(where(curved, squares * (0.5 / beta), size - 0.5 * beta), reduction)


def _squares(gap: Tensor, curved: Tensor) -> Any:
    """The squares of the gaps where a loss is curved; not of infinite ones, whose derivatives would not be numbers."""
    return call("square", where(curved, gap, 0))


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Any:
    """Half the squared error up to delta, straight beyond."""
    reduction = reduction_of(reduction, None, None)
    if delta <= 0:
        raise ArgumentError(
            "huber_loss does not support non-positive values for delta.",
            expected="delta > 0",
            got=str(delta),
            fix="pass a positive number",
        )
    input, target = _pair("huber_loss", input, target)
    gap = _gap(input, target)
    size = call("abs", gap)
    curved = size <= delta
    losses = where(curved, _squares(gap, curved) * 0.5, (size - 0.5 * delta) * delta)
    return _weighted(cast(losses, input._dtype), weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """target (log target - input), where input holds log probabilities."""
    reduction = reduction_of(reduction, size_average, reduce)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=3,
        )
    losses = xlogy(target, target) - target * input
    if log_target:
        losses = call("exp", target) * (target - input)
    if reduction == "batchmean":
        return sum(losses) / input._shape[0] if input._shape else sum(losses)
    return reduced(losses, reduction)


# -- similarity ----------------------------------------------------------------------------------------------------


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Any:
    """x / max(|x|_p, eps) along a dimension."""
    size = vector_norm(input, p, dim, True)
    result = input / call("clamp_min", size, eps)
    return result if out is None else write_out(out, result)


@composed_of_primitives
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along a dimension."""
    shape = broadcast_shapes([x1._shape, x2._shape], "cosine_similarity")
    dtype = dtypes.promote(x1._dtype, x2._dtype)
    if not dtype.is_floating_point:
        raise DTypeError(
            f"expected common dtype to be floating point, yet common dtype is {TYPE_NAMES[dtype.name]}",
            expected="floating-point vectors",
            got=f"{describe('x1', x1)}, {describe('x2', x2)}",
            fix="convert with .float()",
        )
    a, b = expand(cast(x1, dtype), shape), expand(cast(x2, dtype), shape)
    first = a / call("clamp_min", vector_norm(a, 2, dim, True), eps)
    second = b / call("clamp_min", vector_norm(b, 2, dim, True), eps)
    return sum(first * second, dim)


@composed_of_primitives
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_similarity",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "normalize",
    "pairwise_distance",
    "smooth_l1_loss",
]
