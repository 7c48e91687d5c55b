"""Nested containers taken apart and put together, under PyTorch's names."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, NotDefinedError
from weft.functional.support.return_types import TYPES
from weft.nn.module.members import Members


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
        """True if it is a leaf."""
        return self.type is None

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        parts = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({self.type.__name__}, {self.context}, [{parts}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


_Parts = tuple[list[Any], Any]


class NodeDef(NamedTuple):
    """The functions that take instances of a class apart and put them together."""

    type: Any
    flatten_fn: Callable[[Any], _Parts]
    unflatten_fn: Callable[[Any, Any], Any]


PyTree = Any  # in annotations
SUPPORTED_NODES: dict[Any, NodeDef] = {}


def register_pytree_node(
    cls: object,
    flatten_fn: Callable[[Any], _Parts],
    unflatten_fn: Callable[[Any, Any], Any],
    **options: object,
) -> None:
    """Take apart and put together instances of another class."""
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


def _dict_flatten(tree: Any) -> _Parts:
    return list(tree.values()), list(tree)


def _dict_unflatten(parts: Any, keys: Any) -> dict[Any, Any]:
    return dict(zip(keys, parts, strict=True))


def _list_flatten(tree: Any) -> _Parts:
    return tree, None


def _list_unflatten(parts: Any, _: object) -> list[Any]:
    return list(parts)


def _tuple_flatten(tree: Any) -> _Parts:
    return list(tree), None


def _tuple_unflatten(parts: Any, _: object) -> tuple[Any, ...]:
    return tuple(parts)


def _ordereddict_unflatten(parts: Any, keys: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(keys, parts, strict=True))


def _defaultdict_flatten(tree: Any) -> _Parts:
    return list(tree.values()), [tree.default_factory, list(tree)]


def _defaultdict_unflatten(parts: Any, found: Any) -> defaultdict[Any, Any]:
    return defaultdict(found[0], zip(found[1], parts, strict=True))


def _deque_flatten(tree: Any) -> _Parts:
    return list(tree), tree.maxlen


def _deque_unflatten(parts: Any, most: Any) -> deque[Any]:
    return deque(parts, most)


def _namedtuple_flatten(tree: Any) -> _Parts:
    return list(tree), type(tree)


def _namedtuple_unflatten(parts: Any, kind: Any) -> Any:
    return kind(*parts)


_ordereddict_flatten = _odict_flatten = _dict_flatten
_odict_unflatten = _ordereddict_unflatten
register_pytree_node(list, _list_flatten, _list_unflatten)
register_pytree_node(tuple, _tuple_flatten, _tuple_unflatten)
register_pytree_node(dict, _dict_flatten, _dict_unflatten)
register_pytree_node(OrderedDict, _ordereddict_flatten, _ordereddict_unflatten)
register_pytree_node(defaultdict, _defaultdict_flatten, _defaultdict_unflatten)
register_pytree_node(deque, _deque_flatten, _deque_unflatten)


def _register_result(kind: Any) -> None:
    register_pytree_node(kind, lambda tree: (list(tree), None), lambda parts, _: kind(parts))


for _kind in TYPES.values():
    _register_result(_kind)


register_pytree_node(namedtuple, _namedtuple_flatten, _namedtuple_unflatten)
_register_pytree_node = _private_register_pytree_node = register_pytree_node  # as packages call it


def _is_namedtuple_instance(tree: object) -> bool:
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def _get_node_type(tree: object) -> Any:
    """Under what a value is registered: its type, `namedtuple`, or `dict` for the members of a module."""
    if type(tree) is Members:
        return dict
    is_named = _is_namedtuple_instance(tree) and type(tree) not in SUPPORTED_NODES
    return namedtuple if is_named else type(tree)


def _is_leaf(tree: object, is_leaf: Callable[[object], bool] | None = None) -> bool:
    """True if a value is not taken apart."""
    return _node(tree, is_leaf) is None


def _node(tree: object, is_leaf: Callable[[object], bool] | None) -> NodeDef | None:
    """The registered functions for taking a value apart; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    return SUPPORTED_NODES.get(_get_node_type(tree))


