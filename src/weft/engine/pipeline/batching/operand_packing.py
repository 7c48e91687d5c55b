# cython: language_level=3
"""Operand packing: the operands of a group become one value with a leading dimension.

It returns a node with a row for each operand. Rows of one batch in order are used in place, views of members become
the same view of their batch, and only the rest is gathered.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.capi.int_array import Integers, integers, push
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node, new_value
from cython.cimports.weft.engine.ir.batch import batch_of, new_batch
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node, set_buffer
from cython.cimports.weft.engine.ir.prefetch import NEXT, prefetch_node, prefetch_sources
from cython.cimports.weft.engine.ir.primitive import EXPAND, STRIDED, Primitive
from cython.cimports.weft.engine.ir.residuals import (
    drop_inputs,
    mark_dead_candidate,
    retain_residuals,
)
from cython.cimports.weft.engine.ir.tape import finish
from cython.cimports.weft.engine.pipeline.batching.batch_key import goes_on
from cython.cimports.weft.engine.pipeline.batching.membership import (
    become_row,
    height_in,
    in_ragged,
    row_axis,
)
from cython.cimports.weft.engine.pipeline.batching.operand_columns import (
    Column,
    column_of,
    same_operands,
)
from cython.cimports.weft.engine.pipeline.batching.ragged import expanded, number_in, piece
from cython.cimports.weft.engine.pipeline.batching.segment_gather import Sources
from cython.cimports.weft.engine.pipeline.program_ir import row_major

from weft._build.compiled import require
from weft.engine.ir.primitive import VIEW
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
# A view of less than such a part of a row, or of a row that is longer, is gathered by itself.
_NARROWEST = cython.declare(cython.longlong, 4)
_LONGEST = cython.declare(cython.longlong, 4096)
FOLLOWED = "followed"  # the key in `stacks` of views that became rows of a view of their batch


@cython.final
@cython.no_gc
@cython.cclass
class HoistedView:
    """A view of a batch, and which of its rows are members already."""

    whole: Node
    taken: bytearray

    def __cinit__(self, whole: Node):
        self.whole = whole
        self.taken = bytearray(cython.cast(cython.Py_ssize_t, whole.shape[0]))

    @cython.cfunc
    def take(self, node: Node, stacks: dict) -> cython.bint:
        """Make a view of a member the row of that member, if it is free."""
        row: cython.longlong = cython.cast(Node, node.inputs[0]).qrow
        if self.taken[row]:
            return False
        self.taken[row] = True
        become_row(node, self.whole, row)
        if node.external_refs == 0:
            finish(node)
        else:  # it may be for the sake of a save that its batch is about to take over
            stacks.setdefault(FOLLOWED, []).append(node)
        return True


@cython.cfunc
def stack(column: Column, stacks: dict) -> Node:
    """The operands of a group as one value with a leading dimension: in place if their memory is in order, or else
    gathered."""
    found: Node = in_place(column, stacks)
    return gathered(column, stacks) if found is None else found


@cython.cfunc
def in_place(column: Column, stacks: dict) -> Node:
    """The operands of a group without copying: where their memory is in order, or where an earlier gather has put
    them. None if neither holds."""
    first: Node = column.at(0)
    if column.viewed:
        _follow(column, stacks)
    if first.quotient is not None and first.state == PENDING:
        run = None if in_ragged(first) else _consecutive(column)
        if run is not None:
            return run
    elif first.state == DONE and first.buffer is not None:
        run = _adjacent(column)
        if run is not None:
            return run
    return _gathered_before(column, stacks)


@cython.cfunc
def _gathered_before(column: Column, stacks: dict) -> Node:
    """The gather of the same operands, if there is one."""
    for other, known in stacks.get(column.hash()) or ():
        if same_operands(column, other):
            return known
    return None


@cython.cfunc
def gathered(column: Column, stacks: dict) -> Node:
    """A gather of operands that are not in order, wherever they are."""
    known: Node = _gathered_before(column, stacks)
    if known is not None:
        return known
    first: Node = column.at(0)
    index: cython.Py_ssize_t
    shape: tuple = (column.count,) + first.shape
    if first.op.form == EXPAND:
        number: Node = number_in([column.at(index) for index in range(column.count)])
        if number is not None:
            return expanded(number, shape)
    if _views_one_batch(column):
        return _view_of_gathered(column, stacks)
    sources: Sources = Sources()
    for index in range(column.count):
        sources.add(column.at(index))
    result: Node = sources.gather(None, shape, first.dtype)
    stacks.setdefault(column.hash(), []).append((column, result))
    return result


@cython.cfunc
def _views_one_batch(column: Column) -> cython.bint:
    """True if the operands are members of one batch of views that are not too narrow, of values short enough to gather
    whole."""
    first: Node = column.at(0)
    batch: Node = first.quotient
    index: cython.Py_ssize_t
    if batch is None or first.state != PENDING or first.op.kind != _VIEW or in_ragged(first):
        return False
    below: Node = first.inputs[0]
    if first.numel * _NARROWEST < below.numel or below.numel * below.dtype.itemsize > _LONGEST:
        return False
    for index in range(column.count):
        if column.at(index).quotient is not batch:
            return False
    return True


@cython.cfunc
def _view_of_gathered(column: Column, stacks: dict) -> Node:
    """A view of what operands view, gathered: the pieces of a split are brought together at once."""
    below: Column = Column(column.count)
    index: cython.Py_ssize_t
    for index in range(column.count):
        below.put(index, column.at(index).inputs[0])
    first: Node = column.at(0)
    base: Node = stack(below, stacks)
    params = first.op.batch(first.params, (below.at(0).shape,), (True,), column.count)
    shape: tuple = (column.count,) + first.shape
    result: Node = new_node(
        first.op, (base,), params, shape, count_elements(shape), first.dtype, None
    )
    result.batch_seen = True
    return result


@cython.cfunc
def gathered_sums(members: list, stacks: dict) -> Node:
    """A gather of sums, each of all rows that an addition and those that it goes on from add up, in their order."""
    sources: Sources = Sources()
    terms: list = []
    offsets: Integers = integers(1, 0)
    node: Node
    index: cython.Py_ssize_t
    for index in range(len(members)):
        prefetch_sources(members, index)
        _list_terms(members[index], terms)
        push(offsets, cython.cast(cython.int, len(terms)))
    column: Column = column_of(terms)
    if column.viewed:
        _follow(column, stacks)
    for node in terms:
        sources.add(node)
    first: Node = members[0]
    return sources.gather(offsets, (len(members),) + first.shape, first.dtype)


@cython.cfunc
def _list_terms(node: Node, terms: list) -> cython.void:
    """List what a sum adds up, the first one first."""
    start: cython.Py_ssize_t = len(terms)
    terms.append(node.inputs[1])
    while goes_on(node.inputs[0]):
        node = node.inputs[0]
        terms.append(node.inputs[1])
    terms.append(node.inputs[0])
    terms[start:] = terms[start:][::-1]


@cython.cfunc
def _follow(column: Column, stacks: dict) -> cython.void:
    """Put operands that view members of batches into batches too: of the same view, over all rows."""
    source: Node
    like: Node = None  # the view that was put into `layer`
    layer: HoistedView = None
    index: cython.Py_ssize_t
    for index in range(column.count):
        if index + NEXT < column.count:
            prefetch_node(cython.cast(cython.p_void, column.items[index + NEXT]))
        source = column.at(index)
        if source.op.kind != _VIEW or source.quotient is not None or source.state != PENDING:
            continue
        if layer is None or not _views_alike(source, like) or not layer.take(source, stacks):
            like, layer = source, _follow_view(source, stacks)


@cython.cfunc
def _views_alike(one: Node, other: Node) -> cython.bint:
    """True if two nodes are the same view of members of one batch."""
    below: Node = one.inputs[0]
    batch: Node = below.quotient
    return (
        batch is not None
        and not in_ragged(below)
        and below.state == PENDING
        and batch is cython.cast(Node, other.inputs[0]).quotient
        and one.op is other.op
        and one.dtype is other.dtype
        and equal(one.params, other.params)
        and equal(one.shape, other.shape)
    )


@cython.cfunc
def _follow_view(node: Node, stacks: dict) -> HoistedView:
    """Make a view of a member a member of the same view of the batch; one of a value that is there has it at once."""
    below: Node = node.inputs[0]
    if below.state == DONE:
        settle_view(node, below)
        return None
    if below.state != PENDING or not node.op.batchable:
        return None
    if below.quotient is None and below.op.kind == _VIEW:
        _follow_view(below, stacks)
        if below.state == DONE:
            settle_view(node, below)
            return None
    if below.quotient is None or in_ragged(below):
        return None
    views: dict = stacks.get(below.quotient)
    if views is None:
        views = stacks[below.quotient] = {}
    key = (node.op, node.params, node.shape, node.dtype.code)
    return _in_free_layer(views.setdefault(key, []), node, below, stacks)


@cython.cfunc
def settle_view(node: Node, below: Node) -> cython.void:
    """Give a view of a value its place in that value's memory. Programs then read a value from outside, and one that
    reads the next row at each step is the same program."""
    if below.buffer is None or node.dtype is not below.dtype:
        return
    strides = row_major(below.shape)
    if below.strides is not None and below.strides != strides:
        if node.op.form == STRIDED:
            return  # counts in row-major order
        strides = below.strides
    strides, offset = node.op.strides(node.params, below.shape, strides, 0)
    if strides is None:
        return
    set_buffer(node, below.buffer)
    node.offset = below.offset + offset * node.dtype.itemsize
    node.strides = None if strides == row_major(node.shape) else strides
    node.state = DONE
    finish(node)
    drop_inputs(node)
    if node.external_refs == 0:
        mark_dead_candidate(node)


@cython.cfunc
def _in_free_layer(layers: list, node: Node, below: Node, stacks: dict) -> HoistedView:
    """Put a view into a view of the batch in which the row of what it views is free: each of several equal views of a
    member has a row of its own."""
    layer: HoistedView
    for layer in layers:
        if layer.take(node, stacks):
            return layer
    made: Node = _view_of_batch(node, below)
    if made is None:
        return None
    layer = HoistedView(made)
    layers.append(layer)
    layer.take(node, stacks)
    return layer


@cython.cfunc
def _view_of_batch(node: Node, below: Node):
    """The view of one member, taken of all rows of the member's batch; None if the op has no such view."""
    op: Primitive = node.op
    count: cython.Py_ssize_t = below.quotient.shape[0]
    params = op.batch(node.params, (below.shape,), (True,), count)
    if params is None:
        return None
    shape: tuple = (count,) + node.shape
    whole: Node = new_node(
        op, (below.quotient,), params, shape, count_elements(shape), node.dtype, None
    )
    whole.operand_shapes = (below.quotient.shape,)
    whole.info = new_batch((True,), count, 0)
    if node.edges is not None:
        retain_residuals(whole, node.edges)
    whole.batch_seen = True
    return whole


