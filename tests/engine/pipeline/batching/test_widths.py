"""Which graphs are searched for batches: those with enough nodes for each step of their longest way, whatever their
size; products by one weight; and what a walk reaches beyond what was recorded last."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.ir import tape as tapes
from weft.engine.pipeline import driver
from weft.engine.pipeline.batching import batch

UNARY = ("tanh", "sin", "neg", "square")
BINARY = ("add", "sub", "mul", "maximum")


def column(seed: int, size: int = 8) -> Any:
    return weft.tensor(np.random.default_rng(seed).standard_normal(size).astype("float32"))


def batches(work: Callable[[], Any]) -> list[int]:
    """How many members the batches of some work have, forward and backward."""
    with weft.explain() as report:
        work()
        weft.realize()
    return [made.size for run in report.runs for made in run.batches]


def formula(draw: random.Random, leaves: list[Any], operations: int) -> Any:
    if operations == 0:
        return draw.choice(leaves)
    if operations == 1 or draw.random() < 0.4:
        return getattr(weft, draw.choice(UNARY))(formula(draw, leaves, operations - 1))
    left = draw.randrange(operations)
    one, other = formula(draw, leaves, left), formula(draw, leaves, operations - 1 - left)
    return getattr(weft, draw.choice(BINARY))(one, other)


@pytest.mark.parametrize("seed", range(5))
def test_one_formula_is_too_narrow(seed: int) -> None:
    constants = column(100, 3).requires_grad_()
    leaves = [column(n) for n in range(3)] + list(constants)
    assert batches(lambda: formula(random.Random(seed), leaves, 30).sum().backward()) == []
    assert constants.grad is not None


@pytest.mark.parametrize("examples", [8, 24])
def test_one_formula_on_many_examples_is_wide(examples: int) -> None:
    columns = [column(n) for n in range(examples)]
    found = batches(lambda: weft.realize(*[(x.tanh() * x).sin().square() for x in columns]))
    assert found == [examples] * 4


def sizes(draw: random.Random, examples: int, watched: bool) -> list[int]:
    """The sizes of the batches of some formulas, each of some examples, and a sum of means of them. Who watches sees
    the whole search, where others need not go through it to know that it will not pay."""
    values = []
    for n in range(2):
        operations, seed = draw.randrange(1, 6), draw.random()
        for example in range(examples):
            leaves = [column(10 * example + leaf) for leaf in range(2)]
            values.append(formula(random.Random(seed + n), leaves, operations))
    values.append(sum(value.mean() for value in values[: draw.randrange(2, 8)]))
    pending = tapes.tape().pending()
    before = batch.watch((lambda notes, quotients: None) if watched else None)
    try:
        driver.form_batches(tapes.tape())
    finally:
        batch.watch(before)
    rows = Counter(node.quotient for node in pending if node.quotient is not None)
    weft.realize(*values)
    return list(rows.values())


@pytest.mark.parametrize("examples", range(1, 9))
def test_a_search_that_may_pay_is_made(examples: int) -> None:
    weft.realize()
    found = []
    for seed in range(12):
        found.append(sizes(random.Random(seed), examples, watched=False))
        assert found[-1] == sizes(random.Random(seed), examples, watched=True), seed
    assert any(found) == (examples > 3)


def test_few_equal_operations_of_a_small_graph_do_not_go_together() -> None:
    """A mean of five values beside other operations; of five examples throughout all go together."""
    leaves = [column(n) for n in range(5)]

    def means(operations: int) -> None:
        values = list(leaves)
        for number in range(operations):
            values.append((values[-1 - number % 4] * values[-2]).tanh())
        weft.realize(sum(value.mean() for value in values[-5:]))

    def examples() -> None:
        weft.realize(*[leaf.softmax(0).mean() for leaf in leaves])

    assert batches(lambda: means(10)) == []
    assert set(batches(examples)) == {5}


@pytest.mark.parametrize("examples", [6, 7])
def test_products_by_one_weight_go_together_in_narrow_graphs(examples: int) -> None:
    weight, states = column(0, 64).reshape(8, 8), [column(n) for n in range(examples)]
    weft.realize(weight)

    def chains() -> None:
        rows = [state.reshape(1, 8) for state in states]
        for _ in range(12):
            rows = [(row @ weight).tanh() for row in rows]
        weft.realize(*rows)

    assert batches(chains) == [examples] * 24


def test_products_that_do_not_meet_are_not_searched_for() -> None:
    """Each of six chains goes by weights of its own order."""
    weights = [column(n, 64).reshape(8, 8) for n in range(6)]
    states = [column(n) for n in range(6)]
    weft.realize(*weights)

    def chains() -> None:
        rows = [state.reshape(1, 8) for state in states]
        for step in range(12):
            rows = [(row @ weights[(n + step) % 6]).tanh() for n, row in enumerate(rows)]
        weft.realize(*rows)

    assert batches(chains) == []


def test_gradients_of_narrow_graphs_are_those_of_single_nodes() -> None:
    """Reading the same entry of a parameter many times, in a graph without batches."""
    constants = column(100, 3).requires_grad_()
    loss = (constants[1] * constants[1] + constants[2].sin() * constants[1]).tanh().sum()
    loss.backward()
    _, b, c = constants.detach().double().numpy()
    slope = 1 - np.tanh(b * b + np.sin(c) * b) ** 2
    wanted = [0, slope * (2 * b + np.sin(c)), slope * b * np.cos(c)]
    np.testing.assert_allclose(constants.grad.numpy(), wanted, rtol=2e-5)


def losses(weight: Any, examples: int, read: bool = False) -> list[Any]:
    """The loss of each example by itself, through composites; each is read at once if `read`."""
    found = []
    for n in range(examples):
        scores = weft.nn.functional.layer_norm(column(n).reshape(1, 8) @ weight, (8,)).tanh()
        found.append(weft.nn.functional.cross_entropy(scores, weft.tensor([n % 8])))
        if read:
            found[-1].item()
    return found


def scaled(total: Any) -> tuple[Any, Any]:
    return total.mean() / 4, None


def vector(total: Any) -> tuple[Any, Any]:
    return total, weft.ones(len(total))


@pytest.mark.parametrize("root", [scaled, vector])
def test_a_walk_over_what_has_been_read_goes_together(root: Callable[[Any], Any]) -> None:
    """A graph that has run is as wide as before, however little is pending."""

    def recorded(read: bool) -> int:
        weight = column(0, 64).reshape(8, 8).requires_grad_()
        total = weft.stack(losses(weight, 64))
        if read:
            total.tolist()
        start, gradient = root(total)
        before = tapes.last_sequence()
        start.backward(gradient)
        return tapes.last_sequence() - before

    assert recorded(True) <= recorded(False) < 64 * 2


@pytest.mark.parametrize("root", [scaled, vector])
def test_gradients_of_examples_that_ran_one_by_one_go_together(root: Callable[[Any], Any]) -> None:
    weight = column(0, 64).reshape(8, 8).requires_grad_()
    start, gradient = root(weft.stack(losses(weight, 64, read=True)))
    found = batches(lambda: start.backward(gradient))
    assert len(found) > 8
    assert min(found) >= 64


@pytest.mark.parametrize(("terms", "narrow"), [(2, True), (3, True), (4, True), (5, False)])
def test_a_sum_of_few_rows_is_narrow(terms: int, narrow: bool) -> None:
    rows = [column(n).reshape(1, 8) for n in range(terms)]
    weft.realize(*rows)
    weft.realize()
    total = sum(rows[1:], rows[0])
    assert (driver.form_batches(tapes.tape()) is None) == narrow
    assert total.shape == (1, 8)


def test_what_nobody_can_read_makes_no_graph_narrow() -> None:
    """A record keeps a long chain whose value has no handle any more."""
    values = column(0).requires_grad_()
    columns = [column(n) for n in range(24)]
    weft.realize(*columns)

    chain = values
    for _ in range(40):
        chain = -chain  # saves nothing
    kept = chain.grad_fn
    del chain
    found = batches(lambda: weft.realize(*[(x.cos() * x).sin().square() for x in columns]))
    assert found == [24] * 4
    assert kept is not None
