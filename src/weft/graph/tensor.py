# cython: language_level=3
"""Tensor handles, storages and the recorder.

A Tensor is a handle: a value (its own node, or a strided region of a Storage that it shares), a gradient edge, a
gradient. In come handles and Python numbers; out go nodes on the tape and new handles. Operators, broadcasting and
promotion of elementwise rows are recorded here; what an op means is left to the op table, running to the pipeline.
The methods of Tensor beyond the operators are installed by the layers above (`install_methods`).
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF
from cython.cimports.libc.string import memset
from cython.cimports.weft.graph.dtype import DType
from cython.cimports.weft.graph.node import (
    PENDING,
    Mode,
    Node,
    OpRow,
    OutputEdge,
    Tape,
    _ambient,
    _packer,
    _view_kind,
    append,
    count_elements,
    current_tape,
    finish,
    new_node,
    new_scalar,
    new_sink,
    note_idle,
    show_records,
)
from cython.cimports.weft.graph.strides import contiguous_strides, is_contiguous
from cython.cimports.weft.graph.tensor import (
    HANDLES,
    RULE_COMPARE,
    RULE_INTEGRAL,
    RULE_LOGICAL,
    RULE_PROMOTE,
    RULE_SELECT,
    RULE_TO_FLOAT,
    STEPS,
    Py_SET_REFCNT,
    Py_TYPE,
    PyObject_GC_IsTracked,
    PyObject_GC_Track,
    PyObject_GC_UnTrack,
    PyObject_GenericSetAttr,
    PyTuple_GET_ITEM,
    PyTypeObject,
    visitproc,
)

from weft._compiled import require
from weft.errors import ArgumentTypeError, DTypeError, MutationError
from weft.graph import dtype as dtypes
from weft.graph.strides import (
    broadcast_shapes,
    dense_order,
    elementwise_strides,
    overlaps,
)
from weft.graph.typedict import allow_dict

require(__name__, cython.compiled)

PROMOTE, TO_FLOAT, COMPARE, LOGICAL, INTEGRAL, SELECT = range(
    6
)  # as RULE_... in the .pxd, for compiled code
# How a view was made; the number of the output stands in the bits above.
NORMAL, UNDER_NO_GRAD, MULTIPLE_OUTPUTS, UNDER_INFERENCE, IN_FUNCTION = range(5)
OUTPUT_SHIFT = 3
KIND_OF_VIEW = (1 << OUTPUT_SHIFT) - 1

_rows = {}
_late = {}
_budget_nodes = 100_000
FIRST_BUDGET = 1 << 27  # asked for more, the recorder looks how much memory the machine has
_budget_bytes = FIRST_BUDGET
_bool = dtypes.bool_
_idle = 0
_inference_used = False


@cython.final
@cython.cclass
class VersionCounter:
    """A version of its own, for `.data` aliases."""


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.cclass
class Storage:
    """A mutable cell: the current value in memory order (a row-major node) and the version counter. Aliases point to
    it; it points to nobody. `apart` is how many of its versions were made by handles that count their own (`.data`),
    `foreign` the buffer that others can write, or None."""

    def __dealloc__(self):
        if self.node is not None:
            _let_go(self.node)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _let_go(node: Node) -> cython.void:
    """A handle no longer shows a value. Where a walk has been and records still hold the node, its memory can go."""
    node.live -= 1
    if (
        node.live == 0
        and node.released
        and Py_REFCNT(cython.cast(cython.pointer(PyObject), node)) > 1
    ):
        note_idle(node)


@cython.ccall
def replace_node(storage: Storage, node: Node) -> cython.void:
    """Make `node` the current value of a storage; versions are the caller's business."""
    node.live += 1
    if storage.node is not None:
        _let_go(storage.node)
    storage.node = node


def bind(rows, late):
    """Called once by the layers above: the op table's rows, and functions that special methods call."""
    global _add, _sub, _rsub, _mul, _div, _strided, _put, _cast, _neg, _permute
    _rows.update(rows)
    _late.update(late)
    _add = _rows["add"]
    _sub = _rows["sub"]
    _rsub = _late["rsub_row"]
    _mul = _rows["mul"]
    _div = _rows["div"]
    _strided = _rows["strided"]
    _put = _rows["put"]
    _cast = _rows["cast"]
    _neg = _rows["neg"]
    _permute = _rows["permute"]


_add = None
_sub = None
_rsub = None
_mul = None
_div = None
_strided = None
_put = None
_cast = None
_neg = None
_permute = None


