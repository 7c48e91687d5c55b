"""Cells that run round after round (`weft.map`, or a loop that reads): gates stay apart, nothing stays behind, and a
round like one before is a known program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import random_programs
import weft
from weft import nn
from weft.engine.ir.tape import tape
from weft.engine.runtime import executable_cache

WIDTH, EXAMPLES, ROUNDS = 6, 5, 7


class Gates(nn.LSTMCell):
    """A cell as users write it, gate by gate."""

    def forward(self, x: Any, state: Any = None) -> Any:
        hidden, memory = state
        linear = nn.functional.linear
        gates = linear(x, self.weight_ih, self.bias_ih) + linear(
            hidden, self.weight_hh, self.bias_hh
        )
        i, f, g, o = gates.chunk(4, -1)
        memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
        return o.sigmoid() * memory.tanh(), memory


CELLS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTMCell(WIDTH, WIDTH),
    "gru": lambda: nn.GRUCell(WIDTH, WIDTH),
    "gates": lambda: Gates(WIDTH, WIDTH),
}


def made(name: str, dtype: Any = weft.float32) -> nn.Module:
    weft.manual_seed(3)
    cell = CELLS[name]().to(dtype)
    weft.realize(*cell.parameters())
    return cell


def sequences(dtype: Any = weft.float32) -> list[weft.Tensor]:
    weft.manual_seed(7)
    data = [weft.randn(ROUNDS + n, WIDTH, dtype=dtype) for n in range(EXAMPLES)]
    weft.realize(*data)
    return data


def stepping(cell: nn.Module, counts: list[int] | None = None) -> Callable[[Any], Any]:
    """A function that runs a cell over a sequence and reads a value at every step."""

    def function(sequence: Any) -> Any:
        hidden = weft.zeros(WIDTH, dtype=sequence.dtype)
        state: Any = (hidden, hidden) if isinstance(cell, nn.LSTMCell) else hidden
        for row in sequence[:ROUNDS]:
            state = cell(row, state)
            hidden = state[0] if isinstance(state, tuple) else state
            if hidden.sum().item() > 1e9:
                break
            if counts is not None:
                counts.append(len(tape().pending()))
        return hidden.square().sum()

    return function


@pytest.mark.parametrize("name", CELLS)
def test_operations_of_a_cell_are_batches_of_their_own(name: str) -> None:
    executable_cache.clear()
    cell, data = made(name), sequences()
    with weft.explain() as report:
        weft.map(stepping(cell), data)
    assert len(report.runs) == ROUNDS
    for run in list(report.runs)[1:-1]:
        assert {batch.size for batch in run.batches} == {EXAMPLES}
        operations = ("sigmoid", "tanh") if name == "gates" else ("lstm_output",)
        parts = [batch for batch in run.batches if batch.facts.operation in operations]
        assert parts or name == "gru"
        assert all(batch.nbytes == 0 for batch in parts)


def test_gates_of_few_examples_are_no_company_for_each_other() -> None:
    cell = made("gates")
    with weft.explain() as report:
        weft.map(stepping(cell), sequences()[:2])
    assert not any(
        batch.facts.operation == "sigmoid" for run in report.runs for batch in run.batches
    )


@pytest.mark.parametrize("name", CELLS)
def test_nothing_of_a_round_stays_on_the_tape(name: str) -> None:
    counts: list[int] = []
    losses = weft.map(stepping(made(name), counts), sequences())
    rounds = [counts[n * EXAMPLES] for n in range(1, ROUNDS)]
    assert len(set(rounds)) == 1
    weft.stack(losses).sum().backward()


def test_the_next_row_at_each_round_is_the_same_program() -> None:
    cell, data = made("gru"), sequences()
    weft.map(stepping(cell), data)
    before = executable_cache.counters["hits"]
    weft.map(stepping(cell), data)
    assert executable_cache.counters["hits"] - before >= ROUNDS - 2


@pytest.mark.parametrize("name", CELLS)
def test_a_walk_over_rounds_keeps_gates_apart(name: str) -> None:
    cell = made(name)
    losses = weft.map(stepping(cell), sequences())
    total = weft.stack(losses).sum()
    total.backward()
    records = [node for node in tape().pending() if node.op.name == "gather_rows"]
    assert len(records) <= 3 * ROUNDS


@pytest.mark.parametrize("name", CELLS)
def test_rounds_in_batches_are_examples_alone(name: str) -> None:
    found = []
    for alone in (False, True):
        cell, data = made(name, weft.float64), sequences(weft.float64)
        for sequence in data:
            sequence.requires_grad_()
        function = stepping(cell)
        losses = [function(x) for x in data] if alone else weft.map(function, data)
        weft.stack(losses).sum().backward()
        found.append((losses, [x.grad for x in (*data, *cell.parameters())]))
    (losses, gradients), (others, references) = found
    assert [loss.item() for loss in losses] == [loss.item() for loss in others]
    for gradient, reference in zip(gradients, references, strict=True):
        assert random_programs.agree(gradient.numpy(), reference.numpy(), 1e-12)


@pytest.mark.parametrize(
    "view",
    [
        lambda table, n: table[n],
        lambda table, n: table[n : n + 1].squeeze(0),
        lambda table, n: table.t()[:, n],
        lambda table, n: table.select(0, n)[1:],
        lambda table, n: table.flip(0)[n],
        lambda table, n: table[:, n],
        lambda table, n: table[::2][n // 2],
        lambda table, n: table.as_strided((3,), (2,), n),
    ],
)
def test_rows_of_values_in_batches_are_rows_alone(view: Callable[[Any, int], Any]) -> None:
    weft.manual_seed(1)
    table = weft.randn(6, 6, dtype=weft.float64)
    found = []
    for alone in (False, True):
        leaf = table.clone().requires_grad_()
        whole = leaf * 1.5
        weft.realize(whole)
        outputs = []
        for n in range(6):
            outputs.append(view(whole, n).square().sum())
            if alone:
                outputs[-1].item()
        total = weft.stack(outputs).sum()
        total.backward()
        found.append(([output.item() for output in outputs], leaf.grad))
    assert found[0][0] == found[1][0]
    assert random_programs.agree(found[0][1].numpy(), found[1][1].numpy(), 1e-12)


def test_a_value_whose_rows_have_been_taken_may_be_written_to() -> None:
    table = weft.arange(8.0).reshape(4, 2) + 1
    table.tolist()
    sums = [row.exp().sum() for row in table]
    weft.realize(*sums)
    rows = [row * 2 for row in table]
    table.mul_(10)
    products = [(row * 3).sum() for row in table]
    weft.realize(*rows, *products)
    assert [row.tolist() for row in rows] == [[2.0, 4.0], [6.0, 8.0], [10.0, 12.0], [14.0, 16.0]]
    assert [product.item() for product in products] == [90.0, 210.0, 330.0, 450.0]
