"""The graph of a model for TensorBoard: the modules that a call runs.

It takes a module and its inputs, and returns a `GraphDef`: a node for each called module that has none below it, an
edge from the module whose output another one got. Operations between modules are not shown; `weft.debug` prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.versions_pb2 import VersionDef

from weft.engine.frontend.tensor import Tensor
from weft.tensor.modes import no_grad
from weft.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from weft.nn.module.module import Module


def graph(model: Any, args: tuple[object, ...], verbose: bool = False) -> Any:
    """Call the model, and note which modules run, on whose outputs."""
    args = args if isinstance(args, tuple) else (args,)
    root = type(model).__name__
    made = {id(x): f"input/{index}" for index, x in enumerate(_tensors(args))}
    nodes = [NodeDef(name=name, op="IO Node") for name in made.values()]
    kept: list[Any] = []  # tensors, which keep their ids while the model runs

    def watch(name: str, module: Module) -> Any:
        def after(_: object, inputs: object, output: object) -> None:
            sources = dict.fromkeys(made[id(x)] for x in _tensors(inputs) if id(x) in made)
            nodes.append(NodeDef(name=name, op=type(module).__name__, input=list(sources)))
            for x in _tensors(output):
                made[id(x)] = name
                kept.append(x)

        return module.register_forward_hook(after)

    leaves = [(f"{root}/{n.replace('.', '/')}", m) for n, m in model.named_modules() if n]
    leaves = [(name, m) for name, m in leaves if not any(m.children())] or [(root, model)]
    hooks = [watch(name, module) for name, module in leaves]
    try:
        with no_grad():
            answer = model(*args)
    finally:
        for hook in hooks:
            hook.remove()
    for index, x in enumerate(_tensors(answer)):
        source = [made[id(x)]] if id(x) in made else []
        nodes.append(NodeDef(name=f"output/{index}", op="IO Node", input=source))
    if verbose:
        print(*nodes, sep="\n")
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _tensors(tree: object) -> list[Any]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]
