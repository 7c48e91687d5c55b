"""`weft.fx`: what programs import of PyTorch's symbolic traces. There are none: a graph is what a call has recorded.

`wrap` leaves functions as they are. The classes exist, to be asked for and to be inherited from; making one is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from weft._build.lazy import join as _join
from weft.errors import NotDefinedError

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "symbolic_trace", "wrap",
]  # fmt: skip


def _refused(name: str) -> NotDefinedError:
    return NotDefinedError(
        f"weft.fx.{name}: no symbolic traces are made",
        expected="a module or function that is called",
        got=f"weft.fx.{name}",
        fix="call it: each call records its graph, which weft.debug.graph_text(result) shows",
    )


def wrap(fn_or_name: Any) -> Any:
    """The function itself (or its name): nothing is traced through it."""
    return fn_or_name


def symbolic_trace(root: Any, concrete_args: Any = None) -> NoReturn:
    """Errors: NotImplementedError."""
    raise _refused("symbolic_trace")


def _class(name: str) -> type:
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
        raise _refused(name)

    return type(
        name, (), {"__doc__": "No object is one.", "__module__": __name__, "__init__": __init__}
    )


Graph, GraphModule, Interpreter, Node, Proxy, Tracer, Transformer = map(
    _class, ("Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer")
)


def _compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that leaves what it marks."""
    return lambda marked: marked


class SymInt:
    """No number is one: sizes are numbers. Errors: NotImplementedError when one is made."""

    def __init__(self, node: Any) -> None:
        raise _refused(type(self).__name__)


class SymFloat(SymInt):
    """No number is one."""


class SymBool(SymInt):
    """No number is one."""


def _registered(*arguments: Any) -> None:
    """Nothing: no structure of a trace is taken apart."""


_join(
    sys.modules[__name__],
    {
        "_compatibility": {"compatibility": _compatibility},
        "graph": {"Graph": Graph},
        "graph_module": {"GraphModule": GraphModule},
        "node": {"Node": Node},
        "proxy": {"Proxy": Proxy},
        "_pytree": {"register_pytree_flatten_spec": _registered},
        "_symbolic_trace": {"Tracer": Tracer, "symbolic_trace": symbolic_trace, "wrap": wrap},
    },
)
_join(sys.modules[__name__], {"experimental": {}})
_join(sys.modules["weft.fx.experimental"], {"proxy_tensor": {"get_proxy_mode": lambda: None}})
