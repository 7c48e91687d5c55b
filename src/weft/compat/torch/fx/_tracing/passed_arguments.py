"""PyTorch's way of passing arguments on to types that answer calls, for functions of layers.

Functions that are written in Python, most of `torch.nn.functional` and a few of `torch`, pass arguments without a
default by position, and all others by keyword, defaults included: a pass that reads `node.kwargs["inplace"]` or
`node.kwargs["p"]` finds it. The others pass on what they were given.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import weft
from weft.engine.api.api_function import Public

from .._code.names import is_of_layers

_AS_GIVEN = frozenset(
    name
    for names in (
        "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d",
        "conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_",
        "leaky_relu_ linear logsigmoid native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle",
        "pixel_unshuffle prelu relu_ rrelu_ scaled_dot_product_attention selu_ softplus softshrink threshold_",
    )
    for name in names.split()
)
_IN_TORCH = ("cdist", "norm", "split", "stft", "tensordot", "unique", "unique_consecutive")


@functools.cache
def _signature(function: object) -> inspect.Signature | None:
    """The signature by which arguments are passed on; None where they are passed on as they are."""
    if not isinstance(function, Public):
        return None
    name = function.__name__  # type: ignore[attr-defined]
    of_torch = name in _IN_TORCH and vars(weft).get(name) is function
    known = of_torch or (is_of_layers(function) and name not in _AS_GIVEN)
    return inspect.signature(function) if known else None


def as_passed(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call as a type that answers gets them from PyTorch."""
    if function is weft.einsum and len(args) == 2 and isinstance(args[1], list | tuple):
        return (args[0], *args[1]), kwargs
    signature = _signature(function)
    if signature is None:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # spelled otherwise (`axis=`): the function itself knows
        return args, kwargs
    bound.apply_defaults()
    empty = inspect.Parameter.empty
    required = {name for name, each in signature.parameters.items() if each.default is empty}
    given = bound.arguments
    by_place = tuple(value for name, value in given.items() if name in required)
    return by_place, {name: value for name, value in given.items() if name not in required}
