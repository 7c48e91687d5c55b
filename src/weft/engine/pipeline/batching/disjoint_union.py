# cython: language_level=3
"""Disjoint unions: look-ups and additions of rows in tables of the members' own become one in all tables.

A graph that is given by indices of its nodes reads their rows (`x[source]`) and adds rows at them
(`index_add(0, target, messages)`). Graphs of a batch have nodes of their own, and other numbers of them: their tables
are laid one behind the other, as rows of batches lie already, and each member's indices count from where its table
begins. Only indices that are known to be in range may, so that nobody reads a row of somebody else. A member has the
rows from its `qrow` on, as in `ragged`, but other rows of each operand (`Batch.operand_rows`).
"""

import cython
from cython.cimports.weft.engine.capi.int_array import Integers, integers, push
from cython.cimports.weft.engine.frontend.node_factory import new_node
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.pipeline.batching.membership import with_height
from cython.cimports.weft.engine.pipeline.batching.ragged import lay, piece
from cython.cimports.weft.engine.pipeline.batching.segment_gather import Sources

from weft._build.compiled import require
from weft.engine.ir.dtype import int64
from weft.engine.ir.primitive import SCATTER
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_SCATTER = cython.declare(cython.int, SCATTER)
_iota_op = cython.declare(Primitive, OPS["iota"])


@cython.cfunc
def union_operands(members: list, stacks: dict) -> tuple:
    """(operands, shape, operand_rows) of the quotient of members in one table that is all of theirs."""
    first: Node = members[0]
    tables: list = []
    rows: list = [_table_rows(members, tables), _rows_of([node.inputs[1] for node in members])]
    table: Node = lay(tables, 0)
    index: Node = _shifted_indices(members, cython.cast(list, rows[0]), table.shape[0], stacks)
    operands: tuple = (table, index)
    shape: tuple = with_height(first.shape, 0, index.numel)
    if first.op.kind == _SCATTER:
        rows.append(rows[1])
        operands = (table, index, lay([node.inputs[2] for node in members], 0))
        shape = table.shape
    return operands, shape, tuple([tuple(each) for each in rows])


@cython.cfunc
def _table_rows(members: list, tables: list) -> list:
    """The rows of each member's table among all tables, which are listed; one that is read, with one gradient edge, by
    several members is there once."""
    rows: list = []
    known: dict = {}
    start: cython.longlong = 0
    node: Node
    for node in members:
        table: Node = node.inputs[0]
        key = (table, None if node.edges is None else id(node.edges[0]))
        if node.op.kind == _SCATTER or key not in known:
            own: tuple = (start, table.shape[0])
            known[key] = own
            tables.append(table)
            start += cython.cast(cython.longlong, table.shape[0])
        rows.append(known[key])
    return rows


@cython.cfunc
def _rows_of(values: list) -> list:
    """The first row and the number of rows of values that lie one behind the other."""
    rows: list = []
    start: cython.longlong = 0
    node: Node
    for node in values:
        rows.append((start, node.shape[0]))
        start += cython.cast(cython.longlong, node.shape[0])
    return rows


@cython.cfunc
def _shifted_indices(members: list, tables: list, count: cython.longlong, stacks: dict) -> Node:
    """The indices of all members one behind the other, into all tables, of `count` rows: a gather that adds to each
    index the first row of its table. The same indices into equal tables are gathered once."""
    node: Node
    indices: list = [node.inputs[1] for node in members]
    key: tuple = (*indices, *tables)
    found: Node = stacks.get(key)
    if found is not None:
        return found
    positions: Node = new_node(_iota_op, (), ((count,), 0), (count,), count, int64, None)
    positions.batch_seen = True
    listed: Sources = Sources()
    offsets: Integers = integers(1, 0)
    member: cython.Py_ssize_t
    place: cython.longlong
    counted: cython.int = listed.number_of(positions)
    for member in range(len(members)):
        node = indices[member]
        own: cython.int = listed.number_of(node)
        start: cython.longlong = tables[member][0]
        for place in range(node.numel):
            listed.add_entry(own, place)
            if start > 0:
                listed.add_entry(counted, start)
            push(offsets, cython.cast(cython.int, listed.rows.count))
    found = stacks[key] = listed.gather(offsets, (offsets.count - 1,), int64)
    return found


@cython.cfunc
def own_rows(member: Node, index: cython.Py_ssize_t) -> Node:
    """The rows of one member in an operand of its union; indices count from the beginning of its own table again."""
    quotient: Node = member.quotient
    rows: tuple = batch_of(quotient).operand_rows
    place: cython.Py_ssize_t = 0
    of_value: tuple = rows[0 if member.op.kind == _SCATTER else 1]
    while of_value[place][0] != member.qrow:
        place += 1
    start, height = rows[index][place]
    found: Node = piece(quotient.inputs[index], 0, start, height)
    shift = rows[0][place][0]
    return found if index != 1 or shift == 0 else value(wrap(found, None) - shift)
