# cython: language_level=3
"""Direct derivative rules: rules that are a single op (`weft.ops.direct_vjps`), recorded without calling Python.

They take a node, or the arguments of a batch's rule, and the arriving cotangent, and return the cotangents of inputs,
one node each. They are used only if nothing is differentiated again.
"""

import cython
from cython.cimports.weft.engine.backward.direct_vjp import RESULT, base_of_rule
from cython.cimports.weft.engine.capi.call_site import first_site
from cython.cimports.weft.engine.frontend.node_factory import append, count_elements
from cython.cimports.weft.engine.frontend.recorder import check_budget
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import ARRIVING, DirectVjp, Primitive
from cython.cimports.weft.engine.ir.tape import ambient, current_tape
from cython.cimports.weft.engine.ir.tuple_cache import one, three, two

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE
from weft.engine.pipeline.batching.batched_residuals import saved_input, saved_result
from weft.ops.direct_vjps import direct_vjps
from weft.ops.primitives import sum_to

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.cfunc
@cython.inline
def _rules(op: Primitive) -> tuple:
    """The rules of a row as rows, for each operand; None where the row is of a kind that has none."""
    if op.direct is None and op.kind == _elementwise:
        op.direct = direct_vjps(op)
    return op.direct


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _fits(g: Tensor, dtype: DType, shape: tuple) -> cython.bint:
    """True if a cotangent suits direct rules: real, row-major, of the dtype and shape of the value; and nothing
    watches what is recorded."""
    if g._dtype is not dtype or dtype.category != 2 or g.strides is not None or ambient > 0:
        return False
    return g._shape is shape or g._shape == shape


@cython.cfunc
def vjp_direct(node: Node, g) -> list:
    """The cotangents of one node's inputs; None where the rule of one that has an edge is more than a row."""
    rules: tuple = _rules(node.op)
    edges: tuple = node.edges
    index: cython.Py_ssize_t
    if rules is None or not _fits(g, node.dtype, node.shape):
        return None
    for index in range(len(edges)):
        if edges[index] is not None and rules[index] is None:
            return None
    parts: list = [None] * len(edges)
    for index in range(len(edges)):
        if edges[index] is not None:
            rule: DirectVjp = rules[index]
            part: Tensor = g if rule.op is None else _vjp_of(rule, node, index, g)
            if part is None:
                return None
            shape: tuple = _input_shape(node, index)
            parts[index] = part if part._shape is shape else sum_to(part, shape)
    return parts


@cython.cfunc
@cython.inline
def _input_shape(node: Node, index: cython.Py_ssize_t) -> tuple:
    """The shape of one of a node's value inputs; where the record has none, it is the node's own."""
    shapes: tuple = node.operand_shapes
    if shapes is None:
        return node.shape
    return shapes[index] if len(shapes) >= len(node.edges) else shapes[0]


@cython.cfunc
def _vjp_of(rule: DirectVjp, node: Node, index: cython.Py_ssize_t, g: Tensor) -> Tensor:
    """The cotangent of one input of a node; None where the rule reads a value of another type."""
    inputs: tuple = _operands(rule, node, g)
    source: Node
    for source in inputs:
        if source.dtype is not node.dtype:
            return None
    return _recorded(rule.op, node.op, index, inputs, node.shape, node.numel)


@cython.cfunc
@cython.inline
def _operands(rule: DirectVjp, node: Node, g: Tensor) -> tuple:
    """The values that a rule for a node reads."""
    numbers: cython.p_int = rule.numbers
    if rule.count == 1:
        return one(_operand(numbers[0], node, g))
    if rule.count == 2:
        return two(_operand(numbers[0], node, g), _operand(numbers[1], node, g))
    if rule.count == 3:
        first: Node = _operand(numbers[0], node, g)
        return three(first, _operand(numbers[1], node, g), _operand(numbers[2], node, g))
    return tuple([_operand(number, node, g) for number in rule.sources])


@cython.cfunc
@cython.inline
def _operand(number: cython.int, node: Node, g: Tensor) -> Node:
    """One value that a rule for a node reads."""
    if number == ARRIVING:
        return value(g)
    if node.quotient is not None:
        return saved_result(node) if number == RESULT else saved_input(node, number)
    return node if number == RESULT else node.inputs[number]


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _expands_to(shape: tuple, whole: tuple) -> cython.bint:
    """True if an operand of shape `shape` broadcasts to the result's shape `whole`."""
    missing: cython.Py_ssize_t = len(whole) - len(shape)
    axis: cython.Py_ssize_t
    if shape is whole or missing < 0:
        return missing == 0
    for axis in range(len(shape)):
        if shape[axis] != 1 and shape[axis] != whole[axis + missing]:
            return False
    return True


@cython.cfunc
def vjp_direct_of(
    op: Primitive, index: cython.Py_ssize_t, g, shape: tuple, inputs: list, result
) -> object:
    """The cotangent of one input of a value of this shape, from tensors; None where the rule is more than a row."""
    rules: tuple = _rules(op)
    arriving: Tensor = g
    if rules is None or rules[index] is None or not _fits(arriving, arriving._dtype, shape):
        return None
    rule: DirectVjp = rules[index]
    if rule.op is None:
        return g
    sources: list = [None] * rule.count
    place: cython.Py_ssize_t
    for place in range(rule.count):
        number: cython.int = rule.numbers[place]
        source: Tensor = g
        if number != ARRIVING:
            source = result if number == RESULT else inputs[number]
        if source._dtype is not arriving._dtype or source.strides is not None:
            return None
        if not _expands_to(source._shape, shape):  # what a hook has unpacked may have any shape
            return None
        sources[place] = value(source)
    return _recorded(rule.op, op, index, tuple(sources), shape, count_elements(shape))


@cython.cfunc
def _recorded(
    made: Primitive,
    op: Primitive,
    index: cython.Py_ssize_t,
    inputs: tuple,
    shape: tuple,
    numel: cython.longlong,
) -> Tensor:
    """Record the row of a rule, in the scope that the rule itself would open."""
    first: Node = inputs[0]
    node: Node = append(current_tape(), made, inputs, None, shape, numel, first.dtype, None)
    node.library_site = first_site(base_of_rule(op, index))
    part: Tensor = wrap(node, None)
    check_budget()
    return part
