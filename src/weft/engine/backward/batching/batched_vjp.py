# cython: language_level=3
"""Batched VJPs: the reached members of one batch in a backward, and the cotangents pending for them.

A `Group` takes cotangents: dense ones, with a row for each member, and rows of other batches for single members. It
gives their sum, stacked (`assemble`), or the contributions of each member (`contributions`) if members are
differentiated one by one. Rows are plain integers, not objects: a backward over trees delivers tens of thousands.
"""

import cython
from cython.cimports.weft.engine.backward.reachability import Reached
from cython.cimports.weft.engine.capi.int_array import Integers, integers, push
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.ir.primitive import CONCAT, UPDATE
from cython.cimports.weft.engine.ir.strides import contiguous_strides
from cython.cimports.weft.engine.pipeline.batching.membership import row_axis, with_height
from cython.cimports.weft.engine.pipeline.batching.ragged import height_of, lay, piece
from cython.cimports.weft.engine.pipeline.batching.segment_gather import gather
from cython.cimports.weft.engine.pipeline.segment_index import SegmentIndex, segment_index_of

from weft._build.compiled import require
from weft.engine.ir.primitive import SCALAR_OP, VIEW
from weft.engine.pipeline.batching.operand_packing import row_of
from weft.ops.primitives import full, reshape, slice_axis
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_cat_op, _put_op = OPS["cat"], OPS["put"]


@cython.final
@cython.no_gc
@cython.cclass
class RowContributions:
    """Rows of one cotangent, and to which member each was given; row -1 is the cotangent itself."""


@cython.cfunc
def new_row_contributions(cotangent: Tensor) -> RowContributions:
    """One without rows."""
    contribution: RowContributions = RowContributions.__new__(RowContributions)
    contribution.cotangent = cotangent
    contribution.rows = integers(0, 0)
    contribution.member_numbers = integers(0, 0)
    return contribution


