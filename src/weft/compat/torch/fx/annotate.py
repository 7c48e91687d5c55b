"""Types of values in a traced program: `torch.fx.annotate`."""

from __future__ import annotations

from typing import Any

from weft.errors import ArgumentError

from .proxy import Proxy

__all__ = ["annotate"]


def annotate(val: object, type: object) -> Any:
    """Give a traced value a type; any other comes back as it is. Errors: RuntimeError where it has one already."""
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        raise ArgumentError(
            f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type} and new type "
            f"is {type}. This could happen if you tried to annotate a function parameter value (in which case you "
            "should use the type slot on the function signature) or you called annotate on the same value twice",
            expected="a value without a type",
            got=repr(val.node.type),
            fix="annotate it once",
        )
    val.node.type = type
    return val