@cython.cclass
class Tensor:
    """A multi-dimensional array of one element type that remembers how it was computed."""

    __array_priority__ = 1000

    def __init__(self, *arguments, **keywords):
        if type(self) is Tensor or arguments or keywords:
            _late["construct"](self, *arguments, **keywords)

    def __dealloc__(self):
        if self.node is not None:
            _let_go(self.node)
        if self.attributes != cython.NULL:
            Py_DECREF(cython.cast(object, self.attributes))

    # -- what a handle is ------------------------------------------------------------------------------------------

    @property
    def shape(self):
        return _late["size"](self._shape)

    @property
    def dtype(self):
        return self._dtype

    @property
    def ndim(self):
        return len(self._shape)

    @property
    def device(self):
        return _late["device"]

    @property
    def is_leaf(self):
        return self.leaf_grad or edge_now(self) is None

    @property
    def requires_grad(self):
        return needs_grad(self)

    @requires_grad.setter
    def requires_grad(self, flag):
        _late["set_requires_grad"](self, flag)

    @property
    def grad_fn(self):
        return None if self.leaf_grad else _function_of(edge_now(self))

    @property
    def grad(self):
        if self._grad is None and not self.leaf_grad and not self.retains and needs_grad(self):
            _late["warn_non_leaf_grad"]()
        return self._grad

    @grad.setter
    def grad(self, gradient):
        _late["set_grad"](self, gradient)

    @grad.deleter
    def grad(self):
        self._grad = None

    @property
    def _version(self):
        if self.inference:
            raise _late["inference_version"]()
        if self.counter is not None:
            return self.counter.version
        return 0 if self.storage is None else self.storage.version - self.storage.apart

    @property
    def _base(self):
        return self.base

    @property
    def data(self):
        alias: Tensor = alias_of(self)
        alias.counter = VersionCounter()
        return alias

    @data.setter
    def data(self, other):
        _late["set_data"](self, other)

    def detach(self):
        """The same value without its history; shares storage and version. A dual loses its tangent, by a copy."""
        alias: Tensor = alias_of(self if _ambient == 0 else _late["without_tangents"](self))
        alias.counter = self.counter
        return alias

    def __hash__(self):
        return id(self)

    # -- operators -------------------------------------------------------------------------------------------------

    def __add__(self, other):
        return binary(_add, self, other)

    def __radd__(self, other):
        return binary(_add, other, self)

    def __sub__(self, other):
        return binary(_sub, self, other)

    def __rsub__(self, other):
        return binary(_rsub, other, self)

    def __mul__(self, other):
        return binary(_mul, self, other)

    def __rmul__(self, other):
        return binary(_mul, other, self)

    def __truediv__(self, other):
        return binary(_div, self, other)

    def __rtruediv__(self, other):
        return binary(_div, other, self)

    def __floordiv__(self, other):
        if self._dtype.category < 2:
            _late["check_divisor"](self, other)
        return binary(_rows["floor_divide"], self, other)

    def __rfloordiv__(self, other):
        if self._dtype.category < 2:
            _late["check_divisor"](other, self)
        return binary(_rows["floor_divide"], other, self)

    def __mod__(self, other):
        if self._dtype.category < 2:
            _late["check_divisor"](self, other)
        return binary(_rows["remainder"], self, other)

    def __rmod__(self, other):
        if self._dtype.category < 2:
            _late["check_divisor"](other, self)
        return binary(_rows["remainder"], other, self)

    def __pow__(self, other, modulo):
        return _late["pow"](self, other)

    def __rpow__(self, other, modulo):
        return _late["pow"](other, self)

    def __matmul__(self, other):
        return _late["matmul"](self, other)

    def __rmatmul__(self, other):
        return _late["matmul"](other, self)

    def __and__(self, other):
        return binary(_rows["bitwise_and"], self, other)

    def __rand__(self, other):
        return binary(_rows["bitwise_and"], other, self)

    def __or__(self, other):
        return binary(_rows["bitwise_or"], self, other)

    def __ror__(self, other):
        return binary(_rows["bitwise_or"], other, self)

    def __xor__(self, other):
        return binary(_rows["bitwise_xor"], self, other)

    def __rxor__(self, other):
        return binary(_rows["bitwise_xor"], other, self)

    def __lshift__(self, other):
        return binary(_rows["bitwise_left_shift"], self, other)

    def __rshift__(self, other):
        return binary(_rows["bitwise_right_shift"], self, other)

    def __neg__(self):
        return _late["neg"](self)

    def __pos__(self):
        return self

    def __abs__(self):
        return record_elementwise(_rows["abs"], (self,), None)

    def __invert__(self):
        return _late["invert"](self)

    def __eq__(self, other):
        return binary(_rows["eq"], self, other)

    def __ne__(self, other):
        return binary(_rows["ne"], self, other)

    def __lt__(self, other):
        return binary(_rows["lt"], self, other)

    def __le__(self, other):
        return binary(_rows["le"], self, other)

    def __gt__(self, other):
        return binary(_rows["gt"], self, other)

    def __ge__(self, other):
        return binary(_rows["ge"], self, other)

    def __iadd__(self, other):
        return in_place(self, binary(_add, self, other))

    def __isub__(self, other):
        return in_place(self, binary(_sub, self, other))

    def __imul__(self, other):
        return in_place(self, binary(_mul, self, other))

    def __itruediv__(self, other):
        return in_place(self, binary(_div, self, other))

    def __ifloordiv__(self, other):
        if self._dtype.category < 2:
            _late["check_divisor"](self, other)
        return in_place(self, binary(_rows["floor_divide"], self, other))

    def __imod__(self, other):
        if self._dtype.category < 2:
            _late["check_divisor"](self, other)
        return in_place(self, binary(_rows["remainder"], self, other))

    def __ipow__(self, other):
        return in_place(self, _late["pow"](self, other))

    def __iand__(self, other):
        return in_place(self, binary(_rows["bitwise_and"], self, other))

    def __ior__(self, other):
        return in_place(self, binary(_rows["bitwise_or"], self, other))

    def __ixor__(self, other):
        return in_place(self, binary(_rows["bitwise_xor"], self, other))

    # -- special methods whose meaning lies above ------------------------------------------------------------------

    def __getitem__(self, index):
        return _late["getitem"](self, index)

    def __setitem__(self, index, new):
        _late["setitem"](self, index, new)

    def __len__(self):
        if not self._shape:
            raise ArgumentTypeError(
                "len() of a 0-d tensor",
                expected="at least one dimension",
                got="a tensor of shape []",
                fix="use .item(), or unsqueeze(0) first",
            )
        return self._shape[0]

    def __iter__(self):
        return _late["iterate"](self)

    def __contains__(self, element):
        return _late["contains"](self, element)

    def __bool__(self):
        return _late["truth"](self)

    def __float__(self):
        return float(_late["number"](self))

    def __int__(self):
        return int(_late["number"](self))

    def __complex__(self):
        return complex(_late["number"](self))

    def __index__(self):
        return _late["index"](self)

    def __repr__(self):
        return _late["repr"](self)

    def __format__(self, spec):
        return _late["format"](self, spec)

    def __array__(self, dtype=None, copy=None):
        return _late["array"](self, dtype)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return _late["array_wrap"](array)

    def __deepcopy__(self, memo):
        return _late["deepcopy"](self, memo)

    def __reduce_ex__(self, protocol):
        return _late["reduce"](self, protocol)

    def __dlpack__(self, **keywords):
        return _late["array"](self, None).__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)


