"""Values that do not fit into memory stay pending; what is read of the others comes."""

from __future__ import annotations

import pytest

import weft
from weft.engine.devices.cpu import pool
from weft.engine.frontend.recorder import set_budget
from weft.errors import OutOfMemoryError

TOO_MANY = 1 << 24  # with its square's elements beyond all memory


def pairs(x):
    """A value of TOO_MANY ** 2 elements."""
    return x[:, None] - x


def test_a_small_value_is_read_while_a_large_one_is_alive():
    x = weft.ones(TOO_MANY)
    large = pairs(x)
    small = weft.arange(4.0) * 2
    assert small.sum().item() == 12.0
    assert small.tolist() == [0.0, 2.0, 4.0, 6.0]
    with pytest.raises(OutOfMemoryError):
        large.tolist()
    assert (small + 1).tolist() == [1.0, 3.0, 5.0, 7.0]
    assert large[3, :2].shape == (2,)


def test_what_the_large_value_reads_can_be_read_before_and_after():
    a = weft.arange(3.0)
    shift = (a * 2).exp().log()  # held by nobody but what is pending
    large = weft.zeros(1).expand(TOO_MANY, TOO_MANY, 3) + shift
    total = shift.sum()
    del shift
    assert total.item() == pytest.approx(6.0)
    with pytest.raises(OutOfMemoryError):
        weft.realize(large)
    later = a + 1
    assert later.tolist() == [1.0, 2.0, 3.0]
    del large


def test_batches_and_gradients_with_little_room():
    """A budget that all live values together would pass: each is computed when it is read."""
    weft.realize()
    w = weft.full((64,), 0.5, requires_grad=True)
    weft.realize(w)
    used = pool.stats()["allocated"]
    pool.set_budget(used + (6 << 20))
    try:
        rows = [weft.full((1 << 18,), float(i)) * 1.5 for i in range(16)]  # of 1 MB each
        sums = [(row + 1).sum() for row in rows]
        for i in (3, 0, 15, 7):
            assert sums[i].item() == (1.5 * i + 1) * (1 << 18)
        loss = (w * w).sum()
        loss.backward()
        assert loss.item() == 16.0 and w.grad.tolist() == [1.0] * 64
        with pytest.raises(OutOfMemoryError):
            weft.realize()
    finally:
        pool.set_budget(None)
    assert [row[0].item() for row in rows] == [1.5 * i for i in range(16)]
    assert [total.item() for total in sums] == [(1.5 * i + 1) * (1 << 18) for i in range(16)]


def test_its_own_errors_are_still_raised():
    large = pairs(weft.ones(TOO_MANY))
    index = (weft.arange(3) + 5) * 1
    table = weft.arange(4.0)
    good, bad = table * 3, table[index]
    with pytest.raises(IndexError):
        bad.tolist()
    assert good.tolist() == [0.0, 3.0, 6.0, 9.0]
    del large


def test_a_budget_of_records_leaves_the_rest_pending():
    before = set_budget(50, 1 << 62)
    try:
        large = pairs(weft.ones(TOO_MANY))
        total = weft.zeros(2)
        for _ in range(200):
            total = total + 1
        assert total.tolist() == [200.0, 200.0]
        del large
    finally:
        set_budget(*before)
