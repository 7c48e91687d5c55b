# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Fourier transforms: SciPy's pocketfft computes three kinds of them (complex to complex, real to complex, complex to
real) on values read at the call; every function is one of these, with its scale, its sizes and its conjugations.

A transform is linear, and its transpose is another of the three: derivatives of every order follow.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import cython
import numpy as np

from weft._build.compiled import require
from weft._build.lazy import later
from weft._typing import Shape
from weft.engine.api.api_function import publish
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.engine.ir.strides import contiguous_strides, is_contiguous
from weft.errors import ArgumentError, DimensionError, DTypeError, ShapeError
from weft.functional.linalg.factored import Factored, is_plain, keep
from weft.functional.shape.rearrange import roll
from weft.functional.support import host
from weft.functional.support.variants import write_out
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import pad, resized, without_memory
from weft.tensor.arguments import (
    TYPE_NAMES,
    describe,
    need_tensor,
    per_dimension,
    wrap_dim,
    wrap_dims,
)

if TYPE_CHECKING:
    from weft._typing import Array

require(__name__, cython.compiled)

pocketfft = later("weft.functional.signal.pocketfft")

_Compute = Callable[[Tensor, Shape, list[int], str | None], Any]


class _OverOne(Protocol):
    def __call__(
        self, input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
    ) -> Any: ...  # fmt: skip


class _OverSeveral(Protocol):
    def __call__(
        self, input: Tensor, s: Shape | None = None, dim: Shape | None = None, norm: str | None = None, *,
        out: Tensor | None = None,
    ) -> Any: ...  # fmt: skip


class _Fourier(Factored):
    of: ClassVar[Callable[..., Any]]  # the value alone


class FftC2C(_Fourier):
    """Complex to complex over axes, times a scale."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: Shape, forward: bool, scale: float) -> Any:
        """The value, and the transform of a cotangent."""
        made = FftC2C.of(x, axes, forward, scale)
        keep(ctx, None, (made,))
        ctx.rule = lambda saved, g: (_made(FftC2C, g, axes, not forward, scale), None, None, None)
        return made

    @staticmethod
    def of(x: Tensor, axes: Shape, forward: bool, scale: float) -> Any:
        """The sums of x exp(-+2 pi i jk / n)."""
        if is_on_meta(x):
            return without_memory(x._shape, x._dtype.to_complex())
        if not axes:
            return call("clone", cast(x, x._dtype.to_complex()))
        norm, rest = _norm(scale, [x._shape[axis] for axis in axes])
        transform = pocketfft.c2c if x._dtype.is_complex else _c2c_of_real
        return _answer(transform, x, (axes, forward, norm, None, 1), rest)


class FftR2C(_Fourier):
    """Real to the first half of complex, over the last of the axes (and complex over the others), times a scale."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: Shape, scale: float) -> Any:
        """The value, and the transpose of a cotangent."""
        made, size = FftR2C.of(x, axes, scale), x._shape[axes[-1]]
        keep(ctx, None, (made,))
        ctx.rule = lambda saved, g: (_from_half(g, axes, size, scale), None, None)
        return made

    @staticmethod
    def of(x: Tensor, axes: Shape, scale: float) -> Any:
        """The half whose index in the last axis is at most n / 2."""
        if is_on_meta(x):
            half = resized(x._shape, axes[-1], x._shape[axes[-1]] // 2 + 1)
            return without_memory(half, x._dtype.to_complex())
        norm, rest = _norm(scale, [x._shape[axis] for axis in axes])
        return _answer(pocketfft.r2c, x, (axes, True, norm, None, 1), rest)


def _c2c_of_real(values: Array, *settings: object) -> Any:
    """`c2c` of real numbers, whose results that are their own conjugates have an imaginary part of -0 there."""
    found = pocketfft.c2c(values, *settings)
    found += 0
    return found


def _from_half(g: Tensor, axes: Shape, size: int, scale: float) -> Any:
    """The transpose of real to complex: zeros for the other half, back, the real part."""
    whole = _sized(g, axes[-1], size)
    return call("real", _made(FftC2C, whole, axes, False, scale))


class FftC2R(_Fourier):
    """The first half of complex to real of a given size over the last of the axes, times a scale."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: Shape, size: int, scale: float) -> Any:
        """The value, and the transpose of a cotangent."""
        made = FftC2R.of(x, axes, size, scale)
        keep(ctx, None, (made,))
        ctx.rule = lambda saved, g: (_to_half(g, axes, size, scale), None, None, None)
        return made

    @staticmethod
    def of(x: Tensor, axes: Shape, size: int, scale: float) -> Any:
        """The inverse of FftR2C, but for the scale."""
        if is_on_meta(x):
            return without_memory(resized(x._shape, axes[-1], size), x._dtype.to_real())
        norm, rest = _norm(scale, [*[x._shape[axis] for axis in axes[:-1]], size])
        return _answer(pocketfft.c2r, x, (axes, size, False, norm, None, 1), rest)


def _to_half(g: Tensor, axes: Shape, size: int, scale: float) -> Any:
    """The transpose of complex to real: what stands for two elements counts twice."""
    half = _made(FftR2C, g, axes, scale)
    last = axes[-1]
    count = half._shape[last]
    twice = np.ones(count)
    twice[1 : 1 + size - count] = 2.0
    shape = [1] * len(half._shape)
    shape[last] = count
    return half * host.from_numpy(twice.reshape(shape), half._dtype.to_real())


def _made(kind: type[_Fourier], x: Tensor, *rest: object) -> Any:
    """A transform of a tensor; where nothing follows its value, without what a derivative would need."""
    return kind.of(x, *rest) if is_plain(x) else kind.apply(x, *rest)


UNSCALED, ORTHOGONAL, AVERAGED = range(3)  # pocketfft's numbers of its scales


def _norm(scale: float, sizes: list[int]) -> tuple[int, float]:
    """The scale of pocketfft that is meant, over axes of some sizes, and what is left to multiply by."""
    if scale == 1.0:
        return UNSCALED, 1.0
    count = math.prod(sizes)
    if scale == 1 / count:
        return AVERAGED, 1.0
    return (ORTHOGONAL, 1.0) if scale == 1 / math.sqrt(count) else (UNSCALED, scale)


def _answer(
    transform: Callable[..., Array], x: Tensor, settings: tuple[object, ...], scale: float
) -> Any:
    """A transform of the values of a tensor, times a scale."""
    found = host.answering(transform, host.to_numpy(x), *settings)
    return host.from_numpy(found if scale == 1.0 else found * found.real.dtype.type(scale))


# -- arguments ---------------------------------------------------------------------------------------------------------


def _scale(norm: str | None, count: int, forward: bool) -> float:
    """The factor by which a transform is multiplied."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise ArgumentError(
            f'Invalid normalization mode: "{norm}"',
            expected="'backward', 'ortho' or 'forward'",
            got=repr(norm),
            fix="leave it out for 'backward'",
        )
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if (norm == "forward") == forward else 1.0


