"""The verifier of graphs: `Graph.lint`.

Every node is of this graph and has a name of its own, inputs come before their users, and the owner has all named
modules and parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from .graph import Graph
    from .node import Node


def check(graph: Graph) -> None:
    """Errors: RuntimeError that names the first node with which something is wrong."""
    seen_nodes: set[Node] = set()
    seen_names: set[str] = set()
    for node in graph.nodes:
        if node.graph is not graph:
            raise _refused(f"Node '{node}' does not belong to this Graph!", node)
        for used in node.all_input_nodes:
            _check_input(graph, node, used, seen_nodes)
        if node.name in seen_names:
            raise _refused(f"Node redefined name {node.name}!", node)
        seen_nodes.add(node)
        seen_names.add(node.name)
        if node.op in ("get_attr", "call_module") and graph.owning_module is not None:
            _check_path(graph.owning_module, node)


def _check_input(graph: Graph, node: Node, used: Node, seen: set[Node]) -> None:
    if used.graph is not graph:
        raise _refused(
            f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an argument! If you "
            "are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n"
            f"{graph}",
            node,
        )
    if used not in seen:
        raise _refused(
            f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that Nodes in the "
            f"graph are topologically ordered\n{graph}",
            node,
        )


def _check_path(owner: object, node: Node) -> None:
    """Each step of the path is there, and what it leads to can be called or read."""
    module: Any = owner
    steps = node.target.split(".")
    for place, step in enumerate(steps):
        if not hasattr(module, step):
            above = ".".join(steps[:place])
            raise _refused(
                f"Node {node} target {node.target} references nonexistent attribute {step} of {above}",
                node,
            )
        module, held_by = getattr(module, step), module
        is_last = place == len(steps) - 1
        is_module = isinstance(module, weft.nn.Module)
        if is_last and node.op == "call_module" and not is_module:
            raise _refused(
                f"Node {node} target {node.target} {step} of {held_by} does not reference an nn.Module",
                node,
            )


def _refused(what: str, node: Node) -> ArgumentError:
    return ArgumentError(
        what,
        expected="nodes of this graph, inputs before users, targets that the module has",
        got=f"{node.op} {node.name}",
        fix="move, copy or erase the node, or add what it names to the module",
    )
