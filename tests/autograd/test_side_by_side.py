"""Small programs on both libraries: what hooks, in-place operations, Functions and walks leave behind is the same."""

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch

PROGRAMS: list[Callable[[Any], Any]] = []


def program(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(function)
    return function


def leaf(lib: Any, *values: float) -> Any:
    return lib.tensor(list(values)).requires_grad_()


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


@program
def retained_gradients_follow_in_place_operations(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    y.retain_grad()
    z = y * 3
    y.mul_(5)
    y.retain_grad()
    (z + y).sum().backward()
    return y.grad, x.grad


@program
def order_of_hooks(lib: Any) -> Any:
    x, log = leaf(lib, 1.0, 2.0), []
    y = x * 2
    y.register_hook(lambda g: log.append("first") or g * 2)
    y.retain_grad()
    y.register_hook(lambda g: log.append("second") or g + 1)
    y.grad_fn.register_prehook(lambda g: log.append("before"))
    y.grad_fn.register_hook(lambda i, o: log.append("after"))
    x.register_hook(lambda g: log.append("leaf"))
    y.sum().backward()
    return log, y.grad, x.grad


@program
def records_keep_their_identity(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    z = y + 1
    sink = y.grad_fn.next_functions[0][0]
    return (
        z.grad_fn.next_functions[0][0] is y.grad_fn,
        sink is (x + 1).grad_fn.next_functions[0][0],
        y.grad_fn.next_functions[1:],
    )


@program
def gradients_are_not_shared_with_the_caller(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    given = lib.ones(2)
    x.clone().backward(given)
    given.add_(1)
    kept = x.grad
    x.clone().backward(given)
    return kept is x.grad, x.grad, given


@program
def packed_values_survive_an_update(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda v: v + 0, lambda v: v):
        y = x * x
    with lib.no_grad():
        x.mul_(2)
    y.sum().backward()
    return x.grad


@program
def outputs_without_gradient_and_missing_cotangents(lib: Any) -> Any:
    seen = []

    class Several(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            a, b, c = x * 2, x.long(), x * 3
            ctx.mark_non_differentiable(b)
            ctx.set_materialize_grads(False)
            return a, b, c

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            seen.extend(g is None for g in cotangents)
            return cotangents[2] * 3

    x = leaf(lib, 1.0, 2.0)
    a, b, c = Several.apply(x)
    c.sum().backward()
    return a.requires_grad, b.requires_grad, b.grad_fn is None, seen, x.grad


@program
def a_second_derivative_through_a_hook(lib: Any) -> Any:
    x = leaf(lib, 2.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (slope,) = lib.autograd.grad(y, x, create_graph=True)
    return slope, lib.autograd.grad(slope.sum(), x)[0]


@program
def chosen_inputs_unused_ones_and_batches(lib: Any) -> Any:
    x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    y = x * w
    (y * y).sum().backward(inputs=[x, y])
    grad = lib.autograd.grad
    return (
        (x.grad, w.grad, y.grad),
        grad((x * 2).sum(), [x, w], allow_unused=True),
        grad((x * 2).sum(), [x, w], materialize_grads=True),
        grad(x * x * x, x, lib.eye(2), is_grads_batched=True),
    )


@program
def hooks_on_the_accumulator(lib: Any) -> Any:
    x, log = leaf(lib, 1.0, 2.0), []
    sink = (x + 0).grad_fn.next_functions[0][0]
    sink.register_prehook(lambda g: (g[0] * 3,))
    sink.register_hook(lambda i, o: log.append((len(i), o[0].tolist())))
    x.sum().backward()
    return x.grad, log


@program
def a_hook_on_several_gradients(lib: Any) -> Any:
    x, log = leaf(lib, 1.0, 2.0), []
    y, z = x * 2, x * 3
    handle = lib.autograd.graph.register_multi_grad_hook([x, y, z], lambda g: log.append(plain(g)))
    y.sum().backward(retain_graph=True)
    (y + z).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    return log


@program
def writes_through_views_of_views(lib: Any) -> Any:
    x = leaf(lib, 1.0, 2.0, 3.0, 4.0)
    y = x.clone().view(2, 2)
    y.t()[0].mul_(2)
    y.diagonal().add_(1)
    y[0] = y[1] * 2
    return y, lib.autograd.grad((y * y).sum(), x)[0]


@program
def a_view_may_become_a_leaf(lib: Any) -> Any:
    whole = lib.ones(3)
    part = whole[1:]
    part.requires_grad_()
    (part * 2).sum().backward()
    return part.grad, whole.requires_grad, part.is_leaf


@program
def a_function_that_returns_no_tensor(lib: Any) -> Any:
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return "gradient"

    with pytest.raises(RuntimeError, match="expected Variable or None"):
        Wrong.apply(leaf(lib, 1.0)).sum().backward()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_both_libraries_agree(run: Callable[[Any], Any]) -> None:
    assert plain(run(weft)) == plain(run(torch))
