"""What the static methods of a custom Function do where a subclass does not define them."""

from __future__ import annotations

from typing import Any


def forward(*arguments: Any, **keywords: Any) -> Any:
    """Compute the result; defined by subclasses."""
    raise NotImplementedError(
        "You must implement the forward function for custom autograd.Function."
    )


def backward(ctx: Any, *cotangents: Any) -> Any:
    """Compute the gradients of forward's arguments; defined by subclasses."""
    raise NotImplementedError(
        "You must implement either the backward or vjp method for your custom "
        "autograd.Function to use it with backward mode AD."
    )


def vjp(ctx: Any, *cotangents: Any) -> Any:
    """Another name for `backward`; subclasses define one of the two."""
    raise NotImplementedError("define backward")


def jvp(ctx: Any, *tangents: Any) -> Any:
    """Compute the tangents of forward's results; may be defined by subclasses, for forward mode."""
    raise NotImplementedError(
        "You must implement the jvp function for custom autograd.Function to use it with "
        "forward mode AD."
    )


def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
    """Compute forward over a dimension: `vmap(info, in_dims, *arguments) -> (outputs, out_dims)`. May be defined by
    subclasses; where it is not, `weft.func.vmap` calls forward once per example and batches what that records."""
    raise NotImplementedError(
        "To use autograd.Function with vmap, you must either override the vmap staticmethod "
        "or set generate_vmap_rule=True."
    )