def tree_flatten(
    tree: object, is_leaf: Callable[[object], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure without them."""
    leaves: list[Any] = []
    return leaves, _taken_apart(tree, is_leaf, leaves)


# A function of its own: a recursive closure is a cycle, which would hold the leaves until the collector runs.
def _taken_apart(
    part: object, is_leaf: Callable[[object], bool] | None, leaves: list[object]
) -> TreeSpec:
    """The structure of a part, whose leaves are appended to others."""
    node = _node(part, is_leaf)
    if node is None:
        leaves.append(part)
        return LeafSpec()
    children, context = node.flatten_fn(part)
    return TreeSpec(
        node.type, context, [_taken_apart(child, is_leaf, leaves) for child in children]
    )


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """A structure with leaves. Errors: ValueError for another number of leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers "
            f"to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return _put_together(treespec, iter(leaves))


def _put_together(spec: TreeSpec, remaining: Iterator[object]) -> Any:
    """A structure with the next of some leaves."""
    if spec.type is None:
        return next(remaining)
    parts = [_put_together(child, remaining) for child in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(parts, spec.context)


def tree_leaves(tree: object, is_leaf: Callable[[object], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def arg_tree_leaves(*args: object, **kwargs: object) -> list[Any]:
    """The leaves of the arguments of a call, in order."""
    return tree_leaves((args, kwargs))


def tree_is_leaf(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """True if a value is a leaf: of no class that is taken apart, or one that `is_leaf` keeps whole."""
    return _is_leaf(tree, is_leaf)


def is_structseq_instance(obj: object) -> bool:
    """True if a value is one of the named tuples that functions of several results return."""
    return type(obj) in TYPES.values()


def tree_structure(tree: object, is_leaf: Callable[[object], bool] | None = None) -> TreeSpec:
    """The structure without the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., object],
    tree: object,
    *rests: Any,
    is_leaf: Callable[[object], bool] | None = None,
) -> Any:
    """A function of the leaves of trees of one structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(tree_flatten(other, is_leaf)[0] for other in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_only(kind: Any, func: Any = None, tree: object = None, is_leaf: Any = None) -> Any:
    """A function of the leaves of a type; others stay."""
    return tree_map(
        lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree, is_leaf=is_leaf
    )


def tree_all(pred: Callable[[object], bool], tree: object) -> bool:
    """True if a predicate is true of all leaves."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[object], bool], tree: object) -> bool:
    """True if a predicate is true of a leaf."""
    return any(map(pred, tree_leaves(tree)))


def tree_map_(
    func: Callable[..., object],
    tree: object,
    *rests: object,
    is_leaf: Callable[[object], bool] | None = None,
) -> Any:
    """Call a function, which changes them, with the leaves of trees of one structure; the first tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only_(
    kind: object, func: Callable[..., Tensor], tree: object, is_leaf: object = None
) -> Any:
    """Call a function with the leaves of a type; the tree itself."""
    tree_map_only(kind, func, tree, is_leaf)
    return tree


# -- paths ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """A step into a list, a tuple or a deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, parent: Any) -> Any:
        """The child of `parent` that this step leads to."""
        return parent[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """A step into a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, parent: Any) -> Any:
        """The child of `parent` that this step leads to."""
        return parent[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """A step to a field of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, parent: object) -> Any:
        """The child of `parent` that this step leads to."""
        return getattr(parent, self.name)


_Path = tuple[Any, ...]
Context = Any  # the data that a structure keeps in addition to its children


def _dict_flatten_with_keys(tree: Any) -> _Parts:
    return [(MappingKey(key), value) for key, value in tree.items()], list(tree)


def _list_flatten_with_keys(tree: Any) -> _Parts:
    return [(SequenceKey(index), value) for index, value in enumerate(tree)], None


_tuple_flatten_with_keys = _list_flatten_with_keys


def _steps(spec: TreeSpec) -> list[Any]:
    """The step to each child of a structure. Children of registered classes are counted."""
    if spec.type is namedtuple:
        return [GetAttrKey(name) for name in spec.context._fields]
    if issubclass(spec.type, dict):
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        return [MappingKey(key) for key in keys]
    return [SequenceKey(index) for index in range(len(spec.children_specs))]


def _paths(spec: TreeSpec) -> list[_Path]:
    if spec.type is None:
        return [()]
    children = zip(_steps(spec), spec.children_specs, strict=True)
    return [(step, *path) for step, child in children for path in _paths(child)]


def tree_flatten_with_path(
    tree: object, is_leaf: Callable[[object], bool] | None = None
) -> tuple[list[tuple[_Path, Any]], TreeSpec]:
    """(path, leaf) for the leaves in order, and the structure without them."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return list(zip(_paths(spec), leaves, strict=True)), spec


def tree_leaves_with_path(
    tree: object, is_leaf: Callable[[object], bool] | None = None
) -> list[tuple[_Path, Any]]:
    """(path, leaf) for the leaves in order."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    func: Callable[..., object],
    tree: object,
    *rests: object,
    is_leaf: Callable[[object], bool] | None = None,
) -> Any:
    """A function of the path and the leaves of trees of one structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(tree_flatten(other, is_leaf)[0] for other in rests)]
    return tree_unflatten([func(*row) for row in zip(_paths(spec), *columns, strict=True)], spec)


def keystr(kp: _Path) -> str:
    """A path as it would be written behind the tree: `['layers'][0].weight`."""
    return "".join(map(str, kp))


def key_get(obj: object, kp: _Path) -> Any:
    """The object at the end of a path."""
    for step in kp:
        obj = step.get(obj)
    return obj


# -- as text -------------------------------------------------------------------------------------------------------

_PROTOCOL = 1


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _schema(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    if spec.type not in _WRITTEN:
        of = f"namedtuple class {spec.context}" if spec.type is namedtuple else spec.type.__name__
        raise NotDefinedError(
            f"Can't serialize TreeSpec of {of}",
            expected="lists, tuples, dictionaries and deques",
            got=_type_name(spec.type),
            fix="turn it into a dictionary first",
        )
    context = json.dumps(spec.context) if spec.type is not defaultdict else _factory(spec.context)
    children = [_schema(child) for child in spec.children_specs]
    return {"type": _type_name(spec.type), "context": context, "children_spec": children}


def _factory(context: Any) -> dict[str, Any]:
    made, keys = context
    module, name = (made.__module__, made.__qualname__) if made is not None else (None, None)
    return {
        "default_factory_module": module,
        "default_factory_name": name,
        "dict_context": keys,
    }


_WRITTEN = {list, tuple, dict, OrderedDict, defaultdict, deque}


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON, as PyTorch writes it. Errors: TypeError, NotImplementedError, ValueError."""
    if not isinstance(treespec, TreeSpec):
        raise ArgumentTypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.",
            expected="what tree_structure gives",
            got=repr(treespec)[:80],
            fix="pass tree_structure(tree)",
        )
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return json.dumps([_PROTOCOL, _schema(treespec)])
