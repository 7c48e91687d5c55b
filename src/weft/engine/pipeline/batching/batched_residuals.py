# cython: language_level=3
"""Residuals of batches: what a batched derivative rule needs of its members.

`batched_residuals_of` gives the params, shapes and residuals of all reached members at once; `saved_input` and
`saved_result` give those of one. Gradient-only records, which no flush computes, are grouped when backward reaches
them (`group_records`).
"""

import cython
from cython.cimports.weft.engine.capi.int_array import Integers, integers
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.node import RESULT_SHIFT, Node, rare_facts, result_of, save
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.ir.tape import finish
from cython.cimports.weft.engine.pipeline.batching.disjoint_union import own_rows
from cython.cimports.weft.engine.pipeline.batching.membership import (
    adopt,
    in_ragged,
    row_axis,
    with_height,
)
from cython.cimports.weft.engine.pipeline.batching.operand_columns import column_of
from cython.cimports.weft.engine.pipeline.batching.operand_packing import stack
from cython.cimports.weft.engine.pipeline.batching.ragged import EQUAL, height_of, in_shape_of, lay
from cython.cimports.weft.engine.pipeline.batching.segment_gather import gather
from cython.cimports.weft.engine.pipeline.segment_index import SegmentIndex, segment_index_of

from weft._build.compiled import require
from weft.engine.ir.primitive import COMPOSITE
from weft.engine.ir.tape import is_record_only
from weft.engine.pipeline.batching.operand_packing import part_of

require(__name__, cython.compiled)


@cython.final
@cython.no_gc
@cython.cclass
class BatchedResiduals:
    """The arguments of a group's derivative rule: batched params and shapes, residuals, and which operands are
    batched."""

    params = cython.declare(object, visibility="readonly")
    shapes = cython.declare(tuple, visibility="readonly")
    shape = cython.declare(tuple, visibility="readonly")
    inputs = cython.declare(list, visibility="readonly")
    result = cython.declare(object, visibility="readonly")
    flags = cython.declare(tuple, visibility="readonly")

    def __cinit__(self, params, shapes: tuple, shape: tuple, inputs: list, result, flags: tuple):
        self.params = params
        self.shapes = shapes
        self.shape = shape
        self.inputs = inputs
        self.result = result
        self.flags = flags


def saved_input(node: Node, index: int):
    """The saved value of an input of one node, wherever its batch keeps it."""
    quotient: Node = node.quotient
    if quotient is None or quotient.inputs is None:
        return node.inputs[index]
    if batch_of(quotient).operand_rows is not None:
        return own_rows(node, index)
    saved: Node = quotient.inputs[index]
    if not batch_of(quotient).flags[index]:
        return saved
    row: Node = part_of(saved, node)
    if in_ragged(node):
        return row
    if node.operand_shapes is not None:
        return in_shape_of(row, node.operand_shapes[index])
    return in_shape_of(row, node.shape if row.numel == node.numel else ())  # (): a number


def saved_result(node: Node):
    """The saved value of one node."""
    quotient: Node = node.quotient
    if quotient is None:
        return node if node.op.kind != COMPOSITE else result_of(node)
    return part_of(_result_of(quotient), node)


def batched_residuals_of(quotient: Node, first: Node, rows: Integers | None):
    """The residuals of a group for its derivative rule: of all members (`first` is one of them), or of the reached
    `rows`."""
    if rows is None:
        return _residuals_of_all(quotient, first)
    return _residuals_of_rows(quotient, first, rows)


@cython.cfunc
@cython.inline
def _result_of(quotient: Node) -> Node:
    """The value of a group: a composite has a node of its own for it."""
    return result_of(quotient) if quotient.op.kind == COMPOSITE else quotient


