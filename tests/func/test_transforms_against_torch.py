"""Function transforms in one another, on random programs, against PyTorch's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

SIZE, EXAMPLES = 3, 4

# Steps from a vector to a vector: (library, vector, fixed vector, fixed matrix) -> vector. Without layer_norm, whose
# tangent PyTorch differentiates wrongly (differences agree with Weft: test_derivatives_of_a_tangent).
STEPS: list[Callable[..., Any]] = [
    lambda lib, x, v, m: x.sin(),
    lambda lib, x, v, m: x * v,
    lambda lib, x, v, m: x + v,
    lambda lib, x, v, m: m @ x,
    lambda lib, x, v, m: x @ m,
    lambda lib, x, v, m: lib.softmax(x, 0),
    lambda lib, x, v, m: lib.where(x > 0, x * 2, x - v),
    lambda lib, x, v, m: lib.cat([x[1:], x[:1]]),
    lambda lib, x, v, m: x.cumsum(0),
    lambda lib, x, v, m: (x.unsqueeze(0) * v.unsqueeze(1)).sum(1),
    lambda lib, x, v, m: x / (1 + x.square().sum()),
    lambda lib, x, v, m: lib.nn.functional.gelu(x),
    lambda lib, x, v, m: lib.stack([x, v]).amax(0),
    lambda lib, x, v, m: x.flip(0).expand(2, SIZE).mean(0),
    lambda lib, x, v, m: (x - x.mean()) / (x.var() + 0.1).sqrt(),
    lambda lib, x, v, m: lib.outer(x, v).diagonal() + lib.dot(x, v),
    lambda lib, x, v, m: x.index_select(0, lib.tensor([2, 0, 1])),
]


def program(seed: int) -> Callable[..., Any]:
    """A function of a library and a vector, made of random steps and random transforms of what comes before."""
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    v, m = numbers.standard_normal(SIZE), numbers.standard_normal((SIZE, SIZE))

    def after(inner: Callable[..., Any], step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda lib, x: step(lib, inner(lib, x), lib.from_numpy(v), lib.from_numpy(m))

    def function(lib: Any, x: Any) -> Any:
        return x

    for _ in range(choose.randint(2, 4)):
        function = after(function, choose.choice(STEPS))
    for _ in range(choose.randint(1, 3)):
        function = after(choose.choice(TRANSFORMS)(function, v), choose.choice(STEPS))
    return function


def _slope(inner: Callable[..., Any], v: Any) -> Callable[..., Any]:
    return lambda lib, x: lib.func.grad(lambda y: (inner(lib, y) * lib.from_numpy(v)).sum())(x)


def _pushed(inner: Callable[..., Any], v: Any) -> Callable[..., Any]:
    return lambda lib, x: lib.func.jvp(lambda y: inner(lib, y), (x,), (lib.from_numpy(v),))[1]


def _pulled(inner: Callable[..., Any], v: Any) -> Callable[..., Any]:
    return lambda lib, x: lib.func.vjp(lambda y: inner(lib, y), x)[1](lib.from_numpy(v))[0]


def _jacobian(inner: Callable[..., Any], v: Any) -> Callable[..., Any]:
    return lambda lib, x: lib.func.jacrev(lambda y: inner(lib, y))(x) @ lib.from_numpy(v)


def _columns(inner: Callable[..., Any], v: Any) -> Callable[..., Any]:
    return lambda lib, x: lib.func.jacfwd(lambda y: inner(lib, y))(x) @ lib.from_numpy(v)


def _mapped(inner: Callable[..., Any], v: Any) -> Callable[..., Any]:
    def function(lib: Any, x: Any) -> Any:
        rows = lib.stack([x, x * 2, lib.from_numpy(v)])
        return lib.func.vmap(lambda row: inner(lib, row), 0, 1)(rows).sum(1)

    return function


TRANSFORMS = [_slope, _pushed, _pulled, _jacobian, _columns, _mapped]


def results(lib: Any, function: Callable[..., Any], points: Any) -> list[Any]:
    x = lib.from_numpy(points)
    mapped = lib.func.vmap(lambda row: function(lib, row))
    tracked = lib.from_numpy(points).requires_grad_()
    (mapped(tracked) + tracked).sin().sum().backward()
    made = [function(lib, x[0]), mapped(x), tracked.grad]
    return [t.detach().numpy() for t in made]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(60))
def test_transforms_of_random_programs(seed: int) -> None:
    points = np.random.default_rng(seed + 100).standard_normal((EXAMPLES, SIZE))
    function = program(seed)
    for ours, theirs in zip(
        results(weft, function, points), results(torch, function, points), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)


def test_derivatives_of_a_tangent() -> None:
    """The Jacobian of layer_norm's tangent, against differences."""
    x, v = np.random.default_rng(0).standard_normal((2, SIZE))

    def pushed(y: Any) -> Any:
        norm = weft.nn.functional.layer_norm
        return weft.func.jvp(lambda z: norm(z, (SIZE,)), (y,), (weft.from_numpy(v),))[1]

    steps = 1e-5 * np.eye(SIZE)
    columns = [pushed(weft.from_numpy(x + s)) - pushed(weft.from_numpy(x - s)) for s in steps]
    wanted = np.stack([column.numpy() for column in columns], 1) / 2e-5
    for transform in (weft.func.jacrev, weft.func.jacfwd):
        np.testing.assert_allclose(transform(pushed)(weft.from_numpy(x)).numpy(), wanted, 1e-6)
