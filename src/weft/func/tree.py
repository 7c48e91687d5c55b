"""Nested tuples, lists and dictionaries of leaves, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """The leaves, in order."""
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in leaves(part)]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def rebuild(tree: Any, new: Iterator[Any]) -> Any:
    """The same structure with other leaves, taken in order."""
    if isinstance(tree, dict):
        return type(tree)((key, rebuild(part, new)) for key, part in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(rebuild(part, new) for part in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(rebuild(part, new) for part in tree)
    return next(new)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """A function applied to every leaf."""
    return rebuild(tree, iter([function(leaf) for leaf in leaves(tree)]))
