# cython: language_level=3
"""Stacking: the operands of a group as one value with a leading dimension.

In come the operands of equal nodes, in order; out goes a node with a row for each. Rows of one batch in order are used
in place, views of members become the same view of their batch, and only what is left is gathered.
"""

import cython
from cython.cimports.weft.graph.making import count_elements, new_node, new_value
from cython.cimports.weft.graph.node import DONE, PENDING, Node
from cython.cimports.weft.graph.prefetch import prefetch_sources
from cython.cimports.weft.graph.rows import OpRow
from cython.cimports.weft.graph.saves import acquire_saves, drop_inputs, note_idle
from cython.cimports.weft.graph.tape import finish
from cython.cimports.weft.schedule.collect import row_major
from cython.cimports.weft.schedule.members import become_row

from weft._compiled import require
from weft.graph.rows import VIEW
from weft.ops.row import TABLE

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
FOLLOWED = "followed"  # the key in `stacks` of views that have become rows


@cython.cfunc
def stack(sources: list, stacks: dict) -> Node:
    """The operands of a group as one value with a leading dimension: in place where they lie in order."""
    first: Node = sources[0]
    count: cython.Py_ssize_t = len(sources)
    _follow(sources, stacks)
    if first.quotient is not None and first.state == PENDING:
        run = _consecutive(sources)
        if run is not None:
            return run
    elif first.state == DONE and first.buffer is not None:
        run = _adjacent(sources)
        if run is not None:
            return run
    key = tuple([id(source) for source in sources])
    known = stacks.get(key)
    if known is not None:
        return known
    positions: dict = {}
    numbers: list = []
    rows: list = []
    index: cython.Py_ssize_t
    for index in range(count):
        source: Node = sources[index]
        root: Node = source
        row: cython.longlong = -1
        if source.quotient is not None and source.state == PENDING:
            root = source.quotient
            row = source.qrow
        position = positions.get(root)
        if position is None:
            position = positions[root] = len(positions)
        numbers.append(position)
        rows.append(row)
    result = gather_rows(tuple(positions), numbers, rows, None, (count,) + first.shape, first.dtype)
    stacks[key] = result
    return result


@cython.cfunc
def _follow(sources: list, stacks: dict) -> cython.void:
    """Put operands that view members of batches into batches too: of the same view, over all rows."""
    source: Node
    index: cython.Py_ssize_t
    for index in range(len(sources)):
        prefetch_sources(sources, index)
        source = sources[index]
        if source.row.kind == _VIEW and source.quotient is None and source.state == PENDING:
            _follow_view(source, stacks)


@cython.cfunc
def _follow_view(node: Node, stacks: dict) -> cython.void:
    """Make a view of a member a member of the same view of the batch; one of a value that is there has it at once."""
    below: Node = node.inputs[0]
    if below.state == DONE:
        _settle_view(node, below)
        return
    if below.state != PENDING or not node.row.batchable:
        return
    if below.quotient is None and below.row.kind == _VIEW:
        _follow_view(below, stacks)
        if below.state == DONE:
            _settle_view(node, below)
            return
    if below.quotient is None:
        return
    views: dict = stacks.get(below.quotient)
    if views is None:
        views = stacks[below.quotient] = {}
    key = (node.row, node.params, node.shape, node.dtype.code)
    whole: Node = _with_free_row(views.setdefault(key, []), node, below)
    if whole is None:
        return
    become_row(node, whole, below.qrow)
    if node.live == 0:
        finish(node)
    else:  # it may be for the sake of a save that its batch is about to take over
        stacks.setdefault(FOLLOWED, []).append(node)


