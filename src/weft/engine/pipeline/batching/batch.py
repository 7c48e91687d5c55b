# cython: language_level=3
"""Dynamic batching: records one quotient node for each group of equal operations of separate examples.

Members of a group get `quotient` (a node over a leading batch dimension) and `qrow`, their row of it (`membership`);
their inputs and edges stay as recorded. `scheduler` chooses the groups in an order without cycles, `operand_packing`
packs their operands, and `batched_residuals` keeps what backward needs of a quotient.
"""

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.trace import STAGE, put_payload, tracing
from cython.cimports.weft.engine.devices.tuning import Batching
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.prefetch import prefetch_edges, prefetch_sources
from cython.cimports.weft.engine.ir.primitive import CONCAT, STACK, Primitive
from cython.cimports.weft.engine.ir.tape import Tape, finish, note_search
from cython.cimports.weft.engine.pipeline.batching.batch_key import (
    adds_rows,
    edge_identity,
    goes_on,
    identity,
    is_one_gather,
    joins_tables,
    operand_role,
    tuning_of,
)
from cython.cimports.weft.engine.pipeline.batching.disjoint_union import union_operands
from cython.cimports.weft.engine.pipeline.batching.known_groups import Grouping, recall
from cython.cimports.weft.engine.pipeline.batching.membership import (
    adopt,
    height_in,
    in_ragged,
    with_height,
)
from cython.cimports.weft.engine.pipeline.batching.operand_columns import (
    IN_ORDER,
    OUT_OF_ORDER,
    Column,
    column_of,
    read_columns,
)
from cython.cimports.weft.engine.pipeline.batching.operand_packing import (
    gathered,
    gathered_sums,
    in_place,
    stack,
)
from cython.cimports.weft.engine.pipeline.batching.ragged import (
    EQUAL,
    MIXED,
    axis_of_operands,
    height_of,
    of_one_height,
    ragged_operands,
)
from cython.cimports.weft.engine.pipeline.batching.width import spared_by
from cython.cimports.weft.engine.replay.conditions import verifying

from weft._build.compiled import require
from weft.config import config
from weft.engine.ir.primitive import CONTRACT, ELEMENTWISE, MACRO, SCATTER, VIEW
from weft.engine.ir.tape import tape_of
from weft.engine.pipeline.batching.membership import batched_operands
from weft.engine.pipeline.batching.operand_packing import FOLLOWED
from weft.engine.pipeline.batching.scheduler import form_groups
from weft.errors import VerificationError
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_view_kind = cython.declare(cython.int, VIEW)
_SCATTER = cython.declare(cython.int, SCATTER)
_watcher = None


def enabled():
    """True if batching is on (`weft.config.config.batch`)."""
    return config.batch


# -- grouping ------------------------------------------------------------------------------------------------------


def group(nodes: list):
    """Put pending nodes (oldest first) that have not been considered into groups; whether any were formed. None where
    the graph is too narrow for groups, or where of many nodes none have come together, as it will be with what is
    derived from them."""
    if not config.batch:
        return False
    began: int64_t = now() if tracing else 0
    first: Node = _first_record(nodes)
    tape: Tape = None if first is None else tape_of(first)
    try:
        found = _group_again(nodes)
    finally:
        if tracing:
            put_payload(STAGE, began, now(), "batch", 0)
    if tape is not None:
        note_search(tape, first.seq, found is None)
    return found


@cython.cfunc
def _first_record(nodes: list) -> Node:
    """The first node with gradient edges that no search has seen, or None."""
    node: Node
    for node in nodes:
        if node.edges is not None and not node.batch_seen:
            return node
    return None


@cython.cfunc
def _group_again(nodes: list):
    """Search, or form the batches that are known of such nodes."""
    search: Grouping = None if _watcher is not None else recall(nodes)
    if search is None:
        return _group(nodes)
    if search.known is not None and not verifying:
        return search.replay()
    found = _group(nodes)
    search.learn(found)
    return found


