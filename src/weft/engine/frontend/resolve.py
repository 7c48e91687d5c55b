# cython: language_level=3
"""Resolution of handles: the node of a handle's present value, and the gradient edge that leads on from it.

The value of a view is a region of its storage's value; its edge is replayed on its base's, if that has been mutated
since.
"""

import cython
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.dispatch.core_hooks import strided_op
from cython.cimports.weft.engine.frontend.node_factory import (
    count_elements,
    new_node,
    new_record,
    show_records,
)
from cython.cimports.weft.engine.frontend.resolve import MOST_SHARED_STEPS, edge_of, value
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import watch
from cython.cimports.weft.engine.frontend.views import (
    KIND_BITS,
    KIND_IN_FUNCTION,
    KIND_UNDER_INFERENCE,
    KIND_UNDER_NO_GRAD,
)
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.grad_edges import OutputEdge
from cython.cimports.weft.engine.ir.node import PENDING, Node, rare_facts
from cython.cimports.weft.engine.ir.primitive import STRIDED, Primitive
from cython.cimports.weft.engine.ir.split_specs import MultiOutput
from cython.cimports.weft.engine.ir.strides import contiguous_strides
from cython.cimports.weft.engine.ir.tape import ambient, view_kind
from cython.cimports.weft.engine.ir.tuple_cache import one

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cfunc
def stored(tensor: Tensor) -> Node:
    """The node of a value that a storage holds."""
    storage: Storage = tensor._storage
    if tensor.view_transform != 0:
        return core_hooks.seen_through(tensor)
    if storage.foreign is not None:
        return core_hooks.snapshot(tensor)
    if not tensor.view_chain and storage.node.shape is tensor._shape:
        return storage.node
    if (
        tensor.base is not None
        and ambient == 0  # forward mode, or a hook on saves, has to see a value of its own
        and isinstance(tensor.edge, Node)
        and _shows(tensor, storage.node)
    ):
        return tensor.edge
    if tensor.offset == 0 and tensor.strides is None and storage.node.shape == tensor._shape:
        return storage.node
    strides = tensor.strides
    if strides is None:
        strides = contiguous_strides(tensor._shape)
    return new_node(
        strided_op,
        (storage.node,),
        (tensor.offset, strides),
        tensor._shape,
        count_elements(tensor._shape),
        tensor._dtype,
        None,
    )


@cython.cfunc
def _shows(tensor: Tensor, root: Node) -> cython.bint:
    """True if the gradient records of a view can also be its value: all its steps lead to the node that its storage
    holds, and none of them has run. They become pending values then, which spares a second node for every view."""
    step: cython.Py_ssize_t = len(tensor.view_chain)
    node: Node = tensor.edge
    if root.state != PENDING or step > MOST_SHARED_STEPS:
        return False
    while node is not root:
        step -= 1
        if step < 0 or not _is_step(node, tensor.view_chain[step]):
            return False
        below = node.edges[0]
        if not isinstance(below, Node):
            return False
        node = below
    if step != 0 or tensor.edge is root:
        return False
    show_records(tensor.edge, root)
    return True


@cython.cfunc
def _is_step(node: Node, step: tuple) -> cython.bint:
    """True if a record is that of one step of a view, and can have a value."""
    return (
        node.state == PENDING
        and node.op.kind == view_kind
        and node.op is step[0]
        and node.params is step[1]
        and (node.inputs is not None or not node.batch_seen)
    )


def value_of(tensor: Tensor):
    """`value` for interpreted callers."""
    return value(tensor)


def edge_for(tensor: Tensor):
    """`edge_of` for interpreted callers."""
    return edge_of(tensor)


def set_edge(tensor: Tensor, edge):
    """Replace a tensor's gradient edge (custom Functions, tests)."""
    tensor.edge = edge
    watch(tensor)
    if tensor._storage is not None:
        tensor.version_seen = tensor._storage.version


def rename_record(tensor: Tensor, name: str):
    """Call the gradient record of a new result by the name of the function that it is the last operation of. Records
    that the schedule knows by their row keep theirs."""
    if tensor.base is None and isinstance(tensor.edge, Node):
        node: Node = tensor.edge
        if node.state == PENDING and node.quotient is None and node.op.form != STRIDED:
            rare_facts(node).grad_name = name
    return tensor


@cython.cfunc
def function_of(edge):
    """The record that users see behind an edge: of a piece, that of the operation with all its outputs."""
    if edge is None or (type(edge) is not Node and isinstance(edge, Node)):
        return edge  # nothing, or one that has been seen before
    if isinstance(edge, Node) and isinstance(cython.cast(Node, edge).info, MultiOutput):
        return core_hooks.several_outputs(edge)
    if not isinstance(edge, OutputEdge):
        return core_hooks.as_seen(edge)
    function = cython.cast(OutputEdge, edge).function
    return core_hooks.as_seen(function) if function.behind is None else function_of(function.behind)


@cython.cfunc
@cython.exceptval(-1, check=False)
def regenerate(tensor: Tensor) -> cython.int:
    """Replay the rows that made a view on its base's present edge."""
    base: Tensor = tensor.base
    kind: cython.int = tensor.creation & KIND_BITS
    if kind == KIND_IN_FUNCTION:
        raise core_hooks.base_of_function(tensor)
    edge = edge_of(base)
    if edge is not None and (kind in (KIND_UNDER_NO_GRAD, KIND_UNDER_INFERENCE)):
        raise core_hooks.base_of_untracked(tensor)
    tensor.version_seen = tensor._storage.version
    if edge is None:
        tensor.edge = None
        return 0
    shape: tuple = base._shape
    dtype: DType = base._dtype
    first: cython.Py_ssize_t = 0 if base.view_chain is None else len(base.view_chain)
    index: cython.Py_ssize_t
    for index in range(first, len(tensor.view_chain)):
        op, params, target = tensor.view_chain[index]
        dtype = viewed_dtype(op, dtype)
        edge = view_edge(op, params, shape, target, dtype, edge)
        shape = target
    tensor.edge = edge
    if tensor.retains:
        core_hooks.retain_again(tensor)
    return 0


@cython.cfunc
def viewed_dtype(op: Primitive, dtype: DType) -> DType:
    """The dtype of a view: another one where it shows parts of complex numbers, or numbers made of parts."""
    return dtype if op.dtype is None else op.dtype(None, dtype)


@cython.cfunc
def view_edge(op: Primitive, params, shape: tuple, target: tuple, dtype: DType, edge):
    """The gradient record of a view: no value inputs, so that it holds no memory."""
    return new_record(op, params, target, count_elements(target), dtype, one(edge), (shape,), None)
