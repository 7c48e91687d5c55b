# cython: language_level=3
"""Ragged batching: members of different heights become one node, one behind the other along the dimension that
differs.

A row-independent operation (a linear layer, an activation, an embedding) is the same operation on all rows of all
members. Members may differ in one dimension only, the first with more than one element. Their operands are laid one
behind the other, in place where they are so in memory; the quotient is the recorded operation on more rows, and no
shape gains a dimension. A member has the rows from `qrow` on, as many as it is high. Derivatives are the operation's.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node, new_value
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.primitive import EXPAND, PERMUTE, RESHAPE, SLICE, Primitive
from cython.cimports.weft.engine.pipeline.batching.batch_key import (
    axis_between,
    identity,
    operand_axis,
    same_for_all,
)
from cython.cimports.weft.engine.pipeline.batching.membership import (
    height_in,
    in_ragged,
    row_axis,
    with_height,
)
from cython.cimports.weft.engine.pipeline.batching.operand_columns import Column
from cython.cimports.weft.engine.pipeline.batching.ragged import EQUAL, MIXED
from cython.cimports.weft.engine.pipeline.batching.segment_gather import Sources

from weft._build.compiled import require
from weft.engine.ir.primitive import SCALAR_OP
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_expand_op = cython.declare(Primitive, OPS["expand"])
_cat_op = cython.declare(Primitive, OPS["cat"])
_slice_op = cython.declare(Primitive, OPS["slice"])
_view_op = cython.declare(Primitive, OPS["view"])


# -- heights -------------------------------------------------------------------------------------------------------


@cython.cfunc
def height_axis(members: list) -> cython.Py_ssize_t:
    """The dimension in which members of one signature differ; EQUAL where they do not, MIXED where it is not one."""
    first: Node = members[0]
    node: Node
    axis: cython.Py_ssize_t = EQUAL
    between: cython.Py_ssize_t
    if first.op.is_row_independent is None or len(first.shape) == 0:
        return EQUAL
    for node in members:
        if equal(node.shape, first.shape):
            continue
        between = axis_between(first.shape, node.shape)
        if between < 0 or (axis >= 0 and axis != between):
            return MIXED
        axis = between
    return axis


@cython.cfunc
def axis_of_operands(members: list) -> cython.Py_ssize_t:
    """`height_axis`, but MIXED also where equally high members have operands of different shapes."""
    first: Node = members[0]
    node: Node
    index: cython.Py_ssize_t
    axis: cython.Py_ssize_t = height_axis(members)
    if axis != EQUAL or first.op.is_row_independent is None or len(first.inputs) < 2:
        return axis
    for node in members:
        for index in range(len(first.inputs)):
            own: tuple = cython.cast(Node, node.inputs[index]).shape
            if not equal(own, cython.cast(Node, first.inputs[index]).shape):
                return MIXED
    return EQUAL


@cython.cfunc
def of_one_height(members: list) -> list:
    """Divide members of one signature into groups of equal height and equal operand shapes."""
    heights: dict = {}
    node: Node
    for node in members:
        shapes: list = [cython.cast(Node, source).shape for source in node.inputs]
        heights.setdefault((node.shape, tuple(shapes)), []).append(node)
    return list(heights.values())


@cython.cfunc
def height_of(members: list, axis: cython.Py_ssize_t) -> cython.longlong:
    """The height of members one behind the other."""
    height: cython.longlong = 0
    node: Node
    for node in members:
        height += cython.cast(cython.longlong, node.shape[axis])
    return height


# -- operands ------------------------------------------------------------------------------------------------------


@cython.cfunc
def ragged_operands(members: list, columns: list, axis: cython.Py_ssize_t) -> tuple:
    """(operands, flags) of the quotient of members of different heights; None where an operand is neither the same
    for all nor has a row for each row of its member."""
    first: Node = members[0]
    column: Column
    node: Node
    operands: list = []
    flags: list = []
    own: cython.Py_ssize_t
    index: cython.Py_ssize_t
    for index in range(len(columns)):
        column = columns[index]
        own = -1 if column.same else _axis_of(members, index, axis)
        if own >= 0:
            operands.append(lay([column.at(position) for position in range(column.count)], own))
        else:
            for node in members:
                if not same_for_all(first, node, index):
                    return None
            operands.append(first.inputs[index])
        flags.append(own >= 0)
    return tuple(operands), tuple(flags)


@cython.cfunc
def _axis_of(members: list, index: cython.Py_ssize_t, axis: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The dimension of an operand along which it has a row for each row of every member; -1 if there is none."""
    own: cython.Py_ssize_t = operand_axis(members[0], index, axis)
    node: Node
    for node in members:
        if own < 0 or operand_axis(node, index, axis) != own:
            return -1
    return own


