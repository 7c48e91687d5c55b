# cython: language_level=3
"""Batch: equal operations of separate examples run as one.

In come recorded nodes; out goes a quotient, as a side relation: members get `quotient` (a node over a leading batch
dimension) and `qrow`; the recorded graph keeps its inputs and edges. A group has equal op, params, operand shapes,
depth and shared operands. Operands that are already rows of one batch in order are used in place, others gathered.
Depth grows along every value edge, so groups cannot wait for each other. The reverse walk differentiates a
quotient once for all reached members (`form_of`); gradient-only records are grouped when a walk meets them.
"""

import cython
from cython.cimports.weft.graph.node import (
    DONE,
    PENDING,
    RESULT_SHIFT,
    Node,
    OpRow,
    acquire_saves,
    count_elements,
    finish,
    new_node,
    new_value,
    release_saves,
)
from cython.cimports.weft.graph.tensor import wrap

from weft._compiled import require
from weft.config import config
from weft.errors import VerificationError
from weft.graph.node import (
    COMPOSITE,
    CONTRACT,
    ELEMENTWISE,
    SCALAR_ROW,
    SOURCE,
    VIEW,
    is_record_only,
)
from weft.ops.row import TABLE

require(__name__, cython.compiled)

_ROW_BYTES = cython.declare(cython.longlong, 32768)  # larger rows gain nothing from company
_SOURCE = cython.declare(cython.int, SOURCE)
_VIEW = cython.declare(cython.int, VIEW)
_LEAST_ROWS = cython.declare(
    cython.longlong, 3
)  # smaller groups cost more in gathering than they save


def enabled():
    """Whether batching is on (`weft.config.config.batch`)."""
    return config.batch


@cython.final
@cython.cclass
class Form:
    """What a derivative rule needs of a group: batched params, shapes, saved values, which operands are batched."""

    params = cython.declare(object, visibility="readonly")
    shapes = cython.declare(tuple, visibility="readonly")
    shape = cython.declare(tuple, visibility="readonly")
    inputs = cython.declare(list, visibility="readonly")
    result = cython.declare(object, visibility="readonly")
    flags = cython.declare(tuple, visibility="readonly")
    dtypes = cython.declare(object, visibility="readonly")

    def __cinit__(self, params, shapes: tuple, shape: tuple, inputs: list, result, flags: tuple):
        self.params = params
        self.shapes = shapes
        self.shape = shape
        self.inputs = inputs
        self.result = result
        self.flags = flags
        self.dtypes = None


# -- grouping ------------------------------------------------------------------------------------------------------


def group(nodes: list):
    """Put pending nodes (oldest first) that have not been considered into groups."""
    if not config.batch:
        return
    table: dict = {}
    groups: list = []
    node: Node
    for node in nodes:
        if node.depth == 0:
            _set_depth(node)
        if node.considered or node.state != PENDING:
            continue
        node.considered = True
        if _may_join(node):
            _join(table, groups, node)
    batches: list = [members for members in groups if len(members) >= _LEAST_ROWS]
    if not batches:
        return
    batches.sort(key=_first_depth)
    stacks: dict = {}
    for members in batches:
        _build(members, stacks)


def set_depths(nodes: list):
    """Give depths to nodes that are grouped later."""
    node: Node
    for node in nodes:
        if node.depth == 0:
            _set_depth(node)


def _first_depth(members: list):
    node: Node = members[0]
    return node.depth, node.seq


@cython.cfunc
def _set_depth(node: Node) -> cython.void:
    depth: cython.longlong = 0
    source: Node
    if node.inputs is not None:
        for source in node.inputs:
            if source.state == PENDING and source.depth > depth:
                depth = source.depth
    node.depth = depth + 1


@cython.cfunc
def _identity(node: Node):
    """What makes two operands the same value without computing them: a value, or a view of one."""
    if node.state == DONE:
        if node.row is SCALAR_ROW:
            return (node.dtype.code, repr(node.params))
        return id(node)
    if node.row.kind == VIEW:
        below: Node = node.inputs[0]
        if below.state == DONE:
            if below.row is SCALAR_ROW:
                return (node.row.code, node.params, below.dtype.code, repr(below.params))
            return (id(below), node.row.code, node.params)
    return None


