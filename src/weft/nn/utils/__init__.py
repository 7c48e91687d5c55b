"""Helpers for training: gradient clipping, parameters as one vector, packed sequences (`rnn`), computed parameters
(`parametrize`, `parametrizations`, weight and spectral norm), pruning (`prune`), layers made one (`fusion`). Start
with `clip_gradients` or `parametrize`.
"""

import sys

from weft._build.lazy import gather as _gather
from weft.nn.utils import fusion, parametrizations, parametrize, prune, rnn
from weft.nn.utils.clip_gradients import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from weft.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from weft.nn.utils.memory_format import (
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
)
from weft.nn.utils.weight_hooks import (
    remove_spectral_norm,
    remove_weight_norm,
    skip_init,
    spectral_norm,
    weight_norm,
)

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "fusion", "get_total_norm",
    "parameters_to_vector", "parametrizations", "parametrize", "prune", "remove_spectral_norm",
    "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "vector_to_parameters",
    "weight_norm",
]  # fmt: skip

# PyTorch's files, which are cut otherwise here.
_CLIPPING = "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm"
_gather(
    sys.modules[__name__],
    {
        "_named_member_accessor": {
            "nn.utils.member_access": "NamedMemberAccessor set_tensor swap_submodule swap_tensor _MISSING"
        },
        "clip_grad": {
            "nn.utils": f"{_CLIPPING} _clip_grads_with_norm_=clip_grads_with_norm_ _get_total_norm=get_total_norm"
        },
        "convert_parameters": {"nn.utils": "parameters_to_vector vector_to_parameters"},
        "init": {"nn.utils": "skip_init"},
        "spectral_norm": {
            "nn.utils": "remove_spectral_norm spectral_norm",
            "nn.utils.weight_hooks": "SpectralNorm",
        },
        "stateless": {
            "func": "functional_call",
            "func.modules": "_reparametrize_module=with_members _functional_call=functional_call",
        },
        "weight_norm": {
            "nn.utils": "remove_weight_norm weight_norm",
            "nn.utils.weight_hooks": "WeightNorm",
        },
    },
)