# -- values and edges ----------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
def _blank() -> Tensor:
    """A handle of nothing, unseen by the cyclic garbage collector (`watch`)."""
    global _idle
    tensor: Tensor
    if _idle == 0:
        tensor = Tensor.__new__(Tensor)
        PyObject_GC_UnTrack(cython.cast(cython.p_void, tensor))
        return tensor
    _idle -= 1
    tensor = cython.cast(Tensor, _handles[_idle])
    Py_DECREF(tensor)
    memset(
        cython.address(tensor.offset),
        0,
        cython.cast(cython.p_char, cython.address(tensor.attributes) + 1)
        - cython.cast(cython.p_char, cython.address(tensor.offset)),
    )
    return tensor


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def watch(tensor: Tensor) -> cython.void:
    """Show a handle to the cyclic garbage collector, from the first moment at which it can be part of a cycle that
    the collector could break: with an attribute, a hook, a gradient, a base, an edge that is not a node."""
    if not PyObject_GC_IsTracked(cython.cast(cython.pointer(PyObject), tensor)):
        PyObject_GC_Track(cython.cast(cython.p_void, tensor))


@cython.cfunc
def wrap(node: Node, edge) -> Tensor:
    """A fresh contiguous tensor around a node."""
    tensor: Tensor = _blank()
    tensor.node = node
    node.live += 1
    tensor._shape = node.shape
    tensor._dtype = node.dtype
    if edge is not None:
        tensor.edge = edge
        if not isinstance(edge, Node):
            watch(tensor)
    if _ambient > 0:
        tensor.inference = current_tape().mode.inference
    return tensor


def wrap_node(node: Node, edge=None, strides=None):
    """`wrap` for interpreted callers; `strides` where the logical layout is not row-major."""
    tensor: Tensor = wrap(node, edge)
    tensor.strides = strides
    return tensor


@cython.cfunc
def value(tensor: Tensor) -> Node:
    """The node of a tensor's current value, in its logical shape."""
    if tensor.storage is None:
        return tensor.node
    return _stored(tensor)


@cython.cfunc
def _stored(tensor: Tensor) -> Node:
    storage: Storage = tensor.storage
    if tensor.lens != 0:
        return _late["seen_through"](tensor)
    if storage.foreign is not None:
        return _late["snapshot"](tensor)
    if tensor.recipe == () and storage.node.shape is tensor._shape:
        return storage.node
    if (
        tensor.base is not None
        and _ambient
        == 0  # a level of forward mode or a hook on saves has to see a value of its own
        and isinstance(tensor.edge, Node)
        and _shows(tensor, storage.node)
    ):
        return tensor.edge
    strides = tensor.strides
    if strides is None:
        strides = contiguous_strides(tensor._shape)
    if tensor.offset == 0 and storage.node.shape == tensor._shape and tensor.strides is None:
        return storage.node
    return new_node(
        _strided,
        (storage.node,),
        (tensor.offset, strides),
        tensor._shape,
        count_elements(tensor._shape),
        tensor._dtype,
        None,
    )


@cython.cfunc
def _shows(tensor: Tensor, root: Node) -> cython.bint:
    """Whether the gradient records of a view are its value too: where all its steps lead to the node that its storage
    holds, and none of them has run. They become pending values then, which spares a second node for every view."""
    step: cython.Py_ssize_t = len(tensor.recipe)
    node: Node = tensor.edge
    if root.state != PENDING or step > STEPS:
        return False
    while node is not root:
        step -= 1
        if step < 0 or not _is_step(node, tensor.recipe[step]):
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
    """Whether a record is that of one step of a view, and can have a value."""
    return (
        node.state == PENDING
        and node.row.kind == _view_kind
        and node.row is step[0]
        and node.params is step[1]
        and (node.inputs is not None or not node.considered)
    )


def value_of(tensor: Tensor):
    """`value` for interpreted callers."""
    return value(tensor)


def edge_for(tensor: Tensor):
    """`edge_of` for interpreted callers."""
    return edge_of(tensor)


@cython.cfunc
def edge_now(tensor: Tensor):
    """The gradient edge of a non-leaf, regenerated where its base has been mutated since."""
    if tensor.base is not None and tensor.seen != tensor.storage.version:
        _regenerate(tensor)
    return tensor.edge


@cython.cfunc
def needs_grad(tensor: Tensor) -> cython.bint:
    """Whether a gradient flows to this tensor."""
    return tensor.leaf_grad or edge_now(tensor) is not None


@cython.cfunc
def edge_of(tensor: Tensor):
    """Where a cotangent of this tensor goes: a node, an output edge, the leaf's accumulator, or None."""
    edge = edge_now(tensor)
    if edge is not None or not tensor.leaf_grad:
        return edge
    if tensor.accumulator != cython.NULL:
        return cython.cast(object, cython.cast(cython.pointer(PyObject), tensor.accumulator))
    return new_sink(tensor, cython.address(tensor.accumulator))


@cython.cfunc
def _function_of(edge):
    """The record that users see behind an edge: of a piece, that of the operation with all its outputs."""
    if isinstance(edge, Node) and cython.cast(Node, edge).info is not None:
        return cython.cast(Node, edge).info[0]
    return cython.cast(OutputEdge, edge).function if isinstance(edge, OutputEdge) else edge


@cython.cfunc
def _regenerate(tensor: Tensor) -> cython.void:
    """Replay the rows that made a view on its base's present edge."""
    base: Tensor = tensor.base
    tensor.seen = tensor.storage.version
    edge = edge_of(base)
    if edge is None:
        tensor.edge = None
        return
    shape: tuple = base._shape
    dtype: DType = base._dtype
    first: cython.Py_ssize_t = 0 if base.recipe is None else len(base.recipe)
    index: cython.Py_ssize_t
    for index in range(first, len(tensor.recipe)):
        row, params, target = tensor.recipe[index]
        dtype = _viewed_dtype(row, dtype)
        edge = view_edge(row, params, shape, target, dtype, edge)
        shape = target
    tensor.edge = edge


