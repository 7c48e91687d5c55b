# cython: language_level=3
"""Reading of a tensor's values as Python objects: item, tolist, truth, numbers, indices, format.

Reading runs what is pending. `printing` prints whole tensors.
"""

import operator
import warnings
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBuffer_Release
from cython.cimports.weft.engine.frontend.meta import shows_meta
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor
from cython.cimports.weft.engine.ir.elements import dense_elements
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import DONE, Node
from cython.cimports.weft.engine.ir.tape import Tape, current_tape
from cython.cimports.weft.engine.replay.conditions import is_plain
from cython.cimports.weft.engine.runtime.scalar_cells import load_number

from weft._build.compiled import require
from weft._build.lazy import later
from weft.errors import ArgumentError, ArgumentTypeError, NoDataError, ShapeError
from weft.tensor.memory.host_memory import values_array

require(__name__, cython.compiled)

pipeline = later("weft.engine.pipeline.driver")

Number = bool | int | float | complex


@cython.cfunc
def _count(tensor: Tensor) -> cython.longlong:
    total: cython.longlong = 1
    size: cython.longlong
    for size in tensor._shape:
        total *= size
    return total


@cython.cfunc
def _number(tensor: Tensor) -> object:
    """The one element of a tensor as a Python number."""
    if shows_meta(tensor):
        raise NoDataError("Tensor.item() cannot be called on meta tensors")
    numbers: list[Any] | None = _elements(tensor, 1)
    return values_array(tensor).item() if numbers is None else numbers[0]


@cython.cfunc
def _elements(tensor: Tensor, count: cython.longlong) -> object:
    """The values of a tensor as a list of Python numbers, or None if they are not contiguous in memory; computes what
    is pending."""
    view = cython.declare(Py_buffer)
    node: Node = _plain_node(tensor)
    if node is None:
        return None
    place: cython.p_char = dense_elements(node, tensor.offset, count, cython.address(view))
    if place == cython.NULL:
        return None
    numbers: list[Any] = []
    try:
        for _ in range(count):
            numbers.append(load_number(node.dtype, place))
            place += node.dtype.itemsize
    finally:
        PyBuffer_Release(cython.address(view))
    return numbers


def position_in_memory(index: Tensor) -> int | None:
    """The number in an index without dimensions, if it is in memory already. None if it is yet to be computed, or
    while a call is recorded for replay or a transformation watches: these know no values."""
    tape: Tape = current_tape()
    mode: Mode = tape.mode
    storage: Storage = index._storage
    if mode.intact > 0 or not is_plain(tape):
        return None
    node: Node = value(index) if storage is None else storage.node
    if node.state != DONE or node.buffer is None:
        return None
    numbers = _elements(index, 1)
    return None if numbers is None else numbers[0]


@cython.cfunc
def _plain_node(tensor: Tensor) -> Node:
    """The computed node whose memory has a tensor's values in order; None if there is no such node."""
    node: Node
    storage: Storage = tensor._storage
    if storage is None:
        node = value(tensor)
    elif tensor.view_transform != 0:
        return None
    elif storage.foreign is None:
        node = storage.node
    else:
        return None
    if node.state != DONE or node.buffer is None:
        pipeline.require(node)
    return node


def item(tensor: Tensor) -> Number:
    """The value of a tensor with one element as a Python number.

    Errors: RuntimeError where there is more or less than one element. Cost: runs what the value needs.
    """
    if _count(tensor) != 1:
        raise ShapeError(
            f"a Tensor with {_count(tensor)} elements cannot be converted to Scalar",
            expected="a tensor with one element",
            got=describe(tensor),
            fix="index one element, reduce with .sum() or .mean(), or call .tolist()",
        )
    return _number(tensor)


def describe(tensor: Tensor) -> str:
    """A tensor as messages name it: `float32[2, 3]`."""
    return f"{tensor._dtype.name}{list(tensor._shape)}"


def tolist(tensor: Tensor) -> Any:
    """Nested lists of Python numbers; a number where there are no dimensions."""
    plain = len(tensor._shape) == 1 and tensor.strides is None
    found = _elements(tensor, _count(tensor)) if plain else None
    return values_array(tensor).tolist() if found is None else found


def truth(tensor: Tensor) -> bool:
    """`bool(tensor)`. Errors: RuntimeError unless there is one element."""
    count = _count(tensor)
    if count != 1:
        what = "more than one value" if count else "no values"
        raise ShapeError(
            f"Boolean value of Tensor with {what} is ambiguous",
            expected="a tensor with one element",
            got=describe(tensor),
            fix="reduce with .any() or .all(), or test .numel()",
        )
    return bool(_number(tensor))


def contains(tensor: Tensor, element: object) -> bool:
    """`element in tensor`: whether any of its elements is equal. Errors: RuntimeError on what is no number."""
    if not isinstance(element, bool | int | float | complex | Tensor):
        raise ArgumentError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.",
            expected="a number or a tensor",
            got=repr(element),
            fix="search in tensor.tolist()",
        )
    return bool((tensor == element).any().item())


def number(tensor: Tensor) -> Number:
    """The value that float(), int() and complex() convert. Errors: ValueError unless there is one element."""
    if _count(tensor) != 1:
        raise ArgumentError(
            "only one element tensors can be converted to Python scalars",
            expected="a tensor with one element",
            got=describe(tensor),
            fix="index one element or reduce first",
        )
    warn_of_gradient(tensor)
    return _number(tensor)


def warn_of_gradient(tensor: Tensor) -> None:
    """A warning where a tensor that becomes a number requires grad: the gradient ends there."""
    if tensor.requires_grad:
        warnings.warn(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
            "Consider using tensor.detach() first.",
            UserWarning,
            stacklevel=1,
        )


def index(tensor: Tensor) -> int:
    """The tensor as an index. Errors: TypeError unless it is one integer."""
    if _count(tensor) != 1 or tensor._dtype.category > 1:
        raise ArgumentTypeError(
            "only integer tensors of a single element can be converted to an index",
            expected="one integer",
            got=describe(tensor),
            fix="convert with int(tensor)",
        )
    return operator.index(_number(tensor))


def format_tensor(tensor: Tensor, spec: str) -> str:
    """`format(tensor, spec)`: a number's format where there are no dimensions. Errors: TypeError otherwise."""
    if not tensor._shape and type(tensor) is Tensor:
        return format(item(tensor), spec)
    if spec:
        raise ArgumentTypeError(
            "unsupported format string passed to Tensor.__format__",
            expected="a zero-dimensional tensor",
            got=f"{describe(tensor)} with {spec!r}",
            fix="format elements, or use weft.set_printoptions",
        )
    return str(tensor)


METHODS: dict[str, Any] = {"item": item, "tolist": tolist}