@cython.cfunc
def _settle_view(node: Node, below: Node) -> cython.void:
    """Give a view of a value its place in that value's memory. Programs then read a value from outside, and one that
    reads the next row at each step is the same program."""
    if below.buffer is None or node.dtype is not below.dtype:
        return
    strides = row_major(below.shape)
    if below.strides is not None and below.strides != strides:
        if node.row.name == "strided":
            return  # counts in row-major order
        strides = below.strides
    strides, offset = node.row.strides(node.params, below.shape, strides, 0)
    if strides is None:
        return
    node.buffer = below.buffer
    node.offset = below.offset + offset * node.dtype.itemsize
    node.strides = None if strides == row_major(node.shape) else strides
    node.state = DONE
    finish(node)
    drop_inputs(node)
    if node.live == 0:
        note_idle(node)


@cython.cfunc
def _with_free_row(layers: list, node: Node, below: Node):
    """The view of a batch in which the row of one of its members is free: each of several equal views of it has a row
    of its own. `layers` are pairs of such a view and a flag for each row."""
    for whole, taken in layers:
        if not taken[below.qrow]:
            taken[below.qrow] = True
            return whole
    made: Node = _view_of_batch(node, below)
    if made is None:
        return None
    flags = bytearray(made.shape[0])
    flags[below.qrow] = True
    layers.append((made, flags))
    return made


@cython.cfunc
def _view_of_batch(node: Node, below: Node):
    """The view of one member, over all rows of the batch that it is of; None where there is no such view."""
    row: OpRow = node.row
    count: cython.Py_ssize_t = below.quotient.shape[0]
    params = row.batch(node.params, (below.shape,), (True,), count)
    if params is None:
        return None
    shape: tuple = (count,) + node.shape
    whole: Node = new_node(
        row, (below.quotient,), params, shape, count_elements(shape), node.dtype, None
    )
    whole.payload = (below.quotient.shape,)
    whole.info = ((True,), count)
    if node.edges is not None:
        acquire_saves(whole, node.edges)
    whole.considered = True
    return whole


@cython.cfunc
def _consecutive(sources: list):
    """Rows of one quotient in order, each so far from the one before: the quotient itself, or a slice of it."""
    first: Node = sources[0]
    quotient: Node = first.quotient
    count: cython.Py_ssize_t = len(sources)
    step: cython.longlong = 1
    index: cython.Py_ssize_t
    if count > 1:
        step = cython.cast(Node, sources[1]).qrow - first.qrow
    if step < 1:
        return None
    for index in range(count):
        node: Node = sources[index]
        if node.quotient is not quotient or node.qrow != first.qrow + index * step:
            return None
    if count == quotient.info[1]:
        return quotient
    shape: tuple = (count,) + quotient.shape[1:]
    result: Node = new_node(
        TABLE["slice"],
        (quotient,),
        (0, first.qrow, count, step),
        shape,
        count_elements(shape),
        quotient.dtype,
        None,
    )
    result.considered = True
    return result


@cython.cfunc
def _adjacent(sources: list):
    """Values that lie one behind the other in one buffer: that region."""
    first: Node = sources[0]
    step: cython.longlong = first.numel * first.dtype.itemsize
    count: cython.Py_ssize_t = len(sources)
    index: cython.Py_ssize_t
    for index in range(count):
        node: Node = sources[index]
        if (
            node.buffer is not first.buffer
            or node.strides is not None
            or node.state != DONE
            or node.offset != first.offset + index * step
        ):
            return None
    return new_value(first.dtype, (count,) + first.shape, first.buffer, first.offset)


def gather_rows(sources: tuple, numbers: list, rows: list, offsets, shape: tuple, dtype):
    """Record rows (or sums of rows, by `offsets`) of several values as one; row -1 is a whole value."""
    node: Node = new_node(
        TABLE["gather_rows"], sources, None, shape, count_elements(shape), dtype, None
    )
    node.payload = (numbers, rows, offsets)
    node.considered = True
    return node


def row_of(quotient: Node, row: int):
    """One row of a batched value, as a node."""
    shape: tuple = quotient.shape[1:]
    return new_node(
        TABLE["select"], (quotient,), (0, row), shape, count_elements(shape), quotient.dtype, None
    )
