"""PyTorch's tree of layers: `from weft.nn.modules.batchnorm import _BatchNorm` finds what programs import there.

In: the modules of `weft.nn`, which are cut otherwise. Out: a module for each of PyTorch's files, with the classes and
functions that it has there; they are imported as `os.path` is, by their names in `sys.modules`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from weft._build.lazy import join as _join
from weft._build.lazy import later
from weft.engine.api.api_function import defined_in
from weft.nn import (
    conv,
    dropout,
    loss_margin,
    normalization,
    padding,
    pooling,
    state,
    transformer,
)

nn = later("weft.nn")  # which imports this module last
# PyTorch's file, and the modules here that hold what it holds.
_FILES = {
    "activation": "activation multihead", "adaptive": "adaptive", "batchnorm": "normalization lazy",
    "channelshuffle": "resampling", "container": "container", "conv": "conv lazy", "distance": "distance",
    "dropout": "dropout", "flatten": "flatten", "fold": "resampling", "instancenorm": "normalization lazy",
    "lazy": "lazy", "linear": "linear lazy", "loss": "loss loss_margin", "module": "module hooks common_hooks",
    "normalization": "normalization", "padding": "padding", "pixelshuffle": "resampling",
    "pooling": "pooling", "rnn": "recurrent rnn", "sparse": "sparse", "transformer": "transformer",
    "upsampling": "resampling", "utils": "tuples",
}  # fmt: skip
# Base classes that are asked for by name and are called otherwise here.
_BASES: dict[str, dict[str, Any]] = {
    "module": {
        "_IncompatibleKeys": state.IncompatibleKeys,
        "_EXTRA_STATE_KEY_SUFFIX": state.EXTRA_STATE,
    },
    "batchnorm": {"_NormBase": normalization._Tracking},
    "conv": {"_ConvNd": conv._Weighted, "_ConvTransposeNd": conv._ConvTranspose},
    "dropout": {"_DropoutNd": dropout._Dropout},
    "transformer": {
        "_get_activation_fn": transformer._activation,
        "_get_clones": transformer._copies,
    },
    "padding": {
        "_ConstantPadNd": padding._ConstantPad,
        "_ReflectionPadNd": padding._Pad,
        "_ReplicationPadNd": padding._Pad,
    },
    "linear_cross_entropy_options": {
        "LinearCrossEntropyOptions": loss_margin.LinearCrossEntropyOptions
    },
    "pooling": {"_AvgPoolNd": pooling._AvgPool, "_MaxPoolNd": pooling._MaxPool},
}


def _held(places: list[str]) -> dict[str, Any]:
    """The classes and functions that the modules at these places define."""
    parts = [import_module(f"weft.nn.{place}") for place in places]
    return {
        name: value
        for part in parts
        for name, value in vars(part).items()
        if callable(value) and defined_in(value).startswith("weft.nn")
    }


_join(
    sys.modules[__name__],
    {name: {**_held(places.split()), **_BASES.get(name, {})} for name, places in _FILES.items()},
)


def __getattr__(name: str) -> Any:
    """A layer: `weft.nn.modules.Linear` is `weft.nn.Linear`."""
    if name in nn.__all__:
        return getattr(nn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
