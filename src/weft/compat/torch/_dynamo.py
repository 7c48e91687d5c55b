"""`weft._dynamo`: the settings and marks of PyTorch's tracing compiler. Nothing is traced: they change nothing.

Functions that are marked stay what they are; a module that `weft.compile` is given is in an `OptimizedModule`, so that
its state has the names that PyTorch's programs expect.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from weft._functorch import _no_joint_graph
from weft.compiler import allow_in_graph, disable, is_compiling, reset

from weft._build.lazy import join as _join
from weft.engine.frontend.tensor import Tensor
from weft.nn import Module

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "graph_break", "is_compiling",
    "mark_dynamic", "mark_static", "mark_static_address", "reset",
]  # fmt: skip


class OptimizedModule(Module):
    """A module that `weft.compile` was given: its members are named `_orig_mod.…`; calls and all other attributes are
    its own."""

    def __init__(self, mod: Module, dynamo_ctx: object = None) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The module's result."""
        return self._orig_mod(*args, **kwargs)

    def __len__(self) -> int:
        return len(self._orig_mod)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """True while the module trains."""
        return bool(self._orig_mod.training)

    @training.setter
    def training(self, mode: bool) -> None:
        self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return super().__getattr__(name)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Tensor | Module) -> None:
        if name == "_orig_mod" or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def optimized(model: object) -> Any:
    """A module as an `OptimizedModule`; a function, a class and what is one already as they are."""
    if isinstance(model, Module) and not isinstance(model, OptimizedModule):
        return OptimizedModule(model)
    return model


class Unsupported(RuntimeError):
    """Never raised: there is no tracing that could meet what it does not know."""


class Settings(SimpleNamespace):
    """Settings that may be made and change nothing."""

    def patch(self, *arguments: object, **options: object) -> nullcontext[None]:
        """A context with other settings."""
        return nullcontext()


config = Settings(compiled_autograd=False, suppress_errors=False)


def mark_dynamic(t: object, index: int, **options: object) -> None:
    """Nothing: every size may change anyway."""


def mark_static(t: object, index: int | None = None) -> None:
    """Nothing: nothing is compiled for a size."""


def mark_static_address(t: object, guard: bool = True) -> None:
    """Nothing: no address is compiled in."""


def graph_break(msg: str = "") -> None:
    """Nothing: there is no trace to break."""


assume_constant_result = allow_in_graph
_join(
    sys.modules[__name__],
    {
        "eval_frame": {"OptimizedModule": OptimizedModule},
        "exc": {"Unsupported": Unsupported},
        # Mapped tensors index as they are.
        "_trace_wrapped_higher_order_op": {"TransformGetItemToIndex": nullcontext},
        "backends": {},
        "backends.common": {"aot_autograd": _no_joint_graph},
        "utils": {"is_compile_supported": lambda device_type: False},
    },
)
