"""LAPACK primitives: functions whose values LAPACK computes at the call, with a derivative rule of their own.

They take matrices, a function that computes the value from arrays, and a rule in recorded operations, so that
derivatives of any order are right. If a composition of tensors equals the function, the rule may be its derivative: it
runs only when that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from weft.autograd.backward import grad
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.functional.linalg.factored import Factored, each, keep
from weft.functional.support import host
from weft.functional.support.matrix_batches import Matrices, matrices


class _Valued(Factored):
    """A value that has been computed, and the rule for its derivative."""

    @staticmethod
    def forward(
        ctx: Any, compute: Callable[..., Tensor], rule: Callable[..., Tensor], *tensors: Tensor
    ) -> Any:
        """The value; the rule takes the tensors, the value and its cotangent."""
        made = compute(*tensors)
        keep(ctx, None, (made,), *tensors, made)
        ctx.rule = lambda saved, g: (None, None, *rule(*saved, g))
        return made


def composed(composition: Callable[..., object]) -> Callable[..., Any]:
    """The rule for the value of a composition of tensors: its own derivative."""
    return lambda *saved: _pulled(composition, saved[:-2], saved[-1])


def _pulled(
    composition: Callable[..., object], tensors: tuple[Tensor, ...], cotangent: Tensor
) -> list[Any]:
    """The cotangents of what a composition is made of. Where nobody asks for the next derivative, what is recorded
    for this one is forgotten with it."""
    mode = tapes.tape().mode
    tracked, mode.grad = mode.grad, True
    try:
        leaves = [x if tracked and x.requires_grad else x.detach() for x in tensors]
        for leaf in leaves:
            if not leaf.requires_grad:
                leaf.requires_grad = True
        found = grad(
            (composition(*leaves),), leaves, (cotangent,), create_graph=tracked, allow_unused=True
        )
        return list(found)
    finally:
        mode.grad = tracked


@cache
def _record(name: str) -> type[Factored]:
    return type(name, (_Valued,), {"__doc__": _Valued.__doc__})


def valued(name: str, compute: Callable[..., object], rule: Callable[..., object]) -> Any:
    """A function of tensors with the value of `compute`, which takes and gives arrays. `rule` takes the tensors, the
    value and its cotangent and gives the tensors' cotangents; `name` is that of the gradient record."""

    def value(*tensors: Tensor) -> Any:
        return host.from_numpy(compute(*map(host.to_numpy, tensors)), tensors[0]._dtype)

    return lambda *tensors: _record(name).apply(value, rule, *tensors)


def of_matrices(name: str, compute: Callable[..., Matrices], rule: Callable[..., object]) -> Any:
    """`valued` for a function that takes and gives `Matrices`."""

    def value(*tensors: Tensor) -> Any:
        return compute(*map(matrices, tensors)).tensor()

    return lambda *tensors: _record(name).apply(value, rule, *tensors)


def by_matrix(routine: Callable[..., Tensor]) -> Callable[..., Any]:
    """A function of batches of matrices, made of a routine for one matrix."""
    return lambda *arrays: each(lambda *parts: (routine(*parts),), *arrays)[0]
