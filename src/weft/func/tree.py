# cython: language_level=3
"""Nested tuples, lists and dictionaries of leaves, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cython

from weft._build.compiled import require
from weft.errors import ArgumentTypeError, class_name

require(__name__, cython.compiled)


def need_function(func: object, name: str) -> None:
    """Errors: TypeError on what cannot be called."""
    if not callable(func):
        raise ArgumentTypeError(
            f"{name}(): argument 'func' (position 1) must be callable, not {class_name(func)}",
            expected="func: a function of tensors",
            got=repr(func)[:60],
            fix=f"pass a function, and the arguments to what {name} returns",
        )


def leaves(tree: object) -> list[Any]:
    """The leaves, in order."""
    found: list[Any] = []
    _collect(tree, found)
    return found


@cython.cfunc
def _collect(tree: object, found: list[object]) -> None:
    if isinstance(tree, dict):
        for part in tree.values():
            _collect(part, found)
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            _collect(part, found)
    else:
        found.append(tree)


def rebuild(tree: object, new: Iterator[object]) -> Any:
    """The same structure with other leaves, taken in order."""
    return _rebuild(tree, new)


@cython.cfunc
def _rebuild(tree: object, new: Any) -> Any:
    if type(tree) is dict:
        result: dict[Any, Any] = {}
        for key, part in tree.items():
            result[key] = _rebuild(part, new)
        return result
    if not isinstance(tree, (tuple, list, dict)):
        return next(new)
    if isinstance(tree, dict):
        return type(tree)([(key, _rebuild(part, new)) for key, part in tree.items()])
    parts: list[Any] = [_rebuild(part, new) for part in tree]
    if type(tree) is tuple:
        return tuple(parts)
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


def map_leaves(function: Callable[[Any], Any], tree: object) -> Any:
    """A function applied to every leaf."""
    return rebuild(tree, iter([function(leaf) for leaf in leaves(tree)]))
