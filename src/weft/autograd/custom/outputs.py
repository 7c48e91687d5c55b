# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""The results of a custom Function, connected to its gradient record or detached from it.

It takes the arguments of the call, their edges and what `forward` has returned, and gives the results as the caller
gets them: on an edge of the record, as the changed argument itself, or as a view of an argument that was handed on.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.autograd.custom.context import NOTHING, FunctionCtx, SavedInput, among
from cython.cimports.weft.autograd.custom.node import FunctionNode
from cython.cimports.weft.engine.capi.call_site import caller
from cython.cimports.weft.engine.frontend.node_factory import hide
from cython.cimports.weft.engine.frontend.resolve import edge_of, value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.grad_edges import new_edge
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.tape import current_tape
from cython.cimports.weft.engine.ir.tuple_cache import one

from weft._build.compiled import require
from weft.engine.frontend.inplace import mutate
from weft.engine.frontend.resolve import set_edge
from weft.engine.frontend.views import IN_FUNCTION, alias_of
from weft.errors import MutationError

require(__name__, cython.compiled)

_YES = cython.declare(tuple, (True,))
_NO = cython.declare(tuple, (False,))


@cython.cfunc
def edges_of(arguments: tuple) -> tuple:
    """The gradient edges of the arguments; None where none requires a gradient."""
    count: cython.Py_ssize_t = len(arguments)
    edge: object = None
    if count == 1:
        if isinstance(arguments[0], Tensor):
            edge = edge_of(cython.cast(Tensor, arguments[0]))
        if isinstance(edge, Node):
            return one(edge)
        return None if edge is None else (edge,)  # the collector may have to look through it
    edges: list = [None] * count
    found: cython.bint = False
    index: cython.Py_ssize_t
    for index in range(count):
        argument = arguments[index]
        if isinstance(argument, Tensor):
            edge = edge_of(cython.cast(Tensor, argument))
            if edge is not None:
                edges[index] = edge
                found = True
    return tuple(edges) if found else None


@cython.cfunc
def needs(edges: tuple | None, count: cython.Py_ssize_t) -> tuple:
    """`needs_input_grad`: whether each argument requires a gradient."""
    if edges is None:
        return _NO if count == 1 else (False,) * count
    return _YES if count == 1 else tuple([edge is not None for edge in edges])


@cython.cfunc
def _types_of(values: tuple) -> tuple:
    """Shape, dtype, shape, dtype, ... of some values; None, None for one that is no tensor."""
    types: list = []
    for v in values:
        if isinstance(v, Tensor):
            types.append(cython.cast(Tensor, v)._shape)
            types.append(cython.cast(Tensor, v)._dtype)
        else:
            types.append(None)
            types.append(None)
    found: tuple = tuple(types)
    hide(found)
    return found


@cython.cfunc
def _type_of(tensor: Tensor) -> tuple:
    """`_types_of` for one."""
    found: tuple = (tensor._shape, tensor._dtype)
    hide(found)
    return found


@cython.cfunc
def apart(ctx: FunctionCtx, arguments: tuple, outputs: object, tracked: cython.bint) -> object:
    """The outputs of a call without a gradient: an argument among them becomes a view of it, as with one."""
    if isinstance(outputs, tuple):
        for output in outputs:
            if _is_returned(ctx, arguments, output):
                return tuple([apart(ctx, arguments, part, tracked) for part in outputs])
        return outputs
    if not _is_returned(ctx, arguments, outputs):
        if tracked and isinstance(outputs, Tensor):
            _note_view(outputs, arguments)
        return outputs
    alias: Tensor = _handed_on(outputs)
    if not tracked:
        alias.base = None
    return alias


@cython.cfunc
def _is_returned(ctx: FunctionCtx, arguments: tuple, output: object) -> cython.bint:
    """True if an output is an argument that has not been changed."""
    return isinstance(output, Tensor) and among(output, arguments) and not among(output, ctx._dirty)


@cython.cfunc
def attach(
    cls: object, ctx: FunctionCtx, arguments: tuple, edges: tuple, outputs: object
) -> object:
    record: FunctionNode = FunctionNode.__new__(FunctionNode)
    record.ctx, record.function, record.edges = ctx, cls, edges
    if len(arguments) == 1:  # a tensor: it has an edge
        record._inputs = _type_of(arguments[0])
    else:
        record._inputs = _types_of(arguments)
    record._given_over_ranks = _over_ranks(arguments)
    record._made_over_ranks = _over_ranks(outputs if isinstance(outputs, tuple) else (outputs,))
    code: cython.pointer(PyObject) = caller(cython.address(record.offset_in_code))
    record.code = None if code == cython.NULL else cython.cast(object, code)
    if isinstance(outputs, Tensor) and ctx._saved is NOTHING and ctx._dirty is NOTHING:
        record._output_types = _type_of(outputs)
        if current_tape().mode.anomaly:
            _count(record, arguments, [outputs])
        return _output(ctx, record, outputs, 0, arguments)
    return _attach_several(ctx, record, arguments, outputs)


@cython.cfunc
def _over_ranks(values: tuple) -> tuple | None:
    """The layouts of cotangents of tensors of which this rank has a part (DTensor); None for others, and where there
    is none."""
    for given in values:
        if type(given) is not Tensor and hasattr(given, "over_ranks_cotangents"):
            return tuple([getattr(one, "over_ranks_cotangents", None) for one in values])
    return None


def _count(record: FunctionNode, arguments: tuple, tensors: list) -> None:
    """Keep the figures of a call, in anomaly mode."""
    from weft.autograd.anomaly.tensor_statistics import CallTensors

    record.call = CallTensors(arguments, tensors)


