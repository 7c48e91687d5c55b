# cython: language_level=3
"""Batch: equal operations of separate examples run as one.

In come recorded nodes; out goes a quotient, as a side relation: members get `quotient` (a node over a leading batch
dimension) and `qrow`; the recorded graph keeps its inputs and edges. Which nodes are a group says the `agenda`; its
order keeps groups from waiting for each other. Operands that are already rows of one batch in order are used in
place, others gathered. The reverse walk differentiates a quotient once for all reached members (`form_of`);
gradient-only records are grouped when a walk meets them.
"""

import cython
from cython.cimports.weft.graph.handles import wrap
from cython.cimports.weft.graph.making import count_elements, new_node, new_value
from cython.cimports.weft.graph.node import DONE, PENDING, RESULT_SHIFT, Node
from cython.cimports.weft.graph.prefetch import prefetch_edges, prefetch_inputs, prefetch_sources
from cython.cimports.weft.graph.rows import OpRow
from cython.cimports.weft.graph.saves import (
    acquire_saves,
    drop_inputs,
    note_idle,
    release_saves,
)
from cython.cimports.weft.graph.tape import finish
from cython.cimports.weft.schedule.agenda import edge_identity, identity
from cython.cimports.weft.schedule.collect import row_major

from weft._compiled import require
from weft.config import config
from weft.errors import VerificationError
from weft.graph.rows import COMPOSITE, CONTRACT, ELEMENTWISE, MACRO, VIEW
from weft.graph.tape import is_record_only, rejoin
from weft.ops.row import TABLE
from weft.schedule.agenda import form_groups

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
_NO_ROWS = cython.declare(cython.int, 0)
_IN_ORDER = cython.declare(cython.int, 1)
_OUT_OF_ORDER = cython.declare(cython.int, 2)
_cat_row = cython.declare(OpRow, TABLE["cat"])
_watcher = None
_FOLLOWED = "followed"  # the key in `stacks` of views that have become rows


def enabled():
    """Whether batching is on (`weft.config.config.batch`)."""
    return config.batch


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


# -- grouping ------------------------------------------------------------------------------------------------------


def group(nodes: list):
    """Put pending nodes (oldest first) that have not been considered into groups; whether any were formed."""
    if not config.batch:
        return False
    stacks: dict = {}
    notes: list = None if _watcher is None else []
    groups: list = form_groups(nodes, notes)
    for members in groups:
        _build(members, stacks)
    if notes:
        _watcher(notes, [_quotient_of(members) for members in groups])
    node: Node
    position: cython.Py_ssize_t
    followed: list = stacks.pop(_FOLLOWED, None)
    if followed is not None:
        groups.append(followed)
    for members in groups:
        for position in range(len(members)):
            prefetch_edges(members, position)
            node = members[position]
            if node.live == 0 and node.quotient is not None:
                finish(node)  # computed with its quotient; nothing can ask for it by itself
    return len(groups) > 0


def watch(watcher):
    """Tell a function of every search for batches (None: nobody): what the agenda noted, and the quotient of each of
    its groups (None where all members turned out to be one value). Returns who was told before."""
    global _watcher
    former, _watcher = _watcher, watcher
    return former


@cython.cfunc
def _quotient_of(members: list) -> Node:
    return cython.cast(Node, members[0]).quotient


# -- quotients -----------------------------------------------------------------------------------------------------


@cython.cfunc
def _build(members: list, stacks: dict) -> cython.void:
    """The quotient of a group, unless all its members are one value."""
    _bring_in_order(members)
    first: Node = members[0]
    row: OpRow = first.row
    count: cython.Py_ssize_t = len(members)
    arity: cython.Py_ssize_t = len(first.inputs)
    flags: list = []
    index: cython.Py_ssize_t
    for index in range(arity):
        flags.append(not _shared(members, index))
    if True not in flags:
        return
    aligned: cython.bint = row.kind in (ELEMENTWISE, CONTRACT, MACRO)
    if not aligned and row.name != "take":
        flags = [True] * arity
    shapes: tuple = tuple([cython.cast(Node, source).shape for source in first.inputs])
    params = first.params
    if row.batch is not None:
        params = row.batch(first.params, shapes, tuple(flags), count)
        if params is None and first.params is not None:
            return
    if row is _cat_row and _is_one_gather(first):
        _build_cat(members, params, shapes, stacks)
        return
    operands: list = []
    rank: cython.Py_ssize_t = len(first.shape)
    position: cython.Py_ssize_t
    for index in range(arity):
        if not flags[index]:
            operands.append(first.inputs[index])
            continue
        sources: list = []
        for position in range(count):
            prefetch_sources(members, position)
            sources.append(cython.cast(Node, members[position]).inputs[index])
        stacked: Node = stack(sources, stacks)
        if aligned and len(shapes[index]) < rank:
            stacked = _view(stacked, (count,) + (1,) * (rank - len(shapes[index])) + shapes[index])
        operands.append(stacked)
    shape: tuple = (count,) + first.shape
    quotient: Node = new_node(
        row, tuple(operands), params, shape, count_elements(shape), first.dtype, None
    )
    quotient.payload = tuple([cython.cast(Node, operand).shape for operand in operands])
    _adopt(quotient, members, tuple(flags))
    quotient.considered = True


