"""Interpreter: runs a graph node by node; Transformer: does so with proxies, and makes another graph.

Subclasses override what happens at a kind of node (`call_function`, `call_module`, ...), or at every one (`run_node`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.errors import ArgumentError
from weft.nn import Module

from . import traceback as notes
from ._code.node_code import last_uses
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule, _make_graph_module
from .node import Argument, Node, Target, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module.

    Args: `module`: what has the parameters and modules; `garbage_collect_values`: forget a value behind its last use;
    `graph`: another graph than the module's own.

    Args:
        module: the module whose graph is run.
        garbage_collect_values: forget each value after its last use. Default: True.
        graph: another graph to run in its place; None: that of the module.

    Example:
        >>> import weft
        >>> from weft import fx
        >>> class Printer(fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.name)
        ...         return super().run_node(n)
        >>> Printer(fx.symbolic_trace(lambda x: x.relu() * 2)).run(weft.tensor([-1.0, 2.0]))
        x
        relu
        mul
        output
        tensor([0., 4.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else self.module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses = last_uses(self.graph.nodes) if garbage_collect_values else {}

    def run(
        self,
        *args: object,
        initial_env: dict[Node, object] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """The result of the graph for these arguments. `initial_env` has values of nodes that are not to run.

        Args:
            *args: the arguments of the module.
            initial_env: values that nodes have already; None: none.
            enable_io_processing: let the graph's code treat arguments and result. Default: True.
        """
        self.env = {} if initial_env is None else initial_env
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self._run_noted(node)
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[object]) -> Any:
        """`run` with the arguments of a list, which is emptied.

        Args:
            args_list: the arguments; the list is emptied.
        """
        args = list(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def _run_noted(self, node: Node) -> Any:
        try:
            return self.run_node(node)
        except Exception as error:
            if not self.extra_traceback:
                raise
            where = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
            said = f"{error.args[0]}\n\n{where}" if error.args else where
            error.args = said, *error.args[1:]
            if isinstance(error, KeyError):
                raise RuntimeError(*error.args) from error
            raise

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with notes.set_current_meta(node):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of a node.

        Args:
            n: the node.
        """
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # -- one method per kind of node --------------------------------------------------------------

    def placeholder(
        self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """The next argument; `*args` gets the rest. Errors: RuntimeError where it is missing.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        if target.startswith("*"):
            return list(self.args_iter)
        given = list(_first(self.args_iter)) or list(args[:1])
        if not given:
            raise ArgumentError(
                f"Expected positional argument for parameter {target}, but one was not passed in!",
                expected=f"a value for {target}",
                got="no more arguments",
                fix="pass one to run(...)",
            )
        return given[0]

    def get_attr(self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """A parameter, buffer or module.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        return self.fetch_attr(target)

    def call_function(
        self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """A call of a function.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        return target(*args, **kwargs)

    def call_method(
        self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """A call of a method of the first argument.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(
        self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """A call of a module.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """The return value of the graph.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        return args[0]

    # -- values ---------------------------------------------------------------------------------

    def fetch_attr(self, target: str) -> Any:
        """The attribute of the module at a path. Errors: RuntimeError if there is none.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
        """
        found = self.module
        steps = target.split(".")
        for place, name in enumerate(steps):
            if not hasattr(found, name):
                raise ArgumentError(
                    f"Node referenced nonexistent target {'.'.join(steps[: place + 1])}",
                    expected="a path of the module",
                    got=target,
                    fix="add what the node names to the module, or change its target",
                )
            found = getattr(found, name)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node with values for nodes.

        Args:
            n: the node.
        """
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """A structure of arguments with values for nodes. Errors: RuntimeError where one has none.

        Args:
            args: arguments with nodes among them.
            n: the node that reads them.
        """

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise ArgumentError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues",
                    expected="inputs that have run before",
                    got=f"{node}, which has not",
                    fix="call graph.lint()",
                )
            return self.env[node]

        return map_arg(args, value_of)


def _first(values: Iterator[object]) -> Iterator[Any]:
    """The next item, if there is one."""
    for value in values:
        yield value
        return


class _TransformerTracer(Tracer):
    """Records into a graph that is there already."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes another module of a traced one: its methods get proxies, and what they return is recorded.

    Args:
        module: the module whose graph is rewritten.

    Example:
        >>> from weft import fx
        >>> class Smooth(fx.Transformer):
        ...     def call_method(self, target, args, kwargs):
        ...         return super().call_method("tanh" if target == "relu" else target, args, kwargs)
        >>> print(Smooth(fx.symbolic_trace(lambda x: x.relu() * 2)).transform().code.strip())
        def forward(self, x):
            tanh = x.tanh();  x = None
            mul = tanh * 2;  tanh = None
            return mul
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(
        self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """An input of the new graph.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """The reading of a parameter, buffer or module.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(
        self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """A call of a module: one node.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(
        self, target: Target, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """A call of a function: one node.

        Args:
            target: what is called or read: a function, or the name of a method, module or attribute.
            args: positional arguments, among them nodes.
            kwargs: arguments by name, among them nodes.
        """
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with notes.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            nodes = map_aggregate(
                result, lambda leaf: leaf.node if isinstance(leaf, Proxy) else leaf
            )
            output = self.new_graph.output(nodes)
            output.meta.update(self.graph.output_node().meta)
        return _make_graph_module(self.module, self.new_graph)
