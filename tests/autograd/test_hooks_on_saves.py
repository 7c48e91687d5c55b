"""Hooks on saved values inside one another, and with checkpoints; what a program sees is the same in both libraries."""

from __future__ import annotations

import gc
import importlib
from typing import Any

import pytest

import weft


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    return weft if request.param == "weft" else pytest.importorskip("torch")


def checkpointing(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.utils.checkpoint")


def times(factor: int) -> Any:
    return lambda x: factor * x


def test_of_nested_pairs_the_innermost_applies(lib: Any) -> None:
    hooks = lib.autograd.graph.saved_tensors_hooks
    a = lib.ones(3, requires_grad=True)
    with hooks(times(3), times(3)):
        with hooks(times(5), times(5)):
            inner = a * a
        outer = a * a
    inner.sum().backward()
    assert a.grad.tolist() == [50.0] * 3
    a.grad = None
    outer.sum().backward()
    assert a.grad.tolist() == [18.0] * 3


def test_save_on_cpu_inside_takes_the_place_of_other_hooks(lib: Any) -> None:
    seen: list[Any] = []
    a = lib.ones(3, requires_grad=True)
    outer = lib.autograd.graph.saved_tensors_hooks(lambda x: seen.append(1), lambda x: x)
    with outer, lib.autograd.graph.save_on_cpu():
        y = a.exp()
    y.sum().backward()
    assert not seen


def test_disabling_inside_is_refused(lib: Any) -> None:
    graph = lib.autograd.graph
    disabled = graph.disable_saved_tensors_hooks("not here")
    with (
        graph.saved_tensors_hooks(times(3), times(3)),
        pytest.raises(RuntimeError, match="not here"),
    ):
        disabled.__enter__()


def test_hooks_inside_a_checkpoint_keep_what_they_are_given(lib: Any) -> None:
    events: list[str] = []

    def note(event: str) -> Any:
        return lambda x: (events.append(event), x)[1]

    def function(x: Any) -> Any:
        with lib.autograd.graph.saved_tensors_hooks(note("pack"), note("unpack")):
            return x.sin() * x.cos()

    a = lib.ones(2, requires_grad=True)
    checkpointing(lib).checkpoint(function, a * 1, use_reentrant=False).sum().backward()
    assert events.count("pack") == events.count("unpack") > 0
    assert events == sorted(events)


def gradient(lib: Any, function: Any) -> Any:
    def differentiated(x: Any) -> Any:
        with lib.enable_grad():
            return lib.autograd.grad(function(x).sum(), x, create_graph=True)[0]

    return differentiated


def checkpointed(lib: Any, function: Any) -> Any:
    return lambda x: checkpointing(lib).checkpoint(function, x, use_reentrant=False)


def wave(x: Any) -> Any:
    return x.sin().exp().sin()


# g: the gradient of, c: a checkpoint around
@pytest.mark.parametrize("word", ["c", "cc", "cg", "gc", "gcg", "cgc", "cgcg", "gccg", "ccgg"])
@pytest.mark.parametrize("early", [True, False])
def test_checkpoints_and_gradients_in_any_order(lib: Any, word: str, early: bool) -> None:
    function = plain = wave
    for letter in reversed(word):
        function = gradient(lib, function) if letter == "g" else checkpointed(lib, function)
        plain = gradient(lib, plain) if letter == "g" else plain
    x = lib.tensor([0.5, 1.25], dtype=lib.float64, requires_grad=True)
    with checkpointing(lib).set_checkpoint_early_stop(early):
        function(x).sum().backward()
    found, x.grad = x.grad, None
    plain(x).sum().backward()
    assert found.tolist() == pytest.approx(x.grad.tolist())


@pytest.mark.parametrize("word", ["cc", "cg", "gc", "gcg", "gccg"])
def test_checkpoints_and_gradients_keep_nothing(word: str) -> None:
    function = wave
    for letter in reversed(word):
        function = gradient(weft, function) if letter == "g" else checkpointed(weft, function)

    def nodes(rounds: int) -> int:
        for _ in range(rounds):
            function(weft.ones(3, requires_grad=True)).sum().item()
        gc.collect()
        return weft.engine.frontend.node_factory.count_live_nodes()

    before = nodes(3)
    assert nodes(5) <= before  # what tests before this one have left may go


def test_a_leaf_that_a_function_saved_comes_back_as_itself() -> None:
    same: list[bool] = []

    class Product(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            same.append(b is leaf)
            return g * b, g * a

    leaf = weft.ones(1, requires_grad=True)
    x = weft.ones(1, requires_grad=True)
    checkpointed(weft, lambda a: Product.apply(a, leaf))(x.exp()).sum().backward()
    assert same == [True]