@cython.final
@cython.no_gc
@cython.cclass
class Group:
    """Members of one quotient that a walk has reached, in the order of their rows. `left` consumers of them have not
    run; `behind` times all members had one that has, which their own counts do not know. `gone`: it has been pulled,
    perhaps as one of the `parts` of a group over several quotients, which have a `merge_key`."""

    @cython.cfunc
    @cython.exceptval(-1)
    def put(self, node: Node, number: cython.int) -> cython.int:
        """Bring a member: to its row, or where members are many rows each, behind the others."""
        if self.ragged:
            return push(self.members, number)
        self.members.items[node.qrow] = number
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def close(self) -> cython.int:
        """All members have been reached that will be: put them in the order of their rows, number them, count their
        consumers."""
        rows: Integers = integers(0, 0)
        row: cython.int
        number: cython.int
        if self.ragged:
            self.sort_members()
        for row in range(cython.cast(cython.int, self.members.count)):
            number = self.members.items[row]
            if number >= 0:
                self.members.items[rows.count] = number
                self.known[number].member = cython.cast(cython.int, rows.count)
                self.pending += self.known[number].consumers
                push(rows, row)
        every: cython.bint = rows.count == self.members.count
        self.members.count = rows.count
        if self.ragged and rows.count > 0:
            self.axis = batch_of(self.quotient).axis
            self.rows = self.reached_rows()
        elif not every:
            self.rows = rows
        return 0

    @cython.cfunc
    def sort_members(self) -> cython.void:
        """Put members in the order of their rows: most often they came in it, or the other way round."""
        member: cython.Py_ssize_t
        order: list = [
            (self.at(member).qrow, self.members.items[member])
            for member in range(self.members.count)
        ]
        order.sort()
        for member in range(self.members.count):
            self.members.items[member] = cython.cast(tuple, order[member])[1]

    @cython.cfunc
    def reached_rows(self) -> Integers:
        """The rows of members of different heights; None where these are all."""
        nodes: list = self.nodes()
        if height_of(nodes, self.axis) == batch_of(self.quotient).count:
            return None
        rows: Integers = integers(0, 0)
        node: Node
        row: cython.longlong
        for node in nodes:
            height: cython.longlong = node.shape[self.axis]
            for row in range(node.qrow, node.qrow + height):
                push(rows, cython.cast(cython.int, row))
        return rows

    @cython.cfunc
    def at(self, member: cython.Py_ssize_t) -> Node:
        """One member."""
        return cython.cast(Node, self.known[self.members.items[member]].record)

    @cython.cfunc
    def nodes(self) -> list:
        """All members."""
        return [self.at(member) for member in range(self.members.count)]

    @cython.cfunc
    def edges(self) -> tuple:
        """The edges of the first member; where operations that save nothing differ in which operands have a gradient,
        for each operand the edge of some member."""
        first: Node = self.at(0)
        if first.residual_mask != 0 or None not in first.edges:
            return first.edges
        edges: list = list(first.edges)
        node: Node
        index: cython.Py_ssize_t
        for node in self.nodes():
            for index in range(len(edges)):
                if edges[index] is None:
                    edges[index] = node.edges[index]
        return tuple(edges)

    @cython.cfunc
    @cython.exceptval(-1)
    def add(self, member: cython.int, cotangent: Tensor, row: cython.int) -> cython.int:
        """One contribution to the cotangent of one member; the handle keeps its value alive while it is in flight."""
        contribution: RowContributions = None
        if self.row_contributions:
            contribution = self.row_contributions[len(self.row_contributions) - 1]
        if contribution is None or contribution.cotangent is not cotangent:
            contribution = new_row_contributions(cotangent)
            self.row_contributions.append(contribution)
        push(contribution.rows, row)
        return push(contribution.member_numbers, member)

    @cython.cfunc
    def contributions(self) -> list:
        """The contributions of each member: None, or a list of (handle, row, output number)."""
        result: list = self.bundled()
        member: cython.Py_ssize_t
        for whole in self.dense:
            pieces = self.slices(whole) if self.ragged else None
            for member in range(self.members.count):
                one: tuple = (whole, member, 0) if pieces is None else (pieces[member], -1, 0)
                cython.cast(list, result[member]).append(one)
        return [came or None for came in result]

    @cython.cfunc
    def bundled(self) -> list:
        """The contributions that single members have received: for each a list of (handle, row, output number)."""
        result: list = [[] for _ in range(self.members.count)]
        contribution: RowContributions
        index: cython.Py_ssize_t
        for contribution in self.row_contributions:
            for index in range(contribution.rows.count):
                one: tuple = (contribution.cotangent, contribution.rows.items[index], 0)
                cython.cast(list, result[contribution.member_numbers.items[index]]).append(one)
        return result

    @cython.cfunc
    def slices(self, whole) -> list:
        """The slices of a value with the rows of all members of different heights, one for each member."""
        found: list = []
        nodes: list = self.nodes()
        heights: list = [cython.cast(Node, node).shape[self.axis] for node in nodes]
        batched: Tensor = whole
        axis: cython.Py_ssize_t = row_axis(batched._shape)
        if len(batched._shape) == 0 or batched._shape[axis] != sum(heights):
            axis = self.axis
            first: Node = nodes[0]
            batched = reshape(whole, with_height(first.shape, axis, sum(heights)))
        start: cython.longlong = 0
        for height in heights:
            found.append(wrap(piece(value(batched), axis, start, height), None))
            start += cython.cast(cython.longlong, height)
        return found

    @cython.cfunc
    def slices_of_operand(self, whole, index: cython.int) -> list:
        """The slices of the cotangent of an operand of members that have rows of their own in it; None for a member
        whose rows are those of one before."""
        if not self.ragged:
            return None
        if self.operand_rows is None:
            return self.slices(whole)
        found: list = []
        above: cython.longlong = 0  # rows from here on have not been met yet
        for start, height in self.operand_rows[index]:
            if start < above:
                found.append(None)
                continue
            above = start + height
            found.append(wrap(piece(value(whole), 0, start, height), None))
        return found

    @cython.cfunc
    @cython.exceptval(-1)
    def is_partial_union(self) -> cython.bint:
        """True if some members of a union of tables have not been reached: each of the others goes by itself."""
        return self.operand_rows is not None and self.rows is not None

    @cython.cfunc
    def assemble(self, shape: tuple):
        """The sum of the members' cotangents, stacked; None where none came."""
        parts: list = self.dense
        blocks = self.stack_blocks(shape)
        if blocks is not None:
            parts = [*parts, blocks]
        total = None
        for whole in join_blocks(parts, shape):
            part = in_shape(whole, shape)
            total = part if total is None else total + part
        rows = self.stack_rows() if blocks is None else None
        if rows is None:
            return total
        rows = in_shape(rows, shape)
        return rows if total is None else total + rows

    @cython.cfunc
    def stack_blocks(self, shape: tuple):
        """The cotangent as one block in zeros, if all contributions are blocks of the same columns: those of single
        members are gathered without the zeros around them. None if they are not such blocks."""
        part: Tensor
        contribution: RowContributions
        if not self.dense or not self.row_contributions or self.ragged:
            return None
        for part in self.dense:
            if part.edge is not None or not _is_block(value(part), shape):
                return None
        first: Node = value(cython.cast(RowContributions, self.row_contributions[0]).cotangent)
        for contribution in self.row_contributions:
            node: Node = value(contribution.cotangent)
            if contribution.cotangent.edge is not None or not _is_block(node, node.shape):
                return None
            if node.shape[1:] != shape[1:] or node.params[0] != first.params[0]:
                return None
            if node.inputs[1].shape[1:] != first.inputs[1].shape[1:]:
                return None
        sources, terms = self.in_order()
        blocks: tuple = tuple([cython.cast(Node, source).inputs[1] for source in sources])
        narrow: tuple = shape[:1] + cython.cast(Node, blocks[0]).shape[1:]
        gathered: Node = gather(blocks, terms, narrow, first.dtype)
        zeros: Node = value(part).inputs[0]
        params: tuple = (first.params[0], contiguous_strides(shape))
        block: Node = new_node(
            _put_op, (zeros, gathered), params, shape, count_elements(shape), first.dtype, None
        )
        return wrap(block, None)

    @cython.cfunc
    def stack_rows(self):
        """Contributions to single members, gathered and added; a batch that came in order is taken as it is."""
        count: cython.Py_ssize_t = self.members.count
        first: Node = self.at(0)
        contribution: RowContributions
        if not self.row_contributions:
            return None
        if self.ragged:
            return self.lay_rows()
        shape: tuple = (count, *first.shape)
        if len(self.row_contributions) == 1:
            contribution = self.row_contributions[0]
            if (
                contribution.member_numbers.count == count
                and contribution.member_numbers.ascending()
            ):
                source: Node = value(contribution.cotangent)
                rows: Integers = contribution.rows
                if (
                    source.shape
                    and source.shape[0] == count
                    and source.numel == count * first.numel
                    and rows.ascending()
                ):
                    return contribution.cotangent
                step: cython.int = _step_of(rows)
                if source.shape and step > 0 and source.shape[1:] == first.shape:
                    return slice_axis(contribution.cotangent, 0, rows.items[0], count, step)
                chosen: SegmentIndex = segment_index_of(integers(count, 0), rows.copy(), None)
                return wrap(gather((source,), chosen, shape, first.dtype), None)
        sources, terms = self.in_order()
        return wrap(gather(sources, terms, shape, first.dtype), None)

    @cython.cfunc
    def lay_rows(self):
        """Contributions to single members of different heights, added where there are several, one behind the other."""
        came: list = [
            join_blocks(
                [_contribution(one, self.at(member)) for one in ones], self.at(member).shape
            )
            for member, ones in enumerate(self.bundled())
        ]
        most: cython.Py_ssize_t = max([len(parts) for parts in came])
        if min([len(parts) for parts in came]) < most:
            came, most = [[self.sum_of(came[member], member)] for member in range(len(came))], 1
        total = None
        for index in range(most):
            parts = [value(cython.cast(list, parts)[index]) for parts in came]
            layer = wrap(lay(parts, self.axis), None)
            total = layer if total is None else total + layer
        return total

    @cython.cfunc
    def sum_of(self, parts: list, member: cython.Py_ssize_t):
        """The sum of what came for one member."""
        total = None
        for part in parts:
            total = part if total is None else total + part
        node: Node = self.at(member)
        return full(node.shape, 0, node.dtype) if total is None else total

    @cython.cfunc
    def in_order(self) -> tuple:
        """All rows by member: (values, Terms)."""
        count: cython.Py_ssize_t = self.members.count
        cursor: Integers = integers(count + 1, 0)
        sources: dict = {}
        contribution: RowContributions
        member: cython.Py_ssize_t
        index: cython.Py_ssize_t
        position: cython.int
        number: cython.int
        for contribution in self.row_contributions:
            for index in range(contribution.member_numbers.count):
                cursor.items[contribution.member_numbers.items[index] + 1] += 1
        for member in range(count):
            cursor.items[member + 1] += cursor.items[member]
        offsets: Integers = None if cursor.ascending() else cursor.copy()
        numbers: Integers = integers(cursor.items[count], 0)
        rows: Integers = integers(cursor.items[count], 0)
        for contribution in self.row_contributions:
            number = sources.setdefault(value(contribution.cotangent), len(sources))
            for index in range(contribution.rows.count):
                member = contribution.member_numbers.items[index]
                position = cursor.items[member]
                cursor.items[member] = position + 1
                numbers.items[position] = number
                rows.items[position] = contribution.rows.items[index]
        return tuple(sources), segment_index_of(numbers, rows, offsets)


