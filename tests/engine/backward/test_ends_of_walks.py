"""What is called at the end of a backward, walks inside walks, records that are called, edges as roots."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from live_nodes import settled_count
from weft.engine.frontend.node_factory import count_live_nodes


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    return weft if request.param == "weft" else pytest.importorskip("torch")


def queue(lib: Any, callback: Any) -> None:
    lib.autograd.Variable._execution_engine.queue_callback(callback)


def test_what_a_hook_queues_runs_when_all_gradients_are_there(lib: Any) -> None:
    x, y = lib.ones(1, requires_grad=True), lib.ones(1, requires_grad=True)
    seen: list[Any] = []

    def later(gradient: Any) -> None:
        queue(lib, lambda: seen.append((x.grad is not None, y.grad is not None)))
        queue(lib, lambda: seen.append("second"))

    product = x * y
    product.register_hook(later)
    product.sum().backward()
    assert seen == [(True, True), "second"]
    product = x * y
    product.sum().backward()
    assert len(seen) == 2


def test_a_walk_inside_ends_before_the_one_around_it(lib: Any) -> None:
    ends: list[str] = []

    def inner(gradient: Any) -> None:
        x = lib.ones(1, requires_grad=True)
        x.register_hook(lambda g: queue(lib, lambda: ends.append("inner")))
        queue(lib, lambda: ends.append("outer"))
        with lib.enable_grad():
            (x * 2).sum().backward()
        ends.append("hook")

    x = lib.ones(1, requires_grad=True)
    x.register_hook(inner)
    x.sum().backward()
    assert ends == ["inner", "hook", "outer"]


def test_a_walk_that_fails_forgets_what_was_queued(lib: Any) -> None:
    ends: list[str] = []

    def fail(gradient: Any) -> None:
        queue(lib, lambda: ends.append("never"))
        raise KeyError("in a hook")

    x = lib.ones(1, requires_grad=True)
    handle = x.register_hook(fail)
    with pytest.raises(KeyError):
        x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert not ends


def test_nothing_is_queued_outside(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward"):
        queue(lib, lambda: None)


def deeper(lib: Any) -> Any:
    class Deeper(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with lib.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.x.item() >= 0:
                with lib.enable_grad():
                    Deeper.apply(ctx.x).sum().backward()
            return g

    return Deeper


def test_walks_inside_walks_have_no_depth(lib: Any) -> None:
    x = lib.tensor(700.0, requires_grad=True)
    deeper(lib).apply(x).sum().backward()
    assert x.grad.item() == 1


def test_walks_inside_walks_let_go_at_once() -> None:
    """Each walk's record holds the graph of the one inside it, which dies when the one around it has: in one run."""
    Function = deeper(weft)
    before = settled_count()
    x = weft.tensor(150.0, requires_grad=True)
    Function.apply(x).sum().backward()
    assert count_live_nodes() - before > 300
    del x
    weft.realize()
    assert count_live_nodes() == before


def test_an_error_comes_up_from_any_depth(lib: Any) -> None:
    class Fails(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.depth == 0:
                raise KeyError("at the bottom")
            with lib.enable_grad():
                Fails.apply(lib.ones(1, requires_grad=True), ctx.depth - 1).sum().backward()
            return g, None

    with pytest.raises(KeyError, match="at the bottom"):
        Fails.apply(lib.ones(1, requires_grad=True), 150).sum().backward()
    x = lib.ones(1, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


RECORDS = {
    "pow": lambda x: x**2,
    "product": lambda x: x * x.detach(),
    "exp": lambda x: x.exp(),
    "view": lambda x: x.reshape(1, 2),
    "sum": lambda x: x.sum(),
    "matmul": lambda x: x.reshape(1, 2) @ x.detach().reshape(2, 1),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_can_be_called(name: str) -> None:
    """It gives the gradient of its own operation."""
    torch = pytest.importorskip("torch")

    def parts(library: Any) -> list[Any]:
        x = library.tensor([2.0, 3.0], requires_grad=True)
        y = RECORDS[name](x)
        found = y.grad_fn(library.ones(y.shape) * 5)
        found = found if isinstance(found, tuple) else (found,)
        return [part.tolist() for part in found if part is not None]

    assert parts(weft) == parts(torch)


def test_a_record_of_several_outputs_can_be_called(lib: Any) -> None:
    pieces = (lib.ones(2, requires_grad=True) * 1).unbind()
    found = pieces[0].grad_fn(lib.tensor(2.0), lib.tensor(3.0))
    assert found.tolist() == [2.0, 3.0]


def test_the_edge_of_a_scalar_needs_no_cotangent(lib: Any) -> None:
    edge_of = lib.autograd.graph.get_gradient_edge
    x = lib.ones(2, requires_grad=True)
    for scalar in ((x * 3).sum(), (x * 3)[0], (x * 3).unbind()[0]):
        (found,) = lib.autograd.grad(edge_of(scalar), (x,))
        assert found.sum().item() in (3.0, 6.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
        lib.autograd.grad(edge_of(x * 3), (x,))


def test_a_callback_may_queue_another(lib: Any) -> None:
    seen: list[str] = []

    def inner(gradient: Any) -> None:
        queue(lib, lambda: (seen.append("inner"), queue(lib, lambda: seen.append("of inner"))))

    def outer(gradient: Any) -> None:
        x = lib.ones(1, requires_grad=True)
        x.register_hook(inner)
        with lib.enable_grad():
            (x * 2).sum().backward()
        seen.append("outer")

    y = lib.ones(1, requires_grad=True)
    y.register_hook(outer)
    y.sum().backward()
    assert seen == ["inner", "of inner", "outer"]
    with pytest.raises(RuntimeError, match="can only be installed during backward"):
        queue(lib, seen.clear)
