"""Refusals of function transforms (`weft.func`): properties of a function that they cannot transform."""

from __future__ import annotations

from weft.engine.ir import tape as tapes
from weft.errors import GradientError


def refuse_in_transform(what: str) -> None:
    """Errors: RuntimeError inside a function transform, which decides itself what is differentiated."""
    contexts = tapes.tape().mode.contexts
    if contexts is None:
        return
    if contexts.transform is not None or contexts.mapping is not None:
        name = contexts.transform or "vmap"
        raise GradientError(
            f"{what} called inside a functorch transform. This is not supported"
            if what == "backward()"
            else f"You are attempting to call Tensor.{what} (or perhaps using torch.autograd.functional.* APIs) inside "
            f"of a function being transformed by a functorch transform (weft.func.{name})",
            expected="a function that leaves differentiation to the transform",
            got=what,
            fix="use weft.func.grad or vjp inside, or .detach()",
        )