@cython.cfunc
def _group(nodes: list):
    stacks: dict = {}
    notes: list = None if _watcher is None else []
    groups: list = form_groups(nodes, notes)
    if groups is None:
        return None
    if groups and not _pays(groups, nodes):
        groups = []
        notes = notes and [(facts, count, max(least, count + 1)) for facts, count, least in notes]
    for members in groups:
        _build(members, stacks)
    if notes:
        _watcher(notes, [_quotient_of(members) for members in groups])
    followed: list = stacks.pop(FOLLOWED, None)
    if followed is not None:
        groups.append(followed)
    for members in groups:
        _finish_unheld(members)
    if not groups and nodes and len(nodes) >= tuning_of(nodes[0]).narrow_nodes:
        return None
    return len(groups) > 0


@cython.cfunc
def _finish_unheld(members: list) -> cython.void:
    """Finish members that are computed with their quotient and that nothing can ask for by themselves."""
    node: Node
    position: cython.Py_ssize_t
    for position in range(len(members)):
        prefetch_edges(members, position)
        node = members[position]
        if node.external_refs == 0 and node.quotient is not None:
            finish(node)


@cython.cfunc
def _pays(groups: list, nodes: list) -> cython.bint:
    """True if the groups save enough of these nodes."""
    tuning: Batching = tuning_of(nodes[0])
    spared: cython.double = 0
    count: cython.longlong = 0
    members: list
    node: Node
    for members in groups:
        node = members[0]
        if node.op.kind == CONTRACT:
            spared += spared_by(node, len(members), tuning)
        else:
            spared += max(0, spared_by(node, _terms(members), tuning))
    for node in nodes:
        count += node.op.kind != _view_kind
    return spared * tuning.nodes_of_a_spared_one >= count


@cython.cfunc
def _terms(members: list) -> cython.Py_ssize_t:
    """The number of nodes that a group stands for; a sum that extends other sums counts these, too."""
    count: cython.Py_ssize_t = len(members)
    node: Node
    if _goes_on(members):
        for node in members:
            while goes_on(node.inputs[0]):
                node = node.inputs[0]
                count += 1
    return count


def watch(watcher):
    """Tell a function of every search for batches (None: nobody): what the agenda noted, and the quotient of each of
    its groups (None where all members turned out to be one value). Returns who was told before."""
    global _watcher
    previous, _watcher = _watcher, watcher
    return previous


def watcher():
    """The callback that is told of searches for batches, or None."""
    return _watcher


@cython.cfunc
def _quotient_of(members: list) -> Node:
    return cython.cast(Node, members[0]).quotient


# -- quotients -----------------------------------------------------------------------------------------------------


@cython.cfunc
def _build(members: list, stacks: dict) -> cython.void:
    """The quotient of a group, unless all its members are one value."""
    first: Node = members[0]
    columns: list = read_columns(members, len(first.inputs))
    _bring_in_order(members, columns)
    first = members[0]
    if _goes_on(members):
        _build_sums(members, stacks)
        return
    if joins_tables(first) and (first.op.kind == _SCATTER or not _shared(members, columns[0], 0)):
        _build_union(members, stacks)
        return
    axis: cython.Py_ssize_t = axis_of_operands(members)
    if axis != EQUAL:
        _build_ragged(members, columns, axis, stacks)
        return
    op: Primitive = first.op
    flags: list = _operand_flags(members, columns)
    if flags is None:
        return
    shapes: tuple = tuple([cython.cast(Node, source).shape for source in first.inputs])
    params = first.params
    if op.batch is not None:
        params = op.batch(first.params, shapes, tuple(flags), len(members))
        if params is None and first.params is not None:
            return
    if (op.form == CONCAT or op.form == STACK) and is_one_gather(first):
        operands: list = [_joined_blocks(members, stacks)]
        _stack_quotient(members, operands, params, shapes, [True] * len(flags))
        return
    _build_of_operands(members, columns, params, shapes, flags, stacks)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_aligned(op: Primitive) -> cython.bint:
    """True if the operands of a batch are aligned as those of its members are."""
    return op.kind in (ELEMENTWISE, CONTRACT, MACRO)


@cython.cfunc
def _operand_flags(members: list, columns: list) -> list:
    """A flag for each operand: the quotient has it in batches; None if all members are one value."""
    first: Node = members[0]
    op: Primitive = first.op
    flags: list = []
    index: cython.Py_ssize_t
    for index in range(len(first.inputs)):
        flags.append(len(members) == 1 or not _shared(members, columns[index], index))
    if True not in flags:
        if not _is_row_by_weight(first):
            return None
        flags[0] = True
    if not _is_aligned(op) and "s" not in op.batch_operands:
        return [True] * len(flags)
    return flags


