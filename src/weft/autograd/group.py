# cython: language_level=3
"""The reached members of one batch in a reverse walk, and the cotangents that have come for them.

In come cotangents: whole ones, with a row for each member, and rows of other batches for single members. Out goes
their sum, stacked (`assemble`), or what came for each member (`contributions`) where members go by themselves.
Rows are kept as lists of numbers, not as an object each: a walk over trees hands over tens of thousands.
"""

import cython
from cython.cimports.weft.graph.edges import value
from cython.cimports.weft.graph.handles import wrap
from cython.cimports.weft.graph.making import count_elements, new_node
from cython.cimports.weft.graph.node import PENDING, Node
from cython.cimports.weft.graph.strides import contiguous_strides
from cython.cimports.weft.graph.tensor import Tensor

from weft._compiled import require
from weft.graph.rows import SCALAR_ROW, VIEW
from weft.ops.primitives import reshape, slice_axis
from weft.ops.row import TABLE
from weft.schedule.gathers import gather_rows

require(__name__, cython.compiled)

_cat_row, _put_row = TABLE["cat"], TABLE["put"]


@cython.final
@cython.no_gc
@cython.cclass
class Bundle:
    """Rows of one cotangent, and to which member each was given; row -1 is the cotangent itself."""

    def __cinit__(self, cotangent: Tensor):
        self.cotangent = cotangent
        self.rows = []
        self.places = []


