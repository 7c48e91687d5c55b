"""What the algorithms share: who is to be updated, by what, and the steps that updates are made of.

In: a group of parameters. Out: each that has a gradient, with that gradient and its state. Complex numbers are seen as
pairs of real ones, so that an algorithm is written once. Factors are numbers, or tensors where a step is to be
differentiated with respect to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import weft
from weft import Tensor
from weft.errors import GradientError
from weft.optim.optimizer import Group, Optimizer

Update = tuple[Tensor, Any, Group, Group]


def updates(
    optimizer: Optimizer,
    group: Group,
    start: Callable[[Tensor], Group],
    sparse: bool = False,
    counted: bool = True,
) -> Iterator[Update]:
    """Of each parameter that has a gradient: itself, the gradient (negated to maximize), its tensors and its state.

    `start` makes the state that a parameter begins with; `step` counts from there, if `counted`. The tensors of
    complex state are real views. Errors: RuntimeError for a sparse gradient, unless the algorithm knows what to do.
    """
    maximize = group.get("maximize", False)
    for parameter in group["params"]:
        gradient = parameter.grad
        if gradient is None:
            continue
        if not sparse and gradient.is_sparse:
            raise refuse_sparse(type(optimizer).__name__)
        state = optimizer.state[parameter]
        if not state:
            state.update({"step": 0, **start(parameter)} if counted else start(parameter))
        if counted:
            state["step"] += 1
        if maximize:
            gradient = -gradient
        if parameter.is_complex():
            tensors = {name: _as_real(entry) for name, entry in state.items()}
            yield weft.view_as_real(parameter), weft.view_as_real(gradient), tensors, state
        else:
            yield parameter, gradient, state, state


def refuse_sparse(name: str) -> GradientError:
    """The error for a sparse gradient that an algorithm cannot use."""
    return GradientError(
        f"{name} does not support sparse gradients",
        expected="a dense gradient",
        got="a sparse one",
        fix="use SGD, Adagrad or SparseAdam, or an Embedding with sparse=False",
    )


def _as_real(entry: Any) -> Any:
    complex_tensor = isinstance(entry, Tensor) and entry.is_complex()
    return weft.view_as_real(entry) if complex_tensor else entry


def number(group: Group, name: str) -> Any:
    """An option as a number; as the tensor that it is where the step is differentiated and asks for its gradient."""
    value = group[name]
    if isinstance(value, Tensor):
        if group.get("differentiable") and value.requires_grad:
            return value
        return value.item()
    return value


def decayed(gradient: Tensor, parameter: Tensor, decay: Any) -> Tensor:
    """A gradient with that of half the squared norm of the parameter, times `decay`."""
    if isinstance(decay, Tensor):
        return gradient + parameter * decay
    return gradient.add(parameter, alpha=decay) if decay != 0 else gradient


def add_scaled_(target: Tensor, value: Tensor, factor: Any) -> None:
    """target += factor * value."""
    if isinstance(factor, Tensor):
        target.add_(value * factor)
    else:
        target.add_(value, alpha=factor)


def add_quotient_(target: Tensor, above: Tensor, below: Tensor, factor: Any) -> None:
    """target += factor * above / below."""
    if isinstance(factor, Tensor):
        target.add_(above / below * factor)
    else:
        target.addcdiv_(above, below, value=factor)


def blend_square_(mean: Tensor, value: Tensor, keep: Any) -> Tensor:
    """mean = keep * mean + (1 - keep) * value^2."""
    return mean.mul_(keep).addcmul_(value, value, value=1 - keep)
