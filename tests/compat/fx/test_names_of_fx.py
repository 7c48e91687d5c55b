"""Names that programs import below `torch.fx`: what is here stands there too."""

from __future__ import annotations

import pkgutil
from typing import Any

import pytest

from oracle import submodule
from weft import fx

MODULES = [
    module.name.removeprefix("weft.")
    for module in pkgutil.walk_packages(fx.__path__, "weft.fx.")
    if "._" not in module.name
]


@pytest.mark.parametrize("name", ["fx", *MODULES])
def test_exported_names_are_pytorchs(name: str) -> None:
    ours, theirs = (submodule(f"{lib}.{name}") for lib in ("weft", "torch"))
    missing = [word for word in getattr(ours, "__all__", ()) if not hasattr(theirs, word)]
    assert missing == []


@pytest.mark.parametrize(
    "name", ["fx", "fx.node", "fx.graph", "fx.graph_module", "fx.proxy", "fx.interpreter", "fx.subgraph_rewriter",
             "fx._symbolic_trace", "fx.immutable_collections", "fx.operator_schemas", "fx.annotate"],
)  # fmt: skip
def test_none_is_missing(name: str) -> None:
    ours, theirs = (submodule(f"{lib}.{name}") for lib in ("weft", "torch"))
    listed: Any = getattr(theirs, "__all__", ())
    packages = "reduce_package_graph_module"  # of torch.package
    assert [word for word in listed if not hasattr(ours, word) and word != packages] == []


@pytest.mark.parametrize(
    "cls", ["Node", "Graph", "GraphModule", "Tracer", "Proxy", "Interpreter", "Transformer"]
)
def test_public_members_are_pytorchs(cls: str) -> None:
    own: Any = getattr(fx, cls)
    theirs = getattr(submodule("torch.fx"), cls)
    own = fx.Graph().placeholder("x") if cls == "Node" else own
    listed = [
        name
        for kind in theirs.__mro__[:-1]
        for name in vars(kind)
        if "nn.modules" not in kind.__module__
    ]
    symbolic = {
        name for name in listed if name.startswith(("materialize_", "create_s"))
    }  # of sizes as symbols
    assert [
        name
        for name in listed
        if name[0] != "_" and not hasattr(own, name) and name not in symbolic
    ] == []
