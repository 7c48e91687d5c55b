"""Who owns the memory of a value: nodes that lie in it and views of others, but nobody who only holds the object."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd import detect_anomaly
from weft.engine.frontend.resolve import value_of


def fresh(size: int = 1000) -> Any:
    """A value of its own. (A program that is known writes where it wrote before: tests of another outcome take another
    size.)"""
    x = weft.rand(size)
    weft.realize(x)
    return x


def address_after_write(x: Any) -> int:
    """Where a value lies after a part of it has been written."""
    x[0:5] = 1.0
    weft.realize(x)
    return int(value_of(x).buffer.address)


def test_a_part_is_written_where_the_value_lies() -> None:
    x = fresh()
    assert value_of(x).buffer.owners == 1
    assert address_after_write(x) == address_after_write(x)


def test_whoever_only_holds_a_buffer_changes_nothing_of_what_is_decided() -> None:
    x = fresh()
    held = [value_of(x).buffer for _ in range(3)]
    assert address_after_write(x) == held[0].address
    assert held[0].owners == 1


def test_a_view_of_others_keeps_its_values() -> None:
    x = fresh(1001)
    buffer = value_of(x).buffer
    view = memoryview(buffer)
    before = bytes(view)
    assert buffer.owners == 2
    assert address_after_write(x) != buffer.address
    assert bytes(view) == before
    view.release()
    assert buffer.owners == 0


def test_a_view_that_has_been_let_go_of_is_no_owner() -> None:
    x = fresh(1002)
    with memoryview(value_of(x).buffer):
        pass
    assert value_of(x).buffer.owners == 1
    address = int(value_of(x).buffer.address)
    assert address_after_write(x) == address


def test_an_array_of_the_value_keeps_its_values() -> None:
    x = fresh(1003) + 0.0
    weft.realize(x)
    array = weft.engine.pipeline.driver.array_of(value_of(x))
    before = array.copy()
    address_after_write(x)
    assert (array == before).all()


def test_each_node_that_lies_in_memory_is_an_owner() -> None:
    x = fresh()
    buffer = value_of(x).buffer
    views = [x[:500], x.view(10, 100)]
    node = weft.engine.frontend.node_factory.make_value(x.dtype, (1000,), buffer, 0)
    assert buffer.owners == 2
    del node, views
    assert buffer.owners == 1


def test_what_a_walk_may_need_again_is_not_written() -> None:
    with detect_anomaly(), pytest.raises(RuntimeError):
        w = weft.ones(1000, requires_grad=True)
        x = fresh()
        loss = (w * x).sum() * weft.tensor(float("nan"))
        loss.backward()