@cython.cfunc
def _viewed_dtype(row: OpRow, dtype: DType) -> DType:
    """The dtype of a view: another one where it shows parts of complex numbers, or numbers made of parts."""
    return dtype if row.dtype is None else row.dtype(None, dtype)


@cython.cfunc
def view_edge(row: OpRow, params, shape: tuple, target: tuple, dtype: DType, edge):
    """The gradient record of a view: no value inputs, so that it holds no memory."""
    node: Node = new_node(row, None, params, target, count_elements(target), dtype, (edge,))
    node.payload = (shape,)
    finish(node)
    return node


# -- recording -----------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def after_record(tape: Tape) -> cython.int:
    """Run what is pending where the budget or eager mode asks for it."""
    if (
        tape.count - tape.left > _budget_nodes
        or tape.pending_bytes + tape.arrived_bytes > _budget_bytes
        or tape.mode.eager
    ):
        _relieve(tape)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _relieve(tape: Tape) -> cython.int:
    global _budget_bytes
    if tape.running is not None:
        return 0
    if _budget_bytes == FIRST_BUDGET and not tape.mode.eager:
        _budget_bytes = _late["most_pending_bytes"]()
        return after_record(tape)
    _late["flush"]()
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_budget() -> cython.int:
    return after_record(current_tape())


def set_budget(nodes: int, nbytes: int):
    """How many pending nodes and bytes make the recorder run what is pending."""
    global _budget_nodes, _budget_bytes
    previous = (_budget_nodes, _budget_bytes)
    _budget_nodes, _budget_bytes = nodes, nbytes
    return previous


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _same_shape(one: tuple, other: tuple) -> cython.bint:
    """Whether two shapes are surely equal: one tuple, or the same number objects in both."""
    if one is other:
        return True
    rank: cython.Py_ssize_t = len(one)
    if rank != len(other):
        return False
    axis: cython.Py_ssize_t
    for axis in range(rank):
        if PyTuple_GET_ITEM(one, axis) != PyTuple_GET_ITEM(other, axis):
            return False
    return True


@cython.cfunc
def binary(row: OpRow, a, b):
    """Record an elementwise row on two operands, of which at least one is a tensor."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        x: Tensor = cython.cast(Tensor, a)
        y: Tensor = cython.cast(Tensor, b)
        if (
            x._dtype is y._dtype
            and x.strides is None
            and y.strides is None
            and 0 < x._dtype.category < 3
            and (
                row.rule == RULE_PROMOTE
                or row.rule == RULE_COMPARE
                or (row.rule == RULE_TO_FLOAT and x._dtype.category >= 2)
            )
            and (_same_shape(x._shape, y._shape) or x._shape == y._shape)
        ):
            return _record_same(row, x, y)
        return record_elementwise(row, (a, b), None)
    if isinstance(a, Tensor):
        if (type(b) is float or type(b) is int) and _keeps_type(row, cython.cast(Tensor, a)):
            return _record_scalar(row, cython.cast(Tensor, a), b, False)
    elif (type(a) is float or type(a) is int) and _keeps_type(row, cython.cast(Tensor, b)):
        return _record_scalar(row, cython.cast(Tensor, b), a, True)
    if not _is_operand(a) or not _is_operand(b):
        return NotImplemented
    return record_elementwise(row, (a, b), None)


@cython.cfunc
@cython.inline
def need_type(row: OpRow, dtype: DType) -> cython.bint:
    """Errors: DTypeError where a row has no kernel for an operand type."""
    return True if row.types >> dtype.code & 1 else _refuse_type(row, dtype)


@cython.cfunc
def _refuse_type(row: OpRow, dtype: DType) -> cython.bint:
    raise DTypeError(
        f'"{row.name}" not implemented for {dtype.name}',
        expected=f"one of {', '.join(row.takes)}",
        got=dtype.name,
        fix="convert the operand first, or take .abs() or .real of complex numbers",
    )


@cython.cfunc
@cython.inline
def _keeps_type(row: OpRow, x: Tensor) -> cython.bint:
    """Whether a real Python number leaves the operand's type as it is."""
    return (
        x._dtype.category >= 2
        and x.strides is None
        and (
            row.rule == RULE_PROMOTE
            or row.rule == RULE_TO_FLOAT
            or (row.rule == RULE_COMPARE and x._dtype.category == 2)
        )
    )


@cython.cfunc
def _record_scalar(row: OpRow, x: Tensor, number, swapped: cython.bint) -> Tensor:
    need_type(row, x._dtype)
    a: Node = value(x)
    b: Node = new_scalar(number, x._dtype)
    edges: tuple = None
    tape: Tape = current_tape()
    if tape.mode.grad and row.differentiable and row.rule != RULE_COMPARE and needs_grad(x):
        edges = (None, edge_of(x)) if swapped else (edge_of(x), None)
    dtype: DType = _bool if row.rule == RULE_COMPARE else a.dtype
    node: Node = append(
        tape, row, (b, a) if swapped else (a, b), None, a.shape, a.numel, dtype, edges
    )
    result: Tensor = wrap(node, node if edges is not None else None)
    after_record(tape)
    return result


