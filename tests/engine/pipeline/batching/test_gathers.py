"""Gathers of gathers: read from where the rows are, with the sums that they would have had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_programs as programs
import weft
from weft.engine.devices.cpu.tuning import TUNING
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.pipeline.batching.operand_packing import row_of
from weft.engine.pipeline.batching.segment_gather import gather_rows

ROWS, WIDTH = 5, 3
Entries = list[list[tuple[int, int]]]  # per result: (number of a source, row) of each of its terms


def pending(seed: int) -> Any:
    """A value that has not run, with numbers whose sums round."""
    generator = weft.Generator().manual_seed(seed)
    return weft.rand(ROWS, WIDTH, generator=generator, dtype=weft.float32) * 1000


def gather(sources: list[Any], entries: Entries) -> Any:
    numbers = [number for terms in entries for number, _ in terms]
    rows = [row for terms in entries for _, row in terms]
    offsets = np.cumsum([0, *map(len, entries)]).tolist()
    if all(len(terms) == 1 for terms in entries):
        offsets = None
    nodes = tuple(value_of(source) for source in sources)
    first = nodes[0]
    return wrap_node(gather_rows(nodes, numbers, rows, offsets, (len(entries), WIDTH), first.dtype))


def expected(sources: list[np.ndarray], entries: Entries) -> np.ndarray:
    result = np.zeros((len(entries), WIDTH), np.float32)
    for place, terms in enumerate(entries):
        for position, (number, row) in enumerate(terms):
            term = sources[number][row]
            result[place] = term if position == 0 else result[place] + term
    return result


def terms(count: int, rows: int) -> Any:
    return st.lists(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, rows - 1)), max_size=4),
        min_size=ROWS,
        max_size=ROWS,
    )


@settings(deadline=None)
@given(first=terms(2, ROWS), second=terms(3, ROWS), third=terms(3, ROWS))
def test_any_gather_of_gathers(first: Entries, second: Entries, third: Entries) -> None:
    a, b = pending(1), pending(2)
    one = gather([a, b], first)
    two = gather([one, a, b], second)
    three = gather([two, one, a], third)
    values = [np.asarray(tensor.detach().clone()) for tensor in (pending(1), pending(2))]
    known = expected(values, first)
    then = expected([known, *values], second)
    last = expected([then, known, values[0]], third)
    assert three.numpy().tobytes() == last.tobytes()
    assert two.numpy().tobytes() == then.tobytes()


VIEWS: dict[str, tuple[Callable[[Any], Any], list[int]]] = {
    "every second row": (lambda x: x[1::2], [1, 3]),
    "a slice of a slice": (lambda x: x[1:][::2], [1, 3]),
    "in another shape": (lambda x: x.view(ROWS, 1, WIDTH), list(range(ROWS))),
}


@pytest.mark.parametrize(("view", "rows"), VIEWS.values(), ids=VIEWS.keys())
def test_rows_of_a_view_of_a_gather(view: Callable[[Any], Any], rows: list[int]) -> None:
    entries: Entries = [[(0, 4)], [(0, 3), (0, 1)], [(0, 0)], [(0, 2), (0, 2), (0, 1)], []]
    below = gather([pending(3)], entries)
    above = gather([view(below)], [[(0, row)] for row in reversed(range(len(rows)))])
    known = expected([pending(3).numpy()], entries)
    assert above.numpy().tobytes() == known[rows[::-1]].tobytes()


def test_one_row_of_a_gather_as_a_whole() -> None:
    entries: Entries = [[(0, 4)], [(0, 3), (0, 1)]]
    below = gather([pending(3)], entries)
    above = gather([below[1], pending(4)], [[(0, -1), (1, 2)]])
    known = expected([pending(3).numpy()], entries)
    assert above.numpy().tobytes() == (known[1] + pending(4).numpy()[2])[None].tobytes()


def test_rows_of_a_row_of_a_gather_are_not_rows_of_the_gather() -> None:
    base = weft.arange(24.0).reshape(2, 3, 4) * 1
    first, dtype = value_of(base), value_of(base).dtype
    below = gather_rows((first,), [0, 0], [1, 0], None, (2, 3, 4), dtype)
    above = wrap_node(gather_rows((row_of(below, 0),), [0, 0], [2, 0], None, (2, 4), dtype))
    assert above.tolist() == [[20.0, 21.0, 22.0, 23.0], [12.0, 13.0, 14.0, 15.0]]


def test_a_gather_that_nobody_else_reads_is_not_computed() -> None:
    base = pending(5)
    below = gather([base], [[(0, row), (0, 0)] for row in range(ROWS)])
    above = gather([below], [[(0, row)] for row in reversed(range(ROWS))])
    assert value_of(above).inputs == (value_of(base),)


def test_a_long_sum_is_not_added_up_again() -> None:
    base = pending(6)
    below = gather([base], [[(0, 0)] * (TUNING.batching.most_terms + 1)])
    above = gather([below, base], [[(0, 0), (1, 1)]])
    assert value_of(above).inputs == (value_of(below), value_of(base))


def running_sum(rows: Any) -> Any:
    total = rows[0] * 3
    for row in rows[1:]:
        total = total + row * 3
    return total.tanh().sum()


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.bfloat16, weft.float16])
def test_running_sums_of_different_lengths(dtype: Any) -> None:
    def outcome(batched: bool) -> tuple[list[float], Any]:
        generator = weft.Generator().manual_seed(3)
        table = weft.randn(40, WIDTH, generator=generator, dtype=dtype).requires_grad_()
        with programs.running(batched=batched):
            losses = [
                running_sum([table[(7 * n + k) % 40] for k in range(2 + n % 6)]) for n in range(30)
            ]
            weft.stack(losses).sum().backward()
            return [loss.item() for loss in losses], table.grad.float().numpy()

    (values, gradient), (alone, gradient_alone) = outcome(True), outcome(False)
    assert values == alone
    close = {weft.float64: 1e-12, weft.float32: 1e-5}.get(dtype, 0.05)
    assert programs.agree(gradient, gradient_alone, close)