def _sized(x: Tensor, axis: int, size: int) -> Any:
    """Cut or filled up with zeros along an axis."""
    have = x._shape[axis]
    if size < have:
        return x[(slice(None),) * axis + (slice(0, size),)]
    if size == have:
        return x
    widths = [(0, 0)] * len(x._shape)
    widths[axis] = (0, size - have)
    return pad(x, tuple(widths), 0)


def _numbers(name: str, input: Tensor, kind: str, takes_real: bool = False) -> Any:
    """A tensor of the right kind: "real", "complex", or any number as complex; where pocketfft takes real numbers for
    complex ones, and nothing follows, as they are."""
    need_tensor(name, input)
    x = input
    if x._dtype.is_complex and kind == "real":
        raise DTypeError(
            f"{name} expects a real{'-valued' if name == 'rfftn' else ''} input tensor, but got "
            f"{TYPE_NAMES[x._dtype.name]}",
            expected="real numbers",
            got=describe("input", x),
            fix="take the real part, or use the complex transform",
        )
    if x._dtype.itemsize == 2 and x._dtype.category == 2:
        raise DTypeError(
            f"Unsupported dtype {TYPE_NAMES[x._dtype.name]}",
            expected="float32, float64 or complex numbers",
            got=describe("input", x),
            fix="convert with .float()",
        )
    if x._dtype.category < 2:
        x = cast(x, dtypes.get_default())
    if kind == "complex" and not x._dtype.is_complex and not (takes_real and is_plain(x)):
        x = cast(x, x._dtype.to_complex())
    return x


def _need_points(n: int) -> None:
    if n < 1:
        raise ShapeError(
            f"Invalid number of data points ({n}) specified",
            expected="n >= 1",
            got=str(n),
            fix="pass how many points to transform",
        )


def _axis_and_size(x: Tensor, n: int | None, dim: int, half: bool = False) -> tuple[int, int]:
    """One axis and its size; `half` where the input holds half of it."""
    if not x._shape:
        wrap_dim(dim, 0)
        raise DimensionError(
            f"Dimension specified as {dim} but tensor has no dimensions",
            expected="a dimension to transform",
            got=describe("input", x),
            fix="unsqueeze first",
        )
    axis = wrap_dim(dim, len(x._shape))
    have = x._shape[axis]
    size = (2 * (have - 1) if half else have) if n is None else operator.index(n)
    _need_points(size)
    return axis, size


