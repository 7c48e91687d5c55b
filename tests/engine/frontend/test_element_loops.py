"""Loops over single elements: what they read and write, in each tier, and what a position in memory is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import loops
from hypothesis import given
from hypothesis import strategies as st

import weft
from oracle import torch
from properties import QUICK
from weft.config import config

TIERS = ("novel", "every", "none")


@pytest.fixture(autouse=True)
def every_tier() -> Iterator[None]:
    yield
    config.interpreter = "novel"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("form", loops.FORMS)
def test_loops_give_what_pytorch_gives(form: str, tier: str) -> None:
    config.interpreter = tier
    for turns in (16, 17, 60):
        ours = loops.loop_of(form)(weft, turns)
        theirs = loops.loop_of(form)(torch, turns)
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-5, abs=1e-5)


@QUICK
@given(data=st.data())
def test_parts_are_written_over_parts_of_the_same_value(data: Any) -> None:
    """Elements, rows, columns and blocks, which may meet; between them everything is read, or nothing."""
    tier = data.draw(st.sampled_from(TIERS))
    config.interpreter = tier
    start = torch.arange(48.0).reshape(6, 8)
    theirs, ours = start.clone(), weft.tensor(start.tolist())
    row, column = st.integers(0, 5), st.integers(0, 7)
    for _ in range(data.draw(st.integers(1, 8))):
        kind = data.draw(st.sampled_from(("element", "row", "column", "block", "read")))
        a, b, c, d = data.draw(st.tuples(row, column, row, column))
        if kind == "read":
            assert ours.tolist() == theirs.tolist()
        for x in (ours, theirs):
            if kind == "element":
                x[a, b] = x[c, d]
            elif kind == "row":
                x[a] = x[c]
            elif kind == "column":
                x[:, b] = x[:, d] * 1
            elif kind == "block":
                x[:3, b // 2 : b // 2 + 3] = x[3:, d // 2 : d // 2 + 3]
    assert ours.tolist() == theirs.tolist()


def test_an_index_that_is_in_memory_gives_a_view() -> None:
    x, i = weft.zeros(4, 3), weft.tensor([2, -1])
    for position in i:
        x[position].add_(1)
    assert x.sum(1).tolist() == [0, 0, 3, 3]
    with pytest.raises(IndexError, match=r"index 4 is out of bounds for dimension 0 with size 4"):
        x[i[0] + 2 - 0 * i[1]].tolist()
    i[0] = 4
    i.tolist()
    with pytest.raises(IndexError, match=r"index 4 is out of bounds for dimension 0 with size 4"):
        x[i[0]]


def test_gradients_of_rows_that_tensors_choose_add_up() -> None:
    table, chosen = weft.ones(5, 3, requires_grad=True), weft.tensor([1, 3, 1])
    sum((number + 1) * table[position].sum() for number, position in enumerate(chosen)).backward()
    assert table.grad.sum(1).tolist() == [0, 12, 0, 6, 0]


def test_what_is_written_to_itself_is_a_new_version() -> None:
    x = weft.arange(4.0)
    before = x._version
    x[1] += 1
    assert x.tolist() == [0, 2, 2, 3] and x._version == before + 2
    leaf = weft.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = leaf[0]
    x = weft.ones(3, requires_grad=True) * 1
    y = x.exp()
    x[0] = x[0]
    (y + x).sum().backward()


def test_a_learned_call_keeps_no_position() -> None:
    """What is known of a call is the same for every value of an index."""
    x, rows = weft.arange(12.0).reshape(4, 3), weft.tensor([0, 1, 2, 3])
    for _ in range(3):
        for position in range(4):
            one = weft.func.vmap(lambda v, i: v * x[i], in_dims=(0, None))(x, rows[position])
            assert one.tolist() == (x * x[position]).tolist()
