# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Tensors of counted and spaced numbers: arange, linspace, logspace, eye, the indices of triangles.

Counting is recorded, not computed, in int64 or float64 before the conversion to the dtype asked for, so that no step
accumulates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft._typing import DeviceLike, Scalar
from weft.engine.api.argument_names import need_dense
from weft.engine.dispatch.type_names import C_NAMES, TYPE_NAMES, no_kernel_for
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.engine.ir.strides import dense_order
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    UnsupportedDTypeError,
)
from weft.ops import primitives as ops
from weft.tensor.arguments import Shape, need_integer
from weft.tensor.creation.factories import (
    filled,
    full,
    leaf,
    python_number,
    read_dtype,
    read_size,
)
from weft.tensor.creation.progressions import MOST_WRITTEN, spaced_numbers, triangle_indices
from weft.tensor.determinism import unwritten
from weft.tensor.device import on_meta
from weft.tensor.leaves import give_out
from weft.tensor.memory.host_memory import need_room, tensor_of_array
from weft.tensor.reading.values import item

require(__name__, cython.compiled)

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


def arange(
    start: float | None = None,
    end: float | None = None,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`start, start + step, ...` below `end`; int64 unless a float is given. Errors: RuntimeError on a step of 0 or
    away from `end`."""
    need_dense("arange", layout)
    absent = on_meta(device, "arange")
    if end is None:
        start, end = None, start
    if end is None:
        raise ArgumentTypeError(
            'arange() missing 1 required positional arguments: "end"',
            expected="the number to stop before",
            got="nothing",
            fix="pass it, as in arange(3)",
        )
    start = 0 if start is None else start
    start, end, step = [_number_of("arange", value) for value in (start, end, step)]
    whole = _are_whole(start, end, step)
    wanted = read_dtype(
        dtype, (dtypes.int64 if whole else dtypes.get_default()) if out is None else out._dtype
    )
    if wanted is dtypes.bool_:
        raise UnsupportedDTypeError(
            no_kernel_for("arange_cpu", "bool"),
            expected="a numeric dtype",
            got="bool",
            fix="compare the numbers of a numeric arange",
        )
    if wanted.category < 2 and step != 0 and int(step) == 0:
        raise ArgumentError(
            "step must be nonzero",
            expected="a step that is not 0 as an integer",
            got=f"step={step} for {wanted.name}",
            fix="leave dtype and out= away, or pass a step of 1 or more",
        )
    made = _count(start, step, _length("arange", start, end, step), wanted, absent)
    return _counted(out, made, requires_grad)


def _are_whole(start: float, end: float, step: float | complex) -> bool:
    return isinstance(start, int) and isinstance(end, int) and isinstance(step, int)


def _number_of(name: str, value: float | complex | Tensor | None, mixed: bool = False) -> Any:
    if type(value) is int:
        return value
    number = item(value) if isinstance(value, Tensor) else python_number(value)
    if isinstance(number, (int, float)) or mixed and isinstance(number, complex):
        return number
    raise ArgumentTypeError(
        f"{name}(): bounds and step must be real numbers",
        expected="numbers",
        got=repr(value),
        fix="pass ints or floats",
    )


def _length(name: str, start: float, end: Any, step: float) -> int:
    if step == 0:
        raise ShapeError(
            "step must be nonzero",
            expected="a step other than 0",
            got="0",
            fix=f"check {name}'s step",
        )
    whole = _are_whole(start, end, step)
    if not (whole or math.isfinite(start) and math.isfinite(end) and math.isfinite(step)):
        raise ShapeError(
            f"unsupported range: {start} -> {end}",
            expected="finite bounds",
            got=f"{start}, {end}, {step}",
            fix="pass finite numbers",
        )
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise ShapeError(
            "upper bound and lower bound inconsistent with step sign",
            expected="a step towards end",
            got=f"{start} to {end} by {step}",
            fix="change the sign of step, or swap the bounds",
        )
    if whole:
        return -((start - end) // step)
    return math.ceil((end - start) / step)


def _given(out: Tensor | None, made: Tensor, requires_grad: bool, absent: bool = False) -> Tensor:
    """A new tensor as a leaf, `absent` on the device meta; or its value in `out`, on the device of that."""
    return (
        leaf(made, requires_grad, absent)
        if out is None
        else leaf(give_out(out, made), requires_grad)
    )


def _counted(out: Tensor | None, made: Tensor, requires_grad: bool, absent: bool = False) -> Tensor:
    """As `_given`, for numbers one after the other: an `out` of as many elements keeps its shape and is filled in
    order."""
    if out is not None and out._shape != made._shape and out.numel() == made.numel():
        made = ops.reshape(made, out._shape)
    return _given(out, made, requires_grad, absent)


def _count(start: float, step: float, length: int, dtype: DType, absent: bool) -> Tensor:
    """start + i * step, in int64 or float64, then in the dtype; `absent` on the device meta."""
    if absent:
        return ops.without_memory((length,), dtype)
    need_room((length,), dtype)
    position = ops.iota((length,))
    if dtype.category < 2:
        step, start = int(step), int(start)
    else:
        position = cast(position, dtypes.float64)
        step, start = float(step), float(start)
    if step != 1:
        position = position * step
    if start != 0:
        position = position + start
    return cast(position, dtype)


def range_(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Like `arange` with `end` included (kept for old programs)."""
    if end is None:
        start, end = 0, start
    absent = on_meta(device, "range")
    start, end, step = [_number_of("range", value) for value in (start, end, step)]
    _length("range", start, end, step)
    length = math.floor((end - start) / step) + 1
    wanted = read_dtype(dtype, None if out is None else out._dtype)
    made = _count(start, step, length, wanted, absent)
    return _counted(out, made, requires_grad)


def linspace(
    start: Scalar,
    end: Scalar,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included; complex where a bound is."""
    need_dense("linspace", layout)
    absent = on_meta(device, "linspace")
    wanted = _spaced_dtype("linspace", (start, end), dtype, out)
    made = cast(_spaced("linspace", start, end, steps, wanted, absent), wanted)
    return _counted(out, made, requires_grad, absent)


def _spaced_dtype(
    name: str, bounds: tuple[Scalar, ...], dtype: DType | None, out: Tensor | None
) -> DType:
    """The dtype of spaced numbers: the one asked for, that of `out`, or the default one, complex where a bound is.
    Errors: DTypeError where complex bounds are to be real numbers."""
    usual = None if out is None else out._dtype
    if not any(map(_is_complex, bounds)):
        return read_dtype(dtype, usual)
    inferred = dtypes.get_default().to_complex()
    wanted = read_dtype(dtype, usual or inferred)
    if wanted.is_complex:
        return wanted
    raise DTypeError(
        f"torch.{name}(): inferred dtype {C_NAMES[inferred.name]} can't be safely cast to passed dtype "
        f"{TYPE_NAMES[wanted.name]}",
        expected="a complex dtype, as a bound is complex",
        got=wanted.name,
        fix=f"pass dtype=weft.{inferred.name}, or real bounds",
    )


def _is_complex(bound: Tensor | Scalar) -> bool:
    return bound._dtype.is_complex if isinstance(bound, Tensor) else isinstance(bound, complex)


def _need_scalars(name: str, start: object, end: object) -> None:
    """Errors: ShapeError where a bound is a tensor with dimensions."""
    found = [
        f"{bound} with {len(value._shape)} dimension(s)"
        for bound, value in (("start", start), ("end", end))
        if isinstance(value, Tensor) and value._shape
    ]
    if found:
        raise ShapeError(
            f"{name} only supports 0-dimensional start and end tensors, but got {' and '.join(found)}.",
            expected="numbers, or tensors without dimensions",
            got=" and ".join(found),
            fix="index one element",
        )


_WORK = {kind: kind for kind in (dtypes.float32, dtypes.float64, dtypes.complex64)}


def _spaced(
    name: str,
    start: Tensor | Scalar,
    end: Tensor | Scalar,
    steps: int,
    dtype: DType,
    absent: bool,
) -> Tensor:
    """Evenly spaced numbers, counted from both ends, in the dtype or float64 for integers (complex128 for other complex
    numbers); `absent` on the device meta."""
    steps = need_integer(name, steps, "steps")
    if steps < 0:
        raise ShapeError(
            "number of steps must be non-negative",
            expected="steps >= 0",
            got=str(steps),
            fix=f"pass {name} a count",
        )
    _need_scalars(name, start, end)
    mixed = _is_complex(start) or _is_complex(end)
    kind: Any = complex if mixed else float
    first, last = (_number_of(name, value, mixed) for value in (start, end))
    work = _WORK.get(dtype, dtypes.complex128 if mixed else dtypes.float64)
    if work.is_complex and not mixed:
        work = dtypes.float64
    if steps == 1 or absent:
        return filled((steps,), first, work, absent)
    if 1 < steps <= MOST_WRITTEN and not mixed:
        return spaced_numbers(first, last, steps, work)
    need_room((steps,), work)
    rounded: Any = np.dtype(work.name).type
    step = (rounded(last) - rounded(first)) / rounded(steps - 1) if steps else rounded(0)
    place = ops.iota((steps,))
    low = cast(place, work) * kind(step) + kind(first)
    high = kind(last) - cast((steps - 1) - place, work) * kind(step)
    return ops.where(place < steps // 2, low, high)


def logspace(
    start: Scalar,
    end: Scalar,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from `base ** start` to `base ** end`, evenly spaced in the exponent."""
    need_dense("logspace", layout)
    absent = on_meta(device, "logspace")
    wanted = _spaced_dtype("logspace", (start, end), dtype, out)
    mixed = _is_complex(start) or _is_complex(end)
    work = dtypes.complex128 if mixed else dtypes.float64
    exponent = _spaced("logspace", start, end, steps, work, absent)
    bases = ops.full((steps,), float(base), work)
    made = cast(ops.elementwise("pow", bases, exponent), wanted)
    return _counted(out, made, requires_grad, absent)


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal, zeros elsewhere. Shapes: (n, m), m = n unless given."""
    need_dense("eye", layout)
    absent = on_meta(device, "eye")
    n = need_integer("eye", n, "n")
    columns = n if m is None else need_integer("eye", m, "m")
    for name, size in (("n", n), ("m", columns)):
        if size < 0:
            raise ShapeError(
                f"{name} must be greater or equal to 0, got {size}",
                expected="sizes >= 0",
                got=str(size),
                fix="pass a size",
            )
    wanted = read_dtype(dtype, None if out is None else out._dtype)
    if absent:
        return leaf(ops.without_memory((n, columns), wanted), requires_grad)
    need_room((n, columns), wanted)
    made = cast(ops.iota((n, 1)) == ops.iota((1, columns)), wanted)  # (n, 1) == (1, m) -> (n, m)
    return _given(out, made, requires_grad, absent)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of zeros with these strides. Errors: ArgumentError where there is not one for each size."""
    absent = on_meta(device, "empty_strided")
    shape, strides = read_size("empty_strided", (size,)), read_size("empty_strided", (stride,))
    if len(strides) != len(shape):
        raise ArgumentError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(strides)})",
            expected="one stride per size",
            got=f"{list(shape)}, {list(strides)}",
            fix="pass as many strides as sizes",
        )
    wanted = read_dtype(dtype)
    content = unwritten(wanted)
    if dense_order(shape, strides) is None:  # with gaps, or elements that share memory
        reach = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        memory = filled((0 if 0 in shape else reach,), content, wanted, absent)
        return leaf(memory.as_strided(shape, strides).detach(), requires_grad)
    made = filled(shape, content, wanted, absent)
    made.strides = strides
    return leaf(made, requires_grad)