@cython.cfunc
def _edge_identity(edge):
    """What makes two gradient edges lead to the same place through the same views."""
    if edge is None:
        return None
    if isinstance(edge, Node):
        node: Node = cython.cast(Node, edge)
        if node.row.kind == VIEW and node.edges is not None and node.observers is None:
            return (node.row.code, node.params, _edge_identity(node.edges[0]))
    return id(edge)


@cython.cfunc
def _may_join(node: Node) -> cython.bint:
    """Whether a node is of a kind and size that gains from company."""
    row: OpRow = node.row
    if (
        not row.batchable
        or row.kind == _SOURCE
        or node.numel * node.dtype.itemsize > _ROW_BYTES
        or node.inputs is None
        or len(node.inputs) == 0
    ):
        return False
    return row.kind != _VIEW or cython.cast(Node, node.inputs[0]).state != DONE


@cython.cfunc
def _join(table: dict, groups: list, node: Node) -> cython.void:
    """Put a node with the first group of its signature: found by hash, confirmed by comparison."""
    key = _hash(node)
    candidates: list = table.get(key)
    if candidates is None:
        members: list = [node]
        table[key] = [members]
        groups.append(members)
        return
    for members in candidates:
        if _alike(members[0], node):
            cython.cast(list, members).append(node)
            return
    members = [node]
    candidates.append(members)
    groups.append(members)


@cython.cfunc
@cython.inline
def _mix(h: cython.ulonglong, x: cython.longlong) -> cython.ulonglong:
    h = (h ^ cython.cast(cython.ulonglong, x)) * cython.cast(cython.ulonglong, 1099511628211)
    return h ^ (h >> 29)


@cython.cfunc
def _hash(node: Node):
    """A hash of what `_alike` compares."""
    h: cython.ulonglong = _mix(1469598103, node.depth * 4096 + node.row.code)
    h = _mix(h, hash(node.shape))
    if node.params is not None:
        h = _mix(h, hash(node.params))
    source: Node
    for source in node.inputs:
        if source.shape is not node.shape:
            h = _mix(h, hash(source.shape))
    return cython.cast(cython.longlong, h >> 1)


@cython.cfunc
def _alike(one: Node, other: Node) -> cython.bint:
    """Equal op, params, depth, operand shapes and types, gradient pattern; the same values where they are shared."""
    if (
        one.row is not other.row
        or one.depth != other.depth
        or one.dtype is not other.dtype
        or len(one.inputs) != len(other.inputs)
        or (one.edges is None) != (other.edges is None)
        or (one.shape is not other.shape and one.shape != other.shape)
        or (one.params is not other.params and one.params != other.params)
    ):
        return False
    index: cython.Py_ssize_t
    for index in range(len(one.inputs)):
        if not _operands_alike(one, other, index):
            return False
    return True


@cython.cfunc
def _operands_alike(one: Node, other: Node, index: cython.Py_ssize_t) -> cython.bint:
    a: Node = one.inputs[index]
    b: Node = other.inputs[index]
    if a.dtype is not b.dtype or (a.shape is not b.shape and a.shape != b.shape):
        return False
    if one.edges is not None and (one.edges[index] is None) != (other.edges[index] is None):
        return False
    roles: tuple = one.row.batch_operands
    role: str = roles[index if index < len(roles) else len(roles) - 1]
    if role == "b":
        if a is b or a.numel * a.dtype.itemsize <= _ROW_BYTES:
            return True
        same = _identity(a)
        return same is not None and same == _identity(b)
    if a is not b:
        same = _identity(a)
        if role == "s" and same is None:
            return False
        if same != _identity(b):
            return False
    else:
        same = True
    if same is None or one.edges is None or one.edges[index] is other.edges[index]:
        return True
    return _edge_identity(one.edges[index]) == _edge_identity(other.edges[index])


# -- quotients -----------------------------------------------------------------------------------------------------


@cython.cfunc
def _build(members: list, stacks: dict) -> cython.void:
    """The quotient of a group, unless all its members are one value."""
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
    aligned: cython.bint = row.kind == ELEMENTWISE or row.kind == CONTRACT
    if not aligned and row.name != "take":
        flags = [True] * arity
    shapes: tuple = tuple([cython.cast(Node, source).shape for source in first.inputs])
    params = first.params
    if row.batch is not None:
        params = row.batch(first.params, shapes, tuple(flags), count)
        if params is None and first.params is not None:
            return
    operands: list = []
    rank: cython.Py_ssize_t = len(first.shape)
    node: Node
    for index in range(arity):
        if not flags[index]:
            operands.append(first.inputs[index])
            continue
        sources: list = []
        for node in members:
            sources.append(node.inputs[index])
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
    quotient.depth = first.depth


