# cython: language_level=3
"""The common part of the algorithms: the parameters to update with their gradients and states, and the steps of
updates.

Complex numbers are seen as pairs of real ones, so that an algorithm is written once. Factors are numbers, or tensors
if a step is to be differentiated with respect to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.frontend.inplace import in_place
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.optim.stepping import gradient_of

import weft
from weft._build.compiled import require
from weft.engine.ir.tape import turns
from weft.engine.ir.view_transform import SPARSE
from weft.errors import GradientError
from weft.nn.parameter import Parameter
from weft.ops.primitives import elementwise as call
from weft.optim.counted_state import CountedState, plain
from weft.optim.optimizer import Group, Optimizer, _as_it_is
from weft.optim.update_trace import Updates

if TYPE_CHECKING:
    from weft._typing import TensorLike


require(__name__, cython.compiled)

_sparse = cython.declare(cython.int, SPARSE)
_WHOLE = (Tensor, Parameter)  # most parameters are of these
Update = tuple[Tensor, Any, Group, Group]


Start = Callable[[Tensor], Group]
Candidate = tuple[Tensor, Any, Group]


def updates(
    optimizer: Optimizer,
    group: Group,
    start: Start,
    sparse: bool = False,
    counted: bool = True,
    by_element: bool = False,
) -> Iterator[Update]:
    """Of each parameter that has a gradient: itself, the gradient (negated to maximize), its tensors and its state.

    `start` makes the state that a parameter begins with; `step` counts from there, if `counted`. The tensors of
    complex state are real views. Of parameters with equal numbers in their state only the first one comes, if the
    update is `by_element`: what depends on nothing but elements, those numbers and the group is repeated for the others
    behind it. Errors: RuntimeError for a sparse gradient, unless the algorithm knows what to do.
    """
    maximize = group.get("maximize", False)
    candidates = _with_state(optimizer, group, start, sparse, counted)
    for parameter, gradient, state in once_for_all(candidates) if by_element else candidates:
        if maximize:
            gradient = -gradient
        if parameter.is_complex():
            tensors = {name: _as_real(entry) for name, entry in plain(state).items()}
            yield weft.view_as_real(parameter), weft.view_as_real(gradient), tensors, state
        else:
            yield parameter, gradient, plain(state), state


def _with_state(
    optimizer: Optimizer, group: Group, start: Start, sparse: bool, counted: bool
) -> Iterator[Candidate]:
    """Each parameter that has a gradient, that and its state; its steps are counted."""
    states, counts = optimizer.state, optimizer._counts
    parameter: Tensor
    for parameter in group["params"]:
        gradient: Tensor = gradient_of(parameter)
        if gradient is None:
            continue
        if not sparse and gradient.view_transform & _sparse and gradient.is_sparse:
            raise refuse_sparse(type(optimizer).__name__)
        if type(parameter) not in _WHOLE:  # one that lies over ranks: its gradient does so, too
            gradient = getattr(parameter, "like", _as_it_is)(gradient)
        state = states[parameter]
        if not state:
            entries = {"step": 0, **start(parameter)} if counted else start(parameter)
            if counts and type(state) is dict:
                state = states[parameter] = CountedState(counts, entries)
            else:
                state.update(entries)
        if type(state) is CountedState:
            if state.shown:
                state.settle()
                state.take({"step": cython.cast(dict, state)["step"] + 1})
            else:
                cython.cast(dict, state)["step"] += 1
        elif counted:
            state["step"] += 1
        yield parameter, gradient, state


def once_for_all(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """Those among candidates whose update has to be written down: for the others, what was recorded between two of
    them is recorded again. The update may depend on elements, on numbers in the state and on what is equal for all."""
    known = Updates()
    for parameter, gradient, state in turns(candidates):
        given = known.replay(parameter, gradient, state)
        if given is True:
            continue
        yield parameter, gradient, state
        if given is not None:
            known.learn(given, parameter, gradient, state)


def refuse_sparse(name: str) -> GradientError:
    """The error for a sparse gradient that an algorithm cannot use."""
    hint = ", please consider SparseAdam instead" if "Adam" in name else ""
    return GradientError(
        f"{name} does not support sparse gradients{hint}",
        expected="a dense gradient",
        got="a sparse one",
        fix="use SGD, Adagrad or SparseAdam, or an Embedding with sparse=False",
    )


def _as_real(entry: object) -> Any:
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


def decayed(gradient: Tensor, parameter: Tensor, decay: TensorLike) -> Tensor:
    """A gradient with that of half the squared norm of the parameter, times `decay`."""
    plain = not isinstance(decay, Tensor) and decay == 0
    return gradient if plain else gradient + parameter * decay


def add_scaled_(target: Tensor, value: Tensor, factor: Any) -> None:
    """target += factor * value; of a sparse value only where it has entries."""
    if value.is_sparse:
        target.add_(value, alpha=factor)
    else:
        target += value * factor


def add_quotient_(target: Tensor, above: Tensor, below: Tensor, factor: Any) -> None:
    """target += factor * above / below."""
    in_place(target, call("add_quotient", target, above, below, factor))


def blend_(mean: Tensor, value: Tensor, share: TensorLike) -> Tensor:
    """mean += share * (value - mean), from the nearer end."""
    if isinstance(share, Tensor) or abs(share) >= 0.5:
        return mean.lerp_(value, share)
    return in_place(mean, call("blend", mean, value, share))


def blend_square_(mean: Tensor, value: Tensor, keep: TensorLike) -> Tensor:
    """mean = keep * mean + (1 - keep) * value^2."""
    return in_place(mean, call("add_product", mean * keep, value, value, 1 - keep))
