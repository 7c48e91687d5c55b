"""Graph: a traced program as a list of nodes in the order in which they run.

It takes nodes, from a tracer or from a pass, and gives them by kind, checked, printed, and as Python code
(`_code`). The modules and parameters that the nodes name are those of the `GraphModule` that owns the graph.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.errors import ArgumentError

from ._checks import check
from ._code.code_generation import CodeGen, PythonCode
from ._code.names import Namespace, snake_case
from ._node_factory import NodeFactory
from ._tables import table
from .node import Node, Target, map_aggregate, map_arg

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_Namespace = Namespace
_snake_case = snake_case


class _NodeList:
    """The nodes in order. Going through them bears that nodes are inserted and erased meanwhile."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return self._graph._len

    def __iter__(self) -> Iterator[Node]:
        step = "_prev" if self._backwards else "_next"
        root = self._graph._root
        node = getattr(root, step)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, step)

    def __reversed__(self) -> _NodeList:
        return _NodeList(self._graph, not self._backwards)


class _InsertPoint:
    """The insert point of new nodes; as a context, until it ends."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self._graph._insert = self._before


class Graph(NodeFactory):
    """Nodes in the order in which they run: placeholders first, an output last.

    Args:
        owning_module: the module that the graph is for; None: none.
        tracer_cls: the class of what recorded it; None: none.
        tracer_extras: further facts of what recorded it; None: none.

    Example:
        >>> import weft
        >>> from weft import fx
        >>> graph = fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(weft.relu, (x,)))
        >>> fx.GraphModule(weft.nn.Module(), graph)(weft.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, object] | None = None,
    ) -> None:
        self._owning_module, self._tracer_cls = owning_module, tracer_cls
        self._tracer_extras = tracer_extras
        self._graph_namespace = Namespace()
        self._codegen = CodeGen()
        self._clear_nodes()

    def _clear_nodes(self) -> None:
        self._order: dict[Node, int] | None = None
        self._len = 0
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend

    @property
    def owning_module(self) -> Any:
        """The module that runs this graph, if one does."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Any) -> None:
        self._owning_module = module

    # -- looking up -----------------------------------------------------------------------------

    @property
    def nodes(self) -> _NodeList:
        """The nodes in order; `reversed` gives them from the last."""
        return _NodeList(self)

    def output_node(self) -> Node:
        """The last node, which says what the program returns. Errors: StopIteration where there is no node."""
        last = next(iter(reversed(self.nodes)))
        if last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    def find_nodes(self, *, op: str, target: Target = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, in order; calls of functions and modules also by their target.

        Args:
            op: what it does: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
            target: what is called or read; None: anything.
            sort: in the order of the graph, not of their making. Default: True.
        """
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    def _order_of(self, node: Node) -> int:
        if self._order is None:
            self._order = {each: place for place, each in enumerate(self.nodes)}
        return self._order.get(node, -1)

    def _forget_order(self) -> None:
        self._order = None

    def _replaced(self, user: Node, old: Node, new: Node) -> None:
        """A node has another input: tell the module's hooks."""
        for hook in getattr(self.owning_module, "_replace_hooks", ()):
            hook(old=old, new=new.name, user=user)

    # -- copies, places -------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen = copy.deepcopy(self._codegen)
        nodes: dict[Node, Any] = {}
        copied = made.graph_copy(self, nodes, return_output_node=True)
        if copied is not None:
            result, output = copied
            made.output(result, output.type).meta = copy.copy(output.meta)
            made.output_node().name = output.name
        return made

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out. Errors: RuntimeError where others use it.

        Args:
            to_erase: the node, which nobody reads.
        """
        if to_erase.users:
            raise ArgumentError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!",
                expected="a node that none uses",
                got=f"{to_erase} with users {list(to_erase.users)}",
                fix="give them another input first: node.replace_all_uses_with(other)",
            )
        if to_erase.graph is not self:
            raise ArgumentError(
                f"Attempting to remove {to_erase} from wrong graph!",
                expected="a node of this graph",
                got=f"a node of another graph: {to_erase}",
                fix="call erase_node of node.graph",
            )
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs(
            map_arg(to_erase.args, lambda _: None), map_arg(to_erase.kwargs, lambda _: None)
        )

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before a node, or to the beginning: from here on, or as a context.

        Args:
            n: the node before which nodes are made; None: the first.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go behind a node, or to the end: from here on, or as a context.

        Args:
            n: the node behind which nodes are made; None: the first.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    # -- passes ---------------------------------------------------------------------------------

    def lint(self) -> None:
        """Check that the graph can run: order, names, owners, targets. Errors: RuntimeError."""
        check(self)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase nodes without users and without effects other than their result. True if any was erased.

        Args:
            is_impure_node: says of a node whether it has to stay; None: as the node says.
        """
        self.lint()  # users come behind what they use, so that one way back finds everything
        impure = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._len < before

    # -- as code and text -----------------------------------------------------------------------

    def process_inputs(self, *args: object) -> Any:
        """The values of the placeholders for the program's arguments.

        Args:
            *args: what the module was called with.
        """
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: object) -> Any:
        """The return value of the program for the value of the output node.

        Args:
            out: what the graph has computed.
        """
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Write code otherwise.

        Args:
            codegen: what writes the code.
        """
        self._codegen = codegen

    @contextmanager
    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Iterator[None]:
        """A context in which lines of generated code pass what `make_transformer(the one before)` gives.

        Args:
            make_transformer: is given what transformed the code before, and gives what does so now.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        try:
            yield
        finally:
            self._codegen._body_transformer = before

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """The program as Python code of a function `forward`, and the names that it needs.

        Args:
            root_module: the name of the module in the code.
            **options: accepted, without effect.
        """
        namespace = Namespace()
        names = {node: namespace.create_name(node.name, node) for node in self.nodes}
        shown = {node: node._repr_fn for node in self.nodes}
        for node in self.nodes:
            node._repr_fn = names.__getitem__
        try:
            return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)
        finally:
            for node, before in shown.items():
                node._repr_fn = before

    def __str__(self) -> str:
        returned = [""]
        lines = [node.format_node(None, returned) for node in self.nodes]
        body = "".join(f"\n    {line}" for line in lines if line is not None)
        return f"graph(){returned[0]}:{body}"

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(table(["opcode", "name", "target", "args", "kwargs"], rows))

    # -- pickling: a list of records, for nodes that point at each other would be as deep as the graph is long ---------

    def __getstate__(self) -> dict[str, Any]:
        places = {node: _Place(index) for index, node in enumerate(self.nodes)}
        records = [
            (
                node.op, node.target, map_arg(node.args, places.__getitem__),
                map_arg(node.kwargs, places.__getitem__), node.name, node.type,
            )
            for node in self.nodes
        ]  # fmt: skip
        return {
            "records": records,
            "codegen": self._codegen,
            "tracer_cls": self._picklable_tracer(),
        }

    def _picklable_tracer(self) -> type | None:
        cls = self._tracer_cls
        return None if cls is None or "<locals>" in cls.__qualname__ else cls

    def __setstate__(self, state: dict[str, Any]) -> None:
        Graph.__init__(self, tracer_cls=state["tracer_cls"])
        self._codegen = state["codegen"]
        made: list[Node] = []
        for op, target, args, kwargs, name, kind in state["records"]:
            node = self.create_node(op, target, (), {}, name, kind)
            place = partial(_placed, made)
            node._update_args_kwargs(map_aggregate(args, place), map_aggregate(kwargs, place))
            made.append(node)


class _Place(int):
    """The position of a node in a graph, among the arguments of a pickled one."""


def _placed(made: list[Node], leaf: object) -> Any:
    return made[leaf] if isinstance(leaf, _Place) else leaf
