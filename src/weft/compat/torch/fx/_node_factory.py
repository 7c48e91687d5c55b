"""NodeFactory: the part of `Graph` that makes nodes.

It takes targets and arguments, from tracers and passes, and makes nodes at the insert point, each with a name of its
own.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ._code.names import Namespace, snake_case
from .node import Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from .graph import Graph


class NodeFactory:
    """Makes nodes at an insert point."""

    owning_module: Any
    _graph_namespace: Namespace
    _insert: Callable[[Node], None]
    _len: int

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        """A node at the insert point, called `name` or as its target, with a number where that is taken.

        Args:
            op: what it does: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes; None: none.
            kwargs: arguments by name, among them nodes; None: none.
            name: its name; None: made of the target.
            type_expr: the type that is written in the code; None: none.
        """
        args, kwargs = () if args is None else args, kwargs or {}
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(cast("Graph", self), name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", "_unnamed")
        if len(name) > 4 and name[:2] == name[-2:] == "__":
            name = name[2:-2]
        return snake_case(name)

    def placeholder(
        self,
        name: str,
        type_expr: object = None,
        default_value: object = inspect.Signature.empty,
    ) -> Node:
        """An input of the program.

        Args:
            name: the name of the parameter.
            type_expr: the type that is written in the code; None: none.
            default_value: the parameter's default; without it there is none.
        """
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: object = None) -> Node:
        """The reading of a parameter, buffer or module. Warns where the owner has none of that path.

        Args:
            qualified_name: the path of the attribute, with dots.
            type_expr: the type that is written in the code; None: none.
        """
        if self.owning_module is not None and not _leads_somewhere(
            self.owning_module, qualified_name
        ):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
    ) -> Node:
        """A call of a module of the owner, by its path. Errors: AttributeError where the owner has none there.

        Args:
            module_name: the path of the module, with dots.
            args: positional arguments, among them nodes; None: none.
            kwargs: arguments by name, among them nodes; None: none.
            type_expr: the type that is written in the code; None: none.
        """
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
    ) -> Node:
        """A call of a method of the first argument.

        Args:
            method_name: the name of the method of the first argument.
            args: positional arguments, among them nodes; None: none.
            kwargs: arguments by name, among them nodes; None: none.
            type_expr: the type that is written in the code; None: none.
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., object],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function.

        Args:
            the_function: the function that is called.
            args: positional arguments, among them nodes; None: none.
            kwargs: arguments by name, among them nodes; None: none.
            type_expr: the type that is written in the code; None: none.
            name: its name; None: made of the function's.
        """
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: object = None) -> Node:
        """The node of the program's return value.

        Args:
            result: what is returned.
            type_expr: the type that is written in the code; None: none.
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """A node like one of another graph, whose inputs `arg_transform` maps to nodes of this one.

        Args:
            node: the node of another graph.
            arg_transform: gives this graph's node for one of the other's.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, object], return_output_node: bool = False
    ) -> Argument | None:
        """Nodes like those of another graph, but its output: what it returns, in nodes of this one. `val_map` says
        what stands for which node, and learns the rest.

        Args:
            g: the graph that is copied from.
            val_map: this graph's nodes by the other's; those that are copied are added.
            return_output_node: return the output node too. Default: False.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None


def _leads_somewhere(module: object, path: str) -> bool:
    """True if a module has an attribute of this path."""
    for name in path.split("."):
        module = getattr(module, name, None)
        if module is None:
            return False
    return True
