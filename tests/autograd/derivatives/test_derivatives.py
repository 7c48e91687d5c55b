"""Every differentiable row of the op table in five columns: first order, second order, forward mode, forward over
reverse, vmap. `tools/derivatives.py` prints them.

The first three are checked against central differences; forward over reverse against differences and against reverse
over forward; vmap against examples that are computed one after the other, each by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_cases import OP_TYPES, Case, cases, cotangent, drawn

import weft
from weft.autograd import forward_ad, gradcheck, gradgradcheck
from weft.config import config

every_op = pytest.mark.parametrize(
    ("op", "dtype"),
    [pytest.param(op, dtype, id=f"{op.name}-{dtype}") for op, dtype in OP_TYPES],
)
STEP = {"eps": 1e-5, "atol": 1e-7, "rtol": 1e-6}


@every_op
def test_first_order(op: Any, dtype: str) -> None:
    for case in cases(op, dtype):
        assert gradcheck(case.function, case.tensors(), **STEP)


@every_op
def test_second_order(op: Any, dtype: str) -> None:
    for case in cases(op, dtype, 1):
        assert gradgradcheck(case.function, case.tensors(), **STEP)


@every_op
def test_forward_mode(op: Any, dtype: str) -> None:
    for case in cases(op, dtype):
        options: dict[str, Any] = {"check_forward_ad": True, "check_backward_ad": False}
        assert gradcheck(case.function, case.tensors(), **options, **STEP)


# -- forward over reverse --------------------------------------------------------------------------------------------


@every_op
def test_forward_over_reverse(op: Any, dtype: str) -> None:
    """The derivative of the gradient of <u, f> along v is the gradient of <u, df(v)>."""
    for case in cases(op, dtype):
        u = cotangent(case)
        moves = [drawn(array, 2 + i) for i, array in enumerate(case.arrays)]
        over_reverse, over_forward = (
            forward_over_reverse(case, u, moves),
            reverse_over_forward(case, u, moves),
        )
        for one, other in zip(over_reverse, over_forward, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=case.name)
    options = dict.fromkeys(("check_rev_over_rev", "check_undefined_grad"), False)
    first = cases(op, dtype, 1)[0]
    assert gradgradcheck(
        first.function, first.tensors(), check_fwd_over_rev=True, **options, **STEP
    )


def gradient(function: Any, leaves: list[Any], seed: Any, create: bool = False) -> Any:
    return weft.autograd.grad(
        function, leaves, seed, create_graph=create, allow_unused=True, materialize_grads=True
    )


def forward_over_reverse(case: Case, u: Any, moves: list[Any]) -> list[Any]:
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(leaf, weft.from_numpy(move))
            for leaf, move in zip(case.tensors(), moves, strict=True)
        ]
        found = gradient(case.function(*duals), duals, weft.from_numpy(u), create=True)
        tangents = [forward_ad.unpack_dual(g).tangent for g in found]
        return [
            np.zeros(a.shape) if t is None else t.detach().numpy().copy()
            for t, a in zip(tangents, case.arrays, strict=True)
        ]


def reverse_over_forward(case: Case, u: Any, moves: list[Any]) -> list[Any]:
    leaves = case.tensors()
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(leaf, weft.from_numpy(move))
            for leaf, move in zip(leaves, moves, strict=True)
        ]
        tangent = forward_ad.unpack_dual(case.function(*duals)).tangent
    if tangent is None or not tangent.requires_grad:
        return [np.zeros(a.shape) for a in case.arrays]
    return [g.numpy() for g in gradient(tangent, leaves, weft.from_numpy(u))]


# -- vmap ------------------------------------------------------------------------------------------------------------

EXAMPLES = 3


@every_op
def test_vmap(op: Any, dtype: str) -> None:
    """Value, cotangents and tangent of each example, mapped over all arguments, and over each one alone."""
    points = [cases(op, dtype, seed=seed) for seed in range(EXAMPLES)]
    for one, *others in zip(*points, strict=True):
        many = [one.arrays, *(other.arrays for other in others)]
        for mapped in [range(len(one.arrays)), *([i] for i in range(len(one.arrays)))]:
            check_map(one, many, set(mapped))


def check_map(case: Case, many: list[list[Any]], mapped: set[int]) -> None:
    examples = [[a if i in mapped else many[0][i] for i, a in enumerate(p)] for p in many]
    whole = [
        weft.from_numpy(np.stack([p[i] for p in examples]) if i in mapped else many[0][i])
        for i in range(len(case.arrays))
    ]
    dims = tuple(0 if i in mapped else None for i in range(len(case.arrays)))
    function = parts_of(case, cotangent(case))
    found = weft.func.vmap(function, dims)(*whole)
    for number, point in enumerate(examples):
        wanted = alone(function, point)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                ours[number].numpy(), theirs, rtol=1e-12, atol=1e-12, err_msg=case.name
            )


def parts_of(case: Case, u: Any) -> Any:
    """The value of a function, its cotangents and its tangent, as one tuple."""

    def function(*primals: Any) -> Any:
        value, vjp_fn = weft.func.vjp(case.function, *primals)
        tangents = tuple(weft.from_numpy(drawn(a, 3 + i)) for i, a in enumerate(case.arrays))
        pushed = weft.func.jvp(case.function, primals, tangents)[1]
        pulled = vjp_fn(weft.from_numpy(u))
        return (value, pushed, *(pulled if isinstance(pulled, tuple) else (pulled,)))

    return function


def alone(function: Any, point: list[Any]) -> list[Any]:
    """One example by itself, without batches."""
    previous, config.batch = config.batch, False
    try:
        return [t.numpy().copy() for t in function(*[weft.from_numpy(a.copy()) for a in point])]
    finally:
        config.batch = previous
