"""What the tests over the op table share: the oracle and its precision, comparing to the bit, ways to run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import weft
from weft.config import config
from weft.engine.frontend.recorder import TO_FLOAT
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import KIND_NAMES
from weft.engine.pipeline import memory_plan
from weft.ops import OPS, direct_vjps
from weft.testing.recording import tensor_of
from weft.testing.reference import meaning, round_bfloat16
from weft.testing.samples import Sample, operand_type
from weft.testing.tuned import unfused

# What rows of rules compute is said by the rules: `test_direct_vjps` compares the two to the bit.
ALL_OPS = [op for op in OPS.values() if op.name not in direct_vjps.OPERATIONS]
# Rows that round where NumPy rounds, though they make floats of integers.
_ROUNDED = ("div", "reciprocal", "sqrt")
_ULPS = 2  # of elementary functions, as engine/devices/cpu/elementary promises
_COMPLEX_EPS = 32  # complex functions are compositions, relative to the size of the result
_COMPOSED_EPS = 64  # composites on a few dozen elements
_LONG = ("erfinv", "lgamma", "digamma", "trigamma", "i0", "i1", "bessel", "modified", "scaled")
_COMPOSED = tuple(  # `logaddexp` is the sum of two numbers, which may cancel
    name
    for name in OPS
    if name.startswith(("attention", "sigmoid_mul", "logaddexp", "normal_", *_LONG))
)
_STEPWISE = ("blend", "add_product", "add_quotient")  # of several operations, each of which rounds
_WIDER = {"float64": np.longdouble, "complex128": np.clongdouble, "complex64": np.complex128}


def kind(op: Any) -> str:
    return KIND_NAMES[op.kind]


def tensors_of(op: Any, sample: Sample, arrays: list[Any], dtype: str) -> list[Any]:
    """Operands in the sample's layout."""
    types = [operand_type(op, i, domain, dtype) for i, domain in enumerate(sample.domains)]
    return [tensor_of(a, t, sample.layout) for a, t in zip(arrays, types, strict=True)]


def laid(arrays: list[Any], layout: str) -> list[Any]:
    """The values that tensors of a layout hold: `expanded` repeats the first row."""
    if layout != "expanded":
        return arrays
    return [a if a is None or not a.ndim else np.broadcast_to(a[:1], a.shape) for a in arrays]


class Bfloat16:
    """Numbers that are rounded to bfloat16 by every operation."""

    def __init__(self, values: Any) -> None:
        self.values = round_bfloat16(np.asarray(values, np.float32))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values

    def __add__(self, other: Any) -> Any:
        return Bfloat16(self.values + other.values)

    def __sub__(self, other: Any) -> Any:
        return Bfloat16(self.values - other.values)

    def __mul__(self, other: Any) -> Any:
        return Bfloat16(self.values * other.values)

    def __truediv__(self, other: Any) -> Any:
        return Bfloat16(self.values / other.values)


# -- the oracle ----------------------------------------------------------------------------------------------------


def is_approximate(op: Any, dtype: str) -> bool:
    """Whether kernels approximate: elementary functions, complex functions, composites and macros."""
    category = dtypes.by_name(dtype).category
    if kind(op) == "elementwise":
        if category == 3 and op.name in ("mul", "square", "abs", "sgn", *_ROUNDED):
            return True
        return (
            op.rule == TO_FLOAT
            and op.name not in _ROUNDED
            or op.name in _COMPOSED
            or op.name in ("pow", "cube")
            and category > 1
        )
    if category == 3 and op.name in ("prod", "cumprod"):
        return True
    return kind(op) in ("composite", "macro") or op.name in _COMPOSED


def expected(op: Any, sample: Sample, arrays: list[Any], params: Any, dtype: str, out: Any) -> Any:
    """The NumPy meaning, computed wider than the kernel where that approximates, and rounded once."""
    arrays = laid(arrays, sample.layout)
    if op.name == "nextafter" and dtype in ("float16", "bfloat16"):  # on the type's own grid
        return _next_half(*np.broadcast_arrays(*arrays), dtype)
    if op.rule == TO_FLOAT and dtypes.by_name(dtype).category < 2:
        arrays, dtype = [a.astype(np.float32) for a in arrays], "float32"
    if is_approximate(op, dtype):
        arrays = [a.astype(_WIDER.get(dtype, np.float64)) for a in arrays]
    elif op.name in _STEPWISE:
        arrays = [Bfloat16(a) if dtype == "bfloat16" else a for a in arrays]
    elif dtype == "float16":
        arrays = [a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays]
    with np.errstate(all="ignore"):
        value = np.asarray(meaning(op, arrays, params, sample.shape, out.dtype))
        if out.dtype.numpy is None:
            return round_bfloat16(value.astype(np.float32))
        return value.astype(out.dtype.numpy)


def _next_half(a: Any, b: Any, dtype: str) -> Any:
    """The next value of a on the way to b, counted in bits: a bfloat16 is the upper half of a float32."""
    if dtype == "float16":
        with np.errstate(all="ignore"):
            return np.where(a == b, b, np.nextafter(a, b))  # NumPy keeps -0.0 on the way to 0.0
    code = (a.view(np.uint32) >> 16).astype(np.int64)
    size, sign = code & 0x7FFF, np.where(a == 0, np.signbit(b), np.signbit(a)).astype(np.int64)
    size = np.where((size == 0) | ((b > a) == (a > 0)), size + 1, size - 1)
    moved = ((size | sign << 15) << 16).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), np.where(a == b, b, moved))