@cython.cfunc
def _record_same(row: OpRow, x: Tensor, y: Tensor) -> Tensor:
    need_type(row, x._dtype)
    a: Node = value(x)
    b: Node = value(y)
    edges: tuple = None
    tape: Tape = current_tape()
    if (
        tape.mode.grad
        and row.differentiable
        and row.rule != RULE_COMPARE
        and x._dtype.category >= 2
        and (needs_grad(x) or needs_grad(y))
    ):
        edges = (edge_of(x), edge_of(y))
        if _inference_used:
            _late["check_saved"](row, (x, y), edges)
    dtype: DType = _bool if row.rule == RULE_COMPARE else a.dtype
    inputs: tuple = edges
    if edges is None or edges[0] is not a or edges[1] is not b:
        inputs = (a, b)
    node: Node = append(tape, row, inputs, None, a.shape, a.numel, dtype, edges)
    result: Tensor = wrap(node, node if edges is not None else None)
    after_record(tape)
    return result


@cython.cfunc
def _is_operand(other) -> cython.bint:
    if isinstance(other, (Tensor, float, int, complex)):
        return True
    return _late["is_scalar"](other)


@cython.ccall
def record_elementwise(row: OpRow, operands: tuple, params):
    """Record an elementwise row: promote, cast, broadcast. `operands` are tensors and Python numbers."""
    if len(operands) == 1 and row.dtype is None and isinstance(operands[0], Tensor):
        x: Tensor = cython.cast(Tensor, operands[0])
        if x.strides is None and (
            row.rule == RULE_PROMOTE or (row.rule == RULE_TO_FLOAT and x._dtype.category >= 2)
        ):
            return _record_unary(row, x, params)
    dtype: DType = _compute_dtype(row, operands)
    return _record_operands(row, operands, params, dtype)


@cython.cfunc
def _record_unary(row: OpRow, x: Tensor, params) -> Tensor:
    need_type(row, x._dtype)
    a: Node = value(x)
    edges: tuple = None
    tape: Tape = current_tape()
    if tape.mode.grad and row.differentiable and a.dtype.category >= 2 and needs_grad(x):
        edges = (edge_of(x),)
    inputs: tuple = edges
    if edges is None or edges[0] is not a:
        inputs = (a,)
    node: Node = append(tape, row, inputs, params, a.shape, a.numel, a.dtype, edges)
    result: Tensor = wrap(node, node if edges is not None else None)
    after_record(tape)
    return result


@cython.cfunc
def _shared_dtype(operands: tuple, first: cython.Py_ssize_t):
    """The dtype of all tensors among the operands where it is one, and no number brings in a higher category."""
    dtype: DType = None
    category: cython.int = 0
    index: cython.Py_ssize_t
    for index in range(first, len(operands)):
        operand = operands[index]
        if isinstance(operand, Tensor):
            if dtype is not None and dtype is not cython.cast(Tensor, operand)._dtype:
                return None
            dtype = cython.cast(Tensor, operand)._dtype
        elif type(operand) is float:
            category = 2
        elif type(operand) is int:
            category = max(category, 1)
        elif type(operand) is not bool:
            return None
    return dtype if dtype is not None and dtype.category >= category else None


@cython.cfunc
def _compute_dtype(row: OpRow, operands: tuple):
    dtype: DType = _shared_dtype(operands, 1 if row.rule == RULE_SELECT else 0)
    if dtype is None:
        dtype = _joined_dtype(row, operands)
    if row.rule == RULE_TO_FLOAT and dtype.category < 2:
        return dtypes.get_default()
    if row.rule == RULE_LOGICAL:
        return dtypes.bool_
    if row.rule == RULE_INTEGRAL and dtype.category > 1:
        raise DTypeError(
            f'"{row.name}" not implemented for {dtype.name}',
            expected="integer or boolean tensors",
            got=dtype.name,
            fix="convert with .long() or .bool() first",
        )
    return dtype


@cython.cfunc
def _joined_dtype(row: OpRow, operands: tuple):
    pairs: list = []
    first: cython.Py_ssize_t = 1 if row.rule == RULE_SELECT else 0
    index: cython.Py_ssize_t
    for index in range(first, len(operands)):
        operand = operands[index]
        if isinstance(operand, Tensor):
            pairs.append(
                (
                    cython.cast(Tensor, operand)._dtype,
                    2 if cython.cast(Tensor, operand)._shape else 1,
                )
            )
        else:
            pairs.append((_late["scalar_dtype"](operand), 0))
    return dtypes.result_dtype(pairs)


@cython.cfunc
def _record_operands(row: OpRow, operands: tuple, params, dtype: DType):
    count: cython.Py_ssize_t = len(operands)
    nodes: list = [None] * count
    tensors: list = [None] * count
    layouts: list = []
    tape: Tape = current_tape()
    grad: cython.bint = False
    tracked: cython.bint = tape.mode.grad and row.differentiable
    index: cython.Py_ssize_t
    shape: tuple = None
    same: cython.bint = True
    plain: cython.bint = True
    for index in range(count):
        operand = operands[index]
        if isinstance(operand, Tensor):
            tensor: Tensor = cython.cast(Tensor, operand)
            if tensor._dtype is not dtype and not (row.rule == RULE_SELECT and index == 0):
                tensor = cast(tensor, dtype)
            tensors[index] = tensor
            node: Node = value(tensor)
            nodes[index] = node
            layouts.append((tensor._shape, tensor.strides))
            if tensor.strides is not None:
                plain = False
            if shape is None:
                shape = tensor._shape
            elif shape is not tensor._shape and shape != tensor._shape:
                same = False
            if tracked and not grad and needs_grad(tensor):
                grad = True
        else:
            nodes[index] = new_scalar(operand, dtype)
            if shape is not None and shape != ():
                same = same and True
    if not same:
        shape = broadcast_shapes([layout[0] for layout in layouts], row.name)
    elif shape is None:
        shape = ()
    result_dtype: DType = (
        dtypes.bool_ if row.rule == RULE_COMPARE or row.rule == RULE_LOGICAL else dtype
    )
    if row.dtype is not None:
        result_dtype = row.dtype(params, dtype)
    need_type(row, dtype)
    edges: tuple = None
    if grad and result_dtype.category >= 2:
        edges = _edges(tensors)
        if _inference_used:
            _late["check_saved"](row, tensors, edges)
    node = new_node(row, tuple(nodes), params, shape, count_elements(shape), result_dtype, edges)
    if edges is not None and not same:
        node.payload = tuple([n.shape for n in nodes])
    result: Tensor = wrap(node, node if edges is not None else None)
    if not plain:
        result.strides = elementwise_strides(shape, layouts)
    check_budget()
    return result


