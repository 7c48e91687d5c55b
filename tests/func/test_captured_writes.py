"""What a transformed function writes into tensors from outside: plain values only, nothing of the transform's graph."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import weft
from weft.errors import MutationError

TRANSFORMS: dict[str, Any] = {
    "grad": lambda f, x: weft.func.grad(f)(x),
    "vjp": lambda f, x: weft.func.vjp(f, x)[0],
    "jvp": lambda f, x: weft.func.jvp(f, (x,), (weft.ones_like(x),)),
    "jacrev": lambda f, x: weft.func.jacrev(f)(x),
    "linearize": lambda f, x: weft.func.linearize(f, x)[0],
}
WRITES: dict[str, Any] = {
    "add_": lambda c, x: c.add_(x),
    "copy_": lambda c, x: c.copy_(x * 2),
    "a part": lambda c, x: c[:1].mul_(x[:1]),
    "an element": lambda c, x: c.__setitem__(0, x[1]),
    "by index": lambda c, x: c.index_add_(0, weft.tensor([1, 0]), x),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_values_that_depend_on_the_arguments_stay_inside(transform: str, write: str) -> None:
    captured = weft.tensor([3.0, 4.0])

    def function(x: Any) -> Any:
        WRITES[write](captured, x)
        return captured.sum()

    with pytest.raises(MutationError, match="mutate a captured Tensor"):
        TRANSFORMS[transform](function, weft.tensor([1.0, 2.0]))
    assert captured.tolist() == [3.0, 4.0] and not captured.requires_grad


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_plain_values_are_written(transform: str) -> None:
    captured = weft.tensor([3.0, 4.0])

    def function(x: Any) -> Any:
        captured.add_(1)
        captured.add_(x.detach())
        with weft.no_grad():
            captured.add_(x)
        return (captured * x).sum()

    TRANSFORMS[transform](function, weft.tensor([1.0, 2.0]))
    assert captured.tolist() == [6.0, 9.0] and not captured.requires_grad


def test_a_plain_write_does_not_make_it_the_functions_own() -> None:
    captured = weft.zeros(2)

    def function(x: Any) -> Any:
        captured.add_(1)
        captured.add_(x)
        return captured.sum()

    with pytest.raises(MutationError, match="captured"):
        weft.func.grad(function)(weft.ones(2))
    assert captured.tolist() == [1.0, 1.0]


def test_statistics_of_layers() -> None:
    norm = weft.nn.BatchNorm1d(2)
    weft.func.grad(lambda x: norm(x).square().sum())(weft.tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert norm.running_mean is not None
    weft.testing.assert_close(norm.running_mean, weft.tensor([0.2, 0.35]))


def test_an_inner_transform_may_not_write_to_an_argument_of_the_outer_one() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            x.add_(y)
            return (x * y).sum()

        return weft.func.grad(inner)(x).sum()

    with pytest.raises(MutationError, match="captured"):
        weft.func.grad(outer)(weft.ones(2))


def test_own_tensors_are_written(lib: ModuleType) -> None:
    """What PyTorch permits: copies and new tensors."""
    kept = lib.tensor([2.0, 3.0])

    def function(x: Any) -> Any:
        made = lib.zeros(2)
        made[0] = x[1]
        copy = kept.clone()
        copy.mul_(x)
        return (made + copy + x * 2).sum()

    gradient = lib.func.grad(function)(lib.tensor([1.0, 2.0]))
    assert gradient.tolist() == [4.0, 6.0]
    assert kept.tolist() == [2.0, 3.0]
