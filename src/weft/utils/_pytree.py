"""Nested containers taken apart and put together, under PyTorch's names."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any


class TreeSpec:
    """A structure without its leaves."""

    def __init__(self, kind: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = kind, context, children_specs
        self.num_leaves: int = sum(part.num_leaves for part in children_specs) if kind else 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs) == (
            other.type,
            other.context,
            other.children_specs,
        )

    __hash__ = object.__hash__

    def is_leaf(self) -> bool:
        """Whether it is a leaf."""
        return self.type is None

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        parts = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({self.type.__name__}, {self.context}, [{parts}])"


_Parts = tuple[list[Any], Any]
_NODES: dict[type, tuple[Callable[[Any], _Parts], Callable[[Any, Any], Any]]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], _Parts],
    unflatten_fn: Callable[[Any, Any], Any],
    **options: Any,
) -> None:
    """Take apart and put together instances of another class."""
    _NODES[cls] = (flatten_fn, unflatten_fn)


def _pairs(tree: Any) -> _Parts:
    return list(tree.values()), list(tree)


register_pytree_node(list, lambda tree: (tree, None), lambda parts, _: list(parts))
register_pytree_node(tuple, lambda tree: (list(tree), None), lambda parts, _: tuple(parts))
register_pytree_node(dict, _pairs, lambda parts, keys: dict(zip(keys, parts, strict=True)))
register_pytree_node(
    OrderedDict, _pairs, lambda parts, keys: OrderedDict(zip(keys, parts, strict=True))
)
register_pytree_node(
    defaultdict,
    lambda tree: (list(tree.values()), [tree.default_factory, list(tree)]),
    lambda parts, found: defaultdict(found[0], zip(found[1], parts, strict=True)),
)
register_pytree_node(
    deque, lambda tree: (list(tree), tree.maxlen), lambda parts, most: deque(parts, most)
)


def _node(tree: Any, is_leaf: Callable[[Any], bool] | None) -> Any:
    """How a value is taken apart; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return (lambda t: (list(t), type(t))), (lambda parts, kind: kind(*parts))
    return _NODES.get(type(tree))


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure without them."""
    leaves: list[Any] = []

    def flatten(part: Any) -> TreeSpec:
        node = _node(part, is_leaf)
        if node is None:
            leaves.append(part)
            return TreeSpec(None, None, [])
        children, context = node[0](part)
        return TreeSpec(type(part), context, [flatten(child) for child in children])

    return leaves, flatten(tree)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """A structure with leaves. Errors: ValueError for another number of leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers "
            f"to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    remaining = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(remaining)
        parts = [build(child) for child in spec.children_specs]
        if issubclass(spec.type, tuple) and hasattr(spec.type, "_fields"):
            return spec.type(*parts)
        return _NODES[spec.type][1](parts, spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure without the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """A function of the leaves of trees of one structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(tree_flatten(other, is_leaf)[0] for other in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_only(kind: Any, func: Any = None, tree: Any = None, is_leaf: Any = None) -> Any:
    """A function of the leaves of a type; others stay."""
    return tree_map(
        lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree, is_leaf=is_leaf
    )


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something holds of all leaves."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something holds of a leaf."""
    return any(map(pred, tree_leaves(tree)))
