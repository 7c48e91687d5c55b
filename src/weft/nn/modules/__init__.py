"""PyTorch's tree of layers: `from weft.nn.modules.batchnorm import _BatchNorm` finds what programs import there.

Layers stand here, under the names of PyTorch's files where they are cut alike. For each of its other files there is a
module with the classes and functions that it has there, imported as `os.path` is, by its name in `sys.modules`. Start
with `linear` or `conv`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from weft._build.lazy import join as _join
from weft.engine.api.api_function import defined_in
from weft.nn.module import global_hooks, hooks, state_dict
from weft.nn.module.module import Module
from weft.nn.modules import conv, dropout, margin_loss, normalization, padding, pooling, transformer

# PyTorch's file, and the modules below `weft.nn` that hold what it holds.
_FILES = {
    "activation": "modules.activation modules.multihead_attention",
    "batchnorm": "modules.normalization modules.lazy", "channelshuffle": "modules.resampling",
    "conv": "modules.conv modules.lazy", "fold": "modules.resampling",
    "instancenorm": "modules.normalization modules.lazy", "linear": "modules.linear modules.lazy",
    "loss": "modules.loss modules.margin_loss", "module": "module.module module.hooks module.global_hooks",
    "pixelshuffle": "modules.resampling", "rnn": "recurrent.layers recurrent.cells",
    "upsampling": "modules.resampling",
    **{
        name: f"modules.{name}"
        for name in (
            "adaptive", "container", "distance", "dropout", "flatten", "lazy", "normalization", "padding", "pooling",
            "sparse", "transformer", "utils",
        )
    },
}  # fmt: skip
# Base classes that are asked for by name and are called otherwise here.
_BASES: dict[str, dict[str, Any]] = {
    "module": {
        "_IncompatibleKeys": state_dict.IncompatibleKeys,
        "_EXTRA_STATE_KEY_SUFFIX": state_dict.EXTRA_STATE,
        "_global_parameter_registration_hooks": hooks.ON_PARAMETER,
        "_global_buffer_registration_hooks": hooks.ON_BUFFER,
        "_global_module_registration_hooks": hooks.ON_MODULE,
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
        "LinearCrossEntropyOptions": margin_loss.LinearCrossEntropyOptions
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


def _gather() -> None:
    """Give each of PyTorch's files what it holds: a module of that name here, or one that is made."""
    package = sys.modules[__name__]
    for name, places in _FILES.items():
        found = _held(places.split())
        _add_layers(found)
        held = {**found, **_BASES.get(name, {})}
        own = sys.modules.get(f"{__name__}.{name}")
        if own is None:
            _join(package, {name: held})
        else:
            vars(own).update({key: held[key] for key in held.keys() - vars(own).keys()})
    _join(package, {"linear_cross_entropy_options": _BASES["linear_cross_entropy_options"]})


def _add_layers(found: dict[str, object]) -> None:
    """`weft.nn.modules.Linear` is the layer, as `weft.nn.Linear` is."""
    globals().update(
        {
            name: value
            for name, value in found.items()
            if name[0] != "_" and isinstance(value, type) and issubclass(value, Module)
        }
    )


_gather()
sys.modules[f"{__name__}.module"].__class__ = global_hooks.HookTables
LinearCrossEntropyOptions = margin_loss.LinearCrossEntropyOptions
_BASE = "NonDynamicallyQuantizableLinear"
__all__ = ["LinearCrossEntropyOptions"]
__all__ += [
    name
    for name, value in globals().items()
    if isinstance(value, type) and issubclass(value, Module) and name != _BASE
]