@cython.cfunc
def _edges(tensors) -> tuple:
    edges: list = []
    for tensor in tensors:
        edges.append(
            None
            if tensor is None or cython.cast(Tensor, tensor)._dtype.category < 2
            else edge_of(cython.cast(Tensor, tensor))
        )
    return tuple(edges)


@cython.ccall
def cast(tensor: Tensor, dtype: DType):
    """Record a conversion; the tensor itself where the type is already right."""
    if tensor._dtype is dtype:
        return tensor
    result: Tensor = record(_cast, (tensor,), (tensor._dtype,), tensor._shape, dtype)
    result.strides = (
        tensor.strides
        if tensor.strides is None or dense_order(tensor._shape, tensor.strides)
        else None
    )
    return result


@cython.ccall
def record(row: OpRow, tensors: tuple, params, shape: tuple, dtype: DType):
    """Record one node of any row on tensors, with shape and dtype already decided."""
    if tensors:
        need_type(row, cython.cast(Tensor, tensors[0])._dtype)
    tape: Tape = current_tape()
    nodes: list = []
    grad: cython.bint = False
    tracked: cython.bint = tape.mode.grad and row.differentiable and dtype.category >= 2
    for item in tensors:
        tensor: Tensor = cython.cast(Tensor, item)
        nodes.append(value(tensor))
        if tracked and not grad and needs_grad(tensor):
            grad = True
    edges: tuple = _edges(tensors) if grad else None
    if edges is not None and _inference_used:
        _late["check_saved"](row, tensors, edges)
    node: Node = append(tape, row, tuple(nodes), params, shape, count_elements(shape), dtype, edges)
    if edges is not None:
        node.payload = tuple([n.shape for n in nodes])
    result: Tensor = wrap(node, node if edges is not None else None)
    after_record(tape)
    return result


@cython.ccall
def record_gradient(row: OpRow, tensors: tuple, params, result: Tensor):
    """Put one gradient record of a composite row behind an already computed, untracked result."""
    tape: Tape = current_tape()
    if _ambient > 0 and tape.mode.duals is not None:
        _late["follow_composite"](row, tensors, params, result)
    if not tape.mode.grad or result._dtype.category < 2:
        return result
    grad: cython.bint = False
    for item in tensors:
        if needs_grad(cython.cast(Tensor, item)):
            grad = True
    if not grad:
        return result
    nodes: list = [value(cython.cast(Tensor, item)) for item in tensors]
    edges: tuple = _edges(tensors)
    if _inference_used:
        _late["check_saved"](row, tensors, edges)
    node: Node = new_node(
        row,
        tuple(nodes),
        params,
        result._shape,
        count_elements(result._shape),
        result._dtype,
        edges,
    )
    node.payload = tuple([n.shape for n in nodes])
    node.result = value(result)
    node.result.live += 1
    if _ambient > 0:
        _packer(node)
    finish(node)
    result.edge = node
    return result


# -- views and mutation --------------------------------------------------------------------------------------------


@cython.cfunc
def share(tensor: Tensor) -> Storage:
    """The storage of a tensor, made on the first alias; its node is the value in memory order."""
    if tensor.storage is not None:
        return tensor.storage
    storage: Storage = Storage.__new__(Storage)
    node: Node = tensor.node
    if tensor.strides is not None:
        order = dense_order(tensor._shape, tensor.strides)
        shape = tuple([tensor._shape[axis] for axis in order])
        node = new_node(_permute, (node,), order, shape, node.numel, node.dtype, None)
    replace_node(storage, node)
    tensor.storage = storage
    tensor.node.live -= 1
    tensor.node = None
    tensor.recipe = ()
    tensor.seen = 0
    return storage


def storage_of(tensor: Tensor):
    """`share` for interpreted callers."""
    return share(tensor)


@cython.ccall
def alias_of(tensor: Tensor):
    """An untracked handle of the same region."""
    storage: Storage = share(tensor)
    alias: Tensor = _blank()
    alias.storage = storage
    alias._shape = tensor._shape
    alias._dtype = tensor._dtype
    alias.strides = tensor.strides
    alias.offset = tensor.offset
    alias.recipe = tensor.recipe
    alias.lens = tensor.lens
    alias.seen = storage.version
    alias.inference = tensor.inference
    return alias


@cython.ccall
def view(row: OpRow, tensor: Tensor, params, shape: tuple, strides: tuple, offset: cython.longlong):
    """A view of a tensor: `strides` and `offset` are of its storage's memory."""
    storage: Storage = share(tensor)
    result: Tensor = _blank()
    watch(result)
    result.storage = storage
    result._shape = shape
    result._dtype = _viewed_dtype(row, tensor._dtype)
    result.strides = None if is_contiguous(shape, strides) else strides
    result.offset = offset
    result.lens = tensor.lens
    result.recipe = tensor.recipe + ((row, params, shape),)
    result.counter = tensor.counter
    result.inference = tensor.inference
    mode: Mode = current_tape().mode
    result.base = tensor if tensor.base is None or tensor.leaf_grad else tensor.base
    result.creation = tensor.creation if mode.grad else UNDER_NO_GRAD
    if mode.grad and needs_grad(tensor):
        result.edge = view_edge(row, params, tensor._shape, shape, result._dtype, edge_of(tensor))
    result.seen = storage.version
    return result


def handle_of_storage(tensor: Tensor):
    """An untracked handle of all elements of a tensor's storage, in memory order."""
    storage: Storage = share(tensor)
    whole: Tensor = wrap(storage.node, None)
    storage.node.live -= 1
    whole.node = None
    whole.storage = storage
    whole.recipe = ()
    whole.seen = storage.version
    return whole


