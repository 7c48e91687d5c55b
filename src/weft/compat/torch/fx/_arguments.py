"""TracerBase: makes nodes and proxies, and turns what a program passes into arguments of nodes.

Its methods answer questions about a proxy that have no answer during a trace (`to_bool`, `iter`, `keys`), so that a
user's own tracer can answer them.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft.errors import NotDefinedError, is_internal

from .immutable_collections import immutable_dict, immutable_list
from .node import Argument, Node, Target, base_types, map_aggregate
from .traceback import note_current_meta

if TYPE_CHECKING:
    from .graph import Graph
    from .proxy import Proxy, Scope


class TracerBase:
    """Makes nodes of a graph from calls with proxies."""

    graph: Graph
    record_stack_traces = False  # whether nodes know the user's lines
    check_mutable_operations = False  # has no effect: writes in place are recorded like other calls
    trace_asserts = False  # whether `assert proxy` is recorded
    proxy_buffer_attributes = False  # whether reading a buffer of a module is a node
    traced_func_name = "forward"
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]
    scope: Scope

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        """A node of the graph, with what is known about where the program stands."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            names = self.__dict__.setdefault("node_name_to_scope", {})
            names[node.name] = scope.module_path, scope.module_type
        note_current_meta(node)
        if getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        return node

    def proxy(self, node: Node) -> Any:
        """The proxy of a node's value."""
        from .proxy import Proxy

        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        name: str | None = None,
        type_expr: object = None,
        proxy_factory_fn: Callable[[Node], object] | None = None,
    ) -> Any:
        """A node for a call, and what stands for its result."""
        arguments, named = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        node = self.create_node(kind, target, arguments, named, name, type_expr)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _stack_of_user()
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """The argument of a node for a value that a program passes. Errors: NotImplementedError if there is none."""
        from .proxy import Proxy

        if isinstance(a, Proxy):
            return a.node
        if hasattr(type(a), "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple | list | dict | slice | range):
            return self._create_structure(a)
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if a is None or a is ... or isinstance(a, (Node, *base_types, enum.Enum)):
            return a
        raise NotDefinedError(
            f"argument of type: {type(a)}",
            expected="a proxy, a tensor, a number, a string, a type of element, or containers of these",
            got=repr(a)[:80],
            fix="make it inside a function that is marked by weft.fx.wrap",
        )

    def _create_structure(self, a: Any) -> Argument:
        if isinstance(a, slice):
            return slice(*(self.create_arg(end) for end in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(end) for end in (a.start, a.stop, a.step)))
        if isinstance(a, dict):
            return immutable_dict((_key(key), self.create_arg(item)) for key, item in a.items())
        parts = [self.create_arg(item) for item in a]
        if isinstance(a, list):
            return immutable_list(parts)
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)

    # -- questions that a trace has no answer to --------------------------------------------------

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a proxy, which is unknown. Errors: TraceError."""
        raise _trace_error(
            "symbolically traced variables cannot be used as inputs to control flow",
            obj,
            "make the choice an argument and fix it: symbolic_trace(f, concrete_args={...}); or keep the choice in a "
            "function that is marked by weft.fx.wrap, or in a module that is a leaf",
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The items of a proxy. Errors: TraceError."""
        raise _trace_error(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors",
            obj,
            "go through a range of known length: for i in range(n): x[i]",
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a proxy: a proxy of them."""
        from .proxy import Attribute

        return Attribute(obj, "keys")()


def _trace_error(what: str, obj: Proxy, fix: str) -> Exception:
    from .proxy import TraceError

    got = f"{obj!r}, the value of {obj.node.format_node()}"
    return TraceError(what, expected="steps that do not depend on traced values", got=got, fix=fix)


def _key(key: object) -> Any:
    """A key of a dictionary, which is no traced value."""
    from .proxy import Proxy

    def check(leaf: object) -> Any:
        if isinstance(leaf, Proxy | Node):
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}"
                if isinstance(key, Node)
                else "Keys for dictionaries used as an argument cannot contain a Node. "
                f"Got key: {getattr(leaf, 'node', leaf)}"
            )
        return leaf

    map_aggregate(key, check)
    return key


def _stack_of_user() -> str:
    """The lines of the user's program that have led here, as a traceback shows them."""
    frames = [frame for frame in traceback.extract_stack() if not is_internal(frame.filename)]
    return "".join(traceback.StackSummary.from_list(frames).format()).strip()