@cython.final
@cython.no_gc
@cython.cclass
class Group:
    """Members of one quotient that a walk has reached, in the order of their rows. `left` consumers of them have not
    run; `behind` times all members had one that has, which their own counts do not know. `gone`: it has been pulled,
    perhaps as one of the `parts` of a group over several quotients, which have a `likeness`."""

    def __cinit__(self, rows: cython.Py_ssize_t):
        self.members = [None] * rows
        self.places = None
        self.whole = []
        self.bundles = []

    @cython.cfunc
    def join(self, node: Node) -> cython.void:
        """Reach one more member; `close` follows the last one."""
        self.members[node.qrow] = node
        self.reached += 1
        self.left += node.count

    @cython.cfunc
    def close(self) -> cython.void:
        """Where not all members were reached, number those that were."""
        if self.reached == len(self.members):
            return
        members: list = []
        places: list = [None] * len(self.members)
        for node in self.members:
            if node is not None:
                places[cython.cast(Node, node).qrow] = len(members)
                members.append(node)
        self.members = members
        self.places = places

    @cython.cfunc
    def add(self, node: Node, cotangent: Tensor, row: cython.longlong) -> cython.void:
        """One contribution to the cotangent of one member; the handle keeps its value alive while it is in flight."""
        bundle: Bundle = None
        if self.bundles:
            bundle = self.bundles[len(self.bundles) - 1]
        if bundle is None or bundle.cotangent is not cotangent:
            bundle = Bundle(cotangent)
            self.bundles.append(bundle)
        bundle.rows.append(row)
        bundle.places.append(node.qrow if self.places is None else self.places[node.qrow])

    @cython.cfunc
    def contributions(self) -> list:
        """What came for each member: None, or a list of (cotangent, row, handle, output number)."""
        result: list = [None] * len(self.members)
        bundle: Bundle
        index: cython.Py_ssize_t
        place: cython.Py_ssize_t
        for bundle in self.bundles:
            for index in range(len(bundle.rows)):
                place = bundle.places[index]
                if result[place] is None:
                    result[place] = []
                cython.cast(list, result[place]).append(
                    (value(bundle.cotangent), bundle.rows[index], bundle.cotangent, 0)
                )
        for whole in self.whole:
            for place in range(len(self.members)):
                if result[place] is None:
                    result[place] = []
                cython.cast(list, result[place]).append((value(whole), place, whole, 0))
        return result

    @cython.cfunc
    def assemble(self, shape: tuple):
        """The sum of the members' cotangents, stacked; None where none came."""
        total = None
        for whole in join_blocks(self.whole, shape):
            part = in_shape(whole, shape)
            total = part if total is None else total + part
        rows = self.stack_rows()
        if rows is None:
            return total
        rows = in_shape(rows, shape)
        return rows if total is None else total + rows

    @cython.cfunc
    def stack_rows(self):
        """Contributions to single members, gathered and added; a batch that came in order is taken as it is."""
        count: cython.Py_ssize_t = len(self.members)
        first: Node = self.members[0]
        bundle: Bundle
        if not self.bundles:
            return None
        shape: tuple = (count, *first.shape)
        if len(self.bundles) == 1:
            bundle = self.bundles[0]
            if len(bundle.places) == count and ascending(bundle.places):
                source: Node = value(bundle.cotangent)
                if (
                    source.shape
                    and source.shape[0] == count
                    and source.numel == count * first.numel
                    and ascending(bundle.rows)
                ):
                    return bundle.cotangent
                if source.shape and consecutive(bundle.rows) and source.shape[1:] == first.shape:
                    return slice_axis(bundle.cotangent, 0, bundle.rows[0], count)
                zeros: list = [0] * count
                return wrap(
                    gather_rows((source,), zeros, bundle.rows, None, shape, first.dtype), None
                )
        sources, numbers, rows, offsets = self.in_order()
        return wrap(gather_rows(sources, numbers, rows, offsets, shape, first.dtype), None)

    @cython.cfunc
    def in_order(self) -> tuple:
        """All rows by member: (values, number of a value, row, where each member begins or None for one row each)."""
        count: cython.Py_ssize_t = len(self.members)
        offsets: list = [0] * (count + 1)
        sources: dict = {}
        bundle: Bundle
        place: cython.Py_ssize_t
        index: cython.Py_ssize_t
        position: cython.Py_ssize_t
        for bundle in self.bundles:
            for place in bundle.places:
                offsets[place + 1] += 1
        for place in range(count):
            offsets[place + 1] += offsets[place]
        cursor: list = offsets[:count]
        numbers: list = [0] * offsets[count]
        rows: list = [0] * offsets[count]
        for bundle in self.bundles:
            number = sources.setdefault(value(bundle.cotangent), len(sources))
            for index in range(len(bundle.rows)):
                place = bundle.places[index]
                position = cursor[place]
                cursor[place] = position + 1
                numbers[position] = number
                rows[position] = bundle.rows[index]
        return tuple(sources), numbers, rows, None if ascending(offsets) else offsets


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
        joined: cython.bint = block.row.code == _cat_row.code and block.params == axis
        inputs.extend(block.inputs if joined and block.state == PENDING else (block,))
    whole: Node = new_node(
        _cat_row, tuple(inputs), axis, shape, count_elements(shape), part._dtype, None
    )
    return [wrap(whole, None)]


@cython.ccall
def is_zero(node: Node) -> cython.bint:
    """Whether a value is zeros, or a view of the number."""
    while node.row.kind == VIEW and node.inputs is not None:
        node = node.inputs[0]
    return node.row is SCALAR_ROW and node.params == 0


@cython.cfunc
def _is_block(node: Node, shape: tuple) -> cython.bint:
    """Whether a value is a piece of the last dimension, in zeros."""
    if node.row.code != _put_row.code or node.state != PENDING or node.shape != shape:
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


@cython.cfunc
def consecutive(numbers: list) -> cython.bint:
    """Whether numbers count up from some number."""
    first: cython.longlong = numbers[0]
    index: cython.Py_ssize_t
    for index in range(1, len(numbers)):
        if cython.cast(cython.longlong, numbers[index]) != first + index:
            return False
    return first >= 0


@cython.cfunc
def ascending(numbers: list) -> cython.bint:
    """Whether numbers count up from 0."""
    return len(numbers) == 0 or (numbers[0] == 0 and consecutive(numbers))
