"""Hooks where no gradient arrives, and derivatives that are zeros rather than missing: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch


def _half_dead(lib: Any) -> Any:
    """A function of two values with a gradient for the second only."""

    class HalfDead(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * 1, y * 1

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return None, h

    return HalfDead.apply


def _told(log: list[Any], name: str) -> Callable[..., None]:
    return lambda *found: log.append((name, str(found).count("None")))


def through_a_node(lib: Any) -> Any:
    x, log = lib.ones(2, requires_grad=True), []
    dead, alive = x * 2, x * 3
    dead.register_hook(_told(log, "tensor"))
    dead.grad_fn.register_prehook(_told(log, "before"))
    dead.grad_fn.register_hook(_told(log, "after"))
    a, b = _half_dead(lib)(dead, alive)
    (a.sum() + b.sum()).backward()
    return log, x.grad.tolist()


def at_a_leaf(lib: Any) -> Any:
    x, log = lib.ones(2, requires_grad=True), []
    x.register_hook(_told(log, "tensor"))
    x.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad))
    a, _ = _half_dead(lib)(x, lib.ones(2, requires_grad=True))
    a.sum().backward()
    return log, x.grad


def at_an_output(lib: Any) -> Any:
    x, log = lib.ones(2, requires_grad=True), []
    a, b = _half_dead(lib)(x, x)
    b.register_hook(_told(log, "tensor"))
    a.sum().backward()
    return log


def replacing_nothing(lib: Any) -> Any:
    rows = lib.ones(2, 2, requires_grad=True).unbind(0)
    rows[0].grad_fn.register_prehook(lambda found: (found[0], lib.ones(2)))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        rows[0].sum().backward()


def edges_by_hand(lib: Any) -> Any:
    x = lib.arange(6.0).requires_grad_()
    record = x.split([1, 3, 2])[0].grad_fn
    lib.autograd.backward(lib.autograd.graph.GradientEdge(record, 1), lib.ones(3))
    y = x.reshape(2, 3)
    record = y.unbind(1)[2].grad_fn
    lib.autograd.backward(lib.autograd.graph.GradientEdge(record, 0), lib.ones(2))
    return x.grad.tolist()


HOOKS = (through_a_node, at_a_leaf, at_an_output, replacing_nothing, edges_by_hand)


@pytest.mark.parametrize("case", HOOKS, ids=lambda case: case.__name__)
def test_hooks_are_called_with_none(case: Callable[[Any], Any]) -> None:
    assert case(weft) == case(torch)


SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "square": lambda lib, x: x.square(),
    "x ** 2": lambda lib, x: x**2,
    "x ** 3": lambda lib, x: x**3,
    "sum of squares": lambda lib, x: (x**2).sum(),
    "x * x": lambda lib, x: x * x,
    "relu": lambda lib, x: x.relu(),
    "relu of a product": lambda lib, x: (x * 3).relu() * 2,
    "max": lambda lib, x: x.max(),
    "floor": lambda lib, x: x.floor(),
    "mean": lambda lib, x: x.mean(),
    "sine": lambda lib, x: x.sin(),
}


def _derivatives(lib: Any, function: Callable[[Any, Any], Any]) -> list[Any]:
    """The first derivatives by value, and whether each has a graph, to the first that has none."""
    x = lib.tensor([2.0, -3.0], requires_grad=True, dtype=lib.float64)
    y, found = function(lib, x), []
    for _ in range(4):
        (y,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        found.append(([round(value, 6) for value in y.tolist()], y.requires_grad))
        if not y.requires_grad:
            break
    return found


@pytest.mark.parametrize("name", SLOPES)
def test_constant_slopes_are_on_the_graph_as_in_pytorch(name: str) -> None:
    assert _derivatives(weft, SLOPES[name]) == _derivatives(torch, SLOPES[name])


NEXT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "gather": lambda lib, x, i: x.gather(0, i),
    "index": lambda lib, x, i: x[i],
    "sort": lambda lib, x, i: x.sort()[0],
    "where": lambda lib, x, i: lib.where(x > 0, x, x.detach()),
    "product with a constant": lambda lib, x, i: x * x.detach(),
}


@pytest.mark.parametrize("name", NEXT)
def test_indices_and_conditions_are_no_next_functions(name: str) -> None:
    found = []
    for lib in (weft, torch):
        y = NEXT[name](lib, lib.ones(2, requires_grad=True) * 2, lib.tensor([1, 0]))
        edges = [(n and n.name(), number) for n, number in y.grad_fn.next_functions]
        found.append(edges)
    assert found[0] == found[1]
