# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Creation of tensors: from Python data, from NumPy, filled, counted, spaced, like another.

Functions take data, sizes and the keywords dtype, device, requires_grad, and return leaves. Filled and counted tensors
are recorded, not computed, so a large one costs nothing until it is read. `data` reads Python data, `memory` shares
memory, and the functional layer draws random numbers.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft._typing import DeviceLike, Scalar
from weft.engine.api.argument_names import need_dense
from weft.engine.frontend.node_factory import MOST_ELEMENTS
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.transfer import beside
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.engine.ir.strides import dense_order, elementwise_strides
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, class_name
from weft.ops import primitives as ops
from weft.tensor.creation.layouts import is_dense, without_entries
from weft.tensor.creation.numbers import shape_of_sizes, tensor_of_list, tensor_of_number
from weft.tensor.creation.python_data import dtype_of_array, need_fit, to_array
from weft.tensor.determinism import unwritten
from weft.tensor.device import on_meta
from weft.tensor.layout import format_strides
from weft.tensor.leaves import check_can_require_grad, give_out
from weft.tensor.memory.host_memory import import_array, is_compact, need_room, tensor_of_array
from weft.tensor.memory.storage_base import StorageBase
from weft.tensor.meta import moved
from weft.tensor.reading.values import item

require(__name__, cython.compiled)

if TYPE_CHECKING:
    from weft.tensor.layout import Layout, MemoryFormat


Shape = tuple[int, ...]


# -- arguments -----------------------------------------------------------------------------------------------------


def read_size(name: str, size: Any) -> Shape:
    """Sizes given one by one or as one sequence. Errors: TypeError on what is no integer, RuntimeError below 0."""
    shape: Shape | None = shape_of_sizes(size)
    if shape is not None:
        return shape
    if len(size) == 1 and not hasattr(type(size[0]), "__index__"):
        size = size[0]
    if not isinstance(size, (tuple, list)):
        raise ArgumentTypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, not {class_name(size)}",
            expected="integers, or a tuple of integers",
            got=repr(size),
            fix="convert with int()",
        )
    try:
        sizes = tuple([operator.index(n) for n in size])
    except TypeError:
        raise ArgumentTypeError(
            f"{name}(): argument 'size' must be tuple of ints",
            expected="integers",
            got=repr(size),
            fix="convert the sizes with int()",
        ) from None
    if sizes and max(sizes) > MOST_ELEMENTS:
        raise ShapeError(
            f"{name}: a dimension is too large",
            expected=f"sizes of at most {MOST_ELEMENTS}",
            got=str(list(sizes)),
            fix="check how the size was computed",
        )
    if sizes and min(sizes) < 0:
        raise ShapeError(
            "zeros: Dimension size must be non-negative."
            if name == "zeros"
            else f"Trying to create tensor with negative dimension {next(n for n in sizes if n < 0)}: {list(sizes)}",
            expected="sizes >= 0",
            got=str(list(sizes)),
            fix="check how the size was computed",
        )
    return sizes


_OF_BUILTINS = {
    float: dtypes.float64,
    int: dtypes.int64,
    bool: dtypes.bool_,
    complex: dtypes.complex128,
}


def read_dtype(dtype: object, default: DType | None = None) -> DType:
    """A dtype argument. Errors: TypeError on anything but a weft dtype."""
    if dtype is None:
        return dtypes.get_default() if default is None else default
    if type(dtype) is DType:
        return dtype
    builtin = _OF_BUILTINS.get(dtype) if isinstance(dtype, type) else None
    if builtin is None:
        raise ArgumentTypeError(
            f"dtype must be a weft.dtype, not {dtype!r}",
            expected="for example weft.float32",
            got=repr(dtype),
            fix=getattr(dtype, "fix", "pass one of weft's dtypes"),
        )
    return builtin


def leaf(made: Tensor, requires_grad: bool, absent: bool = False) -> Tensor:
    """A new tensor as a leaf, `absent` on the device meta. Errors: RuntimeError where an integer tensor should require
    a gradient."""
    if absent:
        made = moved(made, True)
    if requires_grad:
        check_can_require_grad(made._dtype, "Only")
        made.leaf_grad = True
    return made


def filled(shape: Shape, value: float, dtype: DType, absent: bool = False) -> Tensor:
    """A recorded constant, `absent` on the device meta. Errors: OutOfMemoryError for one that no operation could ever
    hold."""
    need_fit(value, dtype)
    if absent:
        return ops.without_memory(shape, dtype)
    need_room(shape, dtype)
    number = bool(value) if dtype is dtypes.bool_ else value
    return ops.full(shape, number, dtype)


# -- from data -----------------------------------------------------------------------------------------------------