def _axes_and_sizes(
    x: Tensor, s: Shape | list[int] | None, dim: Shape | None, half: bool = False
) -> tuple[Any, list[int]]:
    """Axes and their sizes; of the last one, the size of the real side."""
    rank = len(x._shape)
    s = None if s is None else [operator.index(size) for size in per_dimension("s", s)]
    if dim is None:
        count = rank if s is None else len(s)
        if count > rank:
            raise ShapeError(
                f"Got shape with {count} values but input tensor only has {rank} dimensions.",
                expected=f"at most {rank} sizes",
                got=str(s),
                fix="pass fewer sizes",
            )
        axes = tuple(range(rank - count, rank))
    else:
        listed = per_dimension("dim", dim)
        if listed and not rank:
            raise DimensionError(
                f"Dimension specified as {listed[0]} but tensor has no dimensions",
                expected="a tensor with dimensions, or none named",
                got=describe("input", x),
                fix="leave dim= away",
            )
        axes = tuple(wrap_dim(d, rank) for d in listed)
        if len(set(axes)) != len(axes):
            raise ShapeError(
                "FFT dims must be unique",
                expected="distinct dimensions",
                got=str(list(listed)),
                fix="name each dimension once",
            )
    if s is not None and len(s) != len(axes):
        raise ShapeError(
            f"When given, dim and shape arguments must have the same length, but got {len(axes)} and {len(s)}",
            expected="one size per dimension",
            got=f"{list(axes)}, {s}",
            fix="pass as many of both",
        )
    have = [x._shape[a] for a in axes]
    if half and axes:
        have[-1] = 2 * (have[-1] - 1)
    sizes = have if s is None else [h if n == -1 else n for h, n in zip(have, s, strict=True)]
    for size in sizes:
        _need_points(size)
    return axes, sizes


def _all_sized(x: Tensor, axes: Shape, sizes: Sequence[int]) -> Any:
    for axis, size in zip(axes, sizes, strict=True):
        x = _sized(x, axis, size)
    return x


def _given(
    out: Tensor | None, result: Tensor, axes: Shape = (), order: list[int] | None = None
) -> Any:
    """The result, its transformed axes last in memory (or all in an order); or `out` with its values."""
    if out is not None:
        return write_out(out, result)
    shape = result._shape
    if order is None:
        if axes == tuple(range(len(shape) - len(axes), len(shape))):
            return result
        order = [a for a in range(len(shape)) if a not in axes] + sorted(axes)
    if order != list(range(len(shape))) and result._storage is None and result.numel():
        steps = contiguous_strides(tuple(shape[a] for a in order))
        strides = [0] * len(shape)
        for axis, step in zip(order, steps, strict=True):
            strides[axis] = step
        result.strides = None if is_contiguous(shape, tuple(strides)) else tuple(strides)
    return result


# -- the transforms ----------------------------------------------------------------------------------------------------


def _whole(forward: bool) -> _Compute:
    def compute(x: Tensor, axes: Shape, sizes: list[int], norm: str | None) -> Any:
        scale = _scale(norm, math.prod(sizes), forward)
        return _made(FftC2C, _all_sized(x, axes, sizes), axes, forward, scale), None

    return compute


def _rfft(x: Tensor, axes: Shape, sizes: list[int], norm: str | None) -> Any:
    scale = _scale(norm, math.prod(sizes), True)
    return _made(FftR2C, _all_sized(x, axes, sizes), axes, scale), None


def _irfft(x: Tensor, axes: Shape, sizes: list[int], norm: str | None) -> Any:
    scale = _scale(norm, math.prod(sizes), False)
    return _made(FftC2R, _half(x, axes, sizes), axes, sizes[-1], scale), None


def _hfft(x: Tensor, axes: Shape, sizes: list[int], norm: str | None) -> Any:
    scale, x = _scale(norm, math.prod(sizes), True), _half(x, axes, sizes)
    if axes[:-1]:
        x = _made(FftC2C, x, axes[:-1], True, 1.0)
    return _made(FftC2R, call("conj", x), axes[-1:], sizes[-1], scale), None


def _ihfft(x: Tensor, axes: Shape, sizes: list[int], norm: str | None) -> Any:
    x, scale = _all_sized(x, axes, sizes), _scale(norm, math.prod(sizes), False)
    half = call("conj", _made(FftR2C, x, axes[-1:], scale))
    order = [a for a in range(len(x._shape)) if a not in axes[-1:]] + list(axes[-1:])
    if axes[:-1]:  # transformed one after the other
        half = _made(FftC2C, half, axes[:-1], False, 1.0)
        order = [a for a in order if a not in axes[:-1]] + list(axes[:-1])
    return half, order


