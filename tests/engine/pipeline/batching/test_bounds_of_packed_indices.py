"""The bound of indices that a batch puts together: as tight as that of its sources, and none where one has none."""

from __future__ import annotations

import weft
from weft.engine.frontend.resolve import value_of
from weft.engine.pipeline.batching.segment_gather import gather_rows


def gathered(values: list[weft.Tensor], offsets: list[int] | None = None) -> int:
    """The bound of a gather of some numbers: one more than the largest, or 0."""
    nodes = tuple(value_of(value) for value in values)
    count = len(nodes) if offsets is None else len(offsets) - 1
    rows = [-1] * len(nodes)
    made = gather_rows(nodes, list(range(len(nodes))), rows, offsets, (count,), nodes[0].dtype)
    return int(made.max_index)


def test_known_numbers_have_a_bound() -> None:
    assert gathered([weft.tensor(3), weft.tensor(7), weft.tensor(0)]) == 8


def test_a_number_below_zero_has_none() -> None:
    assert gathered([weft.tensor(3), weft.tensor(-1)]) == 0


def test_sums_have_the_largest_sum() -> None:
    assert gathered([weft.tensor(3), weft.tensor(7), weft.tensor(1)], [0, 2, 3]) == 3 + 7 + 1
