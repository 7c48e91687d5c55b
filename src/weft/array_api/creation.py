"""The standard's functions that make arrays, from shapes, numbers, arrays and other libraries' arrays."""

from __future__ import annotations

import math

import weft
from weft._typing import DeviceLike
from weft.array_api.arguments import need_array, on_device, refuse
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType

Shape = int | tuple[int, ...]


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """Numbers from `start` to before `stop`; none where the step leads away from it."""
    on_device("arange", device)
    first, last = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(x, int) for x in (first, last, step))
    wanted = dtype or (weft.int64 if whole else weft.get_default_dtype())
    if step and (last - first) / step <= 0:
        return empty((0,), dtype=wanted)
    return weft.arange(first, last, step, dtype=wanted)


def asarray(
    obj: object,
    /,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """An array of numbers, nested sequences, a buffer or another library's array.

    Errors: ValueError where `copy` is false and a copy is needed.
    """
    on_device("asarray", device)
    if not isinstance(obj, Tensor) and not hasattr(obj, "__array__") and hasattr(obj, "__dlpack__"):
        obj = weft.from_dlpack(obj)
    has_history = isinstance(obj, Tensor) and obj.requires_grad
    return weft.asarray(obj, dtype=dtype, copy=copy, requires_grad=has_history)


def empty(shape: Shape, *, dtype: DType | None = None, device: DeviceLike | None = None) -> Tensor:
    """An array whose elements are to be written."""
    on_device("empty", device)
    return weft.empty(_tuple(shape), dtype=dtype)


def empty_like(
    x: Tensor, /, *, dtype: DType | None = None, device: DeviceLike | None = None
) -> Tensor:
    """An array of the shape of another, whose elements are to be written."""
    on_device("empty_like", device)
    return weft.empty(need_array("empty_like", x).shape, dtype=dtype or x.dtype)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    on_device("eye", device)
    columns = n_rows if n_cols is None else n_cols
    rows, across = weft.arange(n_rows).reshape(-1, 1), weft.arange(columns)
    return (across - rows == k).to(dtype or weft.get_default_dtype())


def from_dlpack(
    x: object, /, *, device: DeviceLike | None = None, copy: bool | None = None
) -> Tensor:
    """The array of another library, by way of DLPack; its memory is shared unless `copy` is true."""
    on_device("from_dlpack", device)
    made = x if isinstance(x, Tensor) else weft.from_dlpack(x)
    return made.clone() if copy else made


def full(
    shape: Shape,
    fill_value: complex,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """An array of one number."""
    on_device("full", device)
    return weft.full(_tuple(shape), fill_value, dtype=dtype)


def full_like(
    x: Tensor,
    /,
    fill_value: complex,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """An array of one number in the shape of another."""
    return full(need_array("full_like", x).shape, fill_value, dtype=dtype or x.dtype, device=device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: DeviceLike | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers at equal distances, with or without the last."""
    on_device("linspace", device)
    inexact = isinstance(start, complex) or isinstance(stop, complex)
    real = weft.get_default_dtype()
    wanted = dtype or (real.to_complex() if inexact else real)
    made = _spaced(start.real, stop.real, num, endpoint)
    if inexact:
        made = weft.complex(made, _spaced(start.imag, stop.imag, num, endpoint))
    whole = not (wanted.is_floating_point or wanted.is_complex)
    return (weft.floor(made) if whole else made).to(wanted)


def _spaced(start: float, stop: float, num: int, endpoint: bool) -> Tensor:
    """Real numbers at equal distances, in float64; those of ends whose distance is none of its numbers, too."""
    if math.isinf(float(stop) - float(start)) and math.isfinite(start) and math.isfinite(stop):
        return _spaced(start / 2, stop / 2, num, endpoint) * 2
    if endpoint:
        return weft.linspace(start, stop, num, dtype=weft.float64)
    return weft.linspace(start, stop, num + 1, dtype=weft.float64)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid, one array for each of the axes given. Errors: ValueError on another `indexing`."""
    if indexing not in ("xy", "ij"):
        refuse("meshgrid", "indexing", "'xy' or 'ij'", repr(indexing), "choose one of these")
    return list(weft.meshgrid(*arrays, indexing=indexing)) if arrays else []


def ones(shape: Shape, *, dtype: DType | None = None, device: DeviceLike | None = None) -> Tensor:
    """An array of ones."""
    on_device("ones", device)
    return weft.ones(_tuple(shape), dtype=dtype)


def ones_like(
    x: Tensor, /, *, dtype: DType | None = None, device: DeviceLike | None = None
) -> Tensor:
    """An array of ones in the shape of another."""
    return ones(need_array("ones_like", x).shape, dtype=dtype or x.dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle up to a diagonal, zeros above."""
    return weft.tril(need_array("tril", x), k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle from a diagonal on, zeros below."""
    return weft.triu(need_array("triu", x), k)


def zeros(shape: Shape, *, dtype: DType | None = None, device: DeviceLike | None = None) -> Tensor:
    """An array of zeros."""
    on_device("zeros", device)
    return weft.zeros(_tuple(shape), dtype=dtype)


def zeros_like(
    x: Tensor, /, *, dtype: DType | None = None, device: DeviceLike | None = None
) -> Tensor:
    """An array of zeros in the shape of another."""
    return zeros(need_array("zeros_like", x).shape, dtype=dtype or x.dtype, device=device)


def _tuple(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