def tensor(
    data: object,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with a copy of `data`: a number, nested sequences of numbers, an array or a tensor.

    Errors: ValueError on ragged sequences, TypeError on text, RuntimeError on what is no number.
    """
    absent = on_meta(device, "tensor")
    wanted = None if dtype is None else read_dtype(dtype)
    listed = type(data) is list or type(data) is tuple
    made = tensor_of_list(data, wanted) if listed else tensor_of_number(data, wanted)
    if made is not None:
        return leaf(made, requires_grad, absent)
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than weft.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        copied = ops.elementwise("clone", data.detach())
        return leaf(cast(copied, wanted or data._dtype), requires_grad, absent)
    if isinstance(data, StorageBase):
        copied = ops.elementwise("clone", data.shown_as(wanted))
        return leaf(copied, requires_grad, absent)
    array, found = to_array(data, wanted)
    return leaf(tensor_of_array(array, found), requires_grad, absent)


def as_tensor(
    data: Tensor | list[list[int]] | np.ndarray,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """`data` as a tensor, sharing memory where it can: a tensor of this dtype itself, an array by `from_numpy`."""
    if isinstance(data, Tensor):
        made = data if dtype is None else cast(data, read_dtype(dtype))
        return made if device is None else moved(made, on_meta(device, "as_tensor"))
    if on_meta(device, "as_tensor"):
        return tensor(data, dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.from_numpy(data.dtype) is dtype):
        return share_array(data)
    wanted = None if dtype is None else read_dtype(dtype)
    if isinstance(data, StorageBase):
        return data.shown_as(wanted)  # type: ignore[no-any-return]
    array, found = to_array(data, wanted)
    return tensor_of_array(array, found)


def share_array(array: np.ndarray) -> Tensor:
    """A tensor over an array's memory; an array that tensors cannot describe raises."""
    strides = array.strides
    if strides and min(strides) < 0:
        raise ArgumentError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().)",
            expected="non-negative strides",
            got=str(strides),
            fix="pass array.copy()",
        )
    dtype = dtype_of_array(array)
    size = array.itemsize
    if not is_compact(array) and any([stride % size for stride in strides]):
        raise ArgumentError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array "
            "to reallocate the memory.",
            expected=f"multiples of {size}",
            got=str(strides),
            fix="pass array.copy()",
        )
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and the memory of non-writable tensors is not shared: writing to "
            "this tensor will not reach it. Copy the array, or make it writable before converting it.",
            UserWarning,
            stacklevel=3,
        )
    return import_array(array, dtype)


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of an array: each sees what the other writes.

    Errors: TypeError on a non-array or an element type without counterpart, ValueError on negative strides.
    Cost: operations copy what they read of shared memory at the call, until nobody else holds the array; elements of
    a large one are looked up where they lie, at the call.
    """
    if not isinstance(ndarray, np.ndarray):
        raise ArgumentTypeError(
            f"expected np.ndarray (got {type(ndarray).__name__})",
            expected="a NumPy array",
            got=type(ndarray).__name__,
            fix="use weft.tensor(...) or weft.as_tensor(...)",
        )
    return share_array(ndarray)


# -- filled --------------------------------------------------------------------------------------------------------


def _constant(name: str, value: int, content: Callable[[DType], Any]) -> Any:
    def make(
        *size: int | Sequence[int],
        out: Tensor | None = None,
        dtype: DType | None = None,
        layout: Layout | None = None,
        device: DeviceLike | None = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        memory_format: MemoryFormat | None = None,
        **keywords: Any,
    ) -> Tensor:
        absent = on_meta(device, name) if out is None else out.is_meta
        shape = read_size(name, (keywords.pop("size"),) if "size" in keywords else size)
        _refuse_keywords(name, keywords)
        wanted = read_dtype(dtype, None if out is None else out._dtype)
        if not is_dense(layout):
            return _sparse(name, shape, wanted, layout, requires_grad)
        made = filled(shape, content(wanted), wanted, absent)
        if memory_format is not None:
            made.strides = format_strides(shape, memory_format)
        return leaf(made if out is None else give_out(out, made), requires_grad)

    def make_like(
        input: Tensor,
        *,
        dtype: DType | None = None,
        layout: Layout | None = None,  # noqa: A002
        device: DeviceLike | None = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: MemoryFormat | None = None,
    ) -> Tensor:
        absent = input.is_meta if device is None else on_meta(device, name)
        wanted = read_dtype(dtype, input._dtype)
        if not is_dense(layout):
            return _sparse(f"{name}_like", input._shape, wanted, layout, requires_grad)
        made = filled(input._shape, content(wanted), wanted, absent)
        made = made if absent or device is not None else beside(input, made)
        made.strides = like_strides(input, memory_format)
        return leaf(made, requires_grad)

    def make_new(
        self: Tensor,
        *size: int | Sequence[int],
        dtype: DType | None = None,
        layout: Layout | None = None,
        device: DeviceLike | None = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **keywords: Any,
    ) -> Tensor:
        return make(
            *size,
            dtype=read_dtype(dtype, self._dtype),
            layout=layout,
            device=self.device if device is None else device,
            requires_grad=requires_grad,
            **keywords,
        )

    for function, called, text in (
        (make, name, f"A tensor of `size` filled with {value}."),
        (
            make_like,
            f"{name}_like",
            f"A tensor of the size and dtype of `input` filled with {value}.",
        ),
        (
            make_new,
            f"new_{name}",
            f"A tensor of `size` filled with {value}, of this tensor's dtype.",
        ),
    ):
        function.__name__ = function.__qualname__ = called  # type: ignore[attr-defined]
        function.__doc__ = text
    return make, make_like, make_new


def _sparse(
    name: str, shape: Shape, dtype: DType, layout: Layout | None, requires_grad: bool
) -> Any:
    """A sparse tensor without entries, from functions that need not fill it."""
    if name not in ("zeros", "empty", "zeros_like"):
        need_dense(name, layout)
    return without_entries(name, shape, dtype, layout, requires_grad)


def _refuse_keywords(name: str, keywords: dict[str, object]) -> None:
    if keywords:
        raise ArgumentTypeError(
            f"{name}() got an unexpected keyword argument '{next(iter(keywords))}'",
            expected="size, dtype, device, requires_grad, out",
            got=", ".join(keywords),
            fix="remove it",
        )


def like_strides(source: Tensor, memory_format: MemoryFormat | None = None) -> Shape | None:
    """The layout of a new tensor like another: that of a named format, else its own where it is dense, else the order
    of its strides. Errors: ShapeError."""
    if memory_format is not None and getattr(memory_format, "name", "") != "preserve_format":
        return format_strides(source._shape, memory_format)
    if source.strides is None:
        return None
    if dense_order(source._shape, source.strides) is not None:
        return source.strides  # type: ignore[no-any-return]
    return elementwise_strides(source._shape, [(source._shape, source.strides)])


zeros, zeros_like, new_zeros = _constant("zeros", 0, lambda dtype: 0)
ones, ones_like, new_ones = _constant("ones", 1, lambda dtype: 1)
empty, empty_like, new_empty = _constant("empty", 0, unwritten)


def full(
    size: Sequence[int],
    fill_value: Scalar,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of `size` filled with a number, whose type gives the dtype unless one is named."""
    need_dense("full", layout)
    absent = on_meta(device, "full") if out is None else out.is_meta
    shape = read_size("full", (size,))
    value = item(fill_value) if isinstance(fill_value, Tensor) else fill_value
    inferred = (
        fill_value._dtype
        if isinstance(fill_value, Tensor)
        else dtypes.of_scalar(python_number(value))
    )
    wanted = read_dtype(dtype, inferred if out is None else out._dtype)
    made = filled(shape, python_number(value), wanted, absent)
    return leaf(made if out is None else give_out(out, made), requires_grad)