@cython.cfunc
def _residuals_of_all(quotient: Node, first: Node):
    flags: tuple = batch_of(quotient).flags
    mask: cython.longlong = first.residual_mask
    index: cython.Py_ssize_t
    inputs: list = [None] * len(flags)
    result = None
    for index in range(len(flags)):
        if is_saved(mask, index):
            inputs[index] = wrap(quotient.inputs[index], None)
    if mask >> RESULT_SHIFT & 1:
        result = wrap(_result_of(quotient), None)
    return BatchedResiduals(
        quotient.params, quotient.operand_shapes, quotient.shape, inputs, result, flags
    )


@cython.cfunc
def _residuals_of_rows(quotient: Node, first: Node, rows: Integers):
    flags: tuple = batch_of(quotient).flags
    ragged: cython.bint = len(quotient.shape) == len(first.shape)
    op: Primitive = first.op
    mask: cython.longlong = first.residual_mask
    index: cython.Py_ssize_t
    inputs: list = [None] * len(flags)
    result = None
    part: cython.Py_ssize_t = rows.count
    for index in range(len(flags)):
        if is_saved(mask, index):
            saved: Node = quotient.inputs[index]
            inputs[index] = wrap(_rows(saved, rows, ragged) if flags[index] else saved, None)
    if mask >> RESULT_SHIFT & 1:
        result = wrap(_rows(_result_of(quotient), rows, ragged), None)
    shapes: list = []
    for index in range(len(flags)):
        shape: tuple = quotient.operand_shapes[index]
        if flags[index]:
            shape = with_height(shape, row_axis(shape) if ragged else 0, part)
        shapes.append(shape)
    params = first.params
    if op.batch is not None and not ragged:
        own: tuple = (
            first.operand_shapes
            if first.operand_shapes is not None
            else (first.shape,) * len(flags)
        )
        params = op.batch(first.params, own, flags, part)
    own_shape: tuple = with_height(quotient.shape, batch_of(quotient).axis, part)
    return BatchedResiduals(params, tuple(shapes), own_shape, inputs, result, flags)


@cython.cfunc
def _rows(node: Node, rows: Integers, ragged: cython.bint) -> Node:
    """Some rows of a value, along the first dimension or that of a ragged batch."""
    axis: cython.Py_ssize_t = row_axis(node.shape) if ragged else 0
    height: cython.Py_ssize_t = rows.count
    shape: tuple = (height,) + node.shape[axis + 1 :]
    base: Node = in_shape_of(node, node.shape[axis:])
    terms: SegmentIndex = segment_index_of(integers(height, 0), rows, None)
    found: Node = gather((base,), terms, shape, node.dtype)
    return in_shape_of(found, with_height(node.shape, axis, height))


def group_records(records: list):
    """Group gradient-only records that a walk has reached: views, region writes, composites."""
    groups: dict = {}
    numbers: dict = {}  # of records met before, so that chains of records join link by link
    fresh: list = []
    node: Node
    for node in records:
        if not node.batch_seen and node.op.batchable and is_record_only(node):
            fresh.append(node)
    fresh.sort(key=_sequence)
    for node in fresh:
        node.batch_seen = True
        key = _record_key(node, numbers)
        numbers[node] = numbers.setdefault(key, len(numbers))
        members = groups.get(key)
        if members is None:
            groups[key] = [node]
        else:
            members.append(node)
    stacks: dict = {}
    for members in groups.values():
        if len(members) > 1:
            members.sort(key=_record_order)
            _build_record(members, stacks)


@cython.cfunc
def _record_key(node: Node, numbers: dict):
    """The key that equal records share: op, params, dtype, the targets of their edges, and shapes (for row-independent
    records without the height)."""
    parts: list = [node.op.code, node.params, node.dtype.code]
    if _knows_no_height(node):
        axis: cython.Py_ssize_t = row_axis(node.shape)
        parts += (axis, node.shape[axis + 1 :], tuple([s[axis + 1 :] for s in node.operand_shapes]))
    else:
        parts += (node.shape, node.operand_shapes)
    for edge in node.edges:
        if edge is None:
            parts.append(None)
        elif isinstance(edge, Node):
            below: Node = cython.cast(Node, edge)
            number = numbers.get(below)
            if number is None:
                number = id(below if below.quotient is None else below.quotient)
            parts.append(number)
        else:
            parts.append(id(edge))
    result: Node = result_of(node)
    if result is not None:
        parts.append(id(result.quotient) if result.quotient is not None else 0)
    return tuple(parts)


