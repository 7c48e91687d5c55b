# cython: language_level=3
"""Batch: equal operations of separate examples run as one.

In come recorded nodes; out goes a quotient, as a side relation: members get `quotient` (a node over a leading batch
dimension) and `qrow` (`members`); the recorded graph keeps its inputs and edges. Which nodes are a group says the
`agenda`; its order keeps groups from waiting for each other. How operands come together says `stacking`, what the
reverse walk needs of a quotient `forms`.
"""

import cython
from cython.cimports.weft.graph.making import count_elements, new_node
from cython.cimports.weft.graph.node import PENDING, Node
from cython.cimports.weft.graph.prefetch import prefetch_edges, prefetch_sources
from cython.cimports.weft.graph.rows import OpRow
from cython.cimports.weft.graph.tape import finish
from cython.cimports.weft.schedule.agenda import edge_identity, identity
from cython.cimports.weft.schedule.members import adopt
from cython.cimports.weft.schedule.stacking import stack

from weft._compiled import require
from weft.config import config
from weft.errors import VerificationError
from weft.graph.rows import CONTRACT, ELEMENTWISE, MACRO, VIEW
from weft.ops.row import TABLE
from weft.schedule.agenda import form_groups
from weft.schedule.members import batched_operands
from weft.schedule.stacking import FOLLOWED

require(__name__, cython.compiled)

_VIEW = cython.declare(cython.int, VIEW)
_NO_ROWS = cython.declare(cython.int, 0)
_IN_ORDER = cython.declare(cython.int, 1)
_OUT_OF_ORDER = cython.declare(cython.int, 2)
_cat_row = cython.declare(OpRow, TABLE["cat"])
_watcher = None


def enabled():
    """Whether batching is on (`weft.config.config.batch`)."""
    return config.batch


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
    followed: list = stacks.pop(FOLLOWED, None)
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
    adopt(quotient, members, tuple(flags))
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
    adopt(quotient, members, (True,) * len(shapes))
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
