# cython: language_level=3
"""The recorder: operators on handles become nodes on the tape.

It takes ops, handles and Python numbers, and returns new handles. It decides broadcasting and promotion of elementwise
ops; the op table defines what an op means, and the pipeline runs it.
"""

import cython
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.dispatch.core_hooks import cast_op, permute_op
from cython.cimports.weft.engine.frontend.collective import note
from cython.cimports.weft.engine.frontend.node_factory import (
    append,
    count_elements,
    new_node,
    new_scalar,
    shapes_of,
)
from cython.cimports.weft.engine.frontend.recorder import (
    RULE_COMPARE,
    RULE_INTEGRAL,
    RULE_LOGICAL,
    RULE_PROMOTE,
    RULE_SELECT,
    RULE_TO_FLOAT,
    PyTuple_GET_ITEM,
)
from cython.cimports.weft.engine.frontend.resolve import edge_of, needs_grad, value
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node, rare_facts, save
from cython.cimports.weft.engine.ir.primitive import Primitive, scalar_op
from cython.cimports.weft.engine.ir.strides import common_shape, kept_strides
from cython.cimports.weft.engine.ir.tape import (
    Tape,
    ambient,
    current_tape,
    finish,
    packer,
    view_kind,
)
from cython.cimports.weft.engine.ir.tuple_cache import one, three, two

from weft._build.compiled import require
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import COLLECTIVE, CONTRACT, INDEX, REDUCE
from weft.engine.ir.strides import (
    broadcast_shapes,
    elementwise_strides,
    fastest_first,
    inverse_order,
    reordered,
)
from weft.errors import UnsupportedDTypeError

require(__name__, cython.compiled)

# As RULE_... in the .pxd, for compiled code.
PROMOTE, TO_FLOAT, COMPARE, LOGICAL, INTEGRAL, SELECT = range(6)

_budget_nodes = 100_000
FIRST_BUDGET = (
    1 << 27
)  # bytes that may be asked for before the recorder looks how much memory the machine has
_budget_bytes = FIRST_BUDGET
_bool = dtypes.bool_
_inference_used = False
_collective = cython.declare(cython.int, COLLECTIVE)
_contract = cython.declare(cython.int, CONTRACT)
_index = cython.declare(cython.int, INDEX)
_reduce = cython.declare(cython.int, REDUCE)
# Where others can write: below, a copy costs less than a run, and than what is run with it too soon.
LEAST_LOOKED_UP_BYTES = 1 << 15
LEAST_SUMMED_BYTES = 1 << 20
LEAST_REORDERED = 1 << 12  # elements: below, more nodes cost more than reading by columns


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def after_record(tape: Tape) -> cython.int:
    """Run what is pending where the budget or eager mode asks for it, unless it is to stay as it is recorded."""
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
    if tape.running is not None or tape.mode.intact > 0:
        return 0
    if _budget_bytes == FIRST_BUDGET and not tape.mode.eager:
        _budget_bytes = core_hooks.most_pending_bytes()
        return after_record(tape)
    core_hooks.flush()
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_budget() -> cython.int:
    return after_record(current_tape())


def set_budget(nodes: int, nbytes: int):
    """Set the numbers of pending nodes and bytes at which the recorder runs them; returns the previous ones."""
    global _budget_nodes, _budget_bytes
    previous = (_budget_nodes, _budget_bytes)
    _budget_nodes, _budget_bytes = nodes, nbytes
    return previous


def note_inference():
    """From now on recording checks that no inference tensor is saved."""
    global _inference_used
    _inference_used = True


def was_inference_used() -> bool:
    """True if there may be tensors of inference mode: from then on calls that gradients follow are not replayed."""
    return _inference_used


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _same_shape(one: tuple, other: tuple) -> cython.bint:
    """True if two shapes are known to be equal: one tuple, or the same number objects in both."""
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
def binary(op: Primitive, a, b):
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
                op.rule == RULE_PROMOTE
                or op.rule == RULE_COMPARE
                or (op.rule == RULE_TO_FLOAT and x._dtype.category >= 2)
            )
        ):
            if _same_shape(x._shape, y._shape) or x._shape == y._shape:
                return _record_pair(op, x, y, None)
            return _record_pair(op, x, y, common_shape(x._shape, y._shape, op.name))
        return record_elementwise(op, (a, b), None)
    if isinstance(a, Tensor):
        if (type(b) is float or type(b) is int) and _keeps_type(op, cython.cast(Tensor, a)):
            return _record_scalar(op, cython.cast(Tensor, a), b, False)
    elif (type(a) is float or type(a) is int) and _keeps_type(op, cython.cast(Tensor, b)):
        return _record_scalar(op, cython.cast(Tensor, b), a, True)
    if not _is_operand(a) or not _is_operand(b):
        pair = core_hooks.with_arrays(a, b)
        if pair is None:
            return core_hooks.ask_operand(op.name, a, b)
        return record_elementwise(op, pair, None)
    return record_elementwise(op, (a, b), None)


