# cython: language_level=3
"""The node factory: makes nodes, puts them on the tape, and takes them apart when they die.

It takes an op, value inputs and gradient edges, and makes a record on the calling thread's tape, with its call site.
Dead nodes wait, emptied, to be reused.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.weft.engine.capi.call_site import CallScope, caller, site_in_scope
from cython.cimports.weft.engine.capi.int_range import is_within
from cython.cimports.weft.engine.devices.api import several
from cython.cimports.weft.engine.frontend.grad_fn_nodes import unsee
from cython.cimports.weft.engine.frontend.meta import is_meta, no_data, note_meta, on_two_devices
from cython.cimports.weft.engine.frontend.node_factory import CACHED_SHAPES, FREE_NODES, hide
from cython.cimports.weft.engine.ir.deferred_free import bury, end_burial, keep_in_order
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.free_list import keep, reuse, revive, take, zero
from cython.cimports.weft.engine.ir.index_range import within
from cython.cimports.weft.engine.ir.memory import OwnedMemory
from cython.cimports.weft.engine.ir.node import DONE, FAILED, Node, rare_facts, set_buffer
from cython.cimports.weft.engine.ir.primitive import Primitive, scalar_op, value_op
from cython.cimports.weft.engine.ir.residuals import release_residuals, retain_residuals
from cython.cimports.weft.engine.ir.tape import (
    Tape,
    ambient,
    current_tape,
    finish,
    link,
    next_sequence,
    packer,
    unlink,
    view_kind,
)

from weft._build.compiled import require
from weft.engine.dispatch.type_names import OVERFLOW_NAMES
from weft.engine.frontend import grad_fn_nodes as _seen  # noqa: F401 - gives nodes their memory
from weft.engine.ir import primitive as kinds
from weft.engine.ir.primitive import COMPOSITE
from weft.errors import ArgumentError, ArgumentTypeError, DimensionError, ShapeError

require(__name__, cython.compiled)

MOST_ELEMENTS = 1 << 58
_most_elements = cython.declare(cython.double, MOST_ELEMENTS)
_plain_ints = cython.declare(cython.longlong, (1 << 62) - 1)  # numbers that need no look
# A byte that has come from outside weighs so many that are recorded: it exists, and most of those never will.
_arrived_weight = cython.declare(cython.longlong, 8)
_live = 0
_known_shapes = [None] * CACHED_SHAPES
_copying_op = cython.declare(Primitive, None)  # of values to other devices, once there is one
_any_may_fail = False  # true if anything recorded so far may fail when it runs
ELEMENTWISE = cython.declare(cython.int, kinds.ELEMENTWISE)
CONTRACT = cython.declare(cython.int, kinds.CONTRACT)
INDEX = cython.declare(cython.int, kinds.INDEX)
SCATTER = cython.declare(cython.int, kinds.SCATTER)


@cython.cfunc
def count_elements(shape: tuple) -> cython.longlong:
    """The number of elements of a shape. Errors: ShapeError where no memory could ever hold so many."""
    total: cython.longlong = 1
    exact: cython.double = 1
    size: cython.longlong
    for size in shape:
        total *= size
        exact *= size
    if exact > _most_elements:
        raise ShapeError(
            "a tensor of this shape has too many elements (integer multiplication overflow)",
            expected=f"at most {MOST_ELEMENTS} elements",
            got=f"shape {list(shape)}",
            fix="check how the sizes were computed",
        )
    return total


@cython.cfunc
def shapes_of(nodes: tuple) -> tuple:
    """The shapes of some nodes: as a rule those of other nodes before, in the tuple that was made for them."""
    count: cython.Py_ssize_t = len(nodes)
    slot: uintptr_t = 0
    index: cython.Py_ssize_t
    for index in range(count):
        shape: tuple = cython.cast(Node, nodes[index]).shape
        slot = slot * 5 + (cython.cast(uintptr_t, cython.cast(cython.p_void, shape)) >> 4)
    known: tuple = _known_shapes[slot % CACHED_SHAPES]
    if known is not None and len(known) == count:
        for index in range(count):
            if known[index] is not cython.cast(Node, nodes[index]).shape:
                break
        else:
            return known
    known = tuple([cython.cast(Node, node).shape for node in nodes])
    hide(known)
    _known_shapes[slot % CACHED_SHAPES] = known
    return known


@cython.cfunc
@cython.exceptval(check=False)
def _empty(node: Node) -> cython.void:
    """A dying node gives up everything it holds; parts of the graph go by way of the graveyard."""
    global _live
    _live -= 1
    if node.tape != cython.NULL:
        unlink(node)
    if node.has_residuals:
        release_residuals(node)
    if node.inputs is not None:
        bury(node.inputs)
        node.inputs = None
    if node.edges is not None:
        bury(node.edges)
        node.edges = None
    if node.quotient is not None:
        bury(node.quotient)
        node.quotient = None
    if node.params is not None:
        node.params = None
    if node.buffer is not None:
        set_buffer(node, None)
    if node.strides is not None:
        node.strides = None
    if node.operand_shapes is not None:
        node.operand_shapes = None
    if node.info is not None:
        node.info = None
    if node.rare is not None:
        if node.rare.result is not None:
            bury(node.rare.result)
        node.rare = None


@cython.cfunc
@cython.exceptval(check=False)
def _retire(dying: cython.pointer(PyObject)) -> cython.void:
    """Free a node (tp_dealloc): emptied, it waits to be used again."""
    revive(dying)
    unsee(dying)
    _empty(cython.cast(Node, dying))
    keep(cython.address(_dead_nodes), dying)
    end_burial()


reuse(cython.address(_dead_nodes), Node, _retire, FREE_NODES)
keep_in_order(cython.address(_dead_nodes))


@cython.cfunc
@cython.inline
def _blank(op: Primitive, shape: tuple, numel: cython.longlong, dtype: DType) -> Node:
    global _live
    node: Node
    if _dead_nodes.count > 0:
        node = cython.cast(Node, take(cython.address(_dead_nodes)))
        zero(cython.address(node.state), cython.address(node.tape))
    else:
        node = Node.__new__(Node)
    _live += 1
    node.seq = next_sequence()
    node.op = op
    node.shape = shape
    node.numel = numel
    node.dtype = dtype
    node.qrow = -1
    node.offset = 0
    return node


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _set_call_site(tape: Tape, node: Node) -> cython.void:
    """Note the user's line, and which operation of a library call this is; a node that is used again often has the
    line already."""
    scope: cython.pointer(CallScope) = cython.address(tape.mode.scope)
    code: cython.pointer(PyObject)
    if scope.frame == cython.NULL:
        node.library_site = 0
        code = caller(cython.address(node.offset_in_code))
    else:
        code = site_in_scope(
            scope,
            cython.address(node.offset_in_code),
            cython.address(node.library_site),
            node.op.kind == view_kind,
        )
    if code != cython.cast(cython.pointer(PyObject), node.code):
        node.code = None if code == cython.NULL else cython.cast(object, code)


@cython.cfunc
def new_node(
    op: Primitive,
    inputs: tuple,
    params,
    shape: tuple,
    numel: cython.longlong,
    dtype: DType,
    edges: tuple,
) -> Node:
    """Append one operation to the calling thread's tape."""
    return append(current_tape(), op, inputs, params, shape, numel, dtype, edges)


