"""Python code for a graph: the text of `forward`, and the names that it needs.

It takes nodes, whose `repr` is the name of a variable, and makes `PythonCode`. `node_code` writes the lines of the
nodes; this module has the head of the function, its return, and what programs may change about both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from weft.errors import rooted
from weft.utils import _pytree

from ..node import Argument, Node
from .names import Namespace
from .node_code import NodeWriter, last_uses


@dataclass
class PythonCode:
    """The text of a function `forward`, the names that it needs, and which node (by its place) each line is of."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class CodeGen:
    """Writes a graph as a function: its head and its return. Subclasses write them otherwise."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head of the function, without what the body needs before its first line.

        Args:
            free_vars: the names of the parameters.
            maybe_return_annotation: the annotation of the result, as text.
            expanded_def: the parameters stand on lines of their own. Default: False.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Argument, *, repr_fn: Callable[[object], str] = repr, **options: object
    ) -> str:
        """The return.

        Args:
            output_args: what is returned.
            repr_fn: writes a value as text.
            **options: accepted, without effect.
        """
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: object) -> Any:
        """The values of the placeholders for these arguments.

        Args:
            *args: what the module was called with.
        """
        return args

    def process_outputs(self, outputs: object) -> Any:
        """The return value of the function for the values of the output node.

        Args:
            outputs: what the graph has computed.
        """
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the code needs in addition to those of its nodes."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *, verbose: bool = False,
        expanded_def: bool = False, **options: object,
    ) -> PythonCode:  # fmt: skip
        writer = NodeWriter(root_module, namespace, verbose)
        for name, value in self.additional_globals():
            writer.names.found[writer.names.name_of(name, value)] = value
        uses = last_uses(nodes)
        body: list[str] = writer.lines
        for node in nodes:
            unused = [] if node.op in ("placeholder", "output") else list(uses.get(node, ()))
            if not node.users and node.op not in ("placeholder", "output"):
                unused.append(node)
            body.append(writer.write(node, unused))
        body.append(self.generate_output(writer.result, repr_fn=writer.text) + "\n")
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        head = self.gen_fn_def(writer.parameters, writer.returns)
        return self._assembled(head, body, writer)

    def _assembled(self, head: str, body: list[str], writer: NodeWriter) -> PythonCode:
        """The text, and for each line of it the place of its node."""
        register = f'{rooted("weft.fx._symbolic_trace.wrap")}("'
        wraps = "\n".join(f'{register}{name}")' for name in writer.wrapped)
        prologue = f"\n{wraps}\n\n{head}\n"
        first = prologue.count("\n") + 1
        lines: dict[int, int | None] = {}
        number = first
        for place, text in enumerate(body):
            for _ in range(text.count("\n")):
                lines[number] = place
                number += 1
        text = "\n".join(f"    {line}" for line in "".join(body).split("\n"))
        return PythonCode(prologue + text, writer.names.found, lines, first)


@dataclass(frozen=True)
class PyTreeInfo:
    """The structure of nested arguments and of the result, to take the ones apart and to put the other together."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class PyTreeCodeGen(CodeGen):
    """A function of nested arguments: it takes them apart into the placeholders, and puts the result together."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: object) -> Any:
        """The leaves of the arguments."""
        return _pytree.tree_flatten(args)[0]

    def process_outputs(self, outputs: object) -> Any:
        """The result of its leaves."""
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return _pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head, and the line that takes the arguments apart."""
        given = list(self.pytree_info.orig_args)
        if not given or given[0] != "self":
            given.insert(0, "self")
        head = super().gen_fn_def(list(given), maybe_return_annotation)
        if not free_vars:
            return head
        bare = [name.partition("=")[0].partition(":")[0].strip() for name in free_vars]
        packed = f"[{', '.join(given[1:])}]"
        return (
            f"{head}\n    {', '.join(bare)}, = fx_pytree.tree_flatten_spec({packed}, self._in_spec)"
        )

    def generate_output(
        self, output_args: Argument, *, repr_fn: Callable[[object], str] = repr, **options: object
    ) -> str:
        """The return, put together."""
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"
