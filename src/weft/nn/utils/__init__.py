"""Helpers for training: gradient clipping, parameters as one vector, packed sequences (`rnn`), computed parameters
(`parametrize`, `parametrizations`, weight and spectral norm), pruning (`prune`), layers made one (`fusion`)."""

from weft.nn.utils import fusion, parametrizations, parametrize, prune, rnn
from weft.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from weft.nn.utils.gradients import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from weft.nn.utils.hooked import (
    remove_spectral_norm,
    remove_weight_norm,
    skip_init,
    spectral_norm,
    weight_norm,
)

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "fusion", "get_total_norm",
    "parameters_to_vector", "parametrizations", "parametrize", "prune", "remove_spectral_norm",
    "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "vector_to_parameters",
    "weight_norm",
]  # fmt: skip
