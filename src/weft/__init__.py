"""Weft: define-by-run tensors, autograd and neural networks that run at compiled speed.

Here the layers are joined: the op table and the handle's functions are bound to Tensor, methods are installed, public
names are exported. What recording does not need (nn, optim, the pipeline's stages, llvmlite) is imported when it is
first used.
"""

from __future__ import annotations

import importlib
import math as _math
from typing import Any

from weft import autograd, errors, random
from weft import functional as _functional
from weft import tensor as _handle
from weft.autograd.handle import LATE as _GRADIENT_LATE
from weft.autograd.handle import METHODS as _GRADIENT_METHODS
from weft.autograd.records import install as _install_records
from weft.graph.tensor import Tensor, bind, install_methods
from weft.ops import TABLE as _TABLE

__version__ = "0.1.0"

# Names that are imported when they are first asked for, as every module is.
_NAMES = {
    "flush": "pipeline",
    "realize": "pipeline",
    "save": "serialize",
    "load": "serialize",
    "set_num_threads": "runtime.threads",
    "get_num_threads": "runtime.threads",
    "explaining": "config",
    "is_anomaly_enabled": "autograd.anomaly",
    "is_anomaly_check_nan_enabled": "autograd.anomaly",
}


def _flush() -> None:
    """Run what is pending; the recorder calls this when its budget is used up, and eager mode after each call."""
    from weft.pipeline import flush

    flush()


def _join() -> None:
    """Bind the table, install the methods, export the functions."""
    late = {**_functional.LATE, **_handle.LATE, **_GRADIENT_LATE, "flush": _flush}
    bind(_TABLE, late)
    _install_records()
    install_methods(
        {**_functional.METHODS, **random.METHODS, **_handle.METHODS, **_GRADIENT_METHODS}
    )
    # Last: names such as float, bool and tensor hide builtins and modules from here on.
    globals().update({**_functional.FUNCTIONS, **random.FUNCTIONS, **_handle.FUNCTIONS})


def compile(model: Any = None, **options: Any) -> Any:  # noqa: A001
    """The model itself: every graph is compiled anyway. Also a decorator with options."""
    return (lambda function: function) if model is None else model


pi, e, inf, nan = _math.pi, _math.e, _math.inf, _math.nan
_join()
del _join


def _modules() -> set[str]:
    """The modules of the package."""
    from pkgutil import iter_modules

    return {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f"weft.{_NAMES[name]}"), name)
    elif not name.startswith("_") and name in _modules():
        value = importlib.import_module(f"weft.{name}")
    else:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_modules()})