@cython.cfunc
def append(
    tape: Tape,
    op: Primitive,
    inputs: tuple,
    params,
    shape: tuple,
    numel: cython.longlong,
    dtype: DType,
    edges: tuple,
) -> Node:
    """`new_node` for callers that have the tape of the calling thread at hand."""
    node: Node = _blank(op, shape, numel, dtype)
    hide(shape)
    node.inputs = inputs
    hide(inputs)
    if params is not None:
        node.params = params
        if isinstance(params, tuple):
            hide(params)
    if edges is not None:
        node.edges = edges
        hide(edges)
        retain_residuals(node, edges)
    _set_call_site(tape, node)
    link(tape, node)
    if _any_may_fail or op.kind == INDEX or op.kind == SCATTER:
        _judge(tape, node)
    if ambient > 0 and op.kind != COMPOSITE and tape.running is None:
        packer(node)
    return node


@cython.cfunc
def new_record(
    op: Primitive,
    params,
    shape: tuple,
    numel: cython.longlong,
    dtype: DType,
    edges: tuple,
    operand_shapes: tuple,
    beside: Node,
) -> Node:
    """A gradient record without value inputs, so that it holds no memory, and on no tape. `operand_shapes` has the
    shapes of the inputs; `beside` is another record of the same call, whose call site it takes, or None."""
    node: Node = _blank(op, shape, numel, dtype)
    hide(shape)
    node.params = params
    if isinstance(params, tuple):
        hide(params)
    node.edges = edges
    hide(edges)
    node.operand_shapes = operand_shapes
    hide(operand_shapes)
    if beside is None:
        _set_call_site(current_tape(), node)
    else:
        node.offset_in_code, node.code = beside.offset_in_code, beside.code
        node.library_site = beside.library_site
    if ambient > 0 and op.kind != COMPOSITE and current_tape().running is None:
        packer(node)
    return node


