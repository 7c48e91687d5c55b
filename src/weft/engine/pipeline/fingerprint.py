# cython: language_level=3
"""The fingerprint of a flush: the key under which its executable is cached.

It is made of the pending nodes' structure, sizes, liveness, operands and outside layouts, and of the memory budget;
with it come the values from outside in order of first use. Numbers in the program are run-time arguments and no part
of the key, but which of them are equal is. Nodes that batching has seen differ from those that it has not, so that a
program without batches is recognised before anybody searches for them.
"""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.capi.int_range import is_within
from cython.cimports.weft.engine.devices.api import bounded, device_at
from cython.cimports.weft.engine.ir.deferral import DEFERRED, shortage
from cython.cimports.weft.engine.ir.node import (
    DONE,
    PENDING,
    Node,
    deferral_of,
    is_live,
    observers_on,
)
from cython.cimports.weft.engine.ir.primitive import SELECT, STRIDED, Primitive
from cython.cimports.weft.engine.pipeline.fingerprint import (
    GROUPING,
    NEW,
    NUMBER_SLOTS,
    SOON,
    Number,
    next_stamp,
)
from cython.cimports.weft.engine.pipeline.segment_index import SegmentIndex
from cython.cimports.weft.engine.replay.fingerprint import (
    Fingerprint,
    put,
    put_object,
    put_part,
    put_sizes,
    reserve,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ROWS, SCALAR_OP, VIEW

require(__name__, cython.compiled)

COMES_NEW, COMES_SOON = NEW, SOON  # for what is not compiled

_stamp = 0
_numbered = 0
_others: dict = {}
_OUTSIDE = cython.declare(cython.longlong, 1 << 31)
_plain_ints = cython.declare(cython.longlong, (1 << 62) - 1)
_LOW = cython.declare(cython.longlong, (1 << 32) - 1)
_ROWS = cython.declare(cython.int, ROWS)
_VIEW = cython.declare(cython.int, VIEW)
_scalar_op = cython.declare(Primitive, SCALAR_OP)


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class FlushFingerprint:
    """The structure of a list of pending nodes. `external` are the values read, `nodes` the nodes in order; `live` is
    whether any of them is. It is `complete` unless a value read is pending on another thread's tape, and `tracked` if a
    node that batches may still be formed of has gradient edges."""

    def __cinit__(self, nodes: list):
        self.nodes = nodes
        self.external = []
        self.complete = True
        self.given = len(nodes)
        self.key = Fingerprint.__new__(Fingerprint)
        reserve(self.key, 16 + 12 * len(nodes))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_numbers(key: Fingerprint, numbers: tuple) -> cython.int:
    """Append a tuple of integers and room for eight words more."""
    reserve(key, len(numbers) + 9)
    put(key, len(numbers))
    put_sizes(key, numbers)
    return 0


@cython.ccall
def fingerprint_of(nodes: list, variant: cython.int = 1) -> FlushFingerprint:
    """The key of pending nodes (oldest first); `variant` is how they are to run: with batches formed of them (1),
    as they are (0), or as one of those ways to run a node alone (`interpreter`); or `GROUPING`, where batches are to be
    formed of them. Members of batches that they read, and that are not on the tape, are appended to the list."""
    result: FlushFingerprint = FlushFingerprint(nodes)
    result.variant = variant
    position: cython.longlong = 0
    node: Node
    budget: cython.Py_ssize_t = 0
    if variant == GROUPING and nodes:
        node = nodes[0]
        result.places, result.rows = {}, {}
        put_object(result.key, device_at(node.device).tuning.batching)
    next_stamp()
    for node in nodes:
        node.index = _stamp << 32 | position
        position += 1
    for node in nodes:
        _describe(result, node)
        if variant == GROUPING:
            _describe_search(result, node)
    for node in result.external:
        _describe_outside(result.key, node)
        if variant == GROUPING:
            _describe_place(result, node)
    put(result.key, variant)
    if bounded and nodes:
        node = nodes[0]
        budget = device_at(node.device).memory.budget()
    put(result.key, budget)
    put(result.key, shortage if budget > 0 else 0)
    _forget_numbers()
    result.key.digest()
    return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def _describe(result: FlushFingerprint, node: Node) -> cython.int:
    """Append one node."""
    source: Node
    key: Fingerprint = result.key
    arity: cython.Py_ssize_t = -1 if node.inputs is None else len(node.inputs)
    reserve(key, arity + 8)
    tracked: cython.bint = node.edges is not None and not node.batch_seen
    if is_live(node):
        result.live = True
    if tracked and result.tracked == 0:
        result.tracked = node.seq
    put(
        key,
        cython.cast(cython.longlong, node.op.code)
        | cython.cast(cython.longlong, node.device) << 16
        | cython.cast(cython.longlong, node.dtype.code) << 20
        | cython.cast(cython.longlong, is_live(node)) << 28
        | cython.cast(cython.longlong, node.batch_seen) << 29
        | cython.cast(cython.longlong, node.quotient is not None) << 30
        | cython.cast(cython.longlong, node.params is not None) << 31
        | cython.cast(cython.longlong, tracked) << 32
        | cython.cast(cython.longlong, node.external_refs > 0 and deferral_of(node) == DEFERRED)
        << 33
        | cython.cast(cython.longlong, node.may_fail) << 34
        | cython.cast(cython.longlong, arity + 1) << 35,
    )
    if node.quotient is not None:
        put(key, _link(result, node.quotient))
        put(key, node.qrow)
    elif arity > 0:
        for source in node.inputs:
            put(key, _link(result, source))
    _put_numbers(key, node.shape)
    if node.params is not None and not (result.variant == GROUPING and _describe_row(result, node)):
        put_part(key, node.params)
    if node.op.kind == _ROWS:
        put(key, cython.cast(SegmentIndex, node.info).numbers.count)
        put_object(key, node.info)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _describe_outside(key: Fingerprint, node: Node) -> cython.int:
    reserve(key, 4)
    put(
        key,
        cython.cast(cython.longlong, node.dtype.code)
        | cython.cast(cython.longlong, node.op is _scalar_op) << 8
        | cython.cast(cython.longlong, node.strides is not None) << 9
        | cython.cast(cython.longlong, node.device) << 10,
    )
    _put_numbers(key, node.shape)
    if node.strides is not None:
        _put_numbers(key, node.strides)
    return 0


# -- what a search for batches looks at ----------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def _describe_search(result: FlushFingerprint, node: Node) -> cython.int:
    """Append what a search for batches sees of a node beside what runs: whether it is held and observed, where its
    gradients go, and the call that recorded it."""
    key: Fingerprint = result.key
    index: cython.Py_ssize_t
    seen: cython.bint = node.batch_seen and node.op.kind != _VIEW
    edges: tuple = None if seen else node.edges
    count: cython.Py_ssize_t = -1 if edges is None else len(edges)
    reserve(key, 4 + max(0, count))
    put(
        key,
        cython.cast(cython.longlong, node.external_refs > 0)
        | cython.cast(cython.longlong, observers_on(node) is not None) << 1
        | cython.cast(cython.longlong, node.residual_mask != 0) << 2
        | cython.cast(cython.longlong, node.edges is not None) << 3
        | cython.cast(cython.longlong, count + 1) << 4,
    )
    if not node.batch_seen:
        put(key, cython.cast(cython.longlong, cython.cast(cython.p_void, node.code)))
        put(
            key,
            cython.cast(cython.longlong, node.offset_in_code)
            | cython.cast(cython.longlong, node.library_site) << 32,
        )
    for index in range(count):
        link: cython.longlong = _edge_link(result, edges[index])
        reserve(key, 1 + count - index)
        put(key, link)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _edge_link(result: FlushFingerprint, edge) -> cython.longlong:
    """The number that stands for the target of a gradient edge: 0 for none, a pending node's position, or less than -1
    for others, by first use."""
    if edge is None:
        return 0
    if isinstance(edge, Node):
        below: Node = cython.cast(Node, edge)
        if below.index >> 32 == _stamp and below.index & _LOW < result.given:
            return 1 + (below.index & _LOW)
    address: cython.longlong = cython.cast(cython.longlong, cython.cast(cython.p_void, edge))
    known = result.places.get(address)
    if known is None:
        known = result.places[address] = -2 - len(result.places)
        _describe_target(result, edge)
    return known


@cython.cfunc
@cython.exceptval(-1, check=False)
def _describe_target(result: FlushFingerprint, edge) -> cython.int:
    """Append the views that a target of edges is reached through: equal ones of one record are one target."""
    key: Fingerprint = result.key
    reserve(key, 3)
    if isinstance(edge, Node):
        node: Node = cython.cast(Node, edge)
        if node.op.kind == _VIEW and node.edges is not None and observers_on(node) is None:
            put(key, node.op.code)
            put_part(key, node.params)
            link: cython.longlong = _edge_link(result, node.edges[0])
            reserve(key, 1)
            put(key, link)
            return 0
    put(key, -1)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _describe_row(result: FlushFingerprint, node: Node) -> cython.bint:
    """Append where a row of a value that is there lies, in place of its number, if a node is one; whether it is. So the
    next row at each step is the same structure, as it is for the program (`operand_packing.settle_view`)."""
    base: Node = node
    elements: cython.longlong = 0
    while base.op.form == SELECT and base.state == PENDING and base.quotient is None:
        if base.params[0] != 0:
            return False
        elements += cython.cast(cython.longlong, base.params[1]) * base.numel
        base = base.inputs[0]
    if base.op.form == STRIDED and base.state == PENDING and base.quotient is None:
        elements += cython.cast(cython.longlong, base.params[0])
        put_part(result.key, base.params[1])
        base = base.inputs[0]
    if (
        base.state != DONE
        or base.buffer is None
        or base.strides is not None
        or len(base.shape) <= len(node.shape)
    ):
        return False
    offset: cython.longlong = elements * base.dtype.itemsize
    number: cython.longlong = result.rows.setdefault(node.params, len(result.rows))
    address: cython.longlong = _address_of(base)
    first: cython.longlong = base.offset + offset
    known: tuple = result.rows.get(address)
    if known is None or known[1] is not base:
        first = first if known is None else known[0]
        result.rows[address] = (first, base if known is None else None)
    else:
        first = known[0]
    reserve(result.key, 3)
    put(result.key, -2)
    put(result.key, number)
    put(result.key, base.offset + offset - first)
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _address_of(node: Node) -> cython.longlong:
    """A number for the memory that a value lies in."""
    return cython.cast(cython.longlong, cython.cast(cython.p_void, node.buffer))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _describe_place(result: FlushFingerprint, node: Node) -> cython.int:
    """Append where a value from outside lies: in which memory, and how far from the first one there, and from the rows
    there; but not how far from its own rows, which nothing puts beside it."""
    key: Fingerprint = result.key
    reserve(key, 4)
    put(key, node.state)
    if node.buffer is None or node.state != DONE:
        put(key, -1)
        return 0
    address: cython.longlong = _address_of(node)
    known: tuple = result.places.get(address)
    if known is None:
        known = result.places[address] = (len(result.places), node.offset)
    put(key, known[0])
    put(key, node.offset - cython.cast(cython.longlong, known[1]))
    rows: tuple = result.rows.get(address)
    if rows is not None and rows[1] is not node:
        put(key, cython.cast(cython.longlong, rows[0]) - node.offset)
    return 0


# -- wiring --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
def _link(result: FlushFingerprint, source: Node) -> cython.longlong:
    """The number that stands for an input in the key: a pending node's position, or the order of first use of a value
    from outside. It is kept in `index` under the stamp of this key; `mark` belongs to a walk that may be going on."""
    if source.index >> 32 != _stamp:
        _name(result, source)
    return source.index & _LOW


@cython.cfunc
def _name(result: FlushFingerprint, source: Node):
    """Name a value from outside. Equal numbers are one value, whichever node carries them. A member that left the tape
    with its batch is not from outside: it joins the nodes."""
    if source.state == PENDING and source.quotient is not None:
        source.index = _stamp << 32 | len(result.nodes)
        result.nodes.append(source)
        return
    link: cython.longlong = _stamp << 32 | _OUTSIDE + len(result.external) + 1
    if source.op is _scalar_op:
        link = _number_link(source, link)
    source.index = link
    if link & _LOW > _OUTSIDE + len(result.external):
        result.external.append(source)
        if source.state == PENDING:
            result.complete = False


@cython.cfunc
def _number_link(source: Node, link: cython.longlong) -> cython.longlong:
    """The link of a number that has come before, else the given one, which it then has."""
    kind: cython.longlong = source.dtype.code * 4
    bits: cython.longlong
    value: cython.double
    number = source.params
    if type(number) is float:
        value = number
        bits = 0x7FF8000000000000
        if value == value:
            memcpy(cython.address(bits), cython.address(value), 8)
    elif type(number) is int and is_within(number, _plain_ints):
        bits = number
        kind += 1
    else:
        return _rare_link(source, link)
    found: cython.longlong = _place_number(kind, bits, link)
    return found if found >= 0 else _rare_link(source, link)


@cython.cfunc
@cython.exceptval(check=False)
def _place_number(
    kind: cython.longlong, bits: cython.longlong, link: cython.longlong
) -> cython.longlong:
    """The link of a number in the hash table, inserted now if there is room; -1 if there is none."""
    global _numbered
    place: cython.Py_ssize_t = (mix(kind, bits) >> 7) % NUMBER_SLOTS
    entry: cython.pointer(Number) = cython.address(_numbers[place])
    while entry.stamp == _stamp:
        if entry.kind == kind and entry.bits == bits:
            return entry.index
        place = (place + 1) % NUMBER_SLOTS
        entry = cython.address(_numbers[place])
    if _numbered >= NUMBER_SLOTS // 2:
        return -1
    entry.stamp = _stamp
    entry.kind = kind
    entry.bits = bits
    entry.index = link
    _numbered += 1
    return link


@cython.cfunc
def _rare_link(source: Node, link: cython.longlong) -> cython.longlong:
    """The same for numbers of other types, and for those beyond the first few hundred."""
    key = (source.dtype.code, type(source.params), repr(source.params))
    return _others.setdefault(key, link)


@cython.cfunc
def _forget_numbers():
    global _numbered
    _numbered = 0
    if _others:
        _others.clear()