@cython.cfunc
def lay(sources: list, axis: cython.Py_ssize_t) -> Node:
    """Lay values one behind the other along a dimension: in place where they are so in memory, by a gather if they are
    single rows that repeat, else by a copy that joins them."""
    first: Node = sources[0]
    shape: tuple = with_height(first.shape, axis, height_of(sources, axis))
    number: Node = number_in(sources)
    if number is not None:
        return expanded(number, shape)
    repeated: Node = _repeated(sources, axis)
    if repeated is not None:
        return repeated
    pieces: list = []
    run: Consecutive = None
    source: Node
    for source in sources:
        if run is None or not run.goes_on(source):
            run = Consecutive(source, axis)
            pieces.append(run)
    parts: list = [run.node() for run in pieces]
    if len(parts) == 1:
        return parts[0]
    joined: Node = new_node(
        _cat_op, tuple(parts), (axis,), shape, count_elements(shape), first.dtype, None
    )
    joined.batch_seen = True
    return joined


@cython.final
@cython.no_gc
@cython.cclass
class Consecutive:
    """Values one behind the other, in a whole (a batch, a value that slices are of) or in a buffer."""

    first = cython.declare(Node)
    axis = cython.declare(cython.Py_ssize_t)
    whole = cython.declare(Node)
    along = cython.declare(cython.Py_ssize_t)  # the dimension of the whole
    start = cython.declare(cython.longlong)
    height = cython.declare(cython.longlong)

    def __cinit__(self, source: Node, axis: cython.Py_ssize_t):
        self.first = source
        self.axis = axis
        self.whole, self.along, self.start = _whole_of(source, axis)
        self.height = source.shape[axis]

    @cython.cfunc
    def goes_on(self, source: Node) -> cython.bint:
        """Take one more value, if it comes next."""
        whole, along, start = _whole_of(source, self.axis)
        if whole is None:
            if not self._is_next(source):
                return False
        elif whole is not self.whole or along != self.along or start != self.start + self.height:
            return False
        self.height += cython.cast(cython.longlong, source.shape[self.axis])
        return True

    @cython.cfunc
    def _is_next(self, source: Node) -> cython.bint:
        """True if a computed value stands directly behind the others in memory."""
        first: Node = self.first
        if self.whole is not None or first.state != DONE or source.state != DONE:
            return False
        if first.buffer is None or source.buffer is not first.buffer:
            return False
        if first.strides is not None or source.strides is not None:
            return False
        rows: cython.longlong = first.shape[self.axis]
        row: cython.longlong = first.numel // rows * first.dtype.itemsize
        return source.offset == first.offset + self.height * row

    @cython.cfunc
    def node(self) -> Node:
        """One node for all the values: the whole, a slice of it, or a view of the buffer."""
        first: Node = self.first
        shape: tuple = with_height(first.shape, self.axis, self.height)
        if self.whole is not None:
            return in_shape_of(piece(self.whole, self.along, self.start, self.height), shape)
        if self.height == first.shape[self.axis]:
            return first
        return new_value(first.dtype, shape, first.buffer, first.offset)


@cython.cfunc
def _whole_of(source: Node, axis: cython.Py_ssize_t) -> tuple:
    """(what a value is some rows of, the dimension that they are along, the first of them): a ragged batch, or what the
    value is a slice of; (None, 0, 0) else."""
    below: Node = source
    if (
        source.state == PENDING
        and source.quotient is None
        and source.op.form == SLICE
        and source.params[0] == axis
        and source.params[3] == 1
    ):
        return source.inputs[0], axis, source.params[1]
    while below.state == PENDING and below.quotient is None and _keeps_order(below):
        below = below.inputs[0]
    if below.state != PENDING or below.quotient is None or not in_ragged(below):
        return None, 0, 0
    if height_in(below.quotient, below) != source.shape[axis] or below.numel != source.numel:
        return None, 0, 0
    return below.quotient, batch_of(below.quotient).axis, below.qrow


