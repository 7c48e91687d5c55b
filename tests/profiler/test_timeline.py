"""Which module or named range a node was recorded in, by its number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.profiler.timeline import NamedRanges, Raw

scopes = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


@given(ends=scopes)
def test_the_innermost_scope_around_a_number_is_found(ends: list[tuple[int, int]]) -> None:
    """Also where they overlap without one lying in the other: that which began last, of those the shortest."""
    raw: list[Raw] = [
        ("module", 0, 1, 0, (f"m{index}", "", *sorted(pair)), 0) for index, pair in enumerate(ends)
    ]
    found = NamedRanges(raw)
    for number in range(33):
        around = [
            (-first, last, index)
            for index, (first, last) in enumerate(map(sorted, ends))
            if first < number <= last
        ]
        name = found.name_at(number)
        assert (name == "") == (not around)
        if around:
            first, last = sorted(ends[int(name[1:])])
            assert (-first, last) == min(around)[:2]


def test_many_calls_beside_each_other_are_passed_over_quickly() -> None:
    """The calls before a number that have ended are not looked through one by one."""
    count = 20_000
    raw: list[Raw] = [("module", 0, 1, 0, ("all", "", 0, 4 * count), 0)]
    raw += [("module", 0, 1, 0, (f"m{n}", "", 4 * n, 4 * n + 1), 0) for n in range(count)]
    found = NamedRanges(raw)
    depth = 0
    index = count
    while index >= 0:
        index, depth = found._around[index], depth + 1
    assert depth == 2
    assert found.name_at(4 * count - 1) == "all"
