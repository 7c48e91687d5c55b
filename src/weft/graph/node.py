# cython: language_level=3
"""Nodes, gradient edges and the tape.

In come an op row, value inputs and gradient edges; out goes an immutable record on the calling thread's tape. A
node is one operation with one value. Values (`inputs`) and gradients (`edges`) are two relations on the same
record. What happens to a node later (its buffer, its place in a batch) is kept in its execution fields, which the
schedule and the walks own. How nodes run is left to the pipeline, what they mean to the op table.
"""

import os
from _thread import _local as thread_local  # `threading.local` without the rest of threading

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdlib import realloc
from cython.cimports.libc.string import memset
from cython.cimports.weft.graph.dtype import DType
from cython.cimports.weft.graph.frames import caller, thread_id
from cython.cimports.weft.graph.node import (
    DONE,
    FAILED,
    MASKS,
    PENDING,
    POOL,
    RESULT_SHIFT,
    SINKS,
    Py_SET_REFCNT,
    PyObject_GC_Track,
    PyObject_GC_UnTrack,
    PyTypeObject,
)

from weft._compiled import require
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError

require(__name__, cython.compiled)

ELEMENTWISE, REDUCE, VIEW, REGION, CONTRACT, INDEX, SCATTER, SCAN, SOURCE, ROWS, HOST, COMPOSITE = (
    range(12)
)
KIND_NAMES = (
    "elementwise",
    "reduce",
    "view",
    "region",
    "contract",
    "index",
    "scatter",
    "scan",
    "source",
    "rows",
    "host",
    "composite",
)


@cython.cclass
class OpRow:
    """One complete record of the op table; `weft.ops.table` builds and checks them."""

    def __init__(self, **fields):
        self.name = fields["name"]
        self.grad_name = fields["grad_name"]
        self.code = fields["code"]
        self.kind = fields["kind"]
        self.rule = fields["rule"]
        self.operands = fields["operands"]
        self.shape = fields["shape"]
        self.dtype = fields["dtype"]
        self.numpy = fields["numpy"]
        self.pulls = fields["pulls"]
        self.pull_saves = fields["pull_saves"]
        self.batch_operands = fields["batch_operands"]
        self.pull_masks = fields["pull_masks"]
        self.differentiable = fields["differentiable"]
        self.takes = fields["takes"]
        self.types = fields["types"]
        self.batchable = fields["batchable"]
        self.push = fields["push"]
        self.batch = fields["batch"]
        self.lower = fields["lower"]
        self.strides = fields["strides"]
        self.samples = fields["samples"]
        self.why = fields["why"]
        self.mask_count = len(self.pull_masks)
        if self.mask_count > MASKS:
            raise ValueError(f"{self.name}: more than {MASKS} derivatives")
        index: cython.int
        for index in range(self.mask_count):
            self.masks[index] = self.pull_masks[index]

    def __repr__(self):
        return f"<op {self.name}>"


def _bare_row(name):
    return OpRow(
        name=name,
        grad_name="",
        code=-1,
        kind=SOURCE,
        rule=0,
        operands=(),
        shape=None,
        dtype=None,
        numpy=None,
        pulls=(),
        pull_saves=(),
        batch_operands=(),
        pull_masks=(),
        differentiable=False,
        takes=(),
        types=0,
        batchable=False,
        push=None,
        batch=None,
        lower=None,
        strides=None,
        samples=None,
        why="a value, not an operation",
    )


RESULT_BIT = RESULT_SHIFT
PENDING_STATE, DONE_STATE, FAILED_STATE = PENDING, DONE, FAILED
VALUE_ROW = _bare_row("value")
SCALAR_ROW = _bare_row("scalar")
_value_row = VALUE_ROW
_scalar_row = SCALAR_ROW


_eager_from_the_start: cython.bint = os.environ.get("WEFT_EAGER") == "1"


@cython.cclass
class Mode:
    """All ambient state of one line of execution: grad mode, inference mode, eager, anomaly, the number of the running
    walk and whether its targets were chosen, hooks on saved values (outermost pair first), levels of
    forward mode, what else contexts remember by name."""

    def __cinit__(self):
        self.grad = True
        self.inference = False
        self.eager = _eager_from_the_start
        self.anomaly = False
        self.walk = 0
        self.chosen = False
        self.duals = None
        self.saved_hooks = None
        self.extra = None


