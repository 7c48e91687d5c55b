"""Imports point one way: each layer knows only those below it (docs: ARCHITECTURE.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "weft"
LAYERS = [
    {
        "_absent",
        "_compiled",
        "_build_info",
        "_introduction",
        "_lazy",
        "_worker",
        "errors",
        "config",
        "whole_files",
    },
    {"graph"},
    {"ops"},
    {"codegen"},
    {"schedule"},
    {"runtime"},
    {"pipeline"},
    {"autograd"},
    {"tensor", "functional", "random", "generator"},
    {"weft"},  # the package itself joins what is below; `import weft` names this layer
    {"sparse"},
    {"nn"},
    {"optim"},
    {
        "data",
        "serialize",
        "amp",
        "asked",
        "cpu",
        "torch_version",
        "compiler",
        "distributed",
        "distributions",
        "hub",
        "__future__",
        "quasirandom",
        "jit",
        "library",
        "multiprocessing",
        "overrides",
        "profiler",
        "serialization",
        "storage",
        "torch_files",
        "unpickling",
        "debug",
        "testing",
        "linalg",
        "array_api",
        "fft",
        "signal",
        "masked",
        "fibers",
        "func",
        "special",
        "utils",
        "nested",
        "types",
        "version",
        "as_torch",
        "accelerator",
        "ao",
        "fx",
        "onnx",
        "_C",
        "_custom_ops",
        "_dynamo",
        "_functorch",
        "_higher_order_ops",
        "_subclasses",
        "_tensor_str",
        "_utils",
        "futures",
        "return_types",
        "cuda",
        "backends",
    },
    {"demo", "__main__"},
]
# gradcheck and its differences use the finished framework and live beside what is checked; grad_mode only gives names.
USERS = {
    "autograd/grad_mode.py",
    "autograd/gradcheck.py",
    "autograd/differences.py",
    "autograd/profiler.py",
}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def layer_of(parts: list[str]) -> str:
    """The layer that a dotted name below `weft` belongs to."""
    return parts[0] if parts and parts[0] in LEVEL else "weft"


def imports_of(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The line and the path below `weft` of each import that runs, in functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "later":
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.removeprefix("cython.cimports.").split(".")
            if parts[0] == "weft":
                yield node.lineno, parts[1:]
        yield from imports_of(node)


def backward_imports(path: Path, source: str) -> list[str]:
    """The imports of one module that point to a layer above its own."""
    place = path.relative_to(PACKAGE)
    own = "demo" if str(place) in USERS else layer_of(list(place.with_suffix("").parts))
    return [
        f"{place}:{line} imports {'.'.join(['weft', *parts])}"
        for line, parts in imports_of(ast.parse(source))
        if LEVEL[layer_of(parts)] > LEVEL[own]
    ]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_point_down(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return  # it joins the layers and imports the upper ones lazily
    assert backward_imports(path, path.read_text()) == []


def test_every_module_has_a_layer() -> None:
    names = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert names - set(LEVEL) == {"__init__"}


def test_a_backward_import_is_found() -> None:
    source = (
        "def f():\n    from weft.nn import Linear\n    import weft.graph\nnn = later('weft.nn')\n"
    )
    assert backward_imports(PACKAGE / "graph" / "node.py", source) == [
        "graph/node.py:2 imports weft.nn.Linear",
        "graph/node.py:4 imports weft.nn",
    ]
