"""The standard's Fourier transforms: weft's, by axes and keywords.

Arrays come in, arrays go out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft._typing import DeviceLike
from weft.array_api.arguments import need_array, on_device
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType


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
    function.__doc__ = f"`{name}` of the array API standard."
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
