"""What batches do without: gathers of sums of few terms, and of zeros that cotangents are written into."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
from random_programs import running
from weft.debug import stages


def rows_of(count: int, layer: Any) -> list[Any]:
    weft.manual_seed(0)
    return [layer(x) for x in weft.randn(count, 8)]


def total_of(rows: list[Any]) -> Any:
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


@pytest.mark.parametrize(("terms", "gathered"), [(3, False), (4, False), (8, True)])
def test_a_sum_of_rows_is_a_gather_where_it_is_long(terms: int, gathered: bool) -> None:
    layer = weft.nn.Linear(8, 8)
    weft.realize(*layer.parameters())
    text = stages(lambda: total_of(rows_of(terms, layer)).exp())
    assert ("add x 1 [8]" in text["batch"]) is gathered
    value = total_of(rows_of(terms, layer)).exp().tolist()
    with running(batched=False):
        assert total_of(rows_of(terms, layer)).exp().tolist() == value


def test_zeros_that_cotangents_are_written_into_are_not_gathered() -> None:
    xs = [weft.randn(5, requires_grad=True) for _ in range(6)]

    def step() -> None:
        weft.stack([x.exp()[2] * n for n, x in enumerate(xs)]).sum().backward()

    text = stages(step)["collect"]
    assert "put(0" in text
    assert "gather_rows(0" not in text
    for n, x in enumerate(xs):
        wanted = [0.0, 0.0, x.exp()[2].item() * n, 0.0, 0.0]
        assert x.grad.tolist() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("batched", [False, True])
def test_a_sum_of_one_element_makes_zero_of_minus_zero(batched: bool) -> None:
    with running(batched=batched):
        rows = [weft.tensor([[-0.0, -1.0]]) for _ in range(5)]
        sums = [part for row in rows for part in (row.sum(0), row[:, :1].sum(1), row[0, :1].sum())]
        assert [math.copysign(1, x.reshape(-1)[0].item()) for x in sums] == [1.0] * 15


@pytest.mark.parametrize("grad", [False, True])
def test_a_sum_over_a_dimension_that_a_computed_view_has_put_in(grad: bool) -> None:
    """Computed, a view has no operands any more that say whether its sum lies where they do."""
    for count in range(1, 9):
        x = weft.arange(1.0, count + 1).requires_grad_(grad)
        row = x.unsqueeze(0)
        weft.realize(row)
        assert row.sum(0).tolist() == x.tolist()
        assert row.sum(0, keepdim=True).tolist() == [x.tolist()]