@cython.cfunc
def _consecutive(column: Column):
    """Rows of one quotient in order, each so far from the one before: the quotient itself, or a slice of it."""
    first: Node = column.at(0)
    quotient: Node = first.quotient
    count: cython.Py_ssize_t = column.count
    step: cython.longlong = 1
    index: cython.Py_ssize_t
    if count > 1:
        step = column.at(1).qrow - first.qrow
    if step < 1:
        return None
    for index in range(count):
        node: Node = column.at(index)
        if node.quotient is not quotient or node.qrow != first.qrow + index * step:
            return None
    if count == batch_of(quotient).count:
        return quotient
    shape: tuple = (count,) + quotient.shape[1:]
    result: Node = new_node(
        OPS["slice"],
        (quotient,),
        (0, first.qrow, count, step),
        shape,
        count_elements(shape),
        quotient.dtype,
        None,
    )
    result.batch_seen = True
    return result


@cython.cfunc
def _adjacent(column: Column):
    """The region of one buffer in which the operands stand one behind the other; None if they do not."""
    first: Node = column.at(0)
    step: cython.longlong = first.numel * first.dtype.itemsize
    index: cython.Py_ssize_t
    for index in range(column.count):
        node: Node = column.at(index)
        if (
            node.buffer is not first.buffer
            or node.strides is not None
            or node.state != DONE
            or node.offset != first.offset + index * step
        ):
            return None
    return new_value(first.dtype, (column.count,) + first.shape, first.buffer, first.offset)


def part_of(batched: Node, member: Node):
    """The part of a batched value that belongs to one member, as a node: a row, or a slice of rows of a ragged
    batch."""
    if in_ragged(member):
        height: cython.longlong = height_in(member.quotient, member)
        return piece(batched, row_axis(batched.shape), member.qrow, height)
    return row_of(batched, member.qrow)


def row_of(quotient: Node, row: int):
    """One row of a batched value, as a node."""
    shape: tuple = quotient.shape[1:]
    return new_node(
        OPS["select"], (quotient,), (0, row), shape, count_elements(shape), quotient.dtype, None
    )
