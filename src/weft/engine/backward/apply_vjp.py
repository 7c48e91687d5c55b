# cython: language_level=3
"""Application of derivative rules (VJPs): the arguments of a rule, and the cotangents of a node's inputs.

It takes an op, an arriving cotangent and the residuals, and returns a cotangent for each input that needs one,
recorded as ordinary nodes. A rule may ask for the cotangent, saved inputs, the result, and facts that cost nothing to
keep (`At`).
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.backward.apply_vjp import MOST_ARGUMENTS, PyList_GET_ITEM
from cython.cimports.weft.engine.backward.direct_vjp import base_of_rule, vjp_direct, vjp_direct_of
from cython.cimports.weft.engine.capi.call_site import CallScope, begin_scope
from cython.cimports.weft.engine.capi.vectorcall import PyObject_Vectorcall
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import RESULT_SHIFT, Node, observers_on
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.ir.tape import current_tape

from weft._build.compiled import require
from weft.engine.backward.saved_tensor_hooks import unpacked
from weft.engine.ir.primitive import COMPOSITE, MACRO
from weft.engine.ir.tape import last_sequence, leave_alone
from weft.engine.pipeline.batching import batched_residuals
from weft.ops.primitives import sum_to

require(__name__, cython.compiled)

_composite = cython.declare(cython.int, COMPOSITE)
_macro = cython.declare(cython.int, MACRO)
_VARIADIC: tuple = (-2,)  # what a rule for all operands reads


@cython.final
@cython.no_gc
@cython.cclass
class At:
    """The facts of a node that a rule may use without residuals: `params`, `shapes` of inputs, `shape`."""

    def __cinit__(self, params, shapes: tuple, shape: tuple):
        self.params = params
        self.shapes = shapes
        self.shape = shape


@cython.cfunc
def input_shapes(node: Node) -> tuple:
    """The shapes of a node's value inputs; where the record has none, all are the node's own."""
    count: cython.Py_ssize_t = len(node.edges)
    if node.operand_shapes is None:
        return (node.shape,) if count < 2 else (node.shape,) * count
    shapes: tuple = node.operand_shapes
    return shapes if len(shapes) >= count else (shapes[0],) * count


@cython.cfunc
@cython.inline
def has_packed(node: Node) -> cython.bint:
    """True if a user's hooks have packed what a node saves."""
    observers: object = observers_on(node)
    return observers is not None and observers.has_packed


@cython.cfunc
def vjp_single(node: Node, g, create: cython.bint) -> list:
    """The cotangents of one node's inputs."""
    if not create and not has_packed(node):
        parts: list = vjp_direct(node, g)
        if parts is not None:
            return parts
    shapes: tuple = input_shapes(node)
    inputs: list = [None] * len(shapes)
    mask: cython.longlong = node.residual_mask
    index: cython.Py_ssize_t
    for index in range(len(shapes)):
        if is_saved(mask, index):
            inputs[index] = saved_tensor(node, index, node.edges[index] if create else None)
    result = None
    if mask >> RESULT_SHIFT & 1:
        result = saved_tensor(node, RESULT_SHIFT, node if create else None)
    at: At = At(node.params, shapes, node.shape)
    return vjp_rules(node.op, g, at, inputs, result, node.edges)


def vjp_record(node: Node, g, create: cython.bint) -> list:
    """`vjp_single` for interpreted callers."""
    return vjp_single(node, g, create)


@cython.cfunc
def saved_tensor(node: Node, index: cython.Py_ssize_t, edge):
    """One saved value on an edge: the node's own, or what a user's hooks make of it."""
    if has_packed(node):
        again = unpacked(node, index, edge)
        if again is not None:
            return again
    if index == RESULT_SHIFT:
        if node.quotient is None and node.op.kind != _composite:
            return wrap(node, edge)
        return wrap(batched_residuals.saved_result(node), edge)
    if node.quotient is None:
        return wrap(node.inputs[index], edge)
    return wrap(batched_residuals.saved_input(node, index), edge)


@cython.cfunc
def vjp_rules(op: Primitive, g, at: At, inputs: list, result, edges: tuple) -> list:
    """Apply a row's derivative rules to an arriving cotangent, for the inputs that have an edge; sums undo
    broadcasting."""
    if op.kind == _macro:
        return _vjp_macro(op, g, at, inputs, result, edges)
    return _apply_rules(op, g, at, inputs, result, edges)


@cython.cfunc
def _vjp_macro(op: Primitive, g, at: At, inputs: list, result, edges: tuple) -> list:
    """The rules of a macro compute again what it is made of: kept out of batches, equal primitives are found there."""
    newest: cython.longlong = last_sequence()
    parts: list = _apply_rules(op, g, at, inputs, result, edges)
    leave_alone(newest)
    return parts


@cython.cfunc
def _apply_rules(op: Primitive, g, at: At, inputs: list, result, edges: tuple) -> list:
    count: cython.Py_ssize_t = len(edges)
    mode: Mode = current_tape().mode
    if op.is_variadic:
        all_parts = _call_rule(
            mode, base_of_rule(op, 0), op.vjps[0], _VARIADIC, g, at, inputs, result
        )
        return [None if edge is None else part for part, edge in zip(all_parts, edges, strict=True)]
    parts: list = [None] * count
    direct: cython.bint = not mode.grad
    index: cython.Py_ssize_t
    for index in range(count):
        rule = op.vjps[index]
        if edges[index] is None or rule is None:
            continue
        part = vjp_direct_of(op, index, g, at.shape, inputs, result) if direct else None
        if part is None:
            part = _call_rule(
                mode, base_of_rule(op, index), rule, op.residuals[index], g, at, inputs, result
            )
        if part is not None and cython.cast(Tensor, part)._shape != at.shapes[index]:
            part = sum_to(part, at.shapes[index])
        parts[index] = part
    return parts


@cython.cfunc
def _call_rule(mode: Mode, base: cython.uint, rule, saves: tuple, g, at: At, inputs: list, result):
    """One rule, in a scope of its own, on the cotangent and what its parameters name: operands by number, -1 the
    result, -2 `at`."""
    arguments = cython.declare(cython.pointer(PyObject)[MOST_ARGUMENTS])
    arguments[0] = cython.cast(cython.pointer(PyObject), g)
    place: cython.Py_ssize_t
    number: cython.Py_ssize_t
    for place in range(len(saves)):
        number = saves[place]
        if number == -2:
            arguments[place + 1] = cython.cast(cython.pointer(PyObject), at)
        elif number == -1:
            arguments[place + 1] = cython.cast(cython.pointer(PyObject), result)
        else:
            arguments[place + 1] = PyList_GET_ITEM(inputs, number)
    around: CallScope = mode.scope
    begin_scope(cython.address(mode.scope), base)
    try:
        return PyObject_Vectorcall(rule, arguments, len(saves) + 1, cython.NULL)
    finally:
        mode.scope = around


def vjp_for(
    op: Primitive, g, params, shapes: tuple, shape: tuple, inputs: list, result, wanted: tuple
):
    """`vjp_rules` for interpreted callers, for the inputs that are wanted (not None)."""
    return vjp_rules(op, g, At(params, shapes, shape), inputs, result, wanted)