def python_number(value: float | complex | None) -> Any:
    """A NumPy scalar as a Python number; other values as they are."""
    return value.item() if isinstance(value, np.generic) else value


def full_like(
    input: Tensor,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,  # noqa: A002
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """A tensor of the size and dtype of `input` filled with a number."""
    need_dense("full_like", layout)
    where = ("meta" if input.is_meta else "cpu") if device is None else device
    made = full(input._shape, fill_value, dtype=read_dtype(dtype, input._dtype), device=where)
    made = made if made.is_meta or device is not None else beside(input, made)
    made.strides = like_strides(input, memory_format)
    return leaf(made, requires_grad)


def new_full(
    self: Tensor,
    size: Shape,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Layout | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of `size` filled with a number, of this tensor's dtype."""
    need_dense("new_full", layout)
    return full(
        size,
        fill_value,
        dtype=read_dtype(dtype, self._dtype),
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )


def new_tensor(
    self: Tensor,
    data: list[float],
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Layout | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """A copy of `data`, of this tensor's dtype."""
    wanted = read_dtype(dtype, self._dtype)
    where = self.device if device is None else device
    if isinstance(data, Tensor):
        copied = cast(ops.elementwise("clone", data.detach()), wanted)
        return leaf(moved(copied, on_meta(where, "new_tensor")), requires_grad)
    return tensor(data, dtype=wanted, device=where, requires_grad=requires_grad)


FUNCTIONS: dict[str, Any] = {
    "tensor": tensor,
    "as_tensor": as_tensor,
    "from_numpy": from_numpy,
    "zeros": zeros,
    "ones": ones,
    "empty": empty,
    "zeros_like": zeros_like,
    "ones_like": ones_like,
    "empty_like": empty_like,
    "full": full,
    "full_like": full_like,
}
METHODS: dict[str, Any] = {
    "new_zeros": new_zeros,
    "new_ones": new_ones,
    "new_empty": new_empty,
    "new_full": new_full,
    "new_tensor": new_tensor,
}