@cython.cfunc
def group_of(known: cython.pointer(Reached), quotient: Node, ragged: cython.bint) -> Group:
    """The group of a quotient of which no member has been reached yet."""
    group: Group = new_group(known, quotient, 0 if ragged else batch_of(quotient).count)
    group.ragged = ragged
    group.operand_rows = batch_of(quotient).operand_rows
    return group


@cython.cfunc
def new_group(known: cython.pointer(Reached), quotient: Node, rows: cython.Py_ssize_t) -> Group:
    """A group with room for a member in each of so many rows."""
    group: Group = Group.__new__(Group)
    group.known = known
    group.quotient = quotient
    group.members = integers(rows, -1)
    group.dense = []
    group.row_contributions = []
    return group


@cython.cfunc
@cython.exceptval(check=False)
def _step_of(rows: Integers) -> cython.int:
    """The step between rows that are equally far apart and ascend; 0 for other rows, and for whole values (-1)."""
    step: cython.int = 1 if rows.count < 2 else rows.items[1] - rows.items[0]
    index: cython.Py_ssize_t
    if rows.count > 0 and rows.items[0] < 0:
        return 0
    for index in range(1, rows.count):
        if rows.items[index] != rows.items[0] + index * step:
            return 0
    return max(step, 0)


@cython.cfunc
def _contribution(came: tuple, node: Node):
    """A contribution in the shape of one node: a whole value, or one row of it."""
    cotangent: Tensor = came[0]
    row: cython.longlong = came[1]
    if row >= 0:
        cotangent = wrap(row_of(value(cotangent), row), None)
    return in_shape(cotangent, node.shape)