@cython.cclass
class Tape:
    """The pending nodes of one thread, in order of creation. `left` of them stood there after the last flush;
    `arrived_bytes` stand for values from outside since then, which pending nodes may hold."""

    def __cinit__(self):
        self.head = cython.NULL
        self.tail = cython.NULL
        self.count = 0
        self.pending_bytes = 0
        self.left = 0
        self.arrived_bytes = 0
        self.mode = Mode()
        self.running = None

    def pending(self):
        """The pending nodes, oldest first."""
        nodes: list = []
        pointer: cython.p_void = self.head
        while pointer != cython.NULL:
            node: Node = cython.cast(Node, pointer)
            nodes.append(node)
            pointer = node.next
        return nodes

    def since(self, sequence: cython.longlong):
        """The pending nodes created after a sequence number, oldest first."""
        nodes: list = []
        pointer: cython.p_void = self.tail
        while pointer != cython.NULL:
            node: Node = cython.cast(Node, pointer)
            if node.seq <= sequence:
                break
            nodes.append(node)
            pointer = node.previous
        nodes.reverse()
        return nodes


_local = thread_local()
_tapes: list = []
_free_tapes: list = []
_idle: list = []
_current = Tape()
_current_id = 0
_sequence = 0
MOST_ELEMENTS = 1 << 58
# A byte that has come from outside weighs so many that are recorded: it exists, and most of those never will.
_arrived_weight = cython.declare(cython.longlong, 8)
_view_kind = VIEW
_draining = False
_graveyard = cython.NULL
_buried = 0
_room = 0
_live = 0
_waiting = 0
_sinks_waiting = 0
_ambient = 0
_packer = None


class _TapeOwner:
    """Gives a thread's tape back when the thread ends; its pending nodes stay readable from other threads."""

    def __init__(self):
        self.tape = _free_tapes.pop() if _free_tapes else Tape()
        self.tape.mode = Mode()
        _tapes.append(self.tape)

    def __del__(self):
        if _tapes is not None and self.tape in _tapes:
            _tapes.remove(self.tape)
            _free_tapes.append(self.tape)


@cython.cfunc
def current_tape() -> Tape:
    """The calling thread's tape."""
    global _current, _current_id
    identity: cython.ulonglong = thread_id()
    if identity == _current_id:
        return _current
    owner = getattr(_local, "owner", None)
    if owner is None:
        owner = _local.owner = _TapeOwner()
    _current = owner.tape
    _current_id = identity
    return _current


def tape():
    """The calling thread's tape."""
    return current_tape()


@cython.cfunc
def count_elements(shape: tuple) -> cython.longlong:
    """The number of elements of a shape. Errors: ShapeError where no memory could ever hold so many."""
    total: cython.longlong = 1
    exact: cython.double = 1
    size: cython.longlong
    for size in shape:
        total *= size
        exact *= size
    if exact > MOST_ELEMENTS:
        raise ShapeError(
            "a tensor of this shape has too many elements (integer multiplication overflow)",
            expected=f"at most {MOST_ELEMENTS} elements",
            got=f"shape {list(shape)}",
            fix="check how the sizes were computed",
        )
    return total


@cython.final
@cython.no_gc
@cython.cclass
class Node:
    """One recorded operation. `inputs` are values, `edges` the gradient edges as they stood at the call."""

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def nbytes(self):
        return self.numel * self.dtype.itemsize

    @property
    def requires_grad(self):
        return self.edges is not None

    def name(self):
        """The name of the gradient node, as `MulBackward0`."""
        return self.row.grad_name

    @property
    def where(self):
        """The user's line that recorded this node."""
        from weft.errors import describe_position

        return describe_position(self.code, self.offset_in_code)

    def __repr__(self):
        if self.row.grad_name and self.edges is not None:
            return f"<{self.row.grad_name} at {id(self):#x}>"
        return f"<node {self.seq} {self.row.name} {self.dtype.name}{list(self.shape)}>"


@cython.ccall
@cython.exceptval(check=False)
def acquire_saves(node: Node, edges: tuple) -> cython.void:
    """Keep alive what the derivative needs for the edges that there are: declared inputs, and the node's own value.
    `saved` has a bit for each input kept, and RESULT_BIT."""
    if node.holds or node.inputs is None:
        return
    row: OpRow = node.row
    mask: cython.longlong = 0
    index: cython.Py_ssize_t
    last: cython.Py_ssize_t = row.mask_count - 1
    for index in range(len(edges)):
        if edges[index] is not None:
            mask |= row.masks[index if index < last else last]
    node.saved = mask
    node.holds = True
    if mask == 0:
        return
    for index in range(len(node.inputs)):
        if mask >> index & 1:
            cython.cast(Node, node.inputs[index]).live += 1
    if mask >> RESULT_SHIFT & 1 and row.kind != COMPOSITE:
        node.live += 1


