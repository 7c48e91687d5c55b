"""The recorded graph: how it is printed, and what holds of it.

In come the pending nodes of a tape, oldest first. `text` has a line for each: its value inputs, its value, where its
cotangents go.
"""

from __future__ import annotations

from typing import Any

from weft.engine.ir.grad_edges import AccumulateGrad, OutputEdge
from weft.engine.ir.primitive import SCALAR_ROW


def verify(nodes: list[Any]) -> None:
    """TODO"""


def text(nodes: list[Any]) -> str:
    """One line per pending node, oldest first: its value inputs, its value, where its cotangents go."""
    names = {node: f"%{number}" for number, node in enumerate(nodes)}
    lines = []
    for node in nodes:
        operands = ", ".join(_operand(source, names) for source in node.inputs or ())
        params = "" if node.params is None else f" {node.params!r}"
        edges = "" if node.edges is None else " | " + ", ".join(_edge(e, names) for e in node.edges)
        lines.append(f"{names[node]} = {node.row.name}({operands}){params} : {_kind(node)}{edges}")
    return "\n".join(lines)


def _kind(node: Any) -> str:
    return f"{node.dtype.name}{list(node.shape)}"


def _operand(node: Any, names: dict[Any, str]) -> str:
    if node.row is SCALAR_ROW:
        return repr(node.params)
    return names.get(node) or f"value {_kind(node)}"


def _edge(edge: Any, names: dict[Any, str]) -> str:
    """A gradient edge: the record of an input, a leaf, or none."""
    if edge is None:
        return "-"
    if isinstance(edge, AccumulateGrad):
        return f"leaf{list(edge.variable.shape)}"
    if isinstance(edge, OutputEdge):
        function: Any = edge.function
        return f"{function.name()}.{edge.number}"
    return names.get(edge) or str(edge.name())