def logical_strides(tensor: Tensor):
    """The strides of a tensor as PyTorch counts them."""
    return contiguous_strides(tensor._shape) if tensor.strides is None else tensor.strides


@cython.ccall
def in_place(tensor: Tensor, new):
    """Give a tensor's region a new value (an op's result on it), with PyTorch's checks. Returns the tensor."""
    if new is NotImplemented:
        raise ArgumentTypeError(
            "in-place operation",
            expected="a tensor or a number",
            got="another type",
            fix="convert the operand with weft.tensor(...)",
        )
    result: Tensor = cython.cast(Tensor, new)
    if result._dtype is not tensor._dtype:
        if result._dtype.category > tensor._dtype.category:
            raise DTypeError(
                f"result type {_late['type_name'](result._dtype)} can't be cast to the desired output type "
                f"{_late['type_name'](tensor._dtype)}",
                expected=f"a result that {tensor._dtype.name} can hold",
                got=result._dtype.name,
                fix="use the out-of-place operation, or convert the tensor first",
            )
        result = cast(result, tensor._dtype)
    if result._shape != tensor._shape:
        raise _late["in_place_shape"](tensor, result)
    return mutate(tensor, result)


@cython.ccall
def mutate(tensor: Tensor, new: Tensor):
    """Give a tensor's region the value of `new` (same shape and dtype); gradients follow in grad mode."""
    mode: Mode = current_tape().mode
    if tensor.inference and not mode.inference:
        raise _late["inference_update"]()
    grad: cython.bint = mode.grad and (
        needs_grad(new)
        or needs_grad(tensor)
        or (tensor.base is not None and needs_grad(tensor.base))
    )
    if tensor.strides is not None and overlaps(tensor._shape, tensor.strides):
        raise MutationError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation.",
            expected="a tensor whose elements are distinct memory",
            got="an expanded or overlapping view",
            fix="call .clone() before the in-place operation",
        )
    if mode.grad:
        _check_mutation(tensor, grad)
    if tensor.lens != 0:
        _late["write_through_lens"](tensor, new)
        return tensor
    region = _region_of(tensor) if grad else None
    storage: Storage = share(tensor)
    if mode.extra is not None and "writes" in mode.extra:
        mode.extra["writes"].append(storage.node.seq)
    if storage.foreign is not None:
        _late["write_through"](tensor, new)
    elif (
        tensor.recipe == ()
        and tensor.strides is None
        and tensor.offset == 0
        and tensor._shape == storage.node.shape
    ):
        replace_node(storage, value(new))
    else:
        _put_region(tensor, storage, value(new))
    storage.version += 1
    if tensor.counter is not None:
        tensor.counter.version += 1
        storage.apart += 1
    if grad:
        _move_edges(tensor, new, region)
    elif tensor.base is None:
        tensor.seen = storage.version
    if tensor.retains:
        _late["retain_again"](tensor)
    check_budget()
    return tensor


@cython.cfunc
def _put_region(tensor: Tensor, storage: Storage, new: Node) -> cython.void:
    root: Node = storage.node
    params = (tensor.offset, logical_strides(tensor))
    replace_node(
        storage, new_node(_put, (root, new), params, root.shape, root.numel, root.dtype, None)
    )


@cython.cfunc
def _check_mutation(tensor: Tensor, grad: cython.bint) -> cython.void:
    if tensor.leaf_grad:
        raise MutationError(
            "a leaf Variable that requires grad is being used in an in-place operation.",
            expected="a tensor that is not a leaf, or an update under no_grad",
            got="a leaf with requires_grad=True",
            fix="wrap the update in `with weft.no_grad():`, or use the out-of-place operation",
        )
    kind: cython.int = tensor.creation & KIND_OF_VIEW
    if grad and kind == IN_FUNCTION:
        raise _late["view_of_function"](tensor)
    if tensor.base is None or not grad:
        return
    if tensor.base.leaf_grad:
        raise MutationError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            expected="a view of a tensor that is not a leaf, or an update under no_grad",
            got="a view of a leaf with requires_grad=True",
            fix="wrap the update in `with weft.no_grad():`",
        )
    if kind == UNDER_NO_GRAD:
        raise MutationError(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled.",
            expected="view and mutation in the same grad mode",
            got="a view made under no_grad",
            fix="make the view in grad mode, or mutate it under no_grad",
        )
    if kind == MULTIPLE_OUTPUTS:
        raise _late["one_of_several_views"](tensor)


@cython.cfunc
def _region_of(tensor: Tensor):
    """Where a view lies in its differentiable base, as (offset, strides); all of a tensor that has none."""
    base: Tensor = tensor.base
    if base is None:
        return (0, contiguous_strides(tensor._shape))
    region = _late["region"](base._shape, tensor.recipe[len(base.recipe) :])
    if region is None:
        raise MutationError(
            "in-place operation on this view",
            expected="a view that is one strided region of its base",
            got="a reshape of a permuted view",
            fix="write through the base tensor instead",
        )
    return region


@cython.cfunc
def _move_edges(tensor: Tensor, new: Tensor, region) -> cython.void:
    """The new value's history becomes the tensor's; a view's goes into its base. What only overwrites keeps the old
    history behind a gradient of zeros, so that the tensor still requires one."""
    base: Tensor = tensor if tensor.base is None else tensor.base
    edge = edge_of(new)
    if tensor.base is not None or edge is None:
        node: Node = new_node(
            _put,
            None,
            region,
            base._shape,
            count_elements(base._shape),
            base._dtype,
            (edge_of(base), edge),
        )
        node.payload = (base._shape, tensor._shape)
        finish(node)
        edge = node
    base.edge = edge
    base.seen = tensor.storage.version


def note_inference():
    """From now on recording checks that no inference tensor is saved."""
    global _inference_used
    _inference_used = True