def _not_an_order(shape: Shape, order: Shape) -> str:
    """PyTorch's error text for a layout that does not name every dimension once."""
    if len(order) != len(shape):
        return (
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for place, axis in enumerate(order):
        if not 0 <= axis < len(shape):
            return (
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {axis} at index "
                f"{place})."
            )
    return "Duplicate dim not allowed"


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of zeros whose dimensions have this order in memory, the outermost first."""
    shape, order = read_size("empty_permuted", (size,)), read_size("layout", (physical_layout,))
    if sorted(order) != list(range(len(shape))):
        raise ArgumentError(
            _not_an_order(shape, order),
            expected=f"each of 0 .. {len(shape) - 1} once",
            got=str(list(order)),
            fix="name every dimension once",
        )
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return empty_strided(shape, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def new_empty_strided(
    input: Tensor,
    size: Shape,
    stride: Shape,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Layout | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """`empty_strided` of the type of this tensor."""
    wanted = input._dtype if dtype is None else dtype
    where = input.device if device is None else device
    return empty_strided(size, stride, dtype=wanted, device=where, requires_grad=requires_grad)


def _triangle(name: str, lower: bool) -> Any:
    def indices(
        row: int,
        col: int,
        offset: int = 0,
        *,
        dtype: DType | None = None,
        device: DeviceLike | None = None,
        layout: Layout | None = None,
    ) -> Tensor:
        absent = on_meta(device, name)
        row, col = need_integer(name, row, "row", 0), need_integer(name, col, "col", 0)
        offset = need_integer(name, offset, "offset")
        wanted = read_dtype(dtype, dtypes.int64)
        if wanted.category != 1:
            raise UnsupportedDTypeError(
                no_kernel_for(name, wanted.name),
                expected="a dtype of integers",
                got=wanted.name,
                fix="convert the indices",
            )
        offset = min(max(offset, -row), col)  # what lies further is as empty, or as full
        if max(row, col) <= MOST_WRITTEN:
            made = triangle_indices(row, col, offset, lower)
        else:
            made = tensor_of_array(_places(row, col, offset, lower), dtypes.int64)
        return leaf(cast(made, wanted), False, absent)

    indices.__name__ = indices.__qualname__ = name
    indices.__doc__ = f"Row and column of each element of the {'lower' if lower else 'upper'} triangle. Shapes: (2, n)."
    return indices


def _places(row: int, col: int, offset: int, lower: bool) -> Any:
    """Row and column of each element of a triangle: of every row so many from the first, or up to the last."""
    rows = np.arange(row)
    diagonal = np.minimum(np.maximum(rows + (offset + lower), 0), col)
    lengths = diagonal if lower else col - diagonal
    before = np.cumsum(lengths) - lengths
    made = np.empty((2, int(lengths.sum())), np.int64)
    made[0] = rows.repeat(lengths)
    made[1] = np.arange(made.shape[1]) - (before if lower else before - diagonal).repeat(lengths)
    return made


tril_indices, triu_indices = _triangle("tril_indices", True), _triangle("triu_indices", False)


def scalar_tensor(
    s: Scalar,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A zero-dimensional tensor of the default dtype unless one is named."""
    wanted = read_dtype(dtype, dtypes.get_default())
    return full((), s, dtype=wanted, device=device, requires_grad=requires_grad)


FUNCTIONS: dict[str, Any] = {
    "arange": arange,
    "range": range_,
    "linspace": linspace,
    "logspace": logspace,
    "eye": eye,
    "empty_strided": empty_strided,
    "empty_permuted": empty_permuted,
    "scalar_tensor": scalar_tensor,
    "tril_indices": tril_indices,
    "triu_indices": triu_indices,
}
METHODS: dict[str, Any] = {"new_empty_strided": new_empty_strided}
