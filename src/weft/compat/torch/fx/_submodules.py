"""Submodules of a graph's owner, by path: copied from another module, added, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft import Tensor
from weft.errors import ArgumentError
from weft.nn import Module, Parameter

if TYPE_CHECKING:
    from .graph import Graph

NAMED = ("get_attr", "call_module")


def named_by(graph: Graph) -> list[str]:
    """The paths that nodes name, the shortest first."""
    paths = dict.fromkeys(node.target for node in graph.nodes if node.op in NAMED)
    return sorted(paths, key=lambda path: path.count("."))


def take_over(module: Module, root: Module | dict[str, object], graph: Graph) -> None:
    """Give a module what a graph names of `root`, which is a module or a dictionary by path."""
    if isinstance(root, Module):
        for path in named_by(graph):
            put(module, path, found_at(root, path))
    elif isinstance(root, dict):
        _require(root, graph)
        for path in named_by(graph):
            put(module, path, root[path])
    else:
        raise ArgumentError(
            f"Unsupported type {root} passed for root!",
            expected="a module, or a dictionary of what the graph names",
            got=type(root).__name__,
            fix="pass the module that was traced",
        )


def _require(root: dict[str, object], graph: Graph) -> None:
    for node in graph.nodes:
        if node.op in NAMED and node.target not in root:
            raise ArgumentError(
                f"Node {node} referenced target {node.target} but that target was not provided in ``root``!",
                expected="a value for each path that the graph names",
                got=f"{sorted(root)}",
                fix=f"add {node.target!r} to the dictionary",
            )


def found_at(root: object, path: str) -> Any:
    for name in path.split("."):
        root = getattr(root, name)
    return root


def put(module: Module, path: str, value: object) -> None:
    """Put a value at a path, with empty modules on the way; a tensor that is no parameter becomes a buffer."""
    *above, last = path.split(".")
    for name in above:
        if getattr(module, name, None) is None:
            module.add_module(name, Module())
        module = getattr(module, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(last, value)
    else:
        setattr(module, last, value)


def add(module: Module, path: str, value: Module) -> bool:
    """Put a module at a path. False where something that is no module stands on the way."""
    *above, last = path.split(".")
    for name in above:
        below = getattr(module, name, None)
        if below is None:
            below = Module()
            setattr(module, name, below)
        if not isinstance(below, Module):
            return False
        module = below
    module.add_module(last, value)
    return True


def delete(module: Module, path: str) -> bool:
    """Delete the module at a path. False if there is none."""
    *above, last = path.split(".")
    for name in above:
        below = getattr(module, name, None)
        if not isinstance(below, Module):
            return False
        module = below
    if not isinstance(getattr(module, last, None), Module):
        return False
    delattr(module, last)
    return True


def _used(module: Module) -> Iterator[str]:
    """The paths of modules that nodes need: those named, those above them, and what is below called ones."""
    for node in module.graph.nodes:
        if node.op not in NAMED:
            continue
        steps = node.target.split(".")
        yield from (".".join(steps[:end]) for end in range(1, len(steps) + 1))
        if node.op == "call_module" and has(module, node.target):
            for name, _ in module.get_submodule(node.target).named_modules():
                yield f"{node.target}.{name}"


def delete_unused(module: Module) -> None:
    """Take away all modules that no node needs."""
    used = set(_used(module))
    for path in [path for path, _ in module.named_modules() if path and path not in used]:
        delete(module, path)


def has(module: object, path: str) -> bool:
    """True if a module has something at this path."""
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True