@cython.cfunc
def _held(node: Node) -> cython.longlong:
    """The saves that a node keeps itself: not those that a user's hook has taken over."""
    if node.observers is None:
        return node.saved
    return node.saved & ~cython.cast(cython.longlong, node.observers.packed_mask)


@cython.ccall
@cython.exceptval(check=False)
def release_saves(node: Node) -> cython.void:
    """Give up what `acquire_saves` kept."""
    if not node.holds:
        return
    node.holds = False
    mask: cython.longlong = _held(node)
    index: cython.Py_ssize_t
    if node.inputs is not None:
        for index in range(len(node.inputs)):
            if mask >> index & 1:
                cython.cast(Node, node.inputs[index]).live -= 1
    if node.row.kind == COMPOSITE:
        if node.result is not None:
            node.result.live -= 1
    elif mask >> RESULT_SHIFT & 1:
        node.live -= 1


def give_up_save(node: Node, index: cython.Py_ssize_t):
    """Stop keeping one save (an input's number or RESULT_BIT): `observers` has what a hook made of it."""
    if not node.holds or not _held(node) >> index & 1:
        return
    if index < RESULT_SHIFT:
        cython.cast(Node, node.inputs[index]).live -= 1
    elif node.row.kind == COMPOSITE:
        node.result.live -= 1
        node.result = None
    else:
        node.live -= 1
    node.observers.packed_mask |= cython.cast(cython.longlong, 1) << index


def watch_records(packer, change: cython.int):
    """Open (+1) or close (-1) a context in which the recorder asks about hooks on saves, forward or inference mode."""
    global _ambient, _packer
    _packer = packer
    _ambient += change


@cython.cfunc
@cython.exceptval(check=False)
def note_idle(node: Node) -> cython.void:
    """A walk or a handle has let go of a node that other records hold as a gradient edge: its value may go too, once
    what is pending has read it."""
    if node.buffer is not None and node.state == DONE:
        _idle.append(node)


def free_idle():
    """Give up the values that nobody holds any more and nothing pending reads; called when a tape's work is done."""
    global _idle
    if not _idle:
        return
    read: set = set()
    waiting: list = []
    node: Node
    source: Node
    for tape in _tapes:
        for node in cython.cast(Tape, tape).pending():
            for source in node.inputs or ():
                read.add(id(source))
    for node in _idle:
        if node.live == 0:
            if id(node) in read:
                waiting.append(node)
            else:
                node.buffer = None
    _idle = waiting


@cython.ccall
def drop_inputs(node: Node) -> cython.void:
    """After execution: forget the value inputs, except the declared saves of a node that still holds them."""
    if node.inputs is None:
        return
    if not node.holds:
        node.inputs = None
        return
    mask: cython.longlong = _held(node)
    if mask == 0 or mask == cython.cast(cython.longlong, 1) << RESULT_SHIFT:
        node.inputs = ()
        return
    kept: list = []
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        kept.append(node.inputs[index] if mask >> index & 1 else None)
    node.inputs = tuple(kept)


@cython.cfunc
@cython.exceptval(check=False)
def drain() -> cython.void:
    """Free what dying nodes left behind by a loop: a chain of a million nodes dies without recursion."""
    global _draining, _buried
    _draining = True
    while _buried > 0:
        _buried -= 1
        Py_DECREF(cython.cast(object, _graveyard[_buried]))
    _draining = False


@cython.cfunc
@cython.exceptval(check=False)
def bury(child) -> cython.void:
    """Take over a reference of a dying object to another part of the graph."""
    global _graveyard, _buried, _room
    if _buried == _room:
        _room = 2 * _room + 1024
        _graveyard = cython.cast(
            cython.pointer(cython.pointer(PyObject)),
            realloc(_graveyard, _room * cython.sizeof(cython.p_void)),
        )
    Py_INCREF(child)
    _graveyard[_buried] = cython.cast(cython.pointer(PyObject), child)
    _buried += 1


@cython.cfunc
@cython.exceptval(check=False)
def end_burial() -> cython.void:
    """Free what was buried, unless a loop above already does."""
    if not _draining and _buried > 0:
        drain()