@cython.cfunc
def append_again(
    tape: Tape,
    op: Primitive,
    inputs: tuple,
    params,
    shape: tuple,
    numel: cython.longlong,
    dtype: DType,
    code,
    offset_in_code: cython.int,
    library_site: cython.uint,
) -> Node:
    """Append an operation without gradient edges that has been recorded like this before. The caller has looked for
    the call site, and knows that nobody watches what is recorded."""
    node: Node = _blank(op, shape, numel, dtype)
    node.inputs = inputs
    hide(inputs)
    if params is not None:
        node.params = params
    node.offset_in_code, node.library_site = offset_in_code, library_site
    if node.code is not code:
        node.code = code
    link(tape, node)
    if _any_may_fail or op.kind == INDEX or op.kind == SCATTER:
        _judge(tape, node)
    return node


@cython.cfunc
@cython.exceptval(-1)
def _judge(tape: Tape, node: Node) -> cython.int:
    """Note whether a new node may fail when it runs: for an index that nobody has seen yet, or an input that may; or
    whether it is on the device meta, as an input is.

    Errors: DimensionError where a dimension to look up in is none of the operand's."""
    global _any_may_fail
    source: Node
    if node.inputs is None:
        return 0
    if several:
        node.device = _device_of(node.inputs)
        _bring_operands(tape, node)
    for source in node.inputs:
        if is_meta(source):
            if node.library_site == 0 and node.op.kind in (ELEMENTWISE, CONTRACT):
                _check_devices(node.inputs)
            _leave_without_data(node)
            return 0
    if (node.op.kind == INDEX or node.op.kind == SCATTER) and _may_be_out_of_range(node):
        node.may_fail = True
        _any_may_fail = _any_may_fail or tape.running is None
        return 0
    for source in node.inputs:
        if source.may_fail and source.state != DONE:
            node.may_fail = True
            return 0
    return 0


@cython.cfunc
@cython.exceptval(-1)
def _may_be_out_of_range(node: Node) -> cython.int:
    """True if an index may name what its operand does not have. Errors: DimensionError."""
    source: Node = node.inputs[0]
    if not 0 <= node.params[0] < len(source.shape):
        raise _no_such_dimension(node)
    return not within(node.inputs[1], source.shape[node.params[0]])


@cython.cfunc
@cython.exceptval(-1)
def _check_devices(inputs: tuple) -> cython.int:
    """Errors: DeviceError where an operator computes with a value on meta, and with one that has memory and is more
    than one number. Functions look at their arguments: what the library makes on the way has memory."""
    source: Node
    for source in inputs:
        if len(source.shape) and not is_meta(source):
            raise on_two_devices(not is_meta(inputs[0]))
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _device_of(inputs: tuple) -> cython.int:
    """The device of an operation: of its operands the first one's that is not on the default device, so that what is
    made of numbers alone follows."""
    source: Node
    for source in inputs:
        if source.device != 0 and source.op is not scalar_op:
            return source.device
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_elsewhere(source: Node, node: Node) -> cython.bint:
    """True if an operand is a value on another device than the operation."""
    return source.device != node.device and source.op is not scalar_op


@cython.cfunc
@cython.exceptval(-1)
def _bring_operands(tape: Tape, node: Node) -> cython.int:
    """Let copies stand for operands that are on other devices; they come before the operation on the tape."""
    source: Node
    for source in node.inputs:
        if _is_elsewhere(source, node):
            break
    else:
        return 0
    unlink(node)
    node.inputs = tuple(
        [
            copy_over(source, node.device) if _is_elsewhere(source, node) else source
            for source in node.inputs
        ]
    )
    link(tape, node)
    return 0


