"""Node: one operation of a traced program, with the nodes that it uses and those that use it.

The arguments of the operation are a structure of lists, tuples, dictionaries and slices, whose leaves are nodes and
constants. `map_arg` and `map_aggregate` map it. Nodes of a graph are a doubly linked list, so that passes may insert
and erase while they go through it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import weft
from weft.errors import ArgumentError, rooted
from weft.functional.assertions import _assert, _assert_async

from ._code.names import qualified_name
from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from weft.nn.module.module import Module

    from .graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any
Target = Any
BaseArgumentTypes = (
    str | int | float | bool | complex | weft.dtype | weft.Tensor | weft.device
    | weft.memory_format | weft.layout
)  # fmt: skip
base_types = BaseArgumentTypes.__args__
LEGAL_OPS = (
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
)  # fmt: skip
_legal_ops = dict.fromkeys(LEGAL_OPS)
_get_qualified_name = qualified_name
_side_effectful_functions: set[Any] = {_assert, _assert_async}


def has_side_effect(fn: Callable[..., object]) -> Any:
    """Mark a function: calls of it are kept where nothing uses their results. A decorator.

    Args:
        fn: the function, calls of which are kept though nobody reads their result.
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[object], object]) -> Any:
    """A structure of arguments with `fn` of each leaf in its place; lists and dictionaries come back unchangeable."""
    if isinstance(a, tuple):
        parts = [map_aggregate(item, fn) for item in a]
        return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(item, fn)) for key, item in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(end, fn) for end in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Any]) -> Any:
    """A structure of arguments with `fn` of each node in its place.

    Args:
        a: arguments, in containers or not.
        fn: what is called with each node.

    Example:
        >>> from weft import fx
        >>> traced = fx.symbolic_trace(lambda x: x.relu() * 2)
        >>> last = list(traced.graph.nodes)[-2]
        >>> fx.map_arg(last.args, lambda node: node.name)
        ('relu', 2)
    """
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def _type_repr(kind: object) -> str:
    """A type as annotations write it: `int`, `torch.Tensor`, `list[int]`."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        return rooted(f"{kind.__module__}.{kind.__qualname__}")
    if kind is ...:
        return "..."
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)


def _format_arg(arg: object) -> str:
    """An argument as printed graphs show it: nodes by `%name`, words without quotes."""
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_format_arg, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(item)}" for key, item in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """An operation: `op` says of which kind, `target` what it calls or reads, `args` and `kwargs` what with.

    | op | target | args |
    |---|---|---|
    | `placeholder` | the parameter's name | its default, if it has one |
    | `get_attr` | path of a parameter, buffer or module | none |
    | `call_function` | the function | its arguments |
    | `call_method` | the method's name | the object, its arguments |
    | `call_module` | path of the module | its arguments |
    | `output` | `"output"` | what the program returns |

    `users` are the nodes that use it, `meta` is the passes' own, `type` an annotation.

    Args:
        graph: the graph that it belongs to.
        name: its name in the graph and in the code.
        op: what it does: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
        target: what is called or read: a function, or the name of a method, module or attribute.
        args: positional arguments, among them nodes.
        kwargs: arguments by name, among them nodes.
        return_type: the type that is written in the code; None: none.

    Example:
        >>> from weft import fx
        >>> traced = fx.symbolic_trace(lambda x: x.relu() * 2)
        >>> [(node.op, node.name) for node in traced.graph.nodes]
        [('placeholder', 'x'), ('call_method', 'relu'), ('call_function', 'mul'), ('output', 'output')]
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: object = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        self.graph, self.name, self.op, self.target, self.type = (
            graph,
            name,
            op,
            target,
            return_type,
        )
        self._require_target()
        self._prev = self._next = self
        self._erased = False
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._update_args_kwargs(args, kwargs)

    def _require_target(self) -> None:
        expected = "Callable" if self.op == "call_function" else "str"
        if callable(self.target) if expected == "Callable" else isinstance(self.target, str):
            return
        text = expected if expected == "str" else "a Callable"
        raise ArgumentError(
            f"Node [graph = {self.graph}, name = {self.name!r}] target {self.target} has type "
            f"{weft.typename(self.target)} but {text} is expected",
            expected=f"{text} as the target of {self.op}",
            got=repr(self.target),
            fix="call_function takes the function itself; methods, modules and attributes are named",
        )

    # -- places in the graph --------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node behind this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Put a node of the same graph before this one.

        Args:
            x: the node that is moved.
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._forget_order()

    def append(self, x: Node) -> None:
        """Put a node of the same graph behind this one.

        Args:
            x: the node that is moved.
        """
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self.graph._forget_order()

    def __lt__(self, other: Node) -> bool:
        return self.graph._order_of(self) < self.graph._order_of(other)

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return not other < self

    def __ge__(self, other: Node) -> bool:
        return not self < other

    # -- arguments ------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assigned as a whole."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by keyword; assigned as a whole."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    def _update_args_kwargs(self, args: Iterable[Argument], kwargs: dict[str, Argument]) -> None:
        """Take arguments, and be a user of the nodes among them and of no others."""
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), use), map_arg(dict(kwargs), use)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the positional argument at a place.

        Args:
            idx: the place among the positional arguments.
            arg: the argument, a node or a value.
        """
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put a positional argument before the one at a place.

        Args:
            idx: the place among the positional arguments.
            arg: the argument, a node or a value.
        """
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set an argument by keyword.

        Args:
            key: the name of the argument.
            arg: the argument, a node or a value.
        """
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node wherever this one uses `old_input`.

        Args:
            old_input: the node that was read.
            new_input: the node that is read from now on.
        """

        def other(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update_args_kwargs(map_arg(self.args, other), map_arg(self.kwargs, other))
        self.graph._replaced(self, old_input, new_input)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Have every user of this node use another one; those of which `delete_user_cb` says no stay. The users that
        have changed.

        Args:
            replace_with: the node that is read from now on.
            delete_user_cb: says of a reader whether it is changed; None: all are.
            propagate_meta: copy `meta` too. Default: False.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    # -- questions ------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The user's lines that made this node, if the tracer has noted them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """True if the node must be kept although nothing uses its result.

        Args:
            impure_random: draws of random numbers count as impure. Default: True.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(owner.get_submodule(self.target), "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Module,
        arg_types: tuple[object, ...] | None = None,
        kwarg_types: dict[str, object] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments by the names of the parameters: see `operator_schemas.normalize_function`.

        Args:
            root: the module whose parts are called.
            arg_types: the types of positional arguments, where functions have several forms; None: not asked for.
            kwarg_types: the types of arguments by name; None: not asked for.
            normalize_to_only_use_kwargs: all arguments by name. Default: False.
        """
        from .operator_schemas import normalize_function, normalize_module

        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            types_ = arg_types, kwarg_types
            return normalize_function(self.target, self.args, self.kwargs, *types_, only)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, only)
        return None

    # -- as text --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        if isinstance(target, str):
            return target
        name = getattr(target, "__name__", None)
        if name is None:
            return str(target)
        path = qualified_name(target)
        return path.removeprefix("_") if "." in path else f"builtins.{path}"

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as a line of a printed graph.

        Args:
            placeholder_names: gets the names of parameters; None: nobody wants them.
            maybe_return_typename: gets the type of the result; None: nobody wants it.
            include_tensor_metadata: write shapes and dtypes. Default: False.
        """
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        typed = f"{_type_repr(self.type)} " if self.type else ""
        head = f"%{self.name} : {typed}[num_users={len(self.users)}] = {self.op}[target="
        head += f"{self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target)
            return f"{head}(default={self.args[0]})" if self.args else head
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