@cython.cfunc
@cython.exceptval(check=False)
def _unlink(node: Node) -> cython.void:
    tape: Tape = cython.cast(Tape, node.tape)
    if node.previous == cython.NULL:
        tape.head = node.next
    else:
        cython.cast(Node, node.previous).next = node.next
    if node.next == cython.NULL:
        tape.tail = node.previous
    else:
        cython.cast(Node, node.next).previous = node.previous
    tape.count -= 1
    if node.row.kind != _view_kind:
        tape.pending_bytes -= node.numel * node.dtype.itemsize
    node.tape = cython.NULL
    node.previous = cython.NULL
    node.next = cython.NULL


@cython.ccall
@cython.exceptval(check=False)
def finish(node: Node) -> cython.void:
    """Take a node that is done, failed or only a gradient record off its tape."""
    if node.tape != cython.NULL:
        _unlink(node)


@cython.cfunc
@cython.exceptval(check=False)
def _empty(node: Node) -> cython.void:
    """A dying node gives up everything it holds; parts of the graph go by way of the graveyard."""
    global _live
    _live -= 1
    if node.tape != cython.NULL:
        _unlink(node)
    if node.holds:
        release_saves(node)
    if node.inputs is not None:
        bury(node.inputs)
        node.inputs = None
    if node.edges is not None:
        bury(node.edges)
        node.edges = None
    if node.quotient is not None:
        bury(node.quotient)
        node.quotient = None
    if node.result is not None:
        bury(node.result)
        node.result = None
    if node.params is not None:
        node.params = None
    if node.buffer is not None:
        node.buffer = None
    if node.strides is not None:
        node.strides = None
    if node.error is not None:
        node.error = None
    if node.payload is not None:
        node.payload = None
    if node.info is not None:
        node.info = None
    if node.observers is not None:
        node.observers = None
    if node.scratch is not None:
        node.scratch = None


@cython.cfunc
@cython.exceptval(check=False)
def _retire(dying: cython.pointer(PyObject)) -> cython.void:
    """Free a node (its type's tp_dealloc): emptied, it waits in the pool with its empty fields in place, which
    spares writing and counting some fifteen references per node."""
    global _waiting
    Py_SET_REFCNT(dying, 1)
    _empty(cython.cast(Node, dying))
    if _waiting < POOL:
        _pool[_waiting] = dying
        _waiting += 1
    else:
        Py_SET_REFCNT(dying, 0)
        _free_node(dying)
    if not _draining and _buried > 0:
        drain()


@cython.cfunc
def _take_over() -> cython.void:
    """Let `_retire` free nodes."""
    global _free_node
    kind: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), Node)
    _free_node = kind.tp_dealloc
    kind.tp_dealloc = _retire


_take_over()


@cython.cfunc
@cython.inline
def _blank(row: OpRow, shape: tuple, numel: cython.longlong, dtype: DType) -> Node:
    global _sequence, _live, _waiting
    node: Node
    if _waiting > 0:
        _waiting -= 1
        node = cython.cast(Node, _pool[_waiting])
        Py_DECREF(node)
        memset(
            cython.address(node.state),
            0,
            cython.cast(cython.p_char, cython.address(node.tape) + 1)
            - cython.cast(cython.p_char, cython.address(node.state)),
        )
    else:
        node = Node.__new__(Node)
    _live += 1
    _sequence += 1
    node.seq = _sequence
    node.row = row
    node.shape = shape
    node.numel = numel
    node.dtype = dtype
    node.qrow = -1
    return node


@cython.cfunc
def new_node(
    row: OpRow,
    inputs: tuple,
    params,
    shape: tuple,
    numel: cython.longlong,
    dtype: DType,
    edges: tuple,
) -> Node:
    """Append one operation to the calling thread's tape."""
    return append(current_tape(), row, inputs, params, shape, numel, dtype, edges)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _link(tape: Tape, node: Node) -> cython.void:
    last: cython.p_void = tape.tail
    node.tape = cython.cast(cython.p_void, tape)
    node.previous = last
    if last == cython.NULL:
        tape.head = cython.cast(cython.p_void, node)
    else:
        cython.cast(Node, last).next = cython.cast(cython.p_void, node)
    tape.tail = cython.cast(cython.p_void, node)
    tape.count += 1
    if node.row.kind != _view_kind:
        tape.pending_bytes += node.numel * node.dtype.itemsize


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _hide(part: tuple) -> cython.void:
    """Take a part of a node from the cyclic collector's lists: it cannot look into the node that holds it, and going
    through the parts of a large graph again and again costs more than recording it."""
    if part is not None:
        PyObject_GC_UnTrack(cython.cast(cython.p_void, part))


