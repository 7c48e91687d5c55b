# cython: language_level=3
"""The segment index: the rows of values that each row of a gather adds up, as compressed sparse rows (CSR).

A step over trees lists tens of thousands of rows, from the operands of groups to tables of addresses: they are plain
memory throughout, not an object each.
"""

import cython
from cython.cimports.weft.engine.capi.int_array import Integers, integers

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.no_gc
@cython.cclass
class SegmentIndex:
    """The terms of all rows of a result, one behind the other: each the number of a value, and one of its rows (-1 is
    the value as a whole). `offsets` says where the terms of each row begin; None where each has one. It is not changed
    once it is made. Unpacks into three lists (the last may be None)."""

    def __iter__(self):
        offsets = None if self.offsets is None else self.offsets.listed()
        return iter((self.numbers.listed(), self.rows.listed(), offsets))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SegmentIndex):
            return NotImplemented
        terms: SegmentIndex = other
        return (
            self.rows.equals(terms.rows)
            and self.numbers.equals(terms.numbers)
            and (self.offsets is None) == (terms.offsets is None)
            and (self.offsets is None or self.offsets.equals(terms.offsets))
        )

    def __hash__(self):
        return hash((self.rows.count, self.numbers.count))


@cython.cfunc
def segment_index_of(numbers: Integers, rows: Integers, offsets: Integers) -> SegmentIndex:
    """Terms of arrays, which belong to them from now on; `offsets` may be None."""
    terms: SegmentIndex = SegmentIndex.__new__(SegmentIndex)
    terms.numbers = numbers
    terms.rows = rows
    terms.offsets = offsets
    return terms


def listed_segment_index(numbers: list, rows: list, offsets: list | None) -> SegmentIndex:
    """Terms of lists."""
    return segment_index_of(
        _integers_of(numbers),
        _integers_of(rows),
        None if offsets is None else _integers_of(offsets),
    )


@cython.cfunc
def _integers_of(numbers: list) -> Integers:
    """Python's integers as an array."""
    found: Integers = integers(len(numbers), 0)
    index: cython.Py_ssize_t
    for index in range(len(numbers)):
        found.items[index] = numbers[index]
    return found