@cython.ccall
def copy_over(node: Node, device: cython.int) -> Node:
    """A value on another device, without gradient edges: brought into row-major order where it is, then copied."""
    for number in (node.device, device):
        node = new_node(_copying_op, (node,), None, node.shape, node.numel, node.dtype, None)
        node.device = number
    return node


@cython.cfunc
def _leave_without_data(node: Node) -> cython.void:
    """A new node will not be computed. Its inputs stay only where a derivative may ask for them."""
    node.state = FAILED
    rare_facts(node).error = no_data
    unlink(node)
    if node.edges is None and ambient == 0:
        bury(node.inputs)
        node.inputs = None
        end_burial()


def watch_devices(op: Primitive) -> None:
    """Look at new nodes from now on: they run on the device of their operands, which may be another one. `op` is the
    primitive that copies."""
    global _any_may_fail, _copying_op
    _any_may_fail = True
    _copying_op = op


def make_meta(dtype: DType, shape: tuple):
    """A node on the device meta: a shape and a dtype, without memory."""
    global _any_may_fail
    _any_may_fail = True  # from now on new nodes are looked at, and the arguments of functions
    note_meta()
    node: Node = _blank(value_op, shape, count_elements(shape), dtype)
    node.state = FAILED
    rare_facts(node).error = no_data
    return node


def _no_such_dimension(node: Node) -> DimensionError:
    rank: int = len(node.inputs[0].shape)
    return DimensionError(
        f"{node.op.name}: Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], "
        f"but got {node.params[0]})",
        expected=f"a dimension of a tensor of shape {list(node.inputs[0].shape)}",
        got=f"dim={node.params[0]}",
        fix="count the dimensions of the tensor with .ndim",
    )


def mark_failed(node: Node, error):
    """A node could not be computed, and will not be."""
    global _any_may_fail
    _any_may_fail = node.may_fail = True
    node.state, rare_facts(node).error = FAILED, error
    finish(node)


@cython.cfunc
def show_records(record: Node, root: Node) -> cython.void:
    """Make pending values of the records of a view, from the value `root` on; what is one already stays."""
    below: Node = record.edges[0]
    if record.inputs is not None:
        return
    if below is not root:
        show_records(below, root)
    record.inputs = record.edges
    record.may_fail = below.may_fail and below.state != DONE
    link(current_tape(), record)


@cython.cfunc
def new_value(dtype: DType, shape: tuple, buffer: OwnedMemory, offset: cython.longlong) -> Node:
    """A node that is done from the start: contiguous elements of a buffer."""
    node: Node = _blank(value_op, shape, count_elements(shape), dtype)
    node.state = DONE
    set_buffer(node, buffer)
    node.offset = offset
    if several and buffer is not None:
        node.device = buffer.device
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
        if not is_within(value, _plain_ints):
            value = representable(value, dtype)
    elif type(value) is not bool:
        value = representable(value, dtype)
    node: Node = _blank(scalar_op, (), 1, dtype)
    node.state = DONE
    node.params = value
    return node


_ENDS = (1 << 63, 1 << 64)  # the first integers beyond int64 and beyond uint64


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
        fits = value == value and -(1 << 63) <= value < _ENDS[dtype.name == "uint64"]
    if not fits:
        raise ArgumentError(
            f"value cannot be converted to type {OVERFLOW_NAMES[dtype.name]} without overflow",
            expected=f"a number that {dtype.name} can hold",
            got=str(value)[:40],
            fix="choose a wider dtype, or a smaller number",
        )
    return value


def make_node(op: Primitive, inputs: tuple | None, params, shape: tuple, dtype: DType, edges=None):
    """`new_node` for interpreted callers (schedule, tests)."""
    return new_node(op, inputs, params, shape, count_elements(shape), dtype, edges)


def make_value(dtype: DType, shape: tuple, buffer: OwnedMemory | None, offset: int):
    """`new_value` for interpreted callers."""
    return new_value(dtype, shape, buffer, offset)


def make_scalar(value, dtype: DType):
    """`new_scalar` for interpreted callers."""
    return new_scalar(value, dtype)


def count_live_nodes():
    """The number of nodes in this process."""
    return _live
