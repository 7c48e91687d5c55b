# cython: language_level=3
"""Views and aliases: handles that share a storage.

It takes handles and regions (shape, strides, offset in the storage's memory) and makes handles of the same storage. A
view's edge is a gradient record; `inplace` writes through it.
"""

import cython
from cython.cimports.cpython.tuple import PyTuple_New
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.dispatch.core_hooks import permute_op
from cython.cimports.weft.engine.frontend.node_factory import new_node, new_record
from cython.cimports.weft.engine.frontend.resolve import (
    edge_of,
    needs_grad,
    view_edge,
    viewed_dtype,
)
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor, replace_node
from cython.cimports.weft.engine.frontend.tensor_lifecycle import blank, watch, wrap
from cython.cimports.weft.engine.frontend.views import (
    KIND_BITS,
    KIND_MULTIPLE_OUTPUTS,
    PART_SHIFT,
    kind_of_view,
)
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.split_specs import (
    MultiOutput,
    OutputView,
    SplitSpec,
    new_multi_output,
)
from cython.cimports.weft.engine.ir.strides import contiguous_strides, is_contiguous
from cython.cimports.weft.engine.ir.tape import ambient, current_tape
from cython.cimports.weft.engine.ir.tuple_cache import one, put

from weft._build.compiled import require
from weft.engine.ir.strides import dense_order

require(__name__, cython.compiled)

# How a view was made, as KIND_... in the .pxd.
NORMAL, UNDER_NO_GRAD, MULTIPLE_OUTPUTS, UNDER_INFERENCE, IN_FUNCTION = range(5)
KIND_OF_VIEW = KIND_BITS
OUTPUT_SHIFT = PART_SHIFT


class NoMemoryOrderError(BaseException):
    """A view was asked of a handle whose strides are those of a region with gaps or overlaps, but which is not in any
    storage: such handles stand for an operand while a composition is learned, which then is not repeated. Not an
    Exception, as nothing between the view and the lesson is to answer it."""


@cython.cfunc
def share(tensor: Tensor) -> Storage:
    """The storage of a tensor, made on the first alias; its node is the value in memory order."""
    if tensor._storage is not None:
        return tensor._storage
    storage: Storage = Storage.__new__(Storage)
    node: Node = tensor.node
    if tensor.strides is not None:
        order = dense_order(tensor._shape, tensor.strides)
        if order is None:
            raise NoMemoryOrderError
        shape = tuple([tensor._shape[axis] for axis in order])
        node = new_node(permute_op, (node,), order, shape, node.numel, node.dtype, None)
        if ambient > 0:
            core_hooks.follow_moved(node)
    _store(tensor, storage, node)
    return storage


@cython.cfunc
def _store(tensor: Tensor, storage: Storage, node: Node) -> cython.void:
    replace_node(storage, node)
    tensor._storage = storage
    tensor.node.external_refs -= 1
    tensor.node = None
    tensor.view_chain = ()
    tensor.version_seen = 0


def store_in_order(tensor: Tensor, node: Node):
    """Make the storage of a handle that has none, of its value in memory order."""
    _store(tensor, Storage.__new__(Storage), node)


def storage_of(tensor: Tensor):
    """`share` for interpreted callers."""
    return share(tensor)


@cython.ccall
def alias_of(tensor: Tensor):
    """An untracked handle of the same region."""
    alias: Tensor = blank()
    _show_region(alias, tensor)
    alias.inference = tensor.inference
    return alias


@cython.cfunc
def _show_region(tensor: Tensor, other: Tensor) -> cython.void:
    """Make a handle without a node of its own show the region that another shows."""
    storage: Storage = share(other)
    tensor._storage = storage
    tensor._shape = other._shape
    tensor._dtype = other._dtype
    tensor.strides = other.strides
    tensor.offset = other.offset
    tensor.view_chain = other.view_chain
    tensor.view_transform = other.view_transform
    tensor.version_seen = storage.version


@cython.ccall
def view(
    op: Primitive, tensor: Tensor, params, shape: tuple, strides: tuple, offset: cython.longlong
):
    """A view of a tensor: `strides` and `offset` are of its storage's memory."""
    storage: Storage = share(tensor)
    result: Tensor = blank()
    watch(result)
    result._storage = storage
    result._shape = shape
    result._dtype = viewed_dtype(op, tensor._dtype)
    result.strides = None if is_contiguous(shape, strides) else strides
    result.offset = offset
    result.view_transform = tensor.view_transform
    result.view_chain = tensor.view_chain + ((op, params, shape),)
    result.counter = tensor.counter
    result.inference = tensor.inference
    mode: Mode = current_tape().mode
    result.base = tensor if tensor.base is None or tensor.leaf_grad else tensor.base
    result.creation = kind_of_view(tensor, mode)
    if mode.grad and needs_grad(tensor):
        result.edge = view_edge(op, params, tensor._shape, shape, result._dtype, edge_of(tensor))
    result.version_seen = storage.version
    return result