@cython.cfunc
def in_shape(tensor: Tensor, shape: tuple):
    """A tensor, reshaped where it has to be."""
    return tensor if tensor._shape == shape else reshape(tensor, shape)


@cython.ccall
def join_blocks(parts: list, shape: tuple) -> list:
    """Cotangents to be added. Those of the pieces of a split come as blocks in zeros: where they fill the last
    dimension, they are joined, and not added up."""
    if len(parts) < 2 or len(shape) == 0 or count_elements(shape) == 0:
        return parts
    blocks: list = []
    part: Tensor
    block: Node
    node: Node
    for part in parts:
        node = value(part)
        if part.edge is not None or not _is_block(node, shape):
            return parts
        block = node.inputs[1]
        blocks.append((node.params[0], len(blocks), block))
    blocks.sort()
    width: cython.longlong = 0
    for start, _, block in blocks:
        if start != width:
            return parts
        width += block.shape[len(shape) - 1]
    if width != shape[len(shape) - 1]:
        return parts
    axis: tuple = (len(shape) - 1,)
    inputs: list = []
    for _, _, block in blocks:
        joined: cython.bint = block.op.form == CONCAT and block.params == axis
        inputs.extend(block.inputs if joined and block.state == PENDING else (block,))
    whole: Node = new_node(
        _cat_op, tuple(inputs), axis, shape, count_elements(shape), part._dtype, None
    )
    return [wrap(whole, None)]


@cython.ccall
def is_zero(node: Node) -> cython.bint:
    """True if a value is the number 0, or a view of it."""
    while node.op.kind == VIEW and node.inputs:  # a view that is computed has let go of its operand
        node = node.inputs[0]
    return node.op is SCALAR_OP and node.params == 0


@cython.cfunc
def _is_block(node: Node, shape: tuple) -> cython.bint:
    """True if a value is zeros but for a slice of the last dimension."""
    if node.op.form != UPDATE or node.state != PENDING or node.shape != shape:
        return False
    if node.quotient is not None:
        return False
    base: Node = node.inputs[0]
    block: Node = node.inputs[1]
    rank: cython.Py_ssize_t = len(shape)
    return (
        is_zero(base)
        and len(block.shape) == rank
        and block.shape[: rank - 1] == shape[: rank - 1]
        and node.params[0] < shape[rank - 1]
        and node.params[1] == contiguous_strides(shape)
    )
