"""`weft._dynamo`: the settings and marks of PyTorch's tracing compiler. Nothing is traced: they change nothing.

Functions that are marked stay what they are; no module is an `OptimizedModule`.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

from weft.compiler import allow_in_graph, disable, is_compiling, reset

from weft._build.lazy import join as _join
from weft.nn import Module

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "graph_break", "is_compiling",
    "mark_dynamic", "mark_static", "mark_static_address", "reset",
]  # fmt: skip


class OptimizedModule(Module):
    """No module is one: `weft.compile` returns what it is given."""


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
        "utils": {"is_compile_supported": lambda device_type: False},
    },
)
