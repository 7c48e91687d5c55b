"""Windows under PyTorch's names: symmetric for filters, periodic (`sym=False`) for spectra. They are leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._typing import DeviceLike
from weft.engine.api.api_function import publish
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.functional.signal.stft import _kaiser, _window, cosines
from weft.tensor.layout import strided

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.tensor.layout import Layout


def _made(
    name: str, M: int, sym: bool, dtype: DType | None, layout: object, requires_grad: bool, values: Callable[[], Array]  # noqa: N803
) -> Any:  # fmt: skip
    if M < 0:
        raise ArgumentError(
            f"{name} requires non-negative window length, got M={M}",
            expected="M >= 0",
            got=str(M),
            fix="pass how many points",
        )
    if dtype is not None and dtype.name not in ("float32", "float64"):
        raise ArgumentError(
            f"{name} expects float32 or float64 dtypes, got: {dtype}",
            expected="weft.float32 or weft.float64",
            got=str(dtype),
            fix="convert the window afterwards",
        )
    if layout is not None and layout is not strided:
        raise ArgumentError(
            f"{name} is implemented for strided tensors only, got: {layout}",
            expected="weft.strided",
            got=str(layout),
            fix="leave layout out",
        )
    return _window(name, M, dtype, requires_grad, values)


def _positions(M: int, sym: bool) -> Any:  # noqa: N803
    """Points from -1 to 1 (one step further where periodic)."""
    last = M - 1 if sym else M
    return 2 * np.arange(M) / last - 1


def _need(name: str, good: bool, what: str, got: object) -> None:
    if not good:
        raise ArgumentError(
            f"{what}, got: {got} instead.", expected=what, got=str(got), fix=f"see {name}"
        )


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: DType | None = None, layout: Layout | None = None,  # noqa: N803
    device: DeviceLike | None = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The sum of a_k (-1)^k cos(k t)."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = tuple(a)
    if not weights:
        raise ArgumentError(
            "Coefficients cannot be empty",
            expected="one coefficient or more",
            got="none",
            fix="pass a=",
        )
    return _made(
        "general_cosine",
        M,
        sym,
        dtype,
        layout,
        requires_grad,
        lambda: cosines(M, not sym, *weights),
    )


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType | None = None, layout: Layout | None = None,  # noqa: N803
    device: DeviceLike | None = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """alpha - (1 - alpha) cos."""
    return general_cosine(
        M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype, layout=layout, requires_grad=requires_grad
    )


def _plain(
    name: str, text: str, values: Callable[[int, bool], Array], blamed: str | None = None
) -> Any:
    """A window that has no parameter: its values for a number of points, symmetric or periodic."""

    def window(
        M: int,  # noqa: N803
        *,
        sym: bool = True,
        dtype: DType | None = None,
        layout: Layout | None = None,
        device: DeviceLike | None = None,
        requires_grad: bool = False,
    ) -> Any:
        return _made(blamed or name, M, sym, dtype, layout, requires_grad, lambda: values(M, sym))

    window.__name__ = window.__qualname__ = name
    window.__doc__ = text
    return window


def _cosines(name: str, text: str, *weights: float) -> Any:
    def values(points: int, sym: bool) -> Array:
        return cosines(points, not sym, *weights)

    return _plain(name, text, values, "general_cosine")


bartlett = _plain(
    "bartlett", "A triangle.", lambda points, sym: 1 - np.abs(_positions(points, sym))
)
cosine = _plain(
    "cosine",
    "Half a period of a sine.",
    lambda points, sym: np.sin(np.pi / (points + (not sym)) * (np.arange(points) + 0.5)),
)
hamming = _cosines("hamming", "0.54 - 0.46 cos.", 0.54, 1 - 0.54)
hann = _cosines("hann", "0.5 - 0.5 cos.", 0.5, 0.5)
blackman = _cosines("blackman", "Three cosines.", 0.42, 0.5, 0.08)
nuttall = _cosines("nuttall", "Four cosines.", 0.3635819, 0.4891775, 0.1365995, 0.0106411)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DType | None = None,  # noqa: N803
    layout: Layout | None = None, device: DeviceLike | None = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """exp(-|n - center| / tau)."""
    _need("exponential", tau > 0, "Tau must be positive", tau)
    if sym and center is not None:
        raise ArgumentError(
            "Center must be None for symmetric windows",
            expected="None",
            got=str(center),
            fix="pass sym=False",
        )
    middle = (M if not sym else M - 1) / 2 if center is None else center
    return _made(
        "exponential",
        M,
        sym,
        dtype,
        layout,
        requires_grad,
        lambda: np.exp(-np.abs(np.arange(M) - middle) / tau),
    )


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None, layout: Layout | None = None,  # noqa: N803
    device: DeviceLike | None = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """exp(-(n / std)^2 / 2) around the middle."""
    _need("gaussian", std > 0, "Standard deviation must be positive", std)
    middle = (M if not sym else M - 1) / 2
    return _made(
        "gaussian", M, sym, dtype, layout, requires_grad,
        lambda: np.exp(-0.5 * ((np.arange(M) - middle) / std) ** 2),
    )  # fmt: skip


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None, layout: Layout | None = None,  # noqa: N803
    device: DeviceLike | None = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """I_0(beta sqrt(1 - t^2)) / I_0(beta)."""
    _need("kaiser", beta >= 0, "beta must be non-negative", beta)
    count = M if sym else M + 1
    return _made("kaiser", M, sym, dtype, layout, requires_grad, lambda: _kaiser(count, beta)[:M])


publish(globals())
del publish
