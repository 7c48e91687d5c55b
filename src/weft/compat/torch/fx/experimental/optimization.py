"""Passes that make a traced model for use faster: `torch.fx.experimental.optimization`.

A convolution and the batch norm behind it become one convolution; dropout goes. Both are valid for inference, not for
training.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from weft import nn
from weft.nn.utils.fusion import fuse_conv_bn_eval

from .. import GraphModule, Node, Tracer, Transformer, symbolic_trace

__all__ = [
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]

_PAIRS = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))


def _parent_name(target: str) -> tuple[str, str]:
    """A path as the path of the module above and the last name."""
    above, _, name = target.rpartition(".")
    return above, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """True if a node calls a module of the second type on the result of a module of the first type."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    pairs = zip(pattern, (node.args[0], node), strict=False)
    return all(
        each.op == "call_module" and each.target in modules and type(modules[each.target]) is kind
        for kind, each in pairs
    )


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Have a node call another module, at the same path."""
    above, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[above], name, new_module)


def fuse(model: object, inplace: bool = False, no_trace: bool = False) -> Any:
    """The model with every batch norm behind a convolution made part of that: values as in `eval` mode."""
    model = model if inplace else copy.deepcopy(model)
    traced: GraphModule = (
        model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    )
    modules = dict(traced.named_modules())
    for pair in _PAIRS:
        for node in traced.graph.nodes:
            if not matches_module_pattern(pair, node, modules) or len(node.args[0].users) > 1:
                continue
            norm = modules[node.target]
            if not norm.track_running_stats:
                continue
            fused = fuse_conv_bn_eval(modules[node.args[0].target], norm)
            replace_node_module(node.args[0], modules, fused)
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    return GraphModule(traced, traced.graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """The model without its dropout layers."""
    traced = symbolic_trace(model)

    class DropoutRemover(Transformer):
        def call_module(
            self, target: Any, args: tuple[object, ...], kwargs: dict[str, object]
        ) -> Any:
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return DropoutRemover(traced).transform()


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, object] | None = None, tracer: type[Tracer] = Tracer
) -> nn.Module:
    """The model as `fuse` and `remove_dropout` make it; `pass_config` turns one of them off."""
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["conv_bn_fuse"]:
        model = fuse(model)
    return remove_dropout(model) if config["remove_dropout"] else model