@cython.cfunc
@cython.inline
def need_type(op: Primitive, dtype: DType) -> cython.bint:
    """Errors: DTypeError where a row has no kernel for an operand type."""
    return True if op.dtype_bits >> dtype.code & 1 else _refuse_type(op, dtype)


@cython.cfunc
def _refuse_type(op: Primitive, dtype: DType) -> cython.bint:
    raise UnsupportedDTypeError(
        no_kernel_for(op.name, dtype.name),
        expected=f"one of {', '.join(op.dtypes)}",
        got=dtype.name,
        fix="convert the operand first, or take .abs() or .real of complex numbers",
    )


@cython.cfunc
@cython.inline
def _keeps_type(op: Primitive, x: Tensor) -> cython.bint:
    """True if a real Python number leaves the operand's dtype as it is."""
    return (
        x._dtype.category >= 2
        and x.strides is None
        and (
            op.rule == RULE_PROMOTE
            or op.rule == RULE_TO_FLOAT
            or (op.rule == RULE_COMPARE and x._dtype.category == 2)
        )
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_float16(dtype: DType) -> cython.bint:
    return dtype.category == 2 and dtype.itemsize == 2 and dtype.numpy is not None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _outside(number, dtype: DType) -> cython.bint:
    """True if a Python number is finite, not 0, and beyond the normal numbers of float16."""
    size: cython.double = 0.0
    if not _is_float16(dtype):
        return False
    if type(number) is float or type(number) is int and -(1 << 62) < number < 1 << 62:
        size = abs(cython.cast(cython.double, number))
    return 65504.0 < size <= 1.7976931348623157e308 or 0.0 < size < 2.0**-14


@cython.cfunc
def _record_wide(op: Primitive, operands: tuple):
    """A row on a float16 and a number outside its range, in float32 as PyTorch computes it: the result is what has to
    fit. Loss scales and counts of elements are such numbers."""
    wide: list = [
        cast(operand, dtypes.float32) if isinstance(operand, Tensor) else operand
        for operand in operands
    ]
    result: Tensor = record_elementwise(op, tuple(wide), None)
    if result._dtype is dtypes.float32:
        result = cast(result, dtypes.float16)
    layouts: list = [(x._shape, x.strides) for x in operands if isinstance(x, Tensor)]
    result.strides = elementwise_strides(result._shape, layouts)
    return result


@cython.cfunc
def _record_scalar(op: Primitive, x: Tensor, number, swapped: cython.bint) -> Tensor:
    if _outside(number, x._dtype):
        return _record_wide(op, (number, x) if swapped else (x, number))
    need_type(op, x._dtype)
    a: Node = value(x)
    b: Node = new_scalar(number, x._dtype)
    edges: tuple = None
    tape: Tape = current_tape()
    if tape.mode.grad and op.differentiable and op.rule != RULE_COMPARE and needs_grad(x):
        edges = two(None, edge_of(x)) if swapped else two(edge_of(x), None)
    dtype: DType = _bool if op.rule == RULE_COMPARE else a.dtype
    node: Node = append(
        tape, op, two(b, a) if swapped else two(a, b), None, a.shape, a.numel, dtype, edges
    )
    result: Tensor = wrap(node, node if edges is not None else None)
    after_record(tape)
    return result


@cython.cfunc
def _record_pair(op: Primitive, x: Tensor, y: Tensor, shape: tuple | None) -> Tensor:
    """A row on two tensors of one dtype; `shape` is what they broadcast to, None where they have it."""
    need_type(op, x._dtype)
    a: Node = value(x)
    b: Node = value(y)
    edges: tuple = None
    tape: Tape = current_tape()
    if (
        tape.mode.grad
        and op.differentiable
        and op.rule != RULE_COMPARE
        and x._dtype.category >= 2
        and (needs_grad(x) or needs_grad(y))
    ):
        edges = two(edge_of(x), edge_of(y))
        if _inference_used:
            core_hooks.check_saved(op, (x, y), edges)
    dtype: DType = _bool if op.rule == RULE_COMPARE else a.dtype
    inputs: tuple = edges
    if edges is None or edges[0] is not a or edges[1] is not b:
        inputs = two(a, b)
    node: Node
    if shape is None:
        node = append(tape, op, inputs, None, a.shape, a.numel, dtype, edges)
    else:
        node = append(tape, op, inputs, None, shape, count_elements(shape), dtype, edges)
        if edges is not None:
            node.operand_shapes = shapes_of(inputs)
    result: Tensor = wrap(node, node if edges is not None else None)
    after_record(tape)
    return result


@cython.cfunc
def _is_operand(other) -> cython.bint:
    if isinstance(other, (Tensor, float, int, complex)):
        return True
    return core_hooks.is_scalar(other)


@cython.ccall
def record_elementwise(op: Primitive, operands: tuple, params):
    """Record an elementwise row: promote, cast, broadcast. `operands` are tensors and Python numbers."""
    if len(operands) == 1 and op.dtype is None and isinstance(operands[0], Tensor):
        x: Tensor = cython.cast(Tensor, operands[0])
        if x.strides is None and (
            op.rule == RULE_PROMOTE or (op.rule == RULE_TO_FLOAT and x._dtype.category >= 2)
        ):
            return record_unary(op, x, params)
    dtype: DType = _compute_dtype(op, operands)
    if _is_float16(dtype) and params is None and op.rule != RULE_SELECT:
        for operand in operands:
            if _outside(operand, dtype):
                return _record_wide(op, operands)
    return _record_operands(op, operands, params, dtype)


@cython.cfunc
def record_unary(op: Primitive, x: Tensor, params) -> Tensor:
    need_type(op, x._dtype)
    a: Node = value(x)
    edges: tuple = None
    tape: Tape = current_tape()
    if tape.mode.grad and op.differentiable and a.dtype.category >= 2 and needs_grad(x):
        edges = one(edge_of(x))
    inputs: tuple = edges
    if edges is None or edges[0] is not a:
        inputs = one(a)
    node: Node = append(tape, op, inputs, params, a.shape, a.numel, a.dtype, edges)
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
def _compute_dtype(op: Primitive, operands: tuple):
    dtype: DType = _shared_dtype(operands, 1 if op.rule == RULE_SELECT else 0)
    if dtype is None:
        dtype = _joined_dtype(op, operands)
    if op.rule == RULE_TO_FLOAT and dtype.category < 2:
        return dtypes.get_default()
    if op.rule == RULE_LOGICAL:
        return dtypes.bool_
    if op.rule == RULE_INTEGRAL and dtype.category > 1:
        raise UnsupportedDTypeError(
            no_kernel_for(op.name, dtype.name),
            expected="integer or boolean tensors",
            got=dtype.name,
            fix="convert with .long() or .bool() first",
        )
    return dtype


@cython.cfunc
def _joined_dtype(op: Primitive, operands: tuple):
    pairs: list = []
    first: cython.Py_ssize_t = 1 if op.rule == RULE_SELECT else 0
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
            pairs.append((core_hooks.scalar_dtype(operand), 0))
    return dtypes.result_dtype(pairs)


@cython.cfunc
def _record_operands(op: Primitive, operands: tuple, params, dtype: DType):
    count: cython.Py_ssize_t = len(operands)
    nodes: list = [None] * count
    tensors: list = [None] * count
    layouts: list = []
    tape: Tape = current_tape()
    grad: cython.bint = False
    tracked: cython.bint = tape.mode.grad and op.differentiable
    index: cython.Py_ssize_t
    shape: tuple = None
    same: cython.bint = True
    plain: cython.bint = True
    for index in range(count):
        operand = operands[index]
        if isinstance(operand, Tensor):
            tensor: Tensor = cython.cast(Tensor, operand)
            if tensor._dtype is not dtype and not (op.rule == RULE_SELECT and index == 0):
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
        shape = broadcast_shapes([layout[0] for layout in layouts], op.name)
    elif shape is None:
        shape = ()
    result_dtype: DType = (
        dtypes.bool_ if op.rule == RULE_COMPARE or op.rule == RULE_LOGICAL else dtype
    )
    if op.dtype is not None:
        result_dtype = op.dtype(params, dtype)
    need_type(op, dtype)
    edges: tuple = None
    if grad and result_dtype.category >= 2:
        edges = _edges(tensors)
        if _inference_used:
            core_hooks.check_saved(op, tensors, edges)
    order: tuple = None
    if not plain and edges is None and not op.is_copy:
        order = _order_in_memory(nodes, layouts, shape)
    if order is None:
        node = new_node(op, tuple(nodes), params, shape, count_elements(shape), result_dtype, edges)
    else:
        node = _node_in_order(op, nodes, params, result_dtype, order)
    if edges is not None and not same:
        node.operand_shapes = shapes_of(node.inputs)
    result: Tensor = wrap(node, node if edges is not None else None)
    if not plain:
        result.strides = elementwise_strides(shape, layouts)
    check_budget()
    return result


@cython.cfunc
def _order_in_memory(nodes: list, layouts: list, shape: tuple):
    """The order of dimensions, farthest first, in which the many elements of operands of one rank lie in memory, where
    that is not row by row; else None. `layouts` are the tensors' shapes and strides."""
    node: Node
    number: cython.Py_ssize_t = 0
    if ambient > 0 or len(shape) < 2 or count_elements(shape) < LEAST_REORDERED:
        return None
    order: tuple = tuple(reversed(fastest_first(shape, layouts)))
    if order[len(order) - 1] == len(order) - 1:
        return None
    for node in nodes:
        if node.op is scalar_op:
            continue
        size, strides = layouts[number]
        number += 1
        if size and (len(size) != len(shape) or not _lies_so(node, strides, shape, order)):
            return None
    return order


@cython.cfunc
@cython.exceptval(-1, check=False)
def _lies_so(node: Node, strides, shape: tuple, order: tuple) -> cython.bint:
    """True if the elements of an operand with these strides lie in such an order, or some of them are repeated."""
    if node.shape != shape:
        return True
    if strides is None or tuple(reversed(fastest_first(shape, [(shape, strides)]))) != order:
        return False
    return node.strides == strides if node.state == DONE else node.op.kind == view_kind


@cython.cfunc
def _node_in_order(op: Primitive, nodes: list, params, dtype: DType, order: tuple) -> Node:
    """A row on nodes whose elements lie in such an order of dimensions, so that those of its value do."""
    moved: tuple = tuple([_moved(node, order) if node.shape else node for node in nodes])
    shape: tuple = broadcast_shapes([node.shape for node in moved], op.name)
    made: Node = new_node(op, moved, params, shape, count_elements(shape), dtype, None)
    return _moved(made, inverse_order(order))


@cython.cfunc
def _moved(node: Node, order: tuple) -> Node:
    shape: tuple = reordered(node.shape, order)
    return new_node(permute_op, (node,), order, shape, node.numel, node.dtype, None)


@cython.cfunc
def _edge(tensor):
    if tensor is None or cython.cast(Tensor, tensor)._dtype.category < 2:
        return None
    return edge_of(cython.cast(Tensor, tensor))


@cython.cfunc
def _edges(tensors) -> tuple:
    if len(tensors) == 1:
        return one(_edge(tensors[0]))
    if len(tensors) == 2:
        return two(_edge(tensors[0]), _edge(tensors[1]))
    if len(tensors) == 3:
        return three(_edge(tensors[0]), _edge(tensors[1]), _edge(tensors[2]))
    return tuple([_edge(tensor) for tensor in tensors])


@cython.cfunc
def _values(tensors: tuple) -> tuple:
    if len(tensors) == 1:
        return one(value(cython.cast(Tensor, tensors[0])))
    if len(tensors) == 2:
        return two(value(cython.cast(Tensor, tensors[0])), value(cython.cast(Tensor, tensors[1])))
    if len(tensors) == 3:
        return three(
            value(cython.cast(Tensor, tensors[0])),
            value(cython.cast(Tensor, tensors[1])),
            value(cython.cast(Tensor, tensors[2])),
        )
    return tuple([value(cython.cast(Tensor, tensor)) for tensor in tensors])


@cython.ccall
def cast(tensor: Tensor, dtype: DType):
    """Record a conversion; the tensor itself where the type is already right."""
    if tensor._dtype is dtype:
        return tensor
    result: Tensor = None
    if tensor.strides is not None:
        result = _cast_in_order(tensor, dtype)
    if result is None:
        result = record(cast_op, (tensor,), (tensor._dtype,), tensor._shape, dtype)
    if tensor.strides is not None:
        result.strides = kept_strides(tensor._shape, tensor.strides) or elementwise_strides(
            tensor._shape, [(tensor._shape, tensor.strides)]
        )
    return result


@cython.cfunc
def _cast_in_order(tensor: Tensor, dtype: DType):
    """A conversion of what lies in another order than row by row, and has no derivative; else None."""
    if current_tape().mode.grad and needs_grad(tensor):
        return None
    node: Node = value(tensor)
    order: tuple = _order_in_memory([node], [(tensor._shape, tensor.strides)], tensor._shape)
    if order is None:
        return None
    need_type(cast_op, tensor._dtype)
    made: Node = _node_in_order(cast_op, [node], (tensor._dtype,), dtype, order)
    check_budget()
    return wrap(made, None)


@cython.ccall
def record(op: Primitive, tensors: tuple, params, shape: tuple, dtype: DType):
    """Record one node of any row on tensors, with shape and dtype already decided."""
    tape: Tape = current_tape()
    if tensors:
        need_type(op, cython.cast(Tensor, tensors[0])._dtype)
        if op.kind == _index:
            if _is_read_where_it_lies(tape, tensors[0], LEAST_LOOKED_UP_BYTES):
                found: Tensor = _looked_up(op, tensors, params, shape, dtype, tensors[:1])
                if found is not None:
                    return found
        elif op.kind == _reduce or op.kind == _contract:
            shared: tuple = _summed_where_they_lie(tape, tensors)
            if shared is not None:
                found = _looked_up(op, tensors, params, shape, dtype, shared)
                if found is not None:
                    return found
    nodes: tuple = _values(tensors)
    grad: cython.bint = False
    if tape.mode.grad and op.differentiable and dtype.category >= 2:
        for item in tensors:
            if needs_grad(cython.cast(Tensor, item)):
                grad = True
                break
    edges: tuple = _edges(tensors) if grad else None
    if edges is not None and _inference_used:
        core_hooks.check_saved(op, tensors, edges)
    node: Node = append(tape, op, nodes, params, shape, count_elements(shape), dtype, edges)
    if op.kind == _collective:
        note(node)
    if edges is not None:
        node.operand_shapes = shapes_of(nodes)
    result: Tensor = wrap(node, node if edges is not None else None)
    after_record(tape)
    return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_read_where_it_lies(tape: Tape, x: Tensor, least_bytes: cython.Py_ssize_t) -> cython.bint:
    """True if memory that others can write is read where it lies: to copy all of it at the call, as for other
    operations, would take longer than running this one."""
    storage: Storage = x._storage
    if storage is None or storage.foreign is None or x.view_transform != 0:
        return False
    mode: Mode = tape.mode
    if count_elements(x._shape) * x._dtype.itemsize < least_bytes:
        return False
    if mode.grad and needs_grad(x):
        return False
    if tape.running is not None or mode.intact > 0 or mode.fiber is not None:
        return False
    if not mode.is_untransformed() or ambient > 0:
        return False
    if storage.foreign.is_left():
        storage.foreign = None
        return False
    return True


@cython.cfunc
def _summed_where_they_lie(tape: Tape, tensors: tuple) -> tuple:
    """The operands of a sum or a product whose memory others can write, and which are read where they lie; None without
    one, and where a gradient follows, which keeps what it reads."""
    item: Tensor
    one_is: cython.bint = False
    for item in tensors:
        if tape.mode.grad and needs_grad(item):
            return None
        if item._storage is not None and item._storage.foreign is not None:
            one_is = True
    if not one_is:
        return None
    return tuple(
        [item for item in tensors if _is_read_where_it_lies(tape, item, LEAST_SUMMED_BYTES)]
    )


@cython.cfunc
def _looked_up(
    op: Primitive, tensors: tuple, params, shape: tuple, dtype: DType, shared: tuple
) -> Tensor:
    """The result of `record`, run at the call on the memory of these tensors' storages; None where there is none, and
    where it could not run."""
    storage: Storage
    if not shared:
        return None
    storages: list = [cython.cast(Tensor, item)._storage for item in shared]
    kept: list = [storage.foreign for storage in storages]
    for storage in storages:
        storage.foreign = None
    try:
        found: Tensor = record(op, tensors, params, shape, dtype)
        core_hooks.flush()
    finally:
        for storage, foreign in zip(storages, kept, strict=True):
            storage.foreign = foreign
    return None if found.node.state == PENDING else found


@cython.ccall
def record_gradient(op: Primitive, tensors: tuple, params, result: Tensor):
    """Put one gradient record of a composite row behind an already computed, untracked result."""
    tape: Tape = current_tape()
    if ambient > 0 and tape.mode.duals is not None:
        core_hooks.follow_composite(op, tensors, params, result)
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
        core_hooks.check_saved(op, tensors, edges)
    node: Node = new_node(
        op,
        tuple(nodes),
        params,
        result._shape,
        count_elements(result._shape),
        result._dtype,
        edges,
    )
    node.operand_shapes = shapes_of(node.inputs)
    rare_facts(node).result = value(result)
    save(value(result))
    if ambient > 0:
        packer(node)
    finish(node)
    result.edge = node
    return result
