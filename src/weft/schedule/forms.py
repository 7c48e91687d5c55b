# cython: language_level=3
"""Forms: what the reverse walk asks of batches.

In come members of a batch that a walk has reached; out go the params, shapes and saved values that a derivative rule
needs for all of them at once (`form_of`), or for one by itself (`saved_input`, `saved_result`). Gradient-only records,
which no flush computes, are put into groups when a walk meets them (`group_records`).
"""

import cython
from cython.cimports.weft.graph.handles import wrap
from cython.cimports.weft.graph.making import count_elements, new_node
from cython.cimports.weft.graph.node import RESULT_SHIFT, Node
from cython.cimports.weft.graph.rows import OpRow
from cython.cimports.weft.graph.tape import finish
from cython.cimports.weft.schedule.columns import column_of
from cython.cimports.weft.schedule.members import adopt
from cython.cimports.weft.schedule.stacking import stack

from weft._compiled import require
from weft.graph.rows import COMPOSITE
from weft.graph.tape import is_record_only
from weft.ops.row import TABLE
from weft.schedule.gathers import gather_rows
from weft.schedule.stacking import row_of

require(__name__, cython.compiled)


@cython.final
@cython.no_gc
@cython.cclass
class Form:
    """What a derivative rule needs of a group: batched params, shapes, saved values, which operands are batched."""

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
    saved: Node = quotient.inputs[index]
    if not quotient.info[0][index]:
        return saved
    row: Node = row_of(saved, node.qrow)
    if node.payload is not None:
        return _in_shape(row, node.payload[index])
    return _in_shape(row, node.shape if row.numel == node.numel else ())  # (): a number


@cython.cfunc
def _in_shape(node: Node, shape: tuple) -> Node:
    return (
        node
        if node.shape == shape
        else new_node(TABLE["view"], (node,), shape, shape, node.numel, node.dtype, None)
    )


def saved_result(node: Node):
    """The saved value of one node."""
    quotient: Node = node.quotient
    if quotient is None:
        return node if node.row.kind != COMPOSITE else node.result
    whole: Node = quotient.result if node.row.kind == COMPOSITE else quotient
    return row_of(whole, node.qrow)


def form_of(quotient: Node, first: Node, rows: list | None):
    """What the rule of a group needs, for all members (`first` is one) or for those in some `rows`."""
    flags, _count = quotient.info
    row: OpRow = first.row
    mask: cython.longlong = first.saved
    index: cython.Py_ssize_t
    inputs: list = [None] * len(flags)
    result = None
    if rows is None:
        for index in range(len(flags)):
            if mask >> index & 1:
                inputs[index] = wrap(quotient.inputs[index], None)
        if mask >> RESULT_SHIFT & 1:
            result = wrap(quotient.result if row.kind == COMPOSITE else quotient, None)
        return Form(quotient.params, quotient.payload, quotient.shape, inputs, result, flags)
    part: cython.Py_ssize_t = len(rows)
    for index in range(len(flags)):
        if mask >> index & 1:
            saved: Node = quotient.inputs[index]
            inputs[index] = wrap(_rows(saved, rows) if flags[index] else saved, None)
    if mask >> RESULT_SHIFT & 1:
        result = wrap(_rows(quotient.result if row.kind == COMPOSITE else quotient, rows), None)
    shapes: list = []
    for index in range(len(flags)):
        shape: tuple = quotient.payload[index]
        shapes.append((part,) + shape[1:] if flags[index] else shape)
    params = first.params
    if row.batch is not None:
        own: tuple = first.payload if first.payload is not None else (first.shape,) * len(flags)
        params = row.batch(first.params, own, flags, part)
    return Form(params, tuple(shapes), (part,) + quotient.shape[1:], inputs, result, flags)


@cython.cfunc
def _rows(node: Node, rows: list) -> Node:
    shape: tuple = (len(rows),) + node.shape[1:]
    return gather_rows((node,), [0] * len(rows), rows, None, shape, node.dtype)


def group_records(records: list):
    """Group gradient-only records that a walk has reached: views, region writes, composites."""
    groups: dict = {}
    numbers: dict = {}  # of records met before, so that chains of records join link by link
    fresh: list = []
    node: Node
    for node in records:
        if not node.considered and node.row.batchable and is_record_only(node):
            fresh.append(node)
    fresh.sort(key=_sequence)
    for node in fresh:
        node.considered = True
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
    """What equal records share: op, params, shapes, and where their edges lead."""
    parts: list = [node.row.code, node.params, node.dtype.code, node.shape, node.payload]
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
    if node.result is not None:
        parts.append(id(node.result.quotient) if node.result.quotient is not None else 0)
    return tuple(parts)


def _sequence(node: Node):
    return node.seq


def _record_order(node: Node):
    for edge in node.edges:
        if isinstance(edge, Node) and edge.quotient is not None:
            return edge.qrow, node.seq
    return 0, node.seq


@cython.cfunc
def _build_record(members: list, stacks: dict) -> cython.void:
    first: Node = members[0]
    count: cython.Py_ssize_t = len(members)
    shapes: tuple = first.payload
    flags: tuple = (True,) * len(shapes)
    params = first.params
    if first.row.batch is not None:  # the view through a lens of an elementwise row has none
        params = first.row.batch(first.params, shapes, flags, count)
    if params is None and first.params is not None:
        return
    inputs: tuple = None
    node: Node
    index: cython.Py_ssize_t
    if first.inputs is not None:
        stacked: list = []
        for index in range(len(shapes)):
            if first.saved >> index & 1:
                sources: list = []
                for node in members:
                    sources.append(node.inputs[index])
                stacked.append(stack(column_of(sources), stacks))
            else:
                stacked.append(first.inputs[index])
        inputs = tuple(stacked)
    shape: tuple = (count,) + first.shape
    quotient: Node = new_node(
        first.row, inputs, params, shape, count_elements(shape), first.dtype, None
    )
    finish(quotient)
    batched: list = []
    for index in range(len(shapes)):
        batched.append((count,) + shapes[index])
    quotient.payload = tuple(batched)
    if first.result is not None:
        results: list = []
        for node in members:
            results.append(node.result)
        quotient.result = stack(column_of(results), stacks)
        quotient.result.live += 1
    adopt(quotient, members, flags)
    quotient.holds = True if first.result is not None else quotient.holds
    quotient.considered = True