@cython.cfunc
def _attach_several(
    ctx: FunctionCtx, record: FunctionNode, arguments: tuple, outputs: object
) -> object:
    """The rest of `attach` where there may be several outputs, or something is saved or dirty."""
    single: cython.bint = not isinstance(outputs, tuple)
    values: tuple = (outputs,) if single else outputs
    tensors: list = [v for v in values if isinstance(v, Tensor)]
    result: list = []
    record.outputs = len(values)
    record._output_types = _types_of(values)
    if len(ctx._constant) > 0 and not ctx.materializes_constants:
        record._output_types = _without(ctx._constant, values, record._output_types)
    if current_tape().mode.anomaly:
        _count(record, arguments, tensors)
    if len(ctx._saved) > 0:
        ctx._record = weakref.ref(record)
    if len(ctx._dirty) > 0:
        _check_dirty(ctx, arguments, tensors)
    number: cython.int
    for number in range(record.outputs):
        v = values[number]
        if isinstance(v, Tensor):
            v = _output(ctx, record, cython.cast(Tensor, v), number, arguments)
        result.append(v)
    for kept in ctx._saved if ctx._forward is None else ctx._saved + ctx._forward:
        if kept is not None:
            cython.cast(SavedInput, kept).settle(values, arguments, ctx._dirty)
    ctx._dirty = NOTHING  # what has been marked is a result: its record would hold itself
    return result[0] if single else tuple(result)


@cython.cfunc
def _without(constant: tuple, values: tuple, types: tuple) -> tuple:
    """Types of outputs, None, None for those that have been declared constant."""
    found: list = list(types)
    place: cython.Py_ssize_t
    for place in range(len(values)):
        if among(values[place], constant):
            found[2 * place] = found[2 * place + 1] = None
    return tuple(found)


@cython.cfunc
def _check_dirty(ctx: FunctionCtx, arguments: tuple, tensors: list) -> object:
    """Errors: RuntimeError where what was marked as dirty may not be, or is not returned."""
    for tensor in ctx._dirty:
        if not among(tensor, arguments):
            _warn_dirty(tensor)
        if not among(tensor, tensors):
            raise MutationError(
                "Some elements marked as dirty during the forward method were not returned as output. "
                "The inputs that are modified inplace must all be outputs of the Function.",
                expected="every dirty input among the outputs",
                got="one that is missing",
                fix="return it from forward",
            )
        if tensor.leaf_grad:
            raise MutationError(
                "a leaf Variable that requires grad has been used in an in-place operation.",
                expected="a tensor that is not a leaf",
                got="a leaf with requires_grad=True among mark_dirty",
                fix="clone it before the call",
            )


@cython.cfunc
def _output(
    ctx: FunctionCtx, record: FunctionNode, tensor: Tensor, number: cython.int, arguments: tuple
) -> Tensor:
    if tensor._dtype.category < 2 or (len(ctx._constant) > 0 and among(tensor, ctx._constant)):
        return tensor
    edge = new_edge(record, number)
    if len(ctx._dirty) > 0 and among(tensor, ctx._dirty):
        if tensor.base is None:
            set_edge(tensor, edge)
            return tensor
        if record.outputs > 1:
            raise _dirty_view_of_several(tensor)
        mutate(tensor, wrap(value(tensor), edge))  # its base has the new history too
        return tensor
    if among(tensor, arguments):
        tensor = _handed_on(tensor)
    else:
        _note_view(tensor, arguments)
    set_edge(tensor, edge)
    return tensor


@cython.cfunc
def _note_view(tensor: Tensor, arguments: tuple) -> cython.void:
    """Mark a result that is a view of an argument as one that a Function has made."""
    if tensor.base is not None and _shows(tensor, arguments):
        tensor.creation = IN_FUNCTION


@cython.cfunc
def _handed_on(tensor: Tensor) -> Tensor:
    """An argument that is a result as it stands: a view of it."""
    alias: Tensor = alias_of(tensor) if type(tensor) is Tensor else _view_by_class(tensor)
    alias.base = tensor if tensor.base is None or tensor.leaf_grad else tensor.base
    alias.creation = IN_FUNCTION
    return alias


@cython.cfunc
def _view_by_class(tensor: Tensor) -> Tensor:
    """The view that a tensor's own class makes of it: it may answer functions of tensors itself."""
    mode = current_tape().mode
    previous: cython.bint = mode.grad
    mode.grad = False
    try:
        made = tensor.view_as(tensor)
    finally:
        mode.grad = previous
    return made if isinstance(made, Tensor) and made is not tensor else alias_of(tensor)


_NO_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)


def _warn_dirty(tensor: Tensor) -> None:
    """Warn of a mark on what is no input. Errors: RuntimeError where it is a view, whose base has no history here."""
    if tensor.base is not None:
        raise MutationError(
            _NO_INPUT,
            expected="an argument of forward",
            got=f"a view of shape {list(tensor.shape)} made in forward",
            fix="leave it out of mark_dirty",
        )
    warnings.warn(_NO_INPUT, UserWarning, stacklevel=2)


def _dirty_view_of_several(tensor: Any) -> MutationError:
    return MutationError(
        "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
        "than one Tensor. This is not supported by the current autograd engine. You should either make sure the input "
        "is not a view (using .clone() for example) or make your Function only return one Tensor (potentially "
        "splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that "
        "does the other operations).",
        expected="one output, or a dirty input that is no view",
        got=f"a view of shape {list(tensor.shape)} among several outputs",
        fix="clone it before the call",
    )


def _shows(tensor: Any, arguments: Any) -> bool:
    """True if a tensor is a view of memory of one of the arguments."""
    return any(
        isinstance(a, Tensor) and a._storage is not None and a._storage is tensor._storage
        for a in arguments
    )
