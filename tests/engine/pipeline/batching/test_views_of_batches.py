"""Views of members of a batch: they follow it, each with a row of its own, and show what they show alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import random_programs as programs
import weft
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.tape import tape
from weft.engine.pipeline.batching import batch

EXAMPLES = 10


def halves(gates: Any) -> Any:
    first, second = gates.chunk(2)
    return (first.sigmoid() * second.tanh()).sum()


def the_same_half_twice(gates: Any) -> Any:
    return (gates[:4].sigmoid() * gates[:4].tanh()).sum()


def a_view_of_a_view(gates: Any) -> Any:
    return (gates.view(2, 4)[1][1:3].exp() * gates[0]).sum()


def written_through(gates: Any) -> Any:
    gates = gates * 1
    gates[2:4] *= 3
    return (gates[1:5] * gates[4:]).sum()


CELLS: list[Callable[[Any], Any]] = [
    halves,
    the_same_half_twice,
    a_view_of_a_view,
    written_through,
]


def outcome(cell: Callable[[Any], Any], batched: bool) -> tuple[list[float], Any]:
    """The values and the gradient of a cell over rows of a table."""
    generator = weft.Generator().manual_seed(3)
    table = weft.randn(EXAMPLES, 8, generator=generator, dtype=weft.float64).requires_grad_()
    with programs.running(batched=batched):
        losses = [cell(table[i].sin()) for i in range(EXAMPLES)]
        weft.stack(losses).sum().backward()
        return [loss.item() for loss in losses], table.grad.numpy()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)
def test_views_of_members_show_what_they_show_alone(cell: Callable[[Any], Any]) -> None:
    (values, gradient), (alone, gradient_alone) = outcome(cell, True), outcome(cell, False)
    assert values == alone
    assert programs.agree(gradient, gradient_alone, 1e-12)


def test_a_view_that_is_read_joins_the_same_view_of_the_batch() -> None:
    table = weft.randn(EXAMPLES, 8)
    rows = [weft.tensor([[float(i)] * 8]).exp() for i in range(EXAMPLES)]
    parts = [row[:, 2:6] for row in rows]
    sums = [(part * table[:1, :4]).sum() for part in parts]
    assert batch.group(tape().pending())
    assert f"strided x {EXAMPLES} [1, 4] (batched)" in batch.text(tape().pending())
    assert len(sums) == EXAMPLES
    assert parts[2].tolist() == rows[2][:, 2:6].tolist()


def test_beginnings_of_different_lengths_are_different_views() -> None:
    """Their records have equal parameters, and differ in the shape."""
    table = weft.randn(4 * EXAMPLES, 8)
    shown = []
    for batched in (True, False):
        with programs.running(batched=batched):
            rows = [table[i].sin() for i in range(4 * EXAMPLES)]
            parts = [row[: 4 + i % 2].exp() for i, row in enumerate(rows)]
            shown.append([part.tolist() for part in parts])
    assert shown[0] == shown[1]


def test_operations_of_one_row_and_two_names_are_different_views() -> None:
    """`squeeze` and `view` do the same to these rows, but their records have names of their own."""
    table = weft.randn(2 * EXAMPLES, 8, requires_grad=True)
    rows = [table[i : i + 1].sin() for i in range(2 * EXAMPLES)]
    parts = [row.squeeze(0) if i % 2 else row.view(8) for i, row in enumerate(rows)]
    names = {part.grad_fn.name() for part in parts}
    assert len(names) == 2
    losses = [part.exp().sum() for part in parts]
    assert batch.group(tape().pending())
    batch.verify(tape().pending() + [value_of(part) for part in parts])
    weft.stack(losses).sum().backward()
    assert weft.allclose(table.grad, table.detach().sin().exp() * table.detach().cos())


def test_the_tape_keeps_its_order_when_many_have_left() -> None:
    weft.realize()
    x = weft.ones(3)
    kept = []
    for i in range(5000):  # all but a few die at once: gaps, closed again and again
        y = x + i
        if i % 97 == 0:
            kept.append(y)
    pending = [value_of(y) for y in kept]
    on_tape = [node for node in tape().pending() if node in set(pending)]
    assert on_tape == pending
    assert [y[0].item() for y in kept] == [1.0 + i for i in range(0, 5000, 97)]
