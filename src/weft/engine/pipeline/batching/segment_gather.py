# cython: language_level=3
"""Segment gathers of batching: one value whose rows are each the sum of listed rows of other values.

It takes values and the numbers of their rows and returns a `gather_rows` node. A gather of a gather reads from the
original values: cotangents that pass through many sums, and sums that grow term by term, are never stored in between.
"""

import cython
from cython.cimports.weft.engine.capi.int_array import Integers, integers, push
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.ir.primitive import (
    BY_COUNT,
    OF_OPERANDS,
    RESHAPE,
    SELECT,
    SLICE,
    Primitive,
)
from cython.cimports.weft.engine.pipeline.batching.batch_key import tuning_of
from cython.cimports.weft.engine.pipeline.batching.membership import in_ragged
from cython.cimports.weft.engine.pipeline.segment_index import SegmentIndex, segment_index_of

from weft._build.compiled import require
from weft.engine.ir.primitive import ROWS, SOURCE
from weft.engine.pipeline.segment_index import listed_segment_index
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_rows = cython.declare(cython.int, ROWS)
_gather_op = cython.declare(Primitive, OPS["gather_rows"])
_SOURCE = cython.declare(cython.int, SOURCE)


@cython.final
@cython.no_gc
@cython.cclass
class Sources:
    """The sources of a segment gather as they are listed: values, by number, and rows of these."""

    def __cinit__(self):
        self.positions = {}
        self.numbers = integers(0, 0)
        self.rows = integers(0, 0)

    @cython.cfunc
    def add(self, source: Node) -> cython.void:
        """List a value: itself, or as a row of its batch."""
        if source.quotient is not None and source.state == PENDING and not in_ragged(source):
            self.add_row(source.quotient, source.qrow)
        else:
            self.add_row(source, -1)

    @cython.cfunc
    def add_row(self, root: Node, row: cython.longlong) -> cython.void:
        """List a row of a value; -1 is the value as a whole."""
        if root is not self.last:
            self.number = self.number_of(root)
            self.last = root
        self.add_entry(self.number, row)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def number_of(self, root: Node) -> cython.int:
        """The number of a value among those that are read."""
        return self.positions.setdefault(root, len(self.positions))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_entry(self, number: cython.int, row: cython.longlong) -> cython.int:
        """List a row of the value of a number."""
        push(self.numbers, number)
        return push(self.rows, cython.cast(cython.int, row))

    @cython.cfunc
    def gather(self, offsets: Integers, shape: tuple, dtype: DType) -> Node:
        """The gather of what is listed; `offsets` part it into sums (None: each is one row)."""
        return gather(
            tuple(self.positions), segment_index_of(self.numbers, self.rows, offsets), shape, dtype
        )


def gather_rows(
    sources: tuple, numbers: list, rows: list, offsets: list | None, shape: tuple, dtype
):
    """`gather`, of lists."""
    return gather(sources, listed_segment_index(numbers, rows, offsets), shape, dtype)


@cython.cfunc
def gather(sources: tuple, terms: SegmentIndex, shape: tuple, dtype: DType) -> Node:
    """Record rows (or sums of rows) of several values as one."""
    inner: list = [_gather_below(source) for source in sources]
    if any(inner):
        sources, terms = _composed(sources, inner, terms)
    node: Node = new_node(_gather_op, sources, None, shape, count_elements(shape), dtype, None)
    node.info = terms
    node.batch_seen = True
    bound_indices(node)
    return node


@cython.cfunc
@cython.exceptval(check=False)
def bound_indices(node: Node) -> cython.void:
    """Note of a gather of whole numbers the bound of all that it reads or adds up as indices (`Node.max_index`), if
    that is known."""
    terms: SegmentIndex = node.info
    most: cython.longlong = 0
    source: Node
    if node.dtype.category != 1:
        return
    for source in node.inputs:
        if source.max_index <= 0 and not _counts_up(source):
            return
        most = max(most, source.max_index)
    node.max_index = most if terms.offsets is None else _largest_sum(node, terms) + 1


@cython.cfunc
@cython.exceptval(check=False)
def _counts_up(node: Node) -> cython.bint:
    """True if each element of a value is its own position."""
    return node.op.kind == _SOURCE and node.op.index_bound == BY_COUNT and len(node.shape) == 1


