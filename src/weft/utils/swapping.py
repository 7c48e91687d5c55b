"""swap_tensors: two tensors exchange what they are."""

from __future__ import annotations

import weft
from weft import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange values, gradients and attributes of two leaves. Errors: RuntimeError as `.data =` gives them."""
    first, second = t1.data, t2.data
    grads, needs = (t1.grad, t2.grad), (t1.requires_grad, t2.requires_grad)
    with weft.no_grad():
        t1.grad = t2.grad = None
        t1.data, t2.data = second, first
    for tensor, need, grad in ((t1, needs[1], grads[1]), (t2, needs[0], grads[0])):
        tensor.requires_grad_(need)
        tensor.grad = grad
    for name in (
        {*vars(t1), *vars(t2)} if hasattr(t1, "__dict__") and hasattr(t2, "__dict__") else ()
    ):
        one, other = vars(t1).pop(name, None), vars(t2).pop(name, None)
        if other is not None:
            vars(t1)[name] = other
        if one is not None:
            vars(t2)[name] = one