@cython.cfunc
def _is_one_gather(node: Node) -> cython.bint:
    """Whether equal blocks are joined: then all blocks of all members are rows of one gather."""
    source: Node
    first: Node = node.inputs[0]
    for source in node.inputs:
        if source.shape != first.shape:
            return False
    return node.params[0] == 0 and first.numel > 0


@cython.cfunc
def _build_cat(members: list, params: tuple, shapes: tuple, stacks: dict) -> cython.void:
    """The quotient of joined blocks: its one operand is all of them in order, and it is that value."""
    first: Node = members[0]
    count: cython.Py_ssize_t = len(members)
    sources: list = []
    node: Node
    position: cython.Py_ssize_t
    for position in range(count):
        prefetch_sources(members, position)
        node = members[position]
        sources.extend(node.inputs)
    shape: tuple = (count,) + first.shape
    whole: Node = _view(stack(sources, stacks), shape)
    quotient: Node = new_node(
        first.row, (whole,), params, shape, count_elements(shape), first.dtype, None
    )
    quotient.payload = tuple([(count,) + block for block in shapes])
    _adopt(quotient, members, (True,) * len(shapes))
    quotient.considered = True


@cython.cfunc
def _bring_in_order(members: list) -> cython.void:
    """Sort members by where the rows of an operand lie, so that what reads them in turn finds them in order; where no
    operand is in order as it is, and one is made of rows of one batch throughout."""
    first: Node = members[0]
    chosen: cython.Py_ssize_t = -1
    index: cython.Py_ssize_t
    for index in range(len(first.inputs)):
        order: cython.int = _order_of(members, index)
        if order == _IN_ORDER:
            return
        if order == _OUT_OF_ORDER and chosen < 0:
            chosen = index
    if chosen >= 0:
        keys: list = []
        node: Node
        for node in members:
            node = _below_views(node.inputs[chosen])
            keys.append((node.qrow, len(keys)))
        keys.sort()
        members[:] = [members[key[1]] for key in keys]


@cython.cfunc
@cython.exceptval(check=False)
def _order_of(members: list, index: cython.Py_ssize_t) -> cython.int:
    """Whether an operand of members in order is rows of one batch in order, in another order, or something else."""
    order: cython.int = _IN_ORDER
    batch: Node = None
    row: cython.longlong = -1
    node: Node
    quotient: Node
    position: cython.Py_ssize_t
    for position in range(len(members)):
        prefetch_sources(members, position)
        node = _below_views(cython.cast(Node, members[position]).inputs[index])
        quotient = node.quotient
        if (
            quotient is None
            or node.state != PENDING
            or (batch is not None and quotient is not batch)
        ):
            return _NO_ROWS
        if node.qrow < row:
            order = _OUT_OF_ORDER
        batch, row = quotient, node.qrow
    return order


@cython.cfunc
@cython.inline
def _below_views(node: Node) -> Node:
    while node.row.kind == _VIEW and node.quotient is None and node.state == PENDING:
        node = node.inputs[0]
    return node


@cython.cfunc
def _adopt(quotient: Node, members: list, flags: tuple) -> cython.void:
    """Make nodes members of a quotient; it takes over what their derivatives need."""
    count: cython.Py_ssize_t = len(members)
    first: Node = members[0]
    quotient.info = (flags, count)
    if first.edges is not None:
        acquire_saves(quotient, first.edges)
    row: cython.Py_ssize_t
    for row in range(count):
        prefetch_inputs(members, row)
        _become_row(members[row], quotient, row)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _become_row(node: Node, quotient: Node, row: cython.longlong) -> cython.void:
    """Make a node one row of a quotient, which holds what its derivative needs."""
    node.quotient = quotient
    node.qrow = row
    quotient.members += 1
    release_saves(node)