@cython.cfunc
def append(
    tape: Tape,
    row: OpRow,
    inputs: tuple,
    params,
    shape: tuple,
    numel: cython.longlong,
    dtype: DType,
    edges: tuple,
) -> Node:
    """`new_node` for callers that have the tape of the calling thread at hand."""
    node: Node = _blank(row, shape, numel, dtype)
    node.inputs = inputs
    _hide(inputs)
    if params is not None:
        node.params = params
        if isinstance(params, tuple):
            _hide(params)
    if edges is not None:
        node.edges = edges
        _hide(edges)
        acquire_saves(node, edges)
    code: cython.pointer(PyObject) = caller(cython.address(node.offset_in_code))
    if code != cython.cast(cython.pointer(PyObject), node.code):
        node.code = None if code == cython.NULL else cython.cast(object, code)
    _link(tape, node)
    if _ambient > 0 and row.kind != COMPOSITE and tape.running is None:
        _packer(node)
    return node


@cython.cfunc
def new_value(dtype: DType, shape: tuple, buffer, offset: cython.longlong) -> Node:
    """A node that is done from the start: contiguous elements of a buffer."""
    node: Node = _blank(_value_row, shape, count_elements(shape), dtype)
    node.state = DONE
    node.buffer = buffer
    node.offset = offset
    tape: Tape = current_tape()
    tape.arrived_bytes += _arrived_weight * node.numel * dtype.itemsize
    return node


@cython.cfunc
def new_scalar(value, dtype: DType) -> Node:
    """A Python number as a run-time zero-dimensional argument; `params` is the number. Errors: at the call for
    what is no number, or none of this type."""
    if type(value) is float:
        if dtype.category < 2:
            value = representable(value, dtype)
    elif type(value) is int:
        if not -(1 << 62) < value < 1 << 62:
            value = representable(value, dtype)
    elif type(value) is not bool:
        value = representable(value, dtype)
    node: Node = _blank(_scalar_row, (), 1, dtype)
    node.state = DONE
    node.params = value
    return node


def representable(value, dtype: DType):
    """A number as a type can hold it: a Python number. Errors: RuntimeError and TypeError at the user's call."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    fits: bool = isinstance(value, (bool, int, float, complex))
    if not fits or (isinstance(value, complex) and dtype.category < 3):
        raise ArgumentTypeError(
            f"not a number of type {dtype.name}",
            expected=f"a number that {dtype.name} can hold",
            got=f"{value!r} of type {type(value).__name__}",
            fix="pass a Python number, or a tensor",
        )
    if isinstance(value, (complex, bool)):
        return value
    if dtype.category >= 2:
        fits = isinstance(value, float) or abs(value) < 1 << 1023
    else:
        fits = value == value and -(1 << 63) <= value < (1 << 63)
    if not fits:
        raise ArgumentError(
            f"value cannot be converted to type {dtype.name} without overflow",
            expected=f"a number that {dtype.name} can hold",
            got=str(value)[:40],
            fix="choose a wider dtype, or a smaller number",
        )
    return value


def make_node(row: OpRow, inputs: tuple | None, params, shape: tuple, dtype: DType, edges=None):
    """`new_node` for interpreted callers (schedule, tests)."""
    return new_node(row, inputs, params, shape, count_elements(shape), dtype, edges)


def make_value(dtype: DType, shape: tuple, buffer, offset: int):
    """`new_value` for interpreted callers."""
    return new_value(dtype, shape, buffer, offset)


def make_scalar(value, dtype: DType):
    """`new_scalar` for interpreted callers."""
    return new_scalar(value, dtype)


def tape_of(node: Node):
    """The tape that a pending node is on, or None."""
    return None if node.tape == cython.NULL else cython.cast(Tape, node.tape)


def rejoin(node: Node, beside: Node = None):
    """Put a pending node that left its tape with its batch back on one, at its end: on that of a node beside it, or
    else of the calling thread."""
    if node.tape == cython.NULL:
        away: cython.bint = beside is None or beside.tape == cython.NULL
        _link(current_tape() if away else cython.cast(Tape, beside.tape), node)
    return tape_of(node)


def leave_alone(sequence: cython.longlong):
    """Keep the pending nodes created since then out of batches: they are one chain for each value already."""
    tape: Tape = current_tape()
    pointer: cython.p_void = tape.tail
    while pointer != cython.NULL:
        node: Node = cython.cast(Node, pointer)
        if node.seq <= sequence:
            return
        node.considered = True
        pointer = node.previous


def last_sequence():
    """The sequence number of the newest node."""
    return _sequence


@cython.cfunc
def show_records(record: Node, root: Node) -> cython.void:
    """Make pending values of the records of a view, from the value `root` on; what is one already stays."""
    below: Node = record.edges[0]
    if record.inputs is not None:
        return
    if below is not root:
        show_records(below, root)
    record.inputs = record.edges
    _link(current_tape(), record)


def is_record_only(node: Node):
    """Whether a node is a gradient record without a value of its own to compute."""
    return node.state == PENDING and node.tape == cython.NULL


def count_live_nodes():
    """How many nodes exist in this process."""
    return _live


@cython.cclass
class GradientFunction:
    """A gradient record that is not one op: a custom Function, a node with several outputs. Subclasses give
    `pull(cotangents) -> list of cotangents`, one per edge, and `name()`. Collected by the garbage collector, so that
    a user's cycle through it can be broken."""

    def __cinit__(self):
        global _sequence
        _sequence += 1
        self.seq = _sequence
        self.edges = ()
        self.outputs = 1

    def check_usable(self):
        """Raise where saved values have been freed; called before a walk runs anything."""

    def release(self):
        """Give up saved values after a walk that does not retain the graph."""

    def pull(self, cotangents, create):
        """The cotangents of the inputs, one per edge."""
        raise NotImplementedError(type(self).__name__)

    def __dealloc__(self):
        if self.edges is not None:
            bury(self.edges)
            self.edges = None
            end_burial()


