# cython: language_level=3
"""Single elements of values that are there are read, computed with and written at the call.

Programs written for other libraries walk over tensors element by element: `e[i] += s[k]`, swaps, tables that dynamic
programming fills. Recording, scheduling and launching such a step takes many times what it computes. So where all
operands are elements that lie in memory, and nothing follows the step (no gradient, no mode, no fiber, no recording
that has to be complete), it is done here: in come handles, out go run-time numbers (`scalar_row`), and memory is
written in place, if nobody but the storage sees it. Everything else is recorded as ever; the bits are the same.
"""

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBuffer_Release
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memmove
from cython.cimports.weft.engine.dispatch.core_hooks import late
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_scalar
from cython.cimports.weft.engine.frontend.resolve import needs_grad
from cython.cimports.weft.engine.frontend.single_elements import ADD, EQ, GE, GT, LE, LT, MUL, SUB
from cython.cimports.weft.engine.frontend.tensor import Py_REFCNT, Storage, Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.elements import dense_elements
from cython.cimports.weft.engine.ir.node import DONE, FAILED, Node
from cython.cimports.weft.engine.ir.primitive import Primitive, scalar_row
from cython.cimports.weft.engine.ir.tape import Mode, Tape, ambient, current_tape

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes

require(__name__, cython.compiled)

MOST_BYTES = cython.declare(cython.longlong, 1 << 12)  # of a row that is copied at the call
MOST_PENDING = cython.declare(cython.longlong, 8)  # operations for each write of a loop
OWNERS = cython.declare(
    cython.Py_ssize_t, 2
)  # of a node or buffer that nobody else sees: one, and who asks
LARGEST = cython.declare(cython.longlong, 1 << 62)
_OPERATIONS = {
    name: number
    for number, name in enumerate(
        ["add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne"], 1
    )
}
_INT32 = cython.declare(cython.int, dtypes.int32.code)
_INT64 = cython.declare(cython.int, dtypes.int64.code)
_FLOAT32 = cython.declare(cython.int, dtypes.float32.code)
_FLOAT64 = cython.declare(cython.int, dtypes.float64.code)
_bool = cython.declare(DType, dtypes.bool_)


@cython.cfunc
@cython.exceptval(check=False)
def _is_quiet(tape: Tape) -> cython.bint:
    """Whether nobody asks to see what is recorded, and values may be looked at."""
    mode: Mode = tape.mode
    if ambient > 0 or tape.running is not None or mode.walk != 0 or mode.intact > 0:
        return False
    if mode.eager or mode.anomaly or mode.inference:
        return False
    return mode.extra is None and mode.fiber is None and mode.duals is None


@cython.cfunc
def _holder(tensor: Tensor) -> Node:
    """The node in whose memory a handle's elements lie now; None where they are not there, or seen otherwise."""
    storage: Storage = tensor.storage
    node: Node
    if tensor.lens != 0:
        return None
    if storage is None:
        node = tensor.node
    elif storage.foreign is not None:
        return None
    else:
        node = storage.node
    return node if node.state == DONE and node.dtype is tensor._dtype else None


# -- reading -------------------------------------------------------------------------------------------------------


@cython.cfunc
def _number(tensor: Tensor):
    """The one element of a handle as a Python number, or None where it is not there, or of a rare type."""
    view: Py_buffer
    node: Node = _holder(tensor)
    if node is None:
        return None
    if node.row is scalar_row:
        return node.params
    place: cython.p_char = dense_elements(node, tensor.offset, 1, cython.address(view))
    if place == cython.NULL:
        return None
    code: cython.int = node.dtype.code
    number = None
    if code == _FLOAT32:
        number = cython.cast(cython.double, cython.cast(cython.p_float, place)[0])
    elif code == _FLOAT64:
        number = cython.cast(cython.p_double, place)[0]
    elif code == _INT64:
        number = cython.cast(cython.pointer(int64_t), place)[0]
    elif code == _INT32:
        number = cython.cast(cython.p_int, place)[0]
    PyBuffer_Release(cython.address(view))
    return number


