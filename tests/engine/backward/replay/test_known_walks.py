"""Walks over graphs that are known: they record what the walk would, and everything else stays as it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import random_programs as programs
import weft
from oracle import both
from weft.engine.backward.replay import known_walks

QUICK = settings(
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
TIMES = 5


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing is known at first; what programs warn about is no matter here."""
    known_walks.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    known_walks.clear()


def repeated(job: Callable[[], Any]) -> int:
    """How many walks of a job were known."""
    before = known_walks.counters["hits"]
    job()
    return known_walks.counters["hits"] - before


def fresh(*shape: int, seed: int = 0, grad: bool = True) -> Any:
    values = np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)
    return weft.tensor(values, requires_grad=grad)


# -- equal to walks that are made ----------------------------------------------------------------------------------


@settings(QUICK, max_examples=150)
@given(steps=programs.program_steps, seed=st.integers(0, 1000))
def test_random_programs_show_the_same_when_their_walks_are_known(
    steps: list[programs.Step], seed: int
) -> None:
    """On other numbers every time; what is expected comes from walks that nothing was known of."""
    expected = []
    for example in range(TIMES):
        known_walks.clear()
        expected.append(programs.Machine(weft, "float64", seed, example=example).run(steps, 3))
    known_walks.clear()
    for example in range(TIMES):
        result = programs.Machine(weft, "float64", seed, example=example).run(steps, 3)
        assert programs.differences(expected[example], result, 0.0, 0.0) == []


def layers() -> Any:
    weft.manual_seed(0)
    return weft.nn.Sequential(
        weft.nn.Linear(6, 8),
        weft.nn.LayerNorm(8),
        weft.nn.GELU(),
        weft.nn.Linear(8, 8),
        weft.nn.Dropout(0.5),
        weft.nn.Linear(8, 3),
    )


def train(steps: int, known: bool, set_to_none: bool = True) -> list[Any]:
    """The losses and, in the end, the parameters of a small training run."""
    model = layers()
    optimizer = weft.optim.AdamW(model.parameters(), lr=0.01)
    index = weft.tensor([0, 2, 1, 1])
    shown = []
    for step in range(steps):
        if not known:
            known_walks.clear()
        optimizer.zero_grad(set_to_none=set_to_none)
        x = fresh(4, 6, seed=step, grad=False)
        loss = weft.nn.functional.cross_entropy(model(x), index)
        loss.backward()
        optimizer.step()
        shown.append(loss.item())
    return [*shown, *[p.tolist() for p in model.parameters()]]


@pytest.mark.parametrize("set_to_none", [True, False])
def test_training_is_the_same_to_the_bit(set_to_none: bool) -> None:
    expected = train(8, known=False, set_to_none=set_to_none)
    known_walks.clear()
    result: list[Any] = []
    assert repeated(lambda: result.extend(train(8, True, set_to_none))) >= 4
    assert result == expected


# -- what is known, and what is not ----------------------------------------------------------------------------------


def test_the_third_walk_over_equal_graphs_is_known() -> None:
    x = fresh(5)

    def step() -> None:
        x.grad = None
        (x.tanh() * x).sum().backward()

    assert [repeated(step) for _ in range(4)] == [0, 0, 1, 1]


def test_walks_are_known_behind_others_that_are_pending() -> None:
    """Nothing is read: what the looks of walks are made of is what was recorded since the one before."""
    x = fresh(5)

    def loop() -> None:
        for example in range(12):
            (x * fresh(5, seed=example, grad=False)).tanh().sum().backward()

    assert repeated(loop) == 10


def test_each_of_many_sizes_is_known_from_its_third_walk_on() -> None:
    """Sentences of all lengths come in turn: that one length is new says nothing of another."""

    def step(size: int) -> None:
        x = fresh(size)
        (x.tanh() * x).sum().backward()
        weft.realize()

    weft.realize()
    sizes = range(3, 43)
    for size in [*sizes, *sizes]:
        step(size)
    assert [repeated(partial(step, size)) for size in sizes] == [1] * len(sizes)


@pytest.mark.parametrize("number", [2.0, -1.5, 0.0])
def test_numbers_are_those_of_this_time(number: float) -> None:
    """A number that the graph reads is an argument, as in known programs."""
    for factor in (0.5, 0.25, number):
        x = weft.tensor([1.0, 2.0], requires_grad=True)
        (x * factor).sum().backward()
    assert known_walks.counters["hits"] >= 1
    assert x.grad.tolist() == [number, number]


@pytest.mark.parametrize("walks", [0, 4])
@both
def test_a_leaf_that_requires_no_gradient_any_more_gets_none(lib: Any, walks: int) -> None:
    """Also after a graph was made for it, and whether or not its walk is known."""
    x, y = lib.ones(3, requires_grad=True), lib.ones(3, requires_grad=True)
    for turn in range(walks + 1):
        x.grad = y.grad = None
        loss = (x * y).sum()
        if turn == walks:
            x.requires_grad_(False)
        loss.backward()
    assert x.grad is None
    assert y.grad.tolist() == [1.0] * 3
    x.requires_grad_()
    (x * y).sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_params_are_compared() -> None:
    """Equal shapes, another dimension."""
    for dim in (0, 0, 0, 1):
        x = fresh(3, 3)
        weight = weft.arange(9.0).reshape(3, 3)
        (x.softmax(dim) * weight).sum().backward()
        got = x.grad
        known_walks.clear()
        again = fresh(3, 3)
        (again.softmax(dim) * weight).sum().backward()
        assert got.tolist() == again.grad.tolist()


