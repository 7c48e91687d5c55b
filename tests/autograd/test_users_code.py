"""What users' own code in the graph gets wrong: hooks, custom Functions, pack hooks and checkpointed functions that
raise or return what nobody can use. The error says so; the graph, the modes, versions, random numbers and gradients are
as they were, and the same graph can be walked again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.autograd import Function
from weft.autograd.graph import saved_tensors_hooks
from weft.engine.ir.tape import tape
from weft.errors import WeftError
from weft.utils.checkpoint import checkpoint

BOUNDED = settings(deadline=None, max_examples=60)


class Mine(Exception):
    """Raised by the user's code of these tests."""


def fail(*_: Any) -> Any:
    raise Mine


# What may come out of a hook, a Function or a pack hook, for a tensor of three floats.
RETURNED: dict[str, Callable[[], Any]] = {
    "a number": lambda: 1.0,
    "text": lambda: "gradient",
    "a list": lambda: [1.0, 1.0, 1.0],
    "an object": object,
    "another size": lambda: weft.ones(4),
    "another rank": lambda: weft.ones(3, 3),
    "nothing in it": lambda: weft.zeros(0),
    "two": lambda: (weft.ones(3), weft.ones(3)),
    "none at all": lambda: (),
    "three": lambda: (weft.ones(3), None, weft.ones(3)),
    "a class": lambda: weft.Tensor,
}


def state() -> tuple[Any, ...]:
    mode = tape().mode
    return (
        weft.is_grad_enabled(),
        weft.is_inference_mode_enabled(),
        weft.is_anomaly_enabled(),
        weft.get_rng_state().tolist(),
        mode.grad,
    )


def assert_usable() -> None:
    """The process computes and differentiates."""
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def refused(run: Callable[[], Any], *touched: Any) -> BaseException:
    """The error of a call; nothing is changed by it."""
    before = state()
    values = [
        (t._version, t.tolist(), None if t.grad is None else t.grad.tolist()) for t in touched
    ]
    with pytest.raises((Mine, WeftError)) as caught:
        run()
    assert state() == before
    assert values == [
        (t._version, t.tolist(), None if t.grad is None else t.grad.tolist()) for t in touched
    ]
    assert_usable()
    return caught.value


def returning(name: str) -> Callable[..., Any]:
    return lambda *_: RETURNED[name]()


WRONG = st.sampled_from(sorted(RETURNED))


# -- hooks -----------------------------------------------------------------------------------------


@BOUNDED
@given(name=WRONG, place=st.sampled_from(["tensor", "leaf", "node", "prehook"]))
def test_what_a_hook_returns_is_checked(name: str, place: str) -> None:
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    hook = returning(name)
    handle = {
        "tensor": lambda: y.register_hook(hook),
        "leaf": lambda: x.register_hook(hook),
        "node": lambda: y.grad_fn.register_hook(hook),
        "prehook": lambda: y.grad_fn.register_prehook(hook),
    }[place]()
    loss = (y * y).sum()
    if (name, place) != ("two", "node"):  # y = x * 2 has two inputs
        refused(lambda: loss.backward(retain_graph=True), x)
    handle.remove()
    loss.backward()
    assert x.grad.tolist() == [8, 8, 8]


@BOUNDED
@given(
    place=st.sampled_from(["tensor", "leaf", "node", "prehook", "accumulated"]),
    create_graph=st.booleans(),
)
def test_a_hook_that_raises_leaves_the_graph_as_it_was(place: str, create_graph: bool) -> None:
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    handle = {
        "tensor": lambda: y.register_hook(fail),
        "leaf": lambda: x.register_hook(fail),
        "node": lambda: y.grad_fn.register_hook(fail),
        "prehook": lambda: y.grad_fn.register_prehook(fail),
        "accumulated": lambda: x.register_post_accumulate_grad_hook(fail),
    }[place]()
    loss = (y * y).sum()
    touched = () if place == "accumulated" else (x,)  # that hook comes after the gradient is there
    error = refused(lambda: loss.backward(retain_graph=True, create_graph=create_graph), *touched)
    assert isinstance(error, Mine)
    handle.remove()
    x.grad = None
    loss.backward()
    assert x.grad.tolist() == [8, 8, 8]


# -- custom Functions ------------------------------------------------------------------------------


