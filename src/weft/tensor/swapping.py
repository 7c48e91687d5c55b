"""swap_tensors: two tensors exchange what they are."""

from __future__ import annotations

from weft.engine.frontend.tensor import Tensor
from weft.tensor.identities import identity, renumber
from weft.tensor.leaves import show_data
from weft.tensor.modes import no_grad


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange values, gradients, attributes and classes of two leaves. Errors: TypeError where instances of their
    classes are laid out otherwise."""
    numbers = identity(t1), identity(t2)
    classes = type(t1), type(t2)
    if classes[0] is not classes[1]:
        t1.__class__, t2.__class__ = classes[1], classes[0]
    first, second = t1.detach(), t2.detach()
    grads, needs = (t1.grad, t2.grad), (t1.requires_grad, t2.requires_grad)
    with no_grad():
        t1.grad = t2.grad = None
        show_data(t1, second)
        show_data(t2, first)
    for tensor, need, grad in ((t1, needs[1], grads[1]), (t2, needs[0], grads[0])):
        tensor.requires_grad_(need)
        tensor.grad = grad
    attributes = dict(vars(t1)), dict(vars(t2))
    for tensor, new in ((t1, attributes[1]), (t2, attributes[0])):
        vars(tensor).clear()
        vars(tensor).update(new)
    renumber(t1, numbers[1])
    renumber(t2, numbers[0])