def test_wiring_is_compared() -> None:
    """x * y and x * x have records of equal shape."""
    x, y = fresh(4), fresh(4, seed=1)
    for other in (y, y, y, x):
        x.grad = y.grad = None
        (x.exp() * other.exp()).sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * np.exp(2 * x.detach().numpy()), rtol=1e-5)
    assert y.grad is None


def test_gradients_are_added_to_those_that_are_there() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    kept = None
    for turn in range(1, 7):
        (x * x).sum().backward()
        kept = x.grad if kept is None else kept
        assert x.grad is kept
        assert x.grad.tolist() == [2.0 * turn, 4.0 * turn]
    assert known_walks.counters["hits"] >= 3


def test_a_hook_is_called_also_where_the_walk_is_known() -> None:
    x = fresh(4)
    called = []

    def step(hook: bool) -> None:
        x.grad = None
        y = x.tanh()
        if hook:
            y.register_hook(lambda g: called.append(1) or g * 2)
        y.sum().backward()

    for _ in range(4):
        step(False)
    plain = x.grad.tolist()
    step(True)
    assert called == [1]
    assert np.allclose(x.grad.numpy(), 2 * np.array(plain, np.float32))
    assert repeated(lambda: step(False)) == 1
    x.register_hook(lambda g: called.append(2))
    step(False)
    assert called == [1, 2]


def test_retain_grad_is_kept() -> None:
    x = fresh(4)
    for turn in range(5):
        y = x * 2
        if turn == 4:
            y.retain_grad()
        y.sin().sum().backward()
    assert y.grad.tolist() == (x * 2).cos().tolist()


def test_saves_are_given_up() -> None:
    x = fresh(4)
    for _ in range(4):
        y = x.exp().sum()
        y.backward()
    assert known_walks.counters["hits"] >= 1
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_retained_graphs_are_walked_again() -> None:
    x = weft.tensor([3.0], requires_grad=True)
    for _ in range(4):
        x.grad = None
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.item() == 18.0
    assert known_walks.counters["hits"] >= 3


def test_values_that_were_read_before_the_walk() -> None:
    x = fresh(4)
    for _ in range(5):
        x.grad = None
        hidden = x.exp()
        loss = (hidden * hidden).sum()
        loss.item()
        hidden.tolist()
        loss.backward()
        assert np.allclose(x.grad.numpy(), 2 * np.exp(2 * x.detach().numpy()), rtol=1e-5)
    assert known_walks.counters["hits"] >= 1


def test_a_given_gradient_is_that_of_this_time() -> None:
    x = fresh(3)
    for turn in range(5):
        x.grad = None
        (x * 2).backward(weft.tensor([1.0, 2.0, float(turn)]))
        assert x.grad.tolist() == [2.0, 4.0, 2.0 * turn]


def test_writes_in_place_between_walks() -> None:
    x = fresh(4)
    for turn in range(6):
        x.grad = None
        y = x * 3
        y.mul_(2)
        y[1:] += 1
        loss = (y * y).sum()
        loss.backward()
        assert np.allclose(x.grad.numpy(), 12 * y.detach().numpy(), rtol=1e-5)
        with weft.no_grad():
            x.add_(0.1 * turn)
    assert known_walks.counters["hits"] >= 1


def test_errors_come_to_the_gradients_of_a_known_walk() -> None:
    """An index that nobody has seen is out of range only when the walk is known."""
    x = fresh(4)
    for turn in range(5):
        index = weft.tensor([0, 1, 8 if turn == 4 else 1]) + 1
        loss = x.exp().index_select(0, index).sum()
        if turn < 4:
            loss.backward()
            x.grad = None
            continue
        with pytest.raises(IndexError, match="^index out of range in self"):
            loss.backward()
            x.grad.tolist()


def test_nodes_of_a_known_walk_name_the_line_of_its_backward() -> None:
    x = fresh(4)
    for _ in range(3):
        x.grad = None
        x.tanh().sum().backward()
    here = __file__.rpartition("/")[2]
    x.grad = None
    x.tanh().sum().backward()
    node = weft.engine.frontend.resolve.value_of(x.grad)
    assert here in str(node.where)


def test_a_walk_from_nothing() -> None:
    for _ in range(4):
        weft.autograd.backward([])


def test_several_kinds_of_walks_in_turn() -> None:
    """A walk of each of two losses per step, as adversarial training has them."""
    x, y = fresh(4), fresh(4, seed=1)
    for _ in range(6):
        x.grad = y.grad = None
        (x * y.detach()).sum().backward()
        assert y.grad is None
        assert x.grad.tolist() == y.tolist()
        (x.detach() * y).square().sum().backward()
        assert np.allclose(y.grad.numpy(), (2 * x * x * y).detach().numpy(), rtol=1e-5)
    assert known_walks.counters["hits"] >= 8


def test_other_modes_are_left_to_the_walk() -> None:
    x = fresh(4)

    def step() -> None:
        x.grad = None
        (x * x).sum().backward()

    for _ in range(4):
        step()
    with weft.autograd.detect_anomaly():
        assert repeated(step) == 0
    with weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert repeated(step) == 0
    assert repeated(step) == 1