def set_edge(tensor: Tensor, edge):
    """Replace a tensor's gradient edge (custom Functions, tests)."""
    tensor.edge = edge
    watch(tensor)
    if tensor.storage is not None:
        tensor.seen = tensor.storage.version


def replace_value(tensor: Tensor, other: Tensor):
    """Make a handle show another tensor's storage (`x.data = y`); gradient state stays."""
    storage: Storage = share(other)
    if tensor.node is not None:
        tensor.node.live -= 1
        tensor.node = None
    tensor.storage = storage
    tensor._shape = other._shape
    tensor._dtype = other._dtype
    tensor.strides = other.strides
    tensor.offset = other.offset
    tensor.recipe = other.recipe
    tensor.lens = other.lens
    tensor.seen = storage.version


def become(tensor: Tensor, source: Tensor):
    """Initialise an empty handle of a subclass from a tensor (`Parameter`, `Tensor(...)`): shares its value."""
    replace_value(tensor, source)


def install_methods(methods):
    """Add methods and properties to Tensor: the functions of the layers above, under PyTorch's names."""
    from weft.graph.typedict import add_to_type

    add_to_type(Tensor, methods)


def _allow_attributes():
    """Let users set attributes on tensors; the dict is made by the first one (Cython's own would be made each time)."""
    probe: Tensor = Tensor.__new__(Tensor)
    start: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, probe))
    place: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, cython.address(probe.attributes))
    allow_dict(Tensor, place - start)


# -- the life of a handle ------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def _empty(tensor: Tensor) -> cython.void:
    """A dying handle gives up everything it holds."""
    if tensor.node is not None:
        tensor.node.live -= 1
        tensor.node = None
    if tensor.storage is not None:
        tensor.storage = None
    if tensor.strides is not None:
        tensor.strides = None
    if tensor.edge is not None:
        tensor.edge = None
    if tensor.base is not None:
        tensor.base = None
    if tensor.recipe is not None:
        tensor.recipe = None
    if tensor._grad is not None:
        tensor._grad = None
    if tensor.hooks is not None:
        tensor.hooks = None
    if tensor.counter is not None:
        tensor.counter = None
    if tensor.attributes != cython.NULL:
        Py_DECREF(cython.cast(object, tensor.attributes))
        tensor.attributes = cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def _retire(dying: cython.pointer(PyObject)) -> cython.void:
    """Free a handle (tp_dealloc): emptied, it waits with its empty fields in place, as nodes do."""
    global _idle
    if (
        Py_TYPE(dying) != _kind
        or _idle == HANDLES
        or cython.cast(cython.pp_void, cython.cast(cython.p_char, dying) + _kind.tp_weaklistoffset)[
            0
        ]
        != cython.NULL
    ):
        _free_handle(dying)
        return
    PyObject_GC_UnTrack(dying)
    Py_SET_REFCNT(dying, 1)
    _empty(cython.cast(Tensor, dying))
    if _idle == HANDLES:  # what it held died in a crowd
        Py_SET_REFCNT(dying, 0)
        _free_handle(dying)
        return
    _handles[_idle] = dying
    _idle += 1


@cython.cfunc
@cython.exceptval(check=False)
def _traverse(
    holder: cython.pointer(PyObject), visit: visitproc, argument: cython.p_void
) -> cython.int:
    """Show the collector the attributes that users have set, with everything else (tp_traverse)."""
    result: cython.int = _traverse_fields(holder, visit, argument)
    attributes: cython.p_void = cython.cast(Tensor, holder).attributes
    if result == 0 and attributes != cython.NULL:
        result = visit(cython.cast(cython.pointer(PyObject), attributes), argument)
    if result == 0:
        result = _traverse_hooks(cython.cast(Tensor, holder), visit, argument)
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _traverse_hooks(tensor: Tensor, visit: visitproc, argument: cython.p_void) -> cython.int:
    """Show the collector the hooks on a record that only this handle holds: one may close over the handle."""
    if tensor.edge is None or not isinstance(tensor.edge, Node):
        return 0
    record: cython.pointer(PyObject) = cython.cast(cython.pointer(PyObject), tensor.edge)
    own: cython.Py_ssize_t = 1
    if cython.cast(cython.pointer(PyObject), tensor.node) == record:
        own = 2
    if Py_REFCNT(record) != own or cython.cast(Node, record).observers is None:
        return 0
    return visit(
        cython.cast(cython.pointer(PyObject), cython.cast(Node, record).observers), argument
    )


@cython.cfunc
@cython.exceptval(check=False)
def _clear(holder: cython.pointer(PyObject)) -> cython.int:
    """Break a cycle (tp_clear), and leave a handle that still has its value."""
    tensor: Tensor = cython.cast(Tensor, holder)
    attributes: cython.p_void = tensor.attributes
    tensor.edge = None
    tensor._grad = None
    tensor.hooks = None
    if attributes != cython.NULL:
        tensor.attributes = cython.NULL
        Py_DECREF(cython.cast(object, attributes))
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _set_attribute(
    holder: cython.pointer(PyObject),
    name: cython.pointer(PyObject),
    value: cython.pointer(PyObject),
) -> cython.int:
    """Set an attribute (tp_setattro)."""
    watch(cython.cast(Tensor, holder))
    return PyObject_GenericSetAttr(holder, name, value)


@cython.cfunc
def _take_over() -> cython.void:
    """Put these functions into Tensor's slots, before there are subclasses."""
    global _kind, _free_handle, _traverse_fields
    _kind = cython.cast(cython.pointer(PyTypeObject), Tensor)
    _free_handle = _kind.tp_dealloc
    _traverse_fields = _kind.tp_traverse
    _kind.tp_dealloc = _retire
    _kind.tp_traverse = _traverse
    _kind.tp_clear = _clear
    _kind.tp_setattro = _set_attribute


_allow_attributes()
_take_over()
