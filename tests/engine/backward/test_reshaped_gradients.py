"""Tensors that are given data of another shape or dtype than their history has: gradients fit, or are refused.

PyTorch is the oracle: what is recorded before keeps its shapes, what is recorded afterwards is checked where it meets
the history. Weft keeps what was saved, so that gradients that need it are those of the values that were used.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch
from weft.errors import GradientError

Program = Callable[[Any], Any]


def _replaced(T: Any, before: tuple[int, ...], after: Any, **dtype: Any) -> tuple[Any, Any]:
    """A leaf, and what was computed from it with other data now."""
    x = T.ones(before, requires_grad=True)
    y = x * 2
    y.data = T.ones(after, **dtype)
    return x, y


def _shown(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [_shown(value) for value in values]
    return values.tolist() if hasattr(values, "tolist") else values


def _gradient(T: Any, before: Any, after: Any, **dtype: Any) -> Any:
    x, y = _replaced(T, before, after, **dtype)
    (y * 3).sum().backward()
    return x.grad


def _leaf(T: Any, read: Callable[[Any, Any], Any], after: Any = 5) -> Any:
    x = T.ones(3, requires_grad=True)
    y = (x * 2).sum()
    x.data = T.ones(after)
    return read(x, y)


def _walked(x: Any, *outputs: Any) -> Any:
    sum(outputs).backward()
    return x.grad


def _in_no_grad(T: Any, change: Callable[[Any], Any], shape: Any = (2, 3)) -> Any:
    x = T.ones(shape, requires_grad=True)
    y = x * 2
    with T.no_grad():
        change(y)
    (y * 3).sum().backward()
    return x.grad


def _capture(T: Any, after: Any, late: bool) -> Any:
    x = T.ones(3, requires_grad=True)
    y = x * 2
    z = y * 3
    y.data = T.ones(after)
    return T.autograd.grad((y * 3 if late else z).sum(), y)


def _hooks(T: Any, early: bool) -> Any:
    x = T.ones(3, requires_grad=True)
    y = x * 2
    seen: list[Any] = []

    def watch() -> None:
        y.register_hook(lambda g: seen.append(g.tolist()))
        y.retain_grad()

    if early:
        watch()
    y.data = T.ones(2, 3)
    if not early:
        watch()
    (y * 3).sum().backward()
    return seen, y.grad, x.grad


def _function(T: Any) -> Any:
    class Double(T.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = T.ones(3, requires_grad=True)
    y = Double.apply(x)
    y.data = T.ones(4, 3)
    (y * 3).sum().backward()
    return x.grad


def _piece(T: Any, after: int) -> Any:
    x = T.ones(2, 3, requires_grad=True)
    a, _ = x.unbind(0)
    a.data = T.ones(after)
    (a * 3).sum().backward()
    return x.grad


def _view(T: Any, size: int) -> Any:
    x = T.ones(4, requires_grad=True)
    v = (x * 2)[:2]
    v.data = T.ones(size)
    (v * 3).sum().backward()
    return x.grad


def _root(T: Any) -> Any:
    x, y = _replaced(T, (3,), (2,))
    y.backward(T.ones(2))
    return x.grad


def _back_again(T: Any) -> Any:
    x = T.ones(3, requires_grad=True)
    y = x * 2
    kept = y.data
    y.data = T.empty(0)
    y.data = kept
    (y * 3).sum().backward()
    return x.grad, y.grad_fn.name()


def _names(T: Any) -> Any:
    x, y = _replaced(T, (3,), (2,))
    behind = (y * 3).grad_fn.next_functions[0]
    return y.grad_fn.name(), behind[0] is y.grad_fn, behind[1], y.is_leaf, y.output_nr


def _leaf_hook(T: Any) -> Any:
    x = T.ones(3, requires_grad=True)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    y = (x * 2).sum()
    x.data = T.ones(5)
    y.backward()
    return seen, x.grad


def _new_sink(T: Any) -> Any:
    x = T.ones(3, requires_grad=True)
    y = (x * 2).sum()
    x.data = T.ones(5)
    del y
    (x * 3).sum().backward()
    return x.grad


def _real_for_complex(T: Any) -> Any:
    x = T.ones(3, dtype=T.complex64, requires_grad=True)
    y = x * 2
    y.data = T.ones((2, 3), dtype=T.float64)
    (y * 3).sum().backward()
    return x.grad


def _two_dtypes(T: Any) -> Any:
    x = T.ones(3, requires_grad=True)
    y = (x * 2).sum()
    x.data = T.ones(5, dtype=T.float64)
    (x * 3).sum().backward()
    return x.grad, y.item()


PROGRAMS: dict[str, Program] = {
    "another size": lambda T: _gradient(T, (3,), (2,)),
    "more dimensions": lambda T: _gradient(T, (3,), (2, 3)),
    "a size of one": lambda T: _gradient(T, (1, 3), (2, 3)),
    "as many elements": lambda T: _gradient(T, (2, 3), (6,)),
    "turned": lambda T: _gradient(T, (2, 3), (3, 2)),
    "another dtype": lambda T: _gradient(T, (3,), (3,), dtype=T.float64),
    "complex": lambda T: _gradient(T, (3,), (3,), dtype=T.complex64),
    "real for complex": _real_for_complex,
    "leaf, before": lambda T: _leaf(T, lambda x, y: _walked(x, y)),
    "leaf, less": lambda T: _leaf(T, lambda x, y: _walked(x, y), 2),
    "leaf, after": lambda T: _leaf(T, lambda x, y: _walked(x, (x * 3).sum())),
    "leaf, both": lambda T: _leaf(T, lambda x, y: _walked(x, (x * 3).sum(), y)),
    "leaf, chosen": lambda T: _leaf(T, lambda x, y: T.autograd.grad(y, x)),
    "leaf, chosen after": lambda T: _leaf(T, lambda x, y: T.autograd.grad((x * 2).sum(), x)),
    "leaf, back again": lambda T: _leaf(
        T, lambda x, y: setattr(x, "data", T.ones(3)) or _walked(x, y)
    ),
    "leaf, hook": _leaf_hook,
    "leaf, forgotten": _new_sink,
    "leaf, shape and dtype": _two_dtypes,
    "set_": lambda T: _in_no_grad(T, lambda y: y.set_(T.ones(2))),
    "t_": lambda T: _in_no_grad(T, lambda y: y.t_()),
    "squeeze_": lambda T: _in_no_grad(T, lambda y: y.squeeze_(), (1, 3)),
    "unsqueeze_": lambda T: _in_no_grad(T, lambda y: y.unsqueeze_(0), (3,)),
    "out": lambda T: _in_no_grad(T, lambda y: T.add(T.ones(0), 1, out=y)),
    "in place": lambda T: _in_no_grad(T, lambda y: setattr(y, "data", T.ones(2)) or y.mul_(3)),
    "chosen, before": lambda T: _capture(T, (2,), late=False),
    "chosen, after": lambda T: _capture(T, (2,), late=True),
    "chosen, broadcast": lambda T: _capture(T, (2, 3), late=True),
    "hooks before": lambda T: _hooks(T, early=True),
    "hooks after": lambda T: _hooks(T, early=False),
    "Function": _function,
    "piece": lambda T: _piece(T, 2),
    "piece of that size": lambda T: _piece(T, 3),
    "view": lambda T: _view(T, 3),
    "view of that size": lambda T: _view(T, 2),
    "root": _root,
    "back again": _back_again,
    "names": _names,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_fit_or_are_refused_as_in_pytorch(name: str) -> None:
    program = PROGRAMS[name]
    try:
        expected: Any = _shown(program(torch))
    except RuntimeError:
        with pytest.raises(RuntimeError) as caught:
            program(weft)
        if "invalid gradient" in str(caught.value):
            assert caught.value.fix  # type: ignore[attr-defined]
        return
    assert _shown(program(weft)) == expected


def test_the_error_says_what_came_and_what_was_expected() -> None:
    with pytest.raises(GradientError, match=r"got \[2\] but expected shape compatible with \[3\]"):
        _gradient(weft, (3,), (2,))


def test_memory_is_given_up_where_no_gradient_is_asked_for() -> None:
    """What was saved is kept, so that data can go once they have been used."""
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y.data = weft.empty(0)
    x.data = weft.empty(0)
    z.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [8.0] * 3


def test_gradients_of_another_shape_are_not_added_up() -> None:
    x = weft.ones(1, requires_grad=True)
    (x * 2).sum().backward()
    x.data = weft.ones(3)
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]


def test_examples_in_batches_are_refused_too() -> None:
    w = weft.ones(3, requires_grad=True)

    def loss(size: int) -> Any:
        parts = []
        for _ in range(4):
            y = w * 2
            y.data = weft.ones(size)
            parts.append((y * 3).sum())
        return weft.stack(parts).sum()

    for _ in range(5):
        w.grad = None
        loss(3).backward()
        assert w.grad is not None
        assert w.grad.tolist() == [24.0] * 3
        with pytest.raises(GradientError):
            loss(2).backward()


def test_walks_that_are_known_are_not_repeated_over_other_data() -> None:
    x = weft.ones(3, requires_grad=True)
    for turn in range(8):
        x.grad = None
        y = (x * 2).sum()
        if turn % 2:
            x.data = weft.ones(2)
        y.backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0] * 3
        del y
        x.data = weft.ones(3)


def test_nothing_is_kept_for_data_that_were_replaced() -> None:
    x, y = _replaced(weft, (3,), (2,))
    gone = weakref.ref(x)
    for size in range(50):
        y.data = weft.ones(size)
    assert len(y.grad_fn.next_functions) == 2
    del x, y
    gc.collect()
    assert gone() is None