def difference(ours: Any, theirs: Any, op: Any, dtype: str) -> str:
    """What is wrong with a result: "" where it is what the row promises. Any nan is nan."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
    if ours.dtype.kind == "c":
        parts = [(ours.real, theirs.real), (ours.imag, theirs.imag)]
        if not is_approximate(op, dtype):
            return "".join(_bits(a, b, 0) for a, b in parts)
        return _near(ours, theirs, _COMPLEX_EPS * np.finfo(ours.dtype).eps)
    if ours.dtype.kind != "f" or not is_approximate(op, dtype):
        return _bits(ours, theirs, 0)
    if dtypes.by_name(dtype).category == 3:
        return _near(ours, theirs, _COMPLEX_EPS * np.finfo(ours.dtype).eps)
    if kind(op) in ("composite", "macro") or op.name in _COMPOSED:
        eps = {"bfloat16": 2.0**-7, "float16": 2.0**-10}.get(dtype)  # one unit: bias is added after
        return _near(ours, theirs, eps or _COMPOSED_EPS * float(np.finfo(ours.dtype).eps))
    if dtype == "bfloat16":
        return _bits(ours, theirs, 65536)
    return _bits(ours, theirs, 1 if dtype == "float16" else _ULPS)


def _near(ours: Any, theirs: Any, tolerance: float) -> str:
    with np.errstate(all="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        wrong = ~(same | (np.abs(ours - theirs) <= tolerance * (1 + np.abs(theirs))))
    return _report(ours, theirs, wrong)


def _bits(ours: Any, theirs: Any, steps: int) -> str:
    """Equal to the bit, or within so many steps of the float's own width."""
    if ours.dtype.kind != "f":
        return _report(ours, theirs, ours != theirs)
    distance = np.abs(_order(ours) - _order(theirs))
    wrong = (distance > steps) & ~(np.isnan(ours) & np.isnan(theirs))
    if steps == 0:
        wrong |= (np.signbit(ours) != np.signbit(theirs)) & ~np.isnan(ours)
    return _report(ours, theirs, wrong)


def _order(values: Any) -> Any:
    """Floats as numbers that grow by one per representable value (float64 beyond 2**53 in steps of 2: finer than
    any tolerance here is asked of equal values only)."""
    integer = {2: np.int16, 4: np.int32, 8: np.int64}[values.dtype.itemsize]
    bits = np.array(values, order="C").view(integer).reshape(values.shape).astype(np.int64)
    low = np.int64(np.iinfo(integer).min)
    return np.where(bits < 0, low - bits, bits)


def _report(ours: Any, theirs: Any, wrong: Any) -> str:
    wrong = np.asarray(wrong)
    if not wrong.any():
        return ""
    place = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return f"{int(wrong.sum())} of {wrong.size}, at {place} {ours[place]!r}, not {theirs[place]!r}"


def array(tensor: Any) -> Any:
    """A tensor's value; bfloat16 as float32."""
    tensor = tensor.detach()
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    return (tensor.float() if tensor.dtype.name == "bfloat16" else tensor).numpy()


# -- derivatives ---------------------------------------------------------------------------------------------------


def inner(a: Any, b: Any) -> float:
    """The real inner product, of complex numbers as pairs."""
    return float(np.sum((np.conj(a) * b).real))


def moved(arrays: list[Any], direction: list[Any], step: float) -> list[Any]:
    return [a if v is None else a + step * v for a, v in zip(arrays, direction, strict=True)]


def slope(
    function: Callable[[list[Any]], Any], arrays: list[Any], direction: list[Any]
) -> list[Any]:
    """The derivative of each result of a recorded function along a direction: central differences of order 4. All
    points run as one program."""
    step = 2.0**-11
    results = [function(moved(arrays, direction, k * step)) for k in (-2, -1, 1, 2)]
    values = [[array(t) for t in result] for result in results]
    return [(a - 8 * b + 8 * c - d) / (12 * step) for a, b, c, d in zip(*values, strict=True)]


# -- ways to run ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(
    fused: bool = True,
    batched: bool = True,
    reuse: bool = True,
    threads: int = 1,
    eager: bool = False,
) -> Iterator[None]:
    """Run what is inside in one way."""
    before = config.batch, weft.get_num_threads()
    slots = memory_plan.set_reuse(reuse)
    config.batch = batched
    weft.set_num_threads(threads)
    try:
        with (
            contextlib.nullcontext() if fused else unfused(),
            weft.eager() if eager else contextlib.nullcontext(),
        ):
            yield
    finally:
        config.batch = before[0]
        weft.set_num_threads(before[1])
        memory_plan.set_reuse(slots)


def twice_negated(tensor: Any) -> Any:
    """The same values behind two operations that a kernel can take in."""
    return tensor.logical_not().logical_not() if tensor.dtype is weft.bool else tensor.neg().neg()