@cython.cfunc
def _build_of_operands(
    members: list, columns: list, params, shapes: tuple, flags: list, stacks: dict
) -> cython.void:
    """The quotient of a group on its members' operands: those in batches where they lie, or gathered."""
    first: Node = members[0]
    arity: cython.Py_ssize_t = len(flags)
    aligned: cython.bint = _is_aligned(first.op)
    operands: list = []
    index: cython.Py_ssize_t
    for index in range(arity):
        operands.append(in_place(columns[index], stacks) if flags[index] else first.inputs[index])
    apart: cython.bint = operands[0] is None and operands[arity - 1] is None
    if len(members) == 1 or (apart and adds_rows(first)):
        _build_sums(members, stacks)
        return
    for index in range(arity):
        if not flags[index]:
            continue
        if operands[index] is None:
            operands[index] = gathered(columns[index], stacks)
        if aligned:
            operands[index] = _align(operands[index], len(shapes[index]), first)
    _stack_quotient(members, operands, params, shapes, flags)


@cython.cfunc
def _goes_on(members: list) -> cython.bint:
    """True if some members extend another sum that nothing else reads."""
    node: Node
    if not adds_rows(members[0]):
        return False
    for node in members:
        if goes_on(node.inputs[0]):
            return True
    return False


@cython.cfunc
def _build_sums(members: list, stacks: dict) -> cython.void:
    """The quotient of sums of rows, each of any number of them, which is a gather."""
    first: Node = members[0]
    node: Node
    operands: list = [gathered_sums(members, stacks)]
    _stack_quotient(members, operands, first.params, (first.shape, first.shape), [True, True])
    for node in members:
        while goes_on(node.inputs[0]):
            node = node.inputs[0]
            finish(node)


@cython.cfunc
def _build_ragged(
    members: list, columns: list, axis: cython.Py_ssize_t, stacks: dict
) -> cython.void:
    """The quotient of members that differ in height along a dimension; where that or an operand cannot be laid out so,
    the quotients of those that are as high as each other."""
    first: Node = members[0]
    found = None if axis == MIXED else ragged_operands(members, columns, axis)
    if found is not None:
        operands, flags = found
        shape: tuple = with_height(first.shape, axis, height_of(members, axis))
        shapes: tuple = tuple([cython.cast(Node, operand).shape for operand in operands])
        _make_quotient(members, operands, first.params, shape, shapes, flags)
        return
    for is_batchable_with in of_one_height(members):
        if len(is_batchable_with) >= tuning_of(first).fewest_rows:
            _build(is_batchable_with, stacks)


@cython.cfunc
def _build_union(members: list, stacks: dict) -> cython.void:
    """The quotient of members that each read or write rows of a table of their own."""
    first: Node = members[0]
    operands, shape, operand_rows = union_operands(members, stacks)
    shapes: tuple = tuple([cython.cast(Node, operand).shape for operand in operands])
    _make_quotient(members, operands, first.params, shape, shapes, (True,) * len(operands))
    batch_of(first.quotient).operand_rows = operand_rows


@cython.cfunc
def _stack_quotient(
    members: list, operands: list, params, shapes: tuple, flags: list
) -> cython.void:
    """The quotient of members that are one row each. Where blocks or rows are joined by a gather, that is the only
    operand, and the value."""
    lead: tuple = (len(members),)
    stacked: tuple
    if len(operands) == len(shapes):
        stacked = tuple([cython.cast(Node, operand).shape for operand in operands])
    else:
        stacked = tuple([lead + each for each in shapes])
    shape: tuple = lead + cython.cast(Node, members[0]).shape
    _make_quotient(members, tuple(operands), params, shape, stacked, tuple(flags))


@cython.cfunc
def _make_quotient(
    members: list, operands: tuple, params, shape: tuple, shapes: tuple, flags: tuple
) -> cython.void:
    """The node that stands for a group, which becomes its rows; `shapes` are those of its operands for a derivative."""
    first: Node = members[0]
    quotient: Node = new_node(
        first.op, operands, params, shape, count_elements(shape), first.dtype, None
    )
    quotient.operand_shapes = shapes
    adopt(quotient, members, flags)
    quotient.batch_seen = True


