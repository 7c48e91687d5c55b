"""The standard's Fourier transforms: weft's, by axes and keywords.

Arrays come in, arrays go out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft._typing import DeviceLike
from weft.array_api.arguments import need_array, on_device
from weft.engine.api.api_function import all_public
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType

SENTENCES = {  # what each does
    "fft": "The discrete Fourier transform along an axis.",
    "ifft": "The inverse transform along an axis.",
    "rfft": "The first half of the transform of real numbers along an axis.",
    "irfft": "The real inverse of `rfft`, of even size unless given, along an axis.",
    "hfft": "The real transform of a Hermitian signal, of which half is given, along an axis.",
    "ihfft": "The inverse of `hfft`, half of a Hermitian signal, along an axis.",
    "fftn": "The discrete Fourier transform over axes.",
    "ifftn": "The inverse transform over axes.",
    "rfftn": "The first half, in the last of the axes, of the transform of real numbers over axes.",
    "irfftn": "The real inverse of `rfftn`, of even size in the last of the axes unless given.",
    "fftfreq": "The frequencies of a transform of `n` points at distance `d`.",
    "rfftfreq": "The frequencies of the half that `rfft` gives.",
    "fftshift": "Frequency 0 moved to the middle.",
    "ifftshift": "The inverse of `fftshift`.",
}


def _single(name: str) -> Callable[..., Tensor]:
    compute = getattr(weft.fft, name)

    def transform(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return compute(need_array(name, x), n, axis, norm)

    return _named(transform, name)


def _several(name: str) -> Callable[..., Tensor]:
    compute = getattr(weft.fft, name)

    def transform(
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:
        return compute(need_array(name, x), s, axes, norm)

    return _named(transform, name)


def _frequencies(name: str) -> Callable[..., Tensor]:
    compute = getattr(weft.fft, name)

    def frequencies(
        n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: DeviceLike | None = None
    ) -> Tensor:
        on_device(name, device)
        return compute(n, d, dtype=dtype)

    return _named(frequencies, name)


def _shifted(name: str) -> Callable[..., Tensor]:
    compute = getattr(weft.fft, name)

    def shift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
        return compute(need_array(name, x), axes)

    return _named(shift, name)


def _named(function: Callable[..., object], name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = SENTENCES[name]
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(
    _single, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
)
fftn, ifftn, rfftn, irfftn = map(_several, ("fftn", "ifftn", "rfftn", "irfftn"))
fftfreq, rfftfreq = map(_frequencies, ("fftfreq", "rfftfreq"))
fftshift, ifftshift = map(_shifted, ("fftshift", "ifftshift"))

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip
globals().update(all_public({name: globals()[name] for name in __all__}))