@cython.cfunc
def _knows_no_height(record: Node) -> cython.bint:
    """True if a record can be laid behind equal ones of other heights."""
    op: Primitive = record.op
    if op.is_row_independent is None or record.operand_shapes is None or len(record.shape) == 0:
        return False
    axis: cython.Py_ssize_t = row_axis(record.shape)
    height = record.shape[axis]
    lead: tuple = record.shape[: axis + 1]
    for shape in record.operand_shapes:
        if len(cython.cast(tuple, shape)) < axis + 2 or shape[: axis + 1] != lead:
            return False
    return height > 0 and op.is_row_independent(record.params, record.operand_shapes, axis)


def _sequence(node: Node):
    return node.seq


def _record_order(node: Node):
    for edge in node.edges:
        if isinstance(edge, Node) and edge.quotient is not None:
            return edge.qrow, node.seq
    return 0, node.seq


@cython.cfunc
def _build_record(members: list, stacks: dict) -> cython.void:
    """The record that stands for a group of them."""
    first: Node = members[0]
    axis: cython.Py_ssize_t = _height_axis(members)
    flags: tuple = (True,) * len(first.operand_shapes)
    params = first.params
    lead: tuple = (len(members),)
    behind: cython.Py_ssize_t = 0  # the first dimension that goes on as it is
    if axis >= 0:
        lead = with_height(first.shape[: axis + 1], axis, height_of(members, axis))
        behind = axis + 1
    elif first.op.batch is not None:  # the view through a lens of an elementwise row has none
        params = first.op.batch(first.params, first.operand_shapes, flags, len(members))
        if params is None and first.params is not None:
            return
    shape: tuple = lead + first.shape[behind:]
    inputs: tuple = _saved_together(members, axis, stacks)
    quotient: Node = new_node(
        first.op, inputs, params, shape, count_elements(shape), first.dtype, None
    )
    finish(quotient)
    quotient.operand_shapes = tuple([lead + each[behind:] for each in first.operand_shapes])
    has_result: cython.bint = result_of(first) is not None
    if has_result:
        results: list = [result_of(node) for node in members]
        rare_facts(quotient).result = _together(results, axis, stacks)
        save(result_of(quotient))
    adopt(quotient, members, flags)
    quotient.has_residuals = quotient.has_residuals or has_result
    quotient.batch_seen = True


@cython.cfunc
def _height_axis(records: list) -> cython.Py_ssize_t:
    """The dimension in which records that go together differ; EQUAL where they do not."""
    first: Node = records[0]
    node: Node
    for node in records:
        if node.shape != first.shape:
            return row_axis(first.shape)
    return EQUAL


@cython.cfunc
def _saved_together(members: list, axis: cython.Py_ssize_t, stacks: dict) -> tuple:
    """The residuals of a group's records, packed; operands that were not saved are those of the first record. None if
    the first record has no inputs."""
    first: Node = members[0]
    if first.inputs is None:
        return None
    found: list = []
    node: Node
    index: cython.Py_ssize_t
    for index in range(len(first.operand_shapes)):
        if not is_saved(first.residual_mask, index):
            found.append(first.inputs[index])
            continue
        sources: list = []
        for node in members:
            sources.append(node.inputs[index])
        found.append(_together(sources, axis, stacks))
    return tuple(found)


@cython.cfunc
def _together(sources: list, axis: cython.Py_ssize_t, stacks: dict) -> Node:
    """Values along a dimension of theirs, or along a new one."""
    return stack(column_of(sources), stacks) if axis < 0 else lay(sources, axis)