@cython.cfunc
def _align(stacked: Node, rank: cython.Py_ssize_t, like: Node) -> Node:
    """A stacked operand of fewer dimensions than its result has, with dimensions of size 1 behind the first."""
    if rank >= len(like.shape):
        return stacked
    ones: tuple = (1,) * (len(like.shape) - rank)
    return _view(stacked, stacked.shape[:1] + ones + stacked.shape[1:])


@cython.cfunc
def _joined_blocks(members: list, stacks: dict) -> Node:
    """All blocks of all members in order, as the joined value."""
    sources: list = []
    node: Node
    position: cython.Py_ssize_t
    for position in range(len(members)):
        prefetch_sources(members, position)
        node = members[position]
        sources.extend(node.inputs)
    shape: tuple = (len(members),) + cython.cast(Node, members[0]).shape
    return _view(stack(column_of(sources), stacks), shape)


@cython.cfunc
def _bring_in_order(members: list, columns: list) -> cython.void:
    """Sort members by the rows that they read of one operand, so that readers of the batch find these rows in order.
    Nothing moves if some operand is in order already, or if no operand is made of rows of one batch throughout."""
    chosen: Column = None
    column: Column
    for column in columns:
        if column.order == IN_ORDER:
            return
        if column.order == OUT_OF_ORDER and chosen is None:
            chosen = column
    if chosen is None:
        return
    order_of_rows: list = chosen.order_of_rows()
    members[:] = [members[number] for number in order_of_rows]
    for column in columns:
        if not column.same:
            column.arrange(order_of_rows)


@cython.cfunc
def _shared(members: list, column: Column, index: cython.Py_ssize_t) -> cython.bint:
    """True if an operand is one value with one gradient edge for all members."""
    first: Node = members[0]
    node: Node
    if not column.same and not _one_value(column):
        return False
    if first.edges is None:
        return True
    edge = edge_identity(first.edges[index])
    for node in members:
        if node.edges[index] is not first.edges[index] and edge_identity(node.edges[index]) != edge:
            return False
    return True


@cython.cfunc
def _is_row_by_weight(node: Node) -> cython.bint:
    """True if a node multiplies a vector by a weight and records gradient edges. Even where all such vectors are one
    value (the zeros that recurrent cells start from), each member has a row of its own, so that backward reaches all
    at once."""
    return (
        node.op.kind == CONTRACT
        and node.edges is not None
        and len(cython.cast(Node, node.inputs[0]).shape) == 1
        and operand_role(node, 0) == "b"
    )


@cython.cfunc
def _one_value(column: Column) -> cython.bint:
    """True if different operands are one value: equal numbers, or the same view of one computed value."""
    same = identity(column.at(0))
    position: cython.Py_ssize_t
    if same is None:
        return False
    for position in range(1, column.count):
        if column.items[position] != column.items[0] and identity(column.at(position)) != same:
            return False
    return True


@cython.cfunc
def _view(node: Node, shape: tuple) -> Node:
    """A row-major view of a stacked operand with dimensions of size 1 inserted."""
    result: Node = new_node(OPS["view"], (node,), shape, shape, node.numel, node.dtype, None)
    result.batch_seen = True
    return result


def verify(nodes: list):
    """Every member of a quotient has its own row, and equals the quotient's op."""
    seen: set = set()
    for node in nodes:
        quotient = node.quotient
        if quotient is None:
            continue
        last = node.qrow + height_in(quotient, node)
        shape = quotient.shape[1:]
        if in_ragged(node):
            shape = with_height(quotient.shape, batch_of(quotient).axis, last - node.qrow)
        order_of_rows = {(quotient, row) for row in range(node.qrow, last)}
        if (
            order_of_rows & seen
            or not 0 <= node.qrow < last <= batch_of(quotient).count
            or quotient.op is not node.op
            or shape != node.shape
            or quotient.dtype is not node.dtype
        ):
            raise VerificationError(
                "batch", expected=f"{node!r} in rows of its own", got=f"row {node.qrow}"
            )
        seen |= order_of_rows


def text(nodes: list):
    """One line per quotient: op, rows, which operands are shared."""
    lines = []
    for node in nodes:
        flags = batched_operands(node)
        if flags is not None and node.inputs is not None:
            roles = ", ".join("batched" if flag else "shared" for flag in flags)
            lines.append(f"{node.op.name} x {node.info.count} {list(node.shape[1:])} ({roles})")
    return "\n".join(lines)