def batched_operands(node: Node):
    """Of a quotient: whether each operand has a row for each example. None of other nodes."""
    if node.info is None or not isinstance(node.info[0], tuple):
        return None
    return node.info[0]


def ungroup(nodes: list):
    """Take pending members that live nodes need out of their batches, to run alone: where a batch fails, each example
    is to answer for itself. Returns whether there were any."""
    found: cython.bint = False
    stack: list = [node for node in nodes if cython.cast(Node, node).live > 0]
    met: set = set()
    node: Node
    while stack:
        node = stack.pop()
        if node.state != PENDING or node in met:
            continue
        met.add(node)
        if node.inputs is not None:
            stack.extend(node.inputs)
        if node.quotient is not None:
            found = True
            _leave(node)
    return found


@cython.cfunc
def _leave(node: Node) -> cython.void:
    """Make a member a node of its own again."""
    quotient: Node = node.quotient
    node.quotient = None
    node.qrow = -1
    if node.edges is not None and not node.released:
        acquire_saves(node, node.edges)
    release_saves(quotient)
    rejoin(node, quotient)


@cython.cfunc
def _shared(members: list, index: cython.Py_ssize_t) -> cython.bint:
    """Whether an operand is one value with one gradient edge for all members."""
    first: Node = members[0]
    value: Node = first.inputs[index]
    same = None
    node: Node
    position: cython.Py_ssize_t
    for position in range(len(members)):
        prefetch_sources(members, position)
        node = members[position]
        if node.inputs[index] is not value:
            if same is None:
                same = identity(value)
                if same is None:
                    return False
            if identity(node.inputs[index]) != same:
                return False
    if first.edges is None or first.edges[index] is None:
        return True
    edge = edge_identity(first.edges[index])
    for node in members:
        if node.edges[index] is not first.edges[index] and edge_identity(node.edges[index]) != edge:
            return False
    return True


@cython.cfunc
def _view(node: Node, shape: tuple) -> Node:
    """A row-major view of a stacked operand with dimensions of size 1 inserted."""
    result: Node = new_node(TABLE["view"], (node,), shape, shape, node.numel, node.dtype, None)
    result.considered = True
    return result


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
    _become_row(node, whole, below.qrow)
    if node.live == 0:
        finish(node)
    else:  # it may be for the sake of a save that its batch is about to take over
        stacks.setdefault(_FOLLOWED, []).append(node)


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


# -- for the reverse walk ------------------------------------------------------------------------------------------


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


def form_of(quotient: Node, members: list):
    """What the rule of a group needs, for all members or for those reached."""
    flags, count = quotient.info
    first: Node = members[0]
    row: OpRow = first.row
    mask: cython.longlong = first.saved
    index: cython.Py_ssize_t
    inputs: list = [None] * len(flags)
    result = None
    if len(members) == count:
        for index in range(len(flags)):
            if mask >> index & 1:
                inputs[index] = wrap(quotient.inputs[index], None)
        if mask >> RESULT_SHIFT & 1:
            result = wrap(quotient.result if row.kind == COMPOSITE else quotient, None)
        return Form(quotient.params, quotient.payload, quotient.shape, inputs, result, flags)
    rows: list = [cython.cast(Node, node).qrow for node in members]
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
                stacked.append(stack(sources, stacks))
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
        quotient.result = stack(results, stacks)
        quotient.result.live += 1
    _adopt(quotient, members, flags)
    quotient.holds = True if first.result is not None else quotient.holds
    quotient.considered = True


def verify(nodes: list):
    """Every member of a quotient has its own row, and equals the quotient's op."""
    seen: set = set()
    for node in nodes:
        quotient = node.quotient
        if quotient is None:
            continue
        place = (quotient, node.qrow)
        if (
            place in seen
            or not 0 <= node.qrow < quotient.info[1]
            or quotient.row is not node.row
            or quotient.shape[1:] != node.shape
            or quotient.dtype is not node.dtype
        ):
            raise VerificationError(
                "batch", expected=f"{node!r} in a row of its own", got=f"row {node.qrow}"
            )
        seen.add(place)


def text(nodes: list):
    """One line per quotient: op, rows, which operands are shared."""
    lines = []
    for node in nodes:
        flags = batched_operands(node)
        if flags is not None and node.inputs is not None:
            count = node.info[1]
            roles = ", ".join("batched" if flag else "shared" for flag in flags)
            lines.append(f"{node.row.name} x {count} {list(node.shape[1:])} ({roles})")
    return "\n".join(lines)