def index_there(index: Tensor, tensor: Tensor):
    """The position that an index without dimensions holds, where it is known and no gradient of the tensor follows its
    look-up, which is a gather then. Else None."""
    tape: Tape = current_tape()
    if not _is_quiet(tape) or (tape.mode.grad and needs_grad(tensor)):
        return None
    number = _number(index)
    return number if type(number) is int else None


def copied(tensor: Tensor) -> Tensor | None:
    """A copy of a view of one element, or None where it has to be recorded."""
    tape: Tape = current_tape()
    if tensor.base is None or tensor._shape != () or not _is_quiet(tape):
        return None
    if tape.mode.grad and needs_grad(tensor):
        return None
    number = _number(tensor)
    return None if number is None else wrap(new_scalar(number, tensor._dtype), None)


# -- computing -----------------------------------------------------------------------------------------------------


@cython.cfunc
def computed(row: Primitive, a, b):
    """The result of an operation on two single elements, or an element and a number, as a tensor; None where it has to
    be recorded."""
    operation: cython.int = _OPERATIONS.get(row.name, 0)
    if operation == 0:
        return None
    tape: Tape = current_tape()
    if not _is_quiet(tape):
        return None
    dtype: DType = _common_dtype(a, b)
    if dtype is None or (tape.mode.grad and (_is_tracked(a) or _is_tracked(b))):
        return None
    one = _operand(a)
    other = _operand(b)
    if one is None or other is None:
        return None
    if operation >= LT:
        return wrap(new_scalar(_compared(operation, dtype.code, one, other), _bool), None)
    number = _joined(operation, dtype.code, one, other)
    return None if number is None else wrap(new_scalar(number, dtype), None)


@cython.cfunc
def _is_tracked(operand) -> cython.bint:
    return isinstance(operand, Tensor) and needs_grad(cython.cast(Tensor, operand))


@cython.cfunc
def _common_dtype(a, b) -> DType:
    """The type in which two operands meet, if it is that of each tensor and one that is computed with here."""
    dtype: DType = None
    for operand in (a, b):
        if isinstance(operand, Tensor):
            if cython.cast(Tensor, operand)._shape != ():
                return None
            if dtype is not None and dtype is not cython.cast(Tensor, operand)._dtype:
                return None
            dtype = cython.cast(Tensor, operand)._dtype
    if dtype.code != _FLOAT32 and dtype.code != _FLOAT64 and dtype.code != _INT64:
        return None
    for operand in (a, b):
        if type(operand) is float:
            if dtype.code == _INT64:
                return None
        elif type(operand) is int:
            if not -LARGEST < operand < LARGEST:
                return None
        elif not isinstance(operand, Tensor):
            return None
    return dtype


@cython.cfunc
def _operand(operand):
    return _number(cython.cast(Tensor, operand)) if isinstance(operand, Tensor) else operand


@cython.cfunc
def _joined(operation: cython.int, code: cython.int, one, other):
    """The result of an arithmetic operation, rounded to its type as a kernel rounds it."""
    if code == _INT64:
        return _joined_whole(operation, one, other)
    if code == _FLOAT64:
        return _arithmetic[cython.double](operation, one, other)
    return cython.cast(cython.double, _arithmetic[cython.float](operation, one, other))


_Float = cython.fused_type(cython.float, cython.double)


@cython.cfunc
@cython.exceptval(check=False)
def _arithmetic(operation: cython.int, one: _Float, other: _Float) -> _Float:
    if operation == ADD:
        return one + other
    if operation == SUB:
        return one - other
    if operation == MUL:
        return one * other
    return one / other


@cython.cfunc
def _joined_whole(operation: cython.int, one: int64_t, other: int64_t):
    """As 64 bits wrap around; None for a quotient, which is no whole number."""
    a: uint64_t = cython.cast(uint64_t, one)
    b: uint64_t = cython.cast(uint64_t, other)
    if operation == ADD:
        return cython.cast(int64_t, a + b)
    if operation == SUB:
        return cython.cast(int64_t, a - b)
    return cython.cast(int64_t, a * b) if operation == MUL else None