@cython.cfunc
def _keeps_order(view: Node) -> cython.bint:
    """True if a node is a view of all elements of its operand in their order."""
    form: cython.int = view.op.form
    if form == RESHAPE:
        return True
    if form == EXPAND:
        return cython.cast(Node, view.inputs[0]).numel == view.numel
    if form != PERMUTE:
        return False
    shape: tuple = cython.cast(Node, view.inputs[0]).shape
    last: cython.Py_ssize_t = -1
    for axis in view.params:
        if shape[axis] != 1:
            if axis < last:
                return False
            last = axis
    return True


@cython.cfunc
def piece(
    whole: Node, axis: cython.Py_ssize_t, start: cython.longlong, count: cython.longlong
) -> Node:
    """Some rows of a value; the value where these are all."""
    if count == whole.shape[axis]:
        return whole
    shape: tuple = with_height(whole.shape, axis, count)
    found: Node = new_node(
        _slice_op,
        (whole,),
        (axis, start, count, 1),
        shape,
        count_elements(shape),
        whole.dtype,
        None,
    )
    found.batch_seen = True
    return found


@cython.cfunc
def in_shape_of(node: Node, shape: tuple) -> Node:
    """A value in another shape of as many elements."""
    if node.shape == shape:
        return node
    found: Node = new_node(_view_op, (node,), shape, shape, node.numel, node.dtype, None)
    found.batch_seen = True
    return found


@cython.cfunc
def number_in(sources: list) -> Node:
    """The number that all elements of all values are (zeros that rows are added to); None where they are not one."""
    found: Node = None
    source: Node
    number: Node
    for source in sources:
        if source.state != PENDING or source.op.form != EXPAND:
            return None
        number = source.inputs[0]
        if number is found:
            continue
        if number.op is not SCALAR_OP or number.state != DONE:
            return None
        if found is not None and identity(number) != identity(found):
            return None
        found = number
    return found


@cython.cfunc
def expanded(number: Node, shape: tuple) -> Node:
    """A number, expanded to a shape."""
    found: Node = new_node(
        _expand_op, (number,), shape, shape, count_elements(shape), number.dtype, None
    )
    found.batch_seen = True
    return found


@cython.cfunc
def _repeated(sources: list, axis: cython.Py_ssize_t) -> Node:
    """A gather of values that are each one row, repeated; None where some are not."""
    found: Sources = Sources()
    source: Node
    op: Node
    for source in sources:
        op = _row_of(source, axis)
        if op is None:
            return None
        for _ in range(cython.cast(cython.longlong, source.shape[axis])):
            found.add(op)
    first: Node = sources[0]
    height: cython.longlong = height_of(sources, axis)
    shape: tuple = (height,) + first.shape[axis + 1 :]
    return in_shape_of(
        found.gather(None, shape, first.dtype), with_height(first.shape, axis, height)
    )


@cython.cfunc
def _row_of(source: Node, axis: cython.Py_ssize_t) -> Node:
    """The row that all rows of a value are; None where they may differ."""
    height = source.shape[axis]
    if height == 1:
        return source
    node: Node = _below_reshapes(source)
    if node.state != PENDING or node.quotient is not None or node.op.form != EXPAND:
        return None
    below: Node = node.inputs[0]
    along: cython.Py_ssize_t = row_axis(node.shape)
    own: cython.Py_ssize_t = along - (len(node.shape) - len(below.shape))
    if node.shape[along] != height or below.numel * height != node.numel:
        return None
    if own >= 0 and below.shape[own] != 1:
        return None  # it is the elements of rows that are repeated
    return _below_reshapes(below)


@cython.cfunc
def _below_reshapes(node: Node) -> Node:
    """The node below pending reshapes, which has the same elements in the same order."""
    while node.op.form == RESHAPE and node.state == PENDING and node.quotient is None:
        node = node.inputs[0]
    return node
