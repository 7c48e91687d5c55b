"""Immutable lists and dictionaries, of which the arguments of a node are made.

A node knows its users, and its inputs know it. An argument that changed in place would make both wrong; so arguments
are replaced as a whole.
"""

from __future__ import annotations

from typing import Any, NoReturn

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError
from weft.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Tensor, *args: object, **kwargs: object) -> NoReturn:
    name = type(self).__name__
    raise ArgumentTypeError(
        f"{name!r} object does not support mutation",
        expected="new arguments, assigned as a whole",
        got=f"a change of {self!r} in place",
        fix="make a list or dictionary of your own, change it, and assign it: node.args = (...)",
    )


class immutable_list(list[Any]):  # noqa: N801 - PyTorch's name
    """A list that refuses to change, and can be a key."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse  # type: ignore[assignment]
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict[Any, Any]):  # noqa: N801 - PyTorch's name
    """A dictionary that refuses to change, and can be a key."""

    __delitem__ = __ior__ = __setitem__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)


_pytree.register_pytree_node(
    immutable_list, lambda tree: (list(tree), None), lambda parts, _: immutable_list(parts)
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda tree: (list(tree.values()), list(tree)),
    lambda parts, keys: immutable_dict(zip(keys, parts, strict=True)),
)