def retyped(
    tensor: Tensor,
    op: Primitive,
    dtype: DType,
    shape: tuple,
    strides: tuple,
    offset: cython.longlong,
    view_transform: cython.int,
):
    """An untracked handle of the same memory as elements of another type, which `strides` and `offset` count; for
    autograd no view of the tensor, but one more name of its storage. `op` is its recipe."""
    result: Tensor = blank()
    _show_region(result, tensor)
    watch(result)
    result._shape = shape
    result._dtype = dtype
    result.strides = None if is_contiguous(shape, strides) else strides
    result.offset = offset
    result.view_transform = view_transform
    result.view_chain = ((op, None, shape),)
    result.counter = tensor.counter
    result.inference = tensor.inference
    return result


@cython.cfunc
def parts_of(tensor: Tensor, cut: SplitSpec) -> tuple:
    """The views that a cut makes of a tensor: the outputs of one operation."""
    storage: Storage = share(tensor)
    mode: Mode = current_tape().mode
    grad: cython.bint = mode.grad
    edges: object = edge_of(tensor) if grad and needs_grad(tensor) else None
    joint: MultiOutput = None if edges is None else new_multi_output(cut)
    dtype: DType = viewed_dtype(cut.op, tensor._dtype)
    count: cython.Py_ssize_t = len(cut.regions)
    parts: tuple = PyTuple_New(count)
    number: cython.Py_ssize_t
    record: Node = None
    for number in range(count):
        region: OutputView = cut.regions[number]
        part: Tensor = blank()
        watch(part)
        part._storage = storage
        part._shape = region.shape
        part._dtype = dtype
        part.strides = region.strides
        part.offset = tensor.offset + region.start
        part.view_transform = tensor.view_transform
        part.view_chain = tensor.view_chain + region.steps if tensor.view_chain else region.steps
        part.counter = tensor.counter
        part.inference = tensor.inference
        part.base = tensor if tensor.base is None or tensor.leaf_grad else tensor.base
        part.creation = kind_of_view(tensor, mode)
        if part.creation == 0:
            part.creation = KIND_MULTIPLE_OUTPUTS + (number << PART_SHIFT)
        if joint is not None:
            record = new_record(
                cut.op,
                region.params,
                region.shape,
                region.numel,
                dtype,
                one(edges),
                cut.operand_shapes,
                record,
            )
            record.info = joint
            part.edge = record
        part.version_seen = storage.version
        put(parts, number, part)
    return parts


def handle_of_storage(tensor: Tensor):
    """An untracked handle of all elements of a tensor's storage, in memory order."""
    storage: Storage = share(tensor)
    whole: Tensor = wrap(storage.node, None)
    storage.node.external_refs -= 1
    whole.node = None
    whole._storage = storage
    whole.view_chain = ()
    whole.version_seen = storage.version
    return whole


@cython.ccall
def logical_strides(tensor: Tensor):
    """The strides of a tensor as PyTorch counts them."""
    return contiguous_strides(tensor._shape) if tensor.strides is None else tensor.strides


def replace_value(tensor: Tensor, other: Tensor):
    """Make a handle show another tensor's storage (`x.data = y`); gradient state stays. Gradients of what is recorded
    with it from now on have another shape or dtype than its history if the other has."""
    shape, dtype = tensor._shape, tensor._dtype
    share(other)  # first: it may be the same handle
    if tensor.node is not None:
        tensor.node.external_refs -= 1
        tensor.node = None
    _show_region(tensor, other)
    if tensor._shape != shape:
        if tensor.accumulator != cython.NULL:
            _keep_shape(tensor, shape, dtype)
    elif tensor._dtype is dtype:
        return
    if tensor.edge is not None:
        core_hooks.refit(tensor, shape, dtype)


@cython.cfunc
def _keep_shape(leaf: Tensor, shape: tuple, dtype: DType) -> cython.void:
    """A leaf that has been recorded has another shape now: its sink goes on expecting gradients of the one that it had.
    With another dtype as well, what is recorded from now on has a sink of its own."""
    sink: AccumulateGrad = cython.cast(AccumulateGrad, cython.cast(object, leaf.accumulator))
    if sink.expects is None:
        sink.expects = shape
    if leaf._dtype is not dtype:
        sink.known_at = cython.NULL
        leaf.accumulator = cython.NULL


def become(tensor: Tensor, source: Tensor):
    """Initialise an empty handle of a subclass from a tensor (`Parameter`, `Tensor(...)`): shares its value."""
    replace_value(tensor, source)


def moved_into(tensor: Tensor, cls: type):
    """An instance of a subclass that is all that a fresh view is: its region, its edge, its base. The view itself is to
    be forgotten."""
    made: Tensor = Tensor.__new__(cls)
    made._storage = tensor._storage
    made._shape = tensor._shape
    made._dtype = tensor._dtype
    made.strides = tensor.strides
    made.edge = tensor.edge
    made.base = tensor.base
    made.view_chain = tensor.view_chain
    made.counter = tensor.counter
    made.offset = tensor.offset
    made.version_seen = tensor.version_seen
    made.creation = tensor.creation
    made.view_transform = tensor.view_transform
    made.inference = tensor.inference
    return made
