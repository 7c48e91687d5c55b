"""`weft._refs`: what PyTorch defines its functions by, for tests. Here each is the function itself, or the method."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import weft
from weft import fft, linalg, nn, special
from weft._build.lazy import join as _join


class _Methods(ModuleType):
    """A module of the tensors' methods."""

    def __getattr__(self, name: str) -> Any:
        return getattr(weft.Tensor if hasattr(weft.Tensor, name) else weft, name)


def __getattr__(name: str) -> Any:
    """The function of a name; the method, or the one that changes its tensor, where there is none."""
    for place, key in ((weft, name), (weft.Tensor, name), (weft.Tensor, f"{name}_")):
        if hasattr(place, key):
            return getattr(place, key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_join(
    sys.modules[__name__], {"_conversions": {"__getattr__": _Methods("_conversions").__getattr__}}
)
_PLACES = {
    "fft": fft,
    "linalg": linalg,
    "nn": nn,
    "nn.functional": nn.functional,
    "special": special,
}
sys.modules.update({f"{__name__}.{_name}": _module for _name, _module in _PLACES.items()})