@cython.cfunc
def _compared(operation: cython.int, code: cython.int, one, other) -> cython.bint:
    if code == _FLOAT32:  # a number of Python's is rounded before it is compared
        one = cython.cast(cython.double, cython.cast(cython.float, cython.cast(cython.double, one)))
        other = cython.cast(
            cython.double, cython.cast(cython.float, cython.cast(cython.double, other))
        )
    if operation == LT:
        return one < other
    if operation == LE:
        return one <= other
    if operation == GT:
        return one > other
    if operation == GE:
        return one >= other
    return (one == other) == (operation == EQ)


# -- writing -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def written(tensor: Tensor, storage: Storage, node: Node, new: Tensor) -> cython.bint:
    """Write the value of `new` to a view's few elements in memory, if both are there and only the storage, which shows
    `node`, sees its memory; False where the write has to be recorded."""
    if tensor.base is None or storage.former is not None or node.state == FAILED or node.risky:
        return False
    count: cython.longlong = count_elements(tensor._shape)
    if count == 0 or count * tensor._dtype.itemsize > MOST_BYTES or node.dtype is not tensor._dtype:
        return False
    if (count > 1 and tensor.strides is not None) or not _is_quiet(current_tape()):
        return False
    source: Node = _holder(new)
    if source is None or source.strides is not None or (count > 1 and new.strides is not None):
        return False
    if source.row is scalar_row and type(source.params) is bool:
        return False
    if source is node and new.offset == tensor.offset:  # `e[i] += 1` ends with `e[i] = e[i]`
        return True
    if not _is_own(node, OWNERS + (source is node)):
        return False
    return _copy(node, tensor.offset, source, new.offset, count)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_own(node: Node, owners: cython.Py_ssize_t) -> cython.bint:
    """Whether nobody but a storage and the caller sees a node, and nobody else its memory."""
    buffer = node.buffer
    if node.state != DONE or buffer is None or node.strides is not None or node.live != 1:
        return False
    if node.edges is not None or node.holds:
        return False
    if Py_REFCNT(cython.cast(cython.pointer(PyObject), node)) > owners:
        return False
    if Py_REFCNT(cython.cast(cython.pointer(PyObject), buffer)) > OWNERS:
        return False
    return not buffer.foreign and not buffer.readonly


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_loop(tensor: Tensor, storage: Storage) -> cython.int:
    """A single element has been written, by a recorded operation. If that happens again and again, with little work in
    between, it is a loop: the storage gets its value into memory of its own, where the next ones can be written at the
    call. Asked for at the 8th write, the 16th, the 32nd, so that it costs no more than the writes themselves."""
    writes: cython.longlong = storage.version
    tape: Tape = current_tape()
    node: Node = storage.node
    if tensor.base is None or tensor._shape != () or node.state == FAILED or node.risky:
        return 0
    if storage.foreign is not None or tensor.lens != 0 or not _is_quiet(tape):
        return 0
    if tape.count <= MOST_PENDING * writes:
        late["own_memory"](storage)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _copy(
    node: Node,
    offset: cython.longlong,
    source: Node,
    source_offset: cython.longlong,
    count: cython.longlong,
) -> cython.bint:
    """Copy elements from one value's memory into another's, which knows nothing of its elements then."""
    into: Py_buffer
    read: Py_buffer
    place: cython.p_char = dense_elements(node, offset, count, cython.address(into))
    if place == cython.NULL:
        return False
    if source.row is scalar_row:
        done: cython.bint = _store(source.params, node.dtype.code, place)
    else:
        start: cython.p_char = dense_elements(source, source_offset, count, cython.address(read))
        done = start != cython.NULL
        if done:
            memmove(place, start, count * node.dtype.itemsize)
            PyBuffer_Release(cython.address(read))
    if done:
        node.bound = 0
    PyBuffer_Release(cython.address(into))
    return done


@cython.cfunc
@cython.exceptval(check=False)
def _store(number, code: cython.int, place: cython.p_char) -> cython.bint:
    """Write a number as an element of a type; whether that type is one that is known here."""
    if code == _FLOAT32:
        cython.cast(cython.p_float, place)[0] = cython.cast(
            cython.float, cython.cast(cython.double, number)
        )
    elif code == _FLOAT64:
        cython.cast(cython.p_double, place)[0] = number
    elif code == _INT64:
        cython.cast(cython.pointer(int64_t), place)[0] = number
    else:
        return False
    return True
