"""Functions that are not differentiable by an argument: the result requires grad where PyTorch's does, and both raise
where the gradient or the tangent is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch

VALUES = [0.7, 1.2, 1.2]
CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "unique": lambda lib, x, y: lib.unique(x),
    "unique dim": lambda lib, x, y: lib.unique(x, dim=0),
    "unique inverse": lambda lib, x, y: lib.unique(x, return_inverse=True, return_counts=True)[0],
    "unique_consecutive": lambda lib, x, y: lib.unique_consecutive(x),
    "unique_consecutive dim": lambda lib, x, y: lib.unique_consecutive(x, dim=0),
    "igamma": lambda lib, x, y: lib.igamma(x, y),
    "igammac": lambda lib, x, y: lib.igammac(x, y),
    "igamma both": lambda lib, x, y: lib.igamma(x, x),
    "gammainc": lambda lib, x, y: lib.special.gammainc(x, y),
    "floor_divide": lambda lib, x, y: lib.floor_divide(x, y),
    "floor_divide, divisor": lambda lib, x, y: lib.floor_divide(2, x),
    "//": lambda lib, x, y: x // 2,
    "heaviside": lambda lib, x, y: lib.heaviside(x, y),
    "heaviside, values": lambda lib, x, y: lib.heaviside(y, x),
    "histogram": lambda lib, x, y: lib.histogram(x, 3).hist,
    "ldl_factor": lambda lib, x, y: lib.linalg.ldl_factor(x[:1, None])[0],
    "ldl_solve": lambda lib, x, y: lib.linalg.ldl_solve(
        *lib.linalg.ldl_factor(y[:1, None]), x[:1, None]
    ),
    "geqrf": lambda lib, x, y: lib.geqrf(x.reshape(3, 1))[0],
}


def outcome(library: Any, function: Callable[[Any, Any, Any], Any]) -> tuple[bool, str]:
    x = library.tensor(VALUES, requires_grad=True)
    result = function(library, x, library.tensor([0.9, 2.0, 0.5]))
    with pytest.raises(RuntimeError) as caught:
        result.sum().backward()
    return result.requires_grad, str(caught.value).partition(",")[0].rstrip(".")


@pytest.mark.parametrize("name", CASES)
def test_backward_raises_with_pytorchs_words(name: str) -> None:
    assert outcome(weft, CASES[name]) == outcome(torch, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_said_where_no_gradient_is_wanted(name: str) -> None:
    for requires_grad in (False, True):
        x = weft.tensor(VALUES, requires_grad=requires_grad)
        with weft.no_grad():
            result = CASES[name](weft, x, weft.tensor([0.9, 2.0, 0.5]))
        assert not result.requires_grad
        assert result.tolist() == CASES[name](weft, x, weft.tensor([0.9, 2.0, 0.5])).tolist()


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gammas_are_differentiable_by_the_second_argument(name: str) -> None:
    a, x = weft.tensor([0.9, 2.0]), weft.tensor([0.7, 1.2], requires_grad=True)
    getattr(weft, name)(a, x).sum().backward()
    b, y = torch.tensor([0.9, 2.0]), torch.tensor([0.7, 1.2], requires_grad=True)
    getattr(torch, name)(b, y).sum().backward()
    assert x.grad.tolist() == pytest.approx(y.grad.tolist(), rel=1e-5)
    moved = weft.func.jvp(lambda x: getattr(weft, name)(a, x), (x.detach(),), (weft.ones(2),))[1]
    assert moved.tolist() == pytest.approx(x.grad.tolist(), rel=1e-6)
    with pytest.raises(NotImplementedError, match=f"the derivative for '{name}: input'"):
        weft.func.jvp(lambda a: getattr(weft, name)(a, x.detach()), (a,), (weft.ones(2),))


@pytest.mark.parametrize("draw", ["bernoulli", "normal"])
def test_draws_have_gradients_of_zeros(draw: str) -> None:
    for lib in (weft, torch):
        x = lib.tensor([0.3, 0.6], requires_grad=True)
        drawn = getattr(lib, draw)(x)
        assert drawn.requires_grad
        drawn.sum().backward()
        assert x.grad.tolist() == [0, 0]