@cython.cfunc
@cython.exceptval(check=False)
def _largest_sum(node: Node, terms: SegmentIndex) -> cython.longlong:
    """The largest sum that a gather of indices may have."""
    most: cython.longlong = 0
    total: cython.longlong
    source: Node
    row: cython.Py_ssize_t
    entry: cython.Py_ssize_t
    for row in range(terms.offsets.count - 1):
        total = 0
        for entry in range(terms.offsets.items[row], terms.offsets.items[row + 1]):
            source = node.inputs[terms.numbers.items[entry]]
            if _counts_up(source) and terms.rows.items[entry] >= 0:
                total += terms.rows.items[entry]
            else:
                total += (source.max_index if source.max_index > 0 else source.numel) - 1
        most = max(most, total)
    return most


@cython.cfunc
def _gather_below(node: Node):
    """The gather that a value is, or is rows of, and where its rows are there: (gather, first, step), with step 0 where
    the whole value is one row. None for others."""
    first: cython.longlong = 0
    step: cython.longlong = 1
    below: Node
    if node.op.form == SELECT and node.state == PENDING and node.quotient is None:
        if node.params[0] != 0:
            return None
        first, step, node = node.params[1], 0, node.inputs[0]
    while node.state == PENDING and node.quotient is None and node.op.kind != _rows:
        if len(node.inputs) != 1 or not node.shape:
            return None
        below = node.inputs[0]
        if node.op.form == SLICE and node.params[0] == 0:
            first = cython.cast(cython.longlong, node.params[1]) + first * cython.cast(
                cython.longlong, node.params[3]
            )
            step *= cython.cast(cython.longlong, node.params[3])
        elif node.op.sums == OF_OPERANDS or node.op.form == RESHAPE:
            if not below.shape or below.shape[0] != node.shape[0]:
                return None
        else:
            return None
        node = below
    if node.state != PENDING or node.quotient is not None:
        return None
    return node, first, step


@cython.cfunc
def _composed(sources: tuple, inner: list, terms: SegmentIndex) -> tuple:
    """A gather without the gathers that it reads, where it can be: what makes it, as `gather` takes it."""
    listed: Sources = Sources()
    offsets: Integers = terms.offsets
    count: cython.Py_ssize_t = terms.numbers.count if offsets is None else offsets.count - 1
    bounds: Integers = integers(count + 1, 0)
    entry: cython.Py_ssize_t
    row: cython.Py_ssize_t
    for row in range(count):
        begin: cython.Py_ssize_t = row if offsets is None else offsets.items[row]
        end: cython.Py_ssize_t = row + 1 if offsets is None else offsets.items[row + 1]
        for entry in range(begin, end):
            number: cython.Py_ssize_t = terms.numbers.items[entry]
            below = inner[number]
            if below is None or not _add_below(
                listed, below, terms.rows.items[entry], entry == begin
            ):
                listed.add_row(sources[number], terms.rows.items[entry])
        bounds.items[row + 1] = cython.cast(cython.int, listed.rows.count)
    if bounds.ascending():
        bounds = None
    return tuple(listed.positions), segment_index_of(listed.numbers, listed.rows, bounds)


@cython.cfunc
def _add_below(
    listed: Sources, below: tuple, row: cython.Py_ssize_t, leads: cython.bint
) -> cython.bint:
    """List what a gather below has in a row. A sum only where it leads one, of numbers that are added as they are kept:
    the order and the rounding stay as they were."""
    node: Node = below[0]
    step: cython.Py_ssize_t = below[2]
    if (row < 0) != (
        step == 0
    ):  # a whole value that is many rows, or a part of a value that is one
        return False
    terms: SegmentIndex = node.info
    row = cython.cast(cython.Py_ssize_t, below[1]) + row * step
    begin: cython.Py_ssize_t = row
    end: cython.Py_ssize_t = row + 1
    if terms.offsets is not None:
        begin, end = terms.offsets.items[row], terms.offsets.items[row + 1]
        if end == begin:
            return False
        if end > begin + 1 and not (
            leads
            and end - begin <= tuning_of(node).most_terms
            and node.dtype.name in ("float32", "float64")
        ):
            return False
    entry: cython.Py_ssize_t
    for entry in range(begin, end):
        listed.add_row(node.inputs[terms.numbers.items[entry]], terms.rows.items[entry])
    return True