@cython.cfunc
def _adopt(quotient: Node, members: list, flags: tuple) -> cython.void:
    """Make nodes members of a quotient; it takes over what their derivatives need."""
    count: cython.Py_ssize_t = len(members)
    quotient.info = (flags, count)
    quotient.members = count
    row: cython.Py_ssize_t
    for row in range(count):
        node: Node = members[row]
        node.quotient = quotient
        node.qrow = row
        if node.edges is not None and row == 0:
            acquire_saves(quotient, node.edges)
        release_saves(node)


@cython.cfunc
def _shared(members: list, index: cython.Py_ssize_t) -> cython.bint:
    """Whether an operand is one value with one gradient edge for all members."""
    first: Node = members[0]
    value: Node = first.inputs[index]
    same = None
    node: Node
    for node in members:
        if node.inputs[index] is not value:
            if same is None:
                same = _identity(value)
                if same is None:
                    return False
            if _identity(node.inputs[index]) != same:
                return False
    if first.edges is None or first.edges[index] is None:
        return True
    edge = _edge_identity(first.edges[index])
    for node in members:
        if (
            node.edges[index] is not first.edges[index]
            and _edge_identity(node.edges[index]) != edge
        ):
            return False
    return True


@cython.cfunc
def _view(node: Node, shape: tuple) -> Node:
    """A row-major view of a stacked operand with dimensions of size 1 inserted."""
    result: Node = new_node(TABLE["view"], (node,), shape, shape, node.numel, node.dtype, None)
    result.considered = True
    result.depth = node.depth
    return result


@cython.cfunc
def stack(sources: list, stacks: dict) -> Node:
    """The operands of a group as one value with a leading dimension: in place where they lie in order."""
    first: Node = sources[0]
    count: cython.Py_ssize_t = len(sources)
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
    source: Node
    for source in sources:
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
def _consecutive(sources: list):
    """Rows of one quotient in order: the quotient itself, or a slice of it."""
    first: Node = sources[0]
    quotient: Node = first.quotient
    count: cython.Py_ssize_t = len(sources)
    index: cython.Py_ssize_t
    for index in range(count):
        node: Node = sources[index]
        if node.quotient is not quotient or node.qrow != first.qrow + index:
            return None
    if count == quotient.info[1]:
        return quotient
    shape: tuple = (count,) + quotient.shape[1:]
    result: Node = new_node(
        TABLE["slice"],
        (quotient,),
        (0, first.qrow, count, 1),
        shape,
        count_elements(shape),
        quotient.dtype,
        None,
    )
    result.considered = True
    result.depth = quotient.depth
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
    source: Node
    for source in sources:
        if source.state == PENDING and source.depth == 0:
            return node  # recorded by a walk that is still going on: depths are set at its end
    _set_depth(node)
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
    node: Node
    for node in records:
        if node.considered or not node.row.batchable or not is_record_only(node):
            continue
        node.considered = True
        key = _record_key(node)
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
def _record_key(node: Node):
    parts: list = [node.row.code, node.params, node.dtype.code, node.shape, node.payload]
    for edge in node.edges:
        if edge is None:
            parts.append(None)
        elif isinstance(edge, Node):
            below: Node = cython.cast(Node, edge)
            parts.append(
                id(below.quotient) if below.quotient is not None else (below.row.code, below.depth)
            )
        else:
            parts.append(id(edge))
    if node.result is not None:
        parts.append(id(node.result.quotient) if node.result.quotient is not None else 0)
    return tuple(parts)


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
        if place in seen or not 0 <= node.qrow < quotient.info[1] or quotient.row is not node.row:
            raise VerificationError(
                "batch", expected=f"{node!r} in a row of its own", got=f"row {node.qrow}"
            )
        seen.add(place)


def text(nodes: list):
    """One line per quotient: op, rows, which operands are shared."""
    lines = []
    for node in nodes:
        if node.info is not None and node.inputs is not None:
            flags, count = node.info
            roles = ", ".join("batched" if flag else "shared" for flag in flags)
            lines.append(f"{node.row.name} x {count} {list(node.shape[1:])} ({roles})")
    return "\n".join(lines)