def old_style(backward: Callable[..., Any], forward: Callable[..., Any] | None = None) -> Any:
    class Old(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any) -> Any:
            ctx.save_for_backward(x)
            return (forward or (lambda x: x * factor))(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert ctx.saved_tensors[0].shape == (3,)
            return backward(g)

    return Old


def new_style(backward: Callable[..., Any], forward: Callable[..., Any] | None = None) -> Any:
    class New(Function):
        @staticmethod
        def forward(x: Any, factor: Any) -> Any:
            return (forward or (lambda x: x * factor))(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert ctx.saved_tensors[0].shape == (3,)
            return backward(g)

    return New


STYLES = st.sampled_from([old_style, new_style])


@BOUNDED
@given(style=STYLES, name=WRONG)
def test_what_backward_of_a_function_returns_is_checked(style: Any, name: str) -> None:
    x = weft.ones(3, requires_grad=True)
    loss = style(returning(name)).apply(x, 2.0).sum()
    refused(lambda: loss.backward(retain_graph=True), x)


@BOUNDED
@given(style=STYLES, where=st.sampled_from(["forward", "backward"]))
def test_a_function_that_raises(style: Any, where: str) -> None:
    x = weft.ones(3, requires_grad=True)
    if where == "forward":
        error = refused(lambda: style(lambda g: (g, None), fail).apply(x, 2.0), x)
    else:
        calls: list[int] = []

        def second_time(g: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise Mine
            return g * 2, None

        loss = style(second_time).apply(x, 2.0).sum()
        error = refused(lambda: loss.backward(retain_graph=True), x)
        loss.backward()
        assert x.grad.tolist() == [2, 2, 2]
    assert isinstance(error, Mine)


@BOUNDED
@given(style=STYLES, name=st.sampled_from(["a number", "text", "an object", "a list", "a class"]))
def test_a_function_without_a_tensor_in_its_result_gives_it_as_it_is(style: Any, name: str) -> None:
    x = weft.ones(3, requires_grad=True)
    result = style(lambda g: (g, None), lambda x: RETURNED[name]()).apply(x, 2.0)
    assert type(result) is type(RETURNED[name]())


# -- saved tensors ---------------------------------------------------------------------------------


@BOUNDED
@given(name=st.sampled_from(["a number", "text", "a list", "an object", "two", "none at all"]))
def test_what_an_unpack_hook_returns_is_checked(name: str) -> None:
    x = weft.ones(3, requires_grad=True)
    with saved_tensors_hooks(lambda t: t, returning(name)):
        loss = (x * x).sum()
    refused(lambda: loss.backward(retain_graph=True), x)


@BOUNDED
@given(where=st.sampled_from(["pack", "unpack"]))
def test_pack_hooks_that_raise(where: str) -> None:
    x = weft.ones(3, requires_grad=True)
    calls: list[int] = []

    def first_time(value: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise Mine
        return value

    hooks = (first_time, lambda t: t) if where == "pack" else (lambda t: t, first_time)

    def build() -> Any:
        with saved_tensors_hooks(*hooks):
            return x.exp().sum()

    if where == "pack":
        assert isinstance(refused(build, x), Mine)
        loss = build()
    else:
        loss = build()
        assert isinstance(refused(lambda: loss.backward(retain_graph=True), x), Mine)
    loss.backward()
    assert x.grad.allclose(x.detach().exp())


# -- checkpoints and transforms --------------------------------------------------------------------


@BOUNDED
@given(reentrant=st.booleans(), calls_before=st.integers(0, 1))
def test_a_checkpointed_function_that_raises(reentrant: bool, calls_before: int) -> None:
    """In forward, or when it is computed again in backward."""
    x = weft.ones(3, requires_grad=True)
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        noise = weft.rand(3)
        if len(calls) == calls_before + 1:
            raise Mine
        return weft.nn.functional.dropout(x * x, 0.5) + noise

    def run() -> Any:
        return checkpoint(function, x, use_reentrant=reentrant).sum()

    mode = weft.is_grad_enabled(), weft.is_inference_mode_enabled()
    if calls_before == 0:
        with pytest.raises(Mine):
            run()
        loss = run()
    else:
        loss = run()
        assert isinstance(refused(lambda: loss.backward(retain_graph=True), x), Mine)
    assert (weft.is_grad_enabled(), weft.is_inference_mode_enabled()) == mode
    loss.backward()
    assert set(x.grad.tolist()) <= {0.0, 4.0}


@BOUNDED
@given(
    transform=st.sampled_from(["vmap", "grad", "jvp", "vjp", "jacrev", "hessian"]),
    nested=st.booleans(),
)
def test_a_transformed_function_that_raises(transform: str, nested: bool) -> None:
    x = weft.ones(3)
    func = weft.func
    call = {
        "vmap": lambda f: func.vmap(f)(x),
        "grad": lambda f: func.grad(f)(x),
        "jvp": lambda f: func.jvp(f, (x,), (x,)),
        "vjp": lambda f: func.vjp(f, x),
        "jacrev": lambda f: func.jacrev(f)(x),
        "hessian": lambda f: func.hessian(f)(x),
    }[transform]
    inner = (lambda value: func.vmap(fail)(value.reshape(-1))) if nested else fail
    assert isinstance(refused(lambda: call(inner), x), Mine)


# -- signals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["hook", "function", "unpack"])
def test_an_interrupt_in_users_code_during_backward(place: str) -> None:
    """Ctrl-C while a hook runs: the walk ends, nothing is accumulated, the graph can be walked again."""
    x = weft.ones(3, requires_grad=True)
    pressed: list[int] = []

    def press(g: Any) -> Any:
        if not pressed:
            pressed.append(1)
            signal.raise_signal(signal.SIGINT)
        return g

    if place == "hook":
        y = x * 2
        y.register_hook(press)
    elif place == "function":
        y = old_style(lambda g: (press(g) * 2, None)).apply(x, 2.0)
    else:
        with saved_tensors_hooks(lambda t: t, press):
            y = (x * x) + x * 0
    loss = y.sum()
    before = state()
    with pytest.raises(KeyboardInterrupt):
        loss.backward(retain_graph=True)
    assert state() == before and x.grad is None
    assert_usable()
    loss.backward()
    assert x.grad.tolist() == [2, 2, 2]
