"""NodeMaker: makes nodes of a graph, and turns what a program passes into arguments of nodes.

What stands for a node, such as a proxy, says so by `__fx_create_arg__`; `proxy` has the tracers, which make proxies.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.errors import NotDefinedError, is_internal

from .immutable_collections import immutable_dict, immutable_list
from .node import Argument, Node, Target, base_types, map_aggregate
from .traceback import note_current_meta

if TYPE_CHECKING:
    from ._tracing.scopes import Scope
    from .graph import Graph


class NodeMaker:
    """Makes nodes of a graph from calls with what stands for values."""

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
        """A node of the graph, with what is known about where the program stands.

        Args:
            kind: what it does: "placeholder", "get_attr", "call_function", "call_method", "call_module" or
                "output".
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
            name: its name; None: made of the target.
            type_expr: the type that is written in the code; None: none.
        """
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
        """The stand-in for a node's value.

        Args:
            node: the node that the proxy stands for.
        """
        raise NotImplementedError

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
        """A node for a call, and what stands for its result.

        Args:
            kind: what it does: "placeholder", "get_attr", "call_function", "call_method", "call_module" or
                "output".
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
            name: its name; None: made of the target.
            type_expr: the type that is written in the code; None: none.
            proxy_factory_fn: makes the proxy of a node; None: `proxy`.
        """
        arguments, named = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        node = self.create_node(kind, target, arguments, named, name, type_expr)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _stack_of_user()
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """The argument of a node for a value that a program passes. Errors: NotImplementedError if there is none.

        Args:
            a: an argument, in containers or not.
        """
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


def _key(key: object) -> Any:
    """A key of a dictionary, which is no traced value."""

    def check(leaf: object) -> Any:
        if isinstance(leaf, Node) or hasattr(type(leaf), "__fx_create_arg__"):
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
