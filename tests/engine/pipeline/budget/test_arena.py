"""Offsets in an arena: what lives at the same time lies apart, and a bound makes the search go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.engine.pipeline.budget.arena import place

SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 9)).map(
        lambda one: (one[0], one[0] + one[1], one[2] * 64)
    ),
    max_size=40,
)
LENT = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 12).map(lambda n: n * 64)), max_size=3)
GAPS = [(3, 6, 64), (0, 3, 128), (5, 5, 256), (1, 2, 256)]  # each order leaves 64 bytes of them


def live_bytes(spans) -> int:
    """The most bytes that are alive at once."""
    return max(
        [sum(size for first, last, size in spans if first <= at <= last) for at in range(50)]
    )


@given(SPANS, LENT, st.none() | st.integers(0, 1000))
def test_what_lives_at_once_lies_apart(spans, lent, bound):
    """In the arena and in each host; in hosts behind their last use, and within them."""
    offsets, hosts, arena = place(spans, lent, bound)
    for index, (first, last, size) in enumerate(spans):
        host, begin = hosts[index], offsets[index]
        assert begin % 64 == 0
        assert begin + size <= (arena if host < 0 else lent[host][1])
        assert host < 0 or lent[host][0] < first
        for other, (start, end, nbytes) in enumerate(spans[:index]):
            if hosts[other] == host and start <= last and first <= end:
                assert begin >= offsets[other] + nbytes or begin + size <= offsets[other]


@given(SPANS, LENT, st.none() | st.integers(0, 1000), st.data())
def test_what_is_together_keeps_its_distances(spans, lent, bound, data):
    """And lies apart from what is not of it."""
    members = data.draw(st.lists(st.integers(0, max(len(spans) - 1, 0)), unique=True, max_size=6))
    unit = [(index, 64 * place) for place, index in enumerate(members) if index < len(spans)]
    offsets, hosts, arena = place(spans, lent, bound, [unit] if unit else [])
    for index, begin in unit:
        assert offsets[index] - begin == offsets[unit[0][0]]
        assert hosts[index] == hosts[unit[0][0]]
    inside = {index for index, _ in unit}
    for index, (first, last, size) in enumerate(spans):
        assert offsets[index] + size <= (arena if hosts[index] < 0 else lent[hosts[index]][1])
        for other, (start, end, nbytes) in enumerate(spans[:index]):
            if {index, other} <= inside or hosts[other] != hosts[index]:
                continue
            if start <= last and first <= end:
                begin = offsets[index]
                assert begin >= offsets[other] + nbytes or begin + size <= offsets[other]


@given(SPANS)
def test_a_bound_makes_an_arena_no_larger(spans):
    """What is found first is kept where the search finds nothing smaller."""
    assert live_bytes(spans) <= place(spans, None, 0)[2] <= place(spans)[2]


def test_the_search_closes_gaps():
    """An arena as large as what lives at the peak is found where the orders leave gaps."""
    peak = live_bytes(GAPS)
    assert place(GAPS)[2] > peak
    assert place(GAPS, None, peak)[2] == peak
