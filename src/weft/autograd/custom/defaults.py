"""Default static methods of a custom Function, and the order of arguments that `apply` gets by name."""

from __future__ import annotations

import inspect
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError


def in_order(
    function: Any, arguments: tuple[Tensor | int, ...], keywords: dict[str, object]
) -> Any:
    """The arguments of `apply` in the order of `forward`, each of which may have a gradient: with its defaults where
    there is a `setup_context`, otherwise with those before the last that was given.

    Errors: TypeError where `forward` does not take them by place.
    """
    ctx = () if function.setup_context is not None else (None,)
    bound = inspect.signature(function.forward).bind(*ctx, *arguments, **keywords)
    given = list(bound.arguments)
    bound.apply_defaults()
    parameters = bound.signature.parameters
    for name in keywords:
        if name not in parameters or parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
            raise ArgumentTypeError(
                f"forward() got an unexpected keyword argument '{name}'",
                expected="arguments that forward also takes by place",
                got=f"{name}=",
                fix="drop the * before it in forward: a gradient belongs to a place",
            )
    if not ctx:
        return bound.args
    last = max(list(parameters).index(name) for name in given)
    return bound.args[1 : max(last, len(arguments)) + 1]


def forward(*arguments: Any, **keywords: Any) -> Any:
    """Compute the result; defined by subclasses.

    Args:
        *arguments: what `apply` is given, after `ctx` where `setup_context` is not defined.
        **keywords: arguments by name.
    """
    raise NotImplementedError(
        "You must implement the forward function for custom autograd.Function."
    )


def backward(ctx: Any, *cotangents: Any) -> Any:
    """Compute the gradients of forward's arguments; defined by subclasses.

    Args:
        ctx: what forward kept.
        *cotangents: the gradient of each output.
    """
    raise NotImplementedError(
        "You must implement either the backward or vjp method for your custom "
        "autograd.Function to use it with backward mode AD."
    )


def vjp(ctx: Any, *cotangents: Any) -> Any:
    """Another name for `backward`; subclasses define one of the two.

    Args:
        ctx: what forward kept.
        *cotangents: the gradient of each output.
    """
    raise NotImplementedError("define backward")


def jvp(ctx: Any, *tangents: Any) -> Any:
    """Compute the tangents of forward's results; may be defined by subclasses, for forward mode.

    Args:
        ctx: what forward kept.
        *tangents: the tangent of each input, None where it has none.
    """
    raise NotImplementedError(
        "You must implement the jvp function for custom autograd.Function to use it with "
        "forward mode AD."
    )


def vmap(info: object, in_dims: object, *arguments: object) -> Any:
    """Compute forward over a dimension: `vmap(info, in_dims, *arguments) -> (outputs, out_dims)`. May be defined by
    subclasses; where it is not, `weft.func.vmap` calls forward once per example and batches what that records.

    Args:
        info: has `batch_size` and `randomness`.
        in_dims: for each argument the dimension of the examples, or None.
        *arguments: the arguments of forward, with that dimension.
    """
    raise NotImplementedError(
        "To use autograd.Function with vmap, you must either override the vmap staticmethod "
        "or set generate_vmap_rule=True."
    )
