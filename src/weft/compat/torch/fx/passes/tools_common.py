"""Questions of passes about nodes: `torch.fx.passes.tools_common`."""

from __future__ import annotations

from typing import Any

import weft

from ..graph_module import GraphModule
from ..node import Node

__all__ = ["CALLABLE_NODE_OPS", "NodeList", "NodeSet", "get_acc_ops_name", "get_node_target", "is_node_output_tensor",
           "legalize_graph", "stable_topological_sort"]  # fmt: skip

Tensors = tuple[weft.Tensor, ...] | list[weft.Tensor]
TensorOrTensors = weft.Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: Any) -> str:
    """A short name of a function."""
    if isinstance(k, str):
        return k
    module = k.__module__
    return (
        f"acc_ops.{k.__name__}"
        if "acc_ops" in str(module)
        else f"{module}.{k.__name__}".replace("_operator", "operator")
    )


def get_node_target(submodules: Any, node: Node) -> str:
    """The target of a node as text: the type of a module, the name of a function or method."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}"
        )
    if node.op == "call_module":
        module = submodules[node.target]
        return weft.typename(getattr(module, "_base_class_origin", type(module)))
    if node.op == "call_function":
        return get_acc_ops_name(node.target)
    return str(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """True if a node's value is a tensor, as `ShapeProp` has noted it."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, weft.Tensor)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Put inputs before their users and leave the order as it is else. Errors: AssertionError on a circle."""
    waiting = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    order = list(waiting)
    placed: list[Node] = []
    while order:
        ready = [node for node in order if not waiting[node]]
        if not ready:
            raise AssertionError(f"Input graph has cycles, unable to add {order}")
        first = ready[0]
        order.remove(first)
        placed.append(first)
        for user in first.users:
            waiting[user] -= 1
    for node in placed:
        gm.graph._root.prepend(node)
    return gm


legalize_graph = stable_topological_sort