def _half(x: Tensor, axes: Shape, sizes: list[int]) -> Any:
    """The half of a spectrum that is given, cut or filled up to what sizes of the real side ask for."""
    return _all_sized(x, axes, [*sizes[:-1], sizes[-1] // 2 + 1])


class _Transform(NamedTuple):
    """One of PyTorch's transforms, over any number of dimensions."""

    text: str
    takes: str  # "real", or "complex": any numbers
    is_half: bool  # whether half of the spectrum comes in
    compute: _Compute  # (numbers, axes, sizes of the real side, norm) -> the result, and its order in memory

    def apply(
        self, x: Tensor, axes: Shape, sizes: list[int], norm: str | None, out: Tensor | None
    ) -> Any:
        """The result, or `out` with its values."""
        result, order = self.compute(x, axes, sizes, norm)
        return _given(out, result, axes, order)


_TRANSFORMS = {
    "fft": _Transform("The discrete Fourier transform", "complex", False, _whole(True)),
    "ifft": _Transform("The inverse transform", "complex", False, _whole(False)),
    "rfft": _Transform("The first half of the transform of real numbers", "real", False, _rfft),
    "irfft": _Transform("The real inverse of `rfft`, of even size unless given,", "complex", True, _irfft),
    "hfft": _Transform(
        "The real transform of a Hermitian signal, of which half is given,", "complex", True, _hfft
    ),
    "ihfft": _Transform("The inverse of `hfft`, half of a Hermitian signal,", "real", False, _ihfft),
}  # fmt: skip


def _over_one(name: str) -> _OverOne:
    """A transform along one dimension."""
    one = _TRANSFORMS[name]

    def transform(
        input: Tensor,
        n: int | None = None,
        dim: int = -1,
        norm: str | None = None,
        *,
        out: Tensor | None = None,
    ) -> Any:
        x = _numbers(name, input, one.takes, not one.is_half)
        axis, size = _axis_and_size(x, n, dim, one.is_half)
        return one.apply(x, (axis,), [size], norm, out)

    return _called(transform, name, f"{one.text} along a dimension.")


def _over_several(
    name: str, ending: str = "n", planes: Shape | None = None, which: str = "(all, unless given)"
) -> _OverSeveral:
    """A transform over dimensions; where half is real, over the last of them."""
    one = _TRANSFORMS[name]

    def transform(
        input: Tensor,
        s: Shape | None = None,
        dim: Shape | None = planes,
        norm: str | None = None,
        *,
        out: Tensor | None = None,
    ) -> Any:
        x = _numbers(f"{name}n", input, one.takes, not one.is_half)
        axes, sizes = _axes_and_sizes(x, s, dim, one.is_half)
        if not axes and name not in ("fft", "ifft"):
            raise ShapeError(
                f"{name}n must transform at least one axis",
                expected="one dimension or more",
                got="none",
                fix="pass dim=",
            )
        return one.apply(x, axes, sizes, norm, out)

    return _called(transform, f"{name}{ending}", f"{one.text} over dimensions {which}.")


def _over_planes(name: str) -> _OverSeveral:
    return _over_several(name, "2", (-2, -1), "(the last two, unless given)")


def _called(function: Callable[..., object], name: str, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(_over_one, _TRANSFORMS)
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = map(_over_several, _TRANSFORMS)
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = map(_over_planes, _TRANSFORMS)

# -- helpers -----------------------------------------------------------------------------------------------------------


def _frequencies(name: str, text: str) -> Any:
    compute = getattr(np.fft, name)

    def frequencies(
        n: int,
        d: float = 1.0,
        *,
        out: Tensor | None = None,
        dtype: DType | None = None,
        requires_grad: bool = False,
        **where: object,
    ) -> Any:
        wanted = dtype or dtypes.get_default()
        if wanted.category < 2:
            raise DTypeError(
                f"{name} requires a floating point or complex dtype",
                expected="a floating-point or complex dtype",
                got=wanted.name,
                fix="convert the frequencies",
            )
        made = host.from_numpy(compute(n, d) if n else np.full(int(name[0] == "r"), np.nan), wanted)
        return _given(out, made.requires_grad_() if requires_grad else made)

    return _called(frequencies, name, text)


fftfreq = _frequencies("fftfreq", "The frequencies of a transform of n points at distance d.")
rfftfreq = _frequencies("rfftfreq", "The frequencies of the half that `rfft` gives.")


def _shifted(x: Tensor, dim: int | Shape | None, half: Callable[..., object]) -> Any:
    rank = len(x._shape)
    axes = tuple(range(rank)) if dim is None else wrap_dims(per_dimension("dim", dim), rank)
    return roll(x, tuple(half(x._shape[a]) for a in axes), axes) if axes else call("clone", x)


def fftshift(input: Tensor, dim: int | Shape | None = None) -> Any:
    """Frequency 0 moved to the middle."""
    return _shifted(need_tensor("fftshift", input), dim, lambda size: size // 2)


def ifftshift(input: Tensor, dim: int | Shape | None = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted(need_tensor("ifftshift", input), dim, lambda size: (size + 1) // 2)


publish(globals())
