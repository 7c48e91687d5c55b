# ruff: noqa: A002 - PyTorch's names
"""Functions of `weft` that are namesakes of functions of `nn.functional`, with arguments in the order of PyTorch's
kernels: the weight of an embedding first, the parameters of a normalisation before its running statistics, no
defaults.
"""

from __future__ import annotations

from typing import Any

from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.nn import functional
from weft.tensor.arguments import need_tensor


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` at `indices`. Shapes: (V, D), (*) -> (*, D)."""
    need_tensor("embedding", weight, "weight")
    need_tensor("embedding", indices, "indices", 2)
    skipped = padding_idx if padding_idx >= 0 else None
    return functional.embedding(indices, weight, skipped, None, 2.0, scale_grad_by_freq, sparse)


def dropout(input: Tensor, p: float, train: bool) -> Any:
    """`nn.functional.dropout`."""
    return functional.dropout(input, p, train)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Any:
    """`nn.functional.alpha_dropout`."""
    return functional.alpha_dropout(input, p, train)


def feature_dropout(input: Tensor, p: float, train: bool) -> Any:
    """`nn.functional.dropout2d` of an input with any number of dimensions after the features."""
    need_tensor("feature_dropout", input)
    if not train or p == 0:
        return input
    mask = input.new_ones((*input.shape[:2], *(1 for _ in input.shape[2:])))
    return input * functional.dropout(mask, p, True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Any:
    """`nn.functional.feature_alpha_dropout`."""
    return functional.feature_alpha_dropout(input, p, train)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`nn.functional.batch_norm`; `cudnn_enabled` changes nothing."""
    return functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`nn.functional.instance_norm`; `cudnn_enabled` changes nothing."""
    return functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Any:
    """`nn.functional.layer_norm`; `cudnn_enable` changes nothing."""
    return functional.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Any:
    """`nn.functional.group_norm`; `cudnn_enabled` changes nothing."""
    return functional.group_norm(input, num_groups, weight, bias, eps)


publish(globals())
