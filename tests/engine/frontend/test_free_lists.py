"""Handles and nodes are used again after they die: nothing of a former life shows, and cycles are still found."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from live_nodes import settled_count
from weft import nn
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.frontend.resolve import value_of

HERE = Path(__file__).name


class Canary:
    """Can be watched, as tensors' contents cannot."""


def _attribute(canary: Canary) -> None:
    x = weft.ones(2) + 1
    x.itself, x.canary = x, canary


def _two_tensors(canary: Canary) -> None:
    x = weft.ones(2) + 1
    y = x * 2
    x.other, y.other, y.canary = y, x, canary


def _view_of_its_owner(canary: Canary) -> None:
    x = weft.ones(4) + 1
    x.part, x.canary = x[1:], canary


def _hook_of_a_leaf(canary: Canary) -> None:
    x = weft.ones(2, requires_grad=True)
    x.register_hook(lambda g: (x, canary) and g)


def _gradient(canary: Canary) -> None:
    x = weft.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is not None
    x.grad.owner, x.canary = x, canary


def _function(canary: Canary) -> None:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.canary = canary
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    y = Double.apply(weft.ones(2, requires_grad=True))
    y.grad_fn.result = y


def _parameter(canary: Canary) -> None:
    p = nn.Parameter(weft.ones(2))
    p.itself, p.canary = p, canary


@pytest.mark.parametrize(
    "make",
    [
        _attribute,
        _two_tensors,
        _view_of_its_owner,
        _hook_of_a_leaf,
        _gradient,
        _function,
        _parameter,
    ],
    ids=lambda make: make.__name__[1:],
)
def test_cycles_through_tensors_are_collected(make: Callable[[Canary], None]) -> None:
    canary = Canary()
    known = weakref.ref(canary)
    make(canary)
    del canary
    gc.collect()
    assert known() is None


def test_a_new_handle_has_nothing_of_a_dead_one() -> None:
    x = weft.ones(2, requires_grad=True)
    for _ in range(3):
        old = x * 2
        old.label, old.retains = "old", True
        old.retain_grad()
        old.sum().backward()
        del old
        new = weft.ones(3) + 1
        assert not hasattr(new, "label")
        assert new.grad is None and new.is_leaf and not new.requires_grad
        assert new.stride() == (1,) and new._version == 0 and new._base is None


def test_weak_references_end_with_the_handle() -> None:
    ended: list[int] = []
    x = weft.ones(2) + 1
    known = weakref.ref(x, lambda _: ended.append(1))
    del x
    assert known() is None and ended == [1]
    y = weft.ones(2) + 1
    assert known() is None and y.tolist() == [2, 2]


def test_a_crowd_dies_and_lives_again() -> None:
    weft.realize()
    before = settled_count()
    for _ in range(2):
        crowd = [weft.ones(1) * float(number) for number in range(20_000)]
        assert crowd[-1].item() == 19_999
        assert count_live_nodes() >= before + 20_000
        del crowd
        assert count_live_nodes() <= before + 10


CROWD = """
import random
from itertools import pairwise

import weft
from weft.engine.frontend.resolve import value_of

x = weft.ones(1)
crowd = [x * float(number) for number in range(4_000)]
assert crowd[-1].item() == 3_999
random.Random(0).shuffle(crowd)
while crowd:
    crowd.pop()
crowd = [x * float(number) for number in range(4_000)]
places = [id(value_of(each)) for each in crowd]
print(sum(one > other for one, other in pairwise(places)))
assert [each.item() for each in crowd] == list(range(4_000))
"""


def test_what_follows_a_crowd_lies_in_order_of_address() -> None:
    """In a process of its own: in one that has run for long the crowd may lie too far apart."""
    run = [sys.executable, "-c", CROWD]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 400  # of nodes in no order, half of them


def _place(tensor: Any) -> str:
    return str(value_of(tensor).where)


def _line() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_user_s_line_is_recorded_wherever_it_is() -> None:
    x = weft.ones(2)
    assert _place(x + 1).startswith(f"{HERE}:{_line()} in test_the")

    def numbers() -> Iterator[Any]:
        yield x * 2

    first = numbers.__code__.co_firstlineno
    assert _place(next(numbers())).startswith(f"{HERE}:{first + 1} in ")
    assert _place([x - n for n in (1.0, 2.0)][1]).startswith(f"{HERE}:{_line()} in ")
    assert _place((lambda: x / 3)()).startswith(f"{HERE}:{_line()} in ")
    assert _place(weft.linalg.norm(x)).startswith(f"{HERE}:{_line()} in test_the")
    assert _place(nn.functional.softmax(x, 0)).startswith(f"{HERE}:{_line()} in test_the")
    layer = nn.Linear(2, 2)
    assert _place(layer(x)).startswith(f"{HERE}:{_line()} in test_the")
    scope: dict[str, Any] = {"x": x}
    exec(compile("\ny = x + 5", "<typed>", "exec"), scope)
    assert _place(scope["y"]).startswith("<typed>:2 in ")


def test_a_recorded_graph_is_hidden_from_the_collector() -> None:
    weight = weft.ones(8, 4, requires_grad=True)

    def total(count: int) -> weft.Tensor:
        state = weft.ones(4)
        for _ in range(count):
            first, second = nn.functional.linear(state, weight).split(4)
            state = state + first.sigmoid() * second.tanh()
        return state

    total(50)  # what is remembered is made by the first
    gc.collect()
    before = len(gc.get_objects())
    kept = total(200)
    assert len(gc.get_objects()) - before < 20
    kept.sum().backward()
    assert weight.grad is not None


def test_parts_of_equal_tensors_share_what_they_have_in_common() -> None:
    def parts(x: weft.Tensor) -> list[Any]:
        pieces = [*x.split(2), *x.split([1, 3]), *x.unbind(), *x.chunk(3, 1)]
        return [(list(piece.shape), piece.tolist()) for piece in pieces]

    x = weft.arange(24.0).reshape(4, 6)
    first = parts(x)
    assert parts(x + 0) == first
    assert parts(x.t().contiguous().t()) == first  # other strides
    whole = weft.arange(48.0).reshape(8, 6)
    assert parts(whole[4:]) == parts(whole[4:].clone())  # an offset
    for size in (1, 2, 3, 4, 5):
        shapes = [piece.shape[0] for piece in x.split(size)]
        assert shapes == [min(size, 4 - start) for start in range(0, 4, size)]