@cython.cclass
class OutputEdge:
    """The gradient edge to output `number` of a GradientFunction."""

    def __cinit__(self, function: GradientFunction, number: cython.int):
        self.function = function
        self.number = number


@cython.final
@cython.no_gc_clear
@cython.cclass
class AccumulateGrad:
    """The sink of a leaf. The edge to it and its reference to the leaf are strong; the leaf knows it weakly: at
    `known_at`, which lies in the leaf."""

    @property
    def edges(self):
        return ()

    @property
    def next_functions(self):
        return ()

    def name(self):
        """The name as PyTorch prints it."""
        return "torch::autograd::AccumulateGrad"


@cython.cfunc
@cython.exceptval(check=False)
def _retire_sink(dying: cython.pointer(PyObject)) -> cython.void:
    """Free a sink (tp_dealloc); it waits as nodes do."""
    global _sinks_waiting
    PyObject_GC_UnTrack(dying)
    Py_SET_REFCNT(dying, 1)
    _empty_sink(cython.cast(AccumulateGrad, dying))
    if _sinks_waiting < SINKS:
        _sinks[_sinks_waiting] = dying
        _sinks_waiting += 1
    else:
        Py_SET_REFCNT(dying, 0)
        _free_sink(dying)


@cython.cfunc
@cython.exceptval(check=False)
def _empty_sink(sink: AccumulateGrad) -> cython.void:
    if sink.known_at != cython.NULL:
        sink.known_at[0] = cython.NULL
        sink.known_at = cython.NULL
    if sink.scratch is not None:
        sink.scratch = None
    if sink.observers is not None:
        sink.observers = None
    sink.variable = None


@cython.cfunc
def new_sink(variable, known_at: cython.pp_void) -> AccumulateGrad:
    """The sink of a leaf, which knows it at `known_at`."""
    global _sinks_waiting
    sink: AccumulateGrad
    if _sinks_waiting > 0:
        _sinks_waiting -= 1
        sink = cython.cast(AccumulateGrad, _sinks[_sinks_waiting])
        Py_DECREF(sink)
        sink.mark = 0
        sink.count = 0
        PyObject_GC_Track(cython.cast(cython.p_void, sink))
    else:
        sink = AccumulateGrad.__new__(AccumulateGrad)
    sink.variable = variable
    sink.known_at = known_at
    known_at[0] = cython.cast(cython.p_void, sink)
    return sink


@cython.cfunc
def _take_over_sinks() -> cython.void:
    global _free_sink
    kind: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), AccumulateGrad)
    _free_sink = kind.tp_dealloc
    kind.tp_dealloc = _retire_sink


_take_over_sinks()
