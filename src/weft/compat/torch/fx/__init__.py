"""`weft.fx`: programs as graphs that other programs change. PyTorch's `torch.fx`.

`symbolic_trace` runs a module or function with proxies for its arguments and gives a `GraphModule`: nodes in order,
and a `forward` that is written from them. Passes insert, replace and erase nodes and recompile; `Interpreter` and
`Transformer` run them one by one. What is traced runs like any other program, and is batched and fused like it.

How calls come to a tracer: `_tracing`; what becomes a node: `_symbolic_trace`, `proxy`; nodes and their order: `node`,
`graph`; code: `_code`, `graph_module`; passes: `subgraph_rewriter`, `passes`, `experimental`. Start with
`_symbolic_trace`.
"""

from __future__ import annotations

from ._symbolic_trace import (
    PH,
    ProxyableClassMeta,
    Tracer,
    symbolic_trace,
    wrap,
)
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "PH", "Proxy", "ProxyableClassMeta", "Tracer",
    "Transformer", "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
