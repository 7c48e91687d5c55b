"""Nested arguments of traced programs, taken apart by a structure that is known: `torch.fx._pytree`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.utils._pytree import SUPPORTED_NODES, TreeSpec

_flatten_spec: dict[Any, Callable[[Any, TreeSpec], list[Any]]] = {}


def register_pytree_flatten_spec(
    cls: object,
    flatten_fn_spec: Callable[[object, TreeSpec], list[object]],
    flatten_fn_exact_match_spec: object = None,
) -> None:
    """Say how instances of a class are taken apart by a structure: into `flatten_fn_spec(instance, spec)`."""
    _flatten_spec[cls] = flatten_fn_spec


def tree_flatten_spec(pytree: object, spec: TreeSpec) -> list[Any]:
    """The leaves of a structure, in order; what the structure has as one leaf stays whole."""
    if spec.is_leaf():
        return [pytree]
    take = _flatten_spec.get(spec.type, _by_registration)
    parts = zip(take(pytree, spec), spec.children_specs, strict=True)
    return [leaf for part, child in parts for leaf in tree_flatten_spec(part, child)]


def _by_registration(pytree: object, spec: TreeSpec) -> list[Any]:
    if isinstance(pytree, dict):
        return [pytree[key] for key in spec.context]
    return list(SUPPORTED_NODES[spec.type].flatten_fn(pytree)[0])
