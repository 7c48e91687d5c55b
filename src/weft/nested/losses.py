"""Losses of ragged predictions: of the existing entries, without padding.

"mean" is over the entries of all items, "none" gives a ragged tensor of losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.errors import ShapeError
from weft.nested.elementwise import frame_of
from weft.nested.tensor import NestedTensor, shape_text


def pointwise(
    function: Callable[..., Tensor],
    input: NestedTensor,
    target: NestedTensor,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """mse_loss and its like: element by element, then the mean, the sum or nothing."""
    frame = frame_of(function.__name__, [input, target, *args, *kwargs.values()])
    over = [
        frame.entries(one) if isinstance(one, (NestedTensor, Tensor)) else one
        for one in (input, target, *args)
    ]
    named = {
        key: frame.entries(one) if isinstance(one, (NestedTensor, Tensor)) else one
        for key, one in kwargs.items()
    }
    batchmean = kwargs.get("reduction") == "batchmean"
    if batchmean:
        named["reduction"] = "sum"
    found = function(*over, **named)
    if batchmean:
        return found / frame.rows.batch
    return frame.wrap(found) if _is_none(args, kwargs) else found


def _is_none(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return "none" in (kwargs.get("reduction"), *[one for one in args if isinstance(one, str)]) or (
        kwargs.get("reduce") is False
    )


def classes(
    function: Any,
    input: NestedTensor,
    target: Tensor | NestedTensor,
    weight: object = None,
    *args: object,
    **kwargs: object,
) -> Any:
    """cross_entropy and nll_loss. Shapes: (B, C, j) and (B, j), as dense ones; also (B, j, C), where
    dimension 1 cannot be the classes. Targets are classes, or probabilities of the input's shape."""
    if not isinstance(input, NestedTensor):
        raise _refuse(function.__name__, input, target)
    axis = 1 if 1 in input.uniform else input.ndim - 1
    if axis not in input.uniform or not isinstance(target, NestedTensor):
        raise _refuse(function.__name__, input, target)
    logits = input.packed.movedim(input.axis(axis), 1)
    if target.ndim == input.ndim:
        wanted = target.dims
        goal = (
            target.packed.movedim(target.axis(axis), 1) if axis in target.uniform else target.packed
        )
        left = wanted == input.dims
    else:
        goal = target.packed
        left = target.dims == tuple(dim - (dim > axis) for dim in input.dims)
    if target.rows is not input.rows or not left:
        raise _refuse(function.__name__, input, target)
    found = function(logits, goal, weight, *args, **kwargs)
    if not _is_none(args, kwargs):
        return found
    return NestedTensor(found, input.rows, tuple(dim - (dim > axis) for dim in input.dims))


def _refuse(name: str, input: NestedTensor, target: Any) -> ShapeError:
    shown = [
        shape_text(one) if isinstance(one, NestedTensor) else str(list(one.shape))
        for one in (input, target)
    ]
    return ShapeError(
        f"{name}: the target does not fit the input",
        expected="ragged input (B, C, j) or (B, j, C), and a ragged target (B, j) of equal lengths",
        got=", ".join(shown),
        fix="check the lengths",
    )


def cosine_similarity(
    function: Callable[..., object], x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> Any:
    """The cosine of the angle between rows along a dimension."""
    dot = weft.sum(x1 * x2, dim)
    return dot / (weft.norm(x1, 2, dim).clamp(min=eps) * weft.norm(x2, 2, dim).clamp(min=eps))


RULES = {
    **dict.fromkeys(
        (
            "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy",
            "binary_cross_entropy_with_logits", "gaussian_nll_loss", "poisson_nll_loss", "soft_margin_loss",
            "hinge_embedding_loss",
        ),
        pointwise,
    ),
    "cross_entropy": classes,
    "nll_loss": classes,
    "cosine_similarity": cosine_similarity,
}  # fmt: skip
