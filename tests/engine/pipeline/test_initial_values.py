"""Initial values are computed before the first step's batches are looked for: a step that comes again has the same
bits from its first time on, whether or not somebody has looked at the parameters."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.engine.ir.node import PENDING_STATE
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver

Loss = Callable[[], Any]
Program = tuple[list[Any], Loss]


def a_tree(choose: random.Random) -> Program:
    """Cells along small trees, whose leaves are looked up."""
    table, cell = nn.Embedding(10, 8), nn.Linear(8, 8)
    count = choose.randrange(2, 20)

    def value(number: int, depth: int) -> Any:
        if depth == 0 or number % 7 == 0:
            return table(weft.tensor([number % 10]))
        return cell(value(2 * number + 1, depth - 1) + value(2 * number + 2, depth - 1)).tanh()

    def loss() -> Any:
        return sum(value(number, 3).pow(2).sum() for number in range(count))

    return [*table.parameters(), *cell.parameters()], loss


def a_convolution(choose: random.Random) -> Program:
    """One convolution over examples of a few lengths."""
    width = choose.choice([4, 8, 16])
    layer = nn.Conv1d(width, width, 3, padding=1)
    rows = [
        weft.randn(choose.randrange(1, 4), width).contiguous()
        for _ in range(choose.randrange(2, 20))
    ]

    def loss() -> Any:
        return sum(layer(each.T[None]).pow(2).mean() for each in rows)

    return list(layer.parameters()), loss


def a_recurrence(choose: random.Random) -> Program:
    """A recurrent cell over sequences of other batch sizes."""
    cell = nn.GRUCell(8, 8)
    rows = [weft.randn(choose.randrange(1, 4), 8) for _ in range(choose.randrange(2, 20))]

    def loss() -> Any:
        total: Any = 0
        for each in rows:
            hidden = weft.zeros(each.shape[0], 8)
            for number in range(4):
                hidden = cell(each * (number + 1), hidden)
            total = total + hidden.pow(2).sum()
        return total

    return list(cell.parameters()), loss


PROGRAMS = {"tree": a_tree, "convolution": a_convolution, "recurrence": a_recurrence}


def step(parameters: list[Any], loss: Loss) -> list[bytes]:
    """The bytes of a step's gradients."""
    for each in parameters:
        each.grad = None
    loss().backward()
    return [each.grad.numpy().tobytes() for each in parameters]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_step_has_the_same_bits_from_its_first_time_on(kind: str, seed: int) -> None:
    weft.manual_seed(seed)
    parameters, loss = PROGRAMS[kind](random.Random(seed))
    first = step(parameters, loss)
    assert [step(parameters, loss) for _ in range(3)] == [first] * 3


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", PROGRAMS)
def test_to_look_at_initial_values_changes_no_gradient(kind: str, seed: int) -> None:
    found = []
    for looks in (False, True):
        weft.manual_seed(seed)
        parameters, loss = PROGRAMS[kind](random.Random(seed))
        if looks:
            for each in parameters:
                each.tolist()
        found.append(step(parameters, loss))
    assert found[0] == found[1]


def test_parameters_are_computed_where_a_first_walk_begins_and_the_forward_pass_is_not() -> None:
    """Nor is what it makes of its first data, before the first operation on a parameter."""
    layer = nn.Linear(3, 3)
    out = layer(weft.ones(2, 3).cos())
    ran: list[list[str]] = []

    class Observer:
        def before_run(self, tape: Any) -> None:
            self.before = tape.pending()

        def after_run(self, tape: Any) -> None:
            ran.append([n.op.name for n in self.before if n.state != PENDING_STATE])

    observer = Observer()
    driver.run_observers.append(observer)
    try:
        out.sum().backward()
    finally:
        driver.run_observers.remove(observer)
    assert len(ran) == 1
    assert not {"matmul", "cos"} & set(ran[0])
    assert any("uniform" in name for name in ran[0])


def test_the_views_of_an_argument_are_not_counted_as_operations_of_the_call() -> None:
    """The first call records the view where it is read, later ones where the arguments are looked at."""
    layer = nn.Conv1d(4, 4, 3, padding=1)
    rows = [weft.randn(2, 4) for _ in range(4)]
    weft.flush()
    outs = [layer(each.T[None]) for each in rows]
    sites = {n.library_site for n in tape().pending() if n.op.name == "matmul"}
    assert len(outs) == 4
    assert len(sites) == 1
