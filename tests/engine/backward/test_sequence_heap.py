"""The heap of a walk hands out the latest first, whatever order things come in, and then holds it no more."""

from __future__ import annotations

import gc
import sys

from hypothesis import given
from hypothesis import strategies as st

from weft.engine.backward.sequence_heap import latest_first


@given(st.lists(st.integers(0, 2**62), unique=True, max_size=200))
def test_the_latest_comes_first(numbers):
    """Units come out by falling sequence number, each once."""
    units = [(number, str(number)) for number in numbers]
    assert latest_first(units) == [str(number) for number in sorted(numbers, reverse=True)]


def test_units_are_held_once():
    """What has been handed out is held by nobody else."""
    unit = object()
    before = sys.getrefcount(unit)
    for _ in range(3):
        assert latest_first([(7, unit)])[0] is unit
    gc.collect()
    assert sys.getrefcount(unit) == before
