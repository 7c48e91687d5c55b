# ruff: noqa: A001, A002 - PyTorch's names
"""Short-time Fourier transforms, and the windows that they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.shape.concat import cat
from weft.functional.shape.view_transforms import view_as_complex, view_as_real
from weft.functional.signal.fft import fft, ifft, irfft, rfft
from weft.functional.support import host
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, flip, full, pad
from weft.tensor.arguments import describe, need_integer, need_tensor
from weft.tensor.creation.factories import leaf

if TYPE_CHECKING:
    from weft._typing import Array


# -- windows -----------------------------------------------------------------------------------------------------------


def _window(
    name: str,
    length: int,
    dtype: DType | None,
    requires_grad: bool,
    values: Callable[[], Array],
) -> Any:
    """A leaf of the values of a window. Errors: as PyTorch's on lengths and types."""
    if length < 0:
        raise ArgumentError(
            f"{name} requires non-negative window_length, got window_length={length}",
            expected="a length >= 0",
            got=str(length),
            fix="pass how many points",
        )
    kind = dtypes.get_default() if dtype is None else dtype
    if kind.category != 2:
        raise DTypeError(
            f"{name} expects floating point dtypes, got: {kind.name}",
            expected="a floating-point dtype",
            got=kind.name,
            fix="pass weft.float32",
        )
    array = np.ones(length) if length == 1 else values() if length else np.zeros(0)
    return leaf(host.from_numpy(array, kind), requires_grad)


def cosines(length: int, periodic: bool, *weights: float) -> Any:
    """Sums of cosines with alternating signs."""
    turns = 2 * np.pi * np.arange(length) / (length if periodic else max(length - 1, 1))
    return sum((-1) ** k * a * np.cos(k * turns) for k, a in enumerate(weights))


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    requires_grad: bool = False,
    **where: object,
) -> Any:
    """sin^2."""
    return hamming_window(
        window_length, periodic, 0.5, 0.5, dtype=dtype, requires_grad=requires_grad
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    requires_grad: bool = False,
    **where: object,
) -> Any:
    """alpha - beta cos."""
    return _window(
        "hamming_window",
        window_length,
        dtype,
        requires_grad,
        lambda: cosines(window_length, periodic, alpha, beta),
    )


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    requires_grad: bool = False,
    **where: object,
) -> Any:
    """0.42 - 0.5 cos + 0.08 cos of twice the angle."""
    return _window(
        "blackman_window",
        window_length,
        dtype,
        requires_grad,
        lambda: cosines(window_length, periodic, 0.42, 0.5, 0.08),
    )


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    requires_grad: bool = False,
    **where: object,
) -> Any:
    """A triangle."""
    last = window_length if periodic else max(window_length - 1, 1)
    return _window(
        "bartlett_window",
        window_length,
        dtype,
        requires_grad,
        lambda: 1 - np.abs(2 * np.arange(window_length) / last - 1),
    )


def _kaiser(count: int, beta: float) -> Any:
    """The points of a window that is symmetric."""
    from scipy.special import i0

    t = np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(count)
    return i0(beta * np.sqrt(1 - t * t)) / i0(beta)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    requires_grad: bool = False,
    **where: object,
) -> Any:
    """I_0(beta sqrt(1 - t^2)) / I_0(beta)."""
    count = window_length + 1 if periodic else window_length
    return _window(
        "kaiser_window",
        window_length,
        dtype,
        requires_grad,
        lambda: _kaiser(count, beta)[:window_length],
    )


# -- short-time transforms ---------------------------------------------------------------------------------------------


def _frame_window(
    name: str, window: Tensor | None, win_length: int, n_fft: int, dtype: DType
) -> Any:
    """A window of n_fft points, in the middle of zeros where it is shorter."""
    if not 0 < win_length <= n_fft:
        raise ArgumentError(
            f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}",
            expected=f"0 < win_length <= {n_fft}",
            got=str(win_length),
            fix="raise n_fft, or shorten the window",
        )
    if window is None:
        window = full((win_length,), 1, dtype)
    elif window._shape != (win_length,):
        raise ArgumentError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window._shape)}",
            expected=f"a window of {win_length} points",
            got=describe("window", window),
            fix="pass win_length=",
        )
    left = (n_fft - win_length) // 2
    return window if win_length == n_fft else pad(window, ((left, n_fft - win_length - left),), 0)


def _with_edges(x: Tensor, width: int, mode: str) -> Any:
    """Rows with `width` points more on both sides. Errors: ValueError on an unknown mode, or too few points."""
    if mode == "constant":
        return pad(x, ((0, 0), (width, width)), 0)
    size = x._shape[1]
    most = {"reflect": size - 1, "replicate": width if size else 0, "circular": size}.get(mode, -1)
    if width > most:
        raise ArgumentError(
            f"stft: padding by {width} in mode {mode!r} is not possible for {size} points",
            expected="constant, reflect (of fewer than all points), replicate or circular (of all at most)",
            got=repr(mode),
            fix="pass center=False, or another pad_mode",
        )
    if mode == "replicate":
        edges = [
            expand(x[:, side], (x._shape[0], width)) for side in (slice(1), slice(size - 1, None))
        ]
    elif mode == "circular":
        edges = [x[:, size - width :], x[:, :width]]
    else:
        edges = [flip(x[:, 1 : width + 1], (1,)), flip(x[:, size - 1 - width : size - 1], (1,))]
    return cat([edges[0], x, edges[1]], 1)


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """The transforms of windowed frames. Shapes: (t) or (b, t) -> (..., frequencies, frames)."""
    need_tensor("stft", input)
    n_fft = need_integer("stft", n_fft, "n_fft")
    hop = n_fft // 4 if hop_length is None else hop_length
    real = not input._dtype.is_complex and (window is None or not window._dtype.is_complex)
    onesided = real if onesided is None else onesided
    if return_complex is None and real:
        raise ArgumentError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release.",
            expected="return_complex=True",
            got="None",
            fix="pass return_complex=True",
        )
    if len(input._shape) not in (1, 2) or input._dtype.category < 2:
        raise ShapeError(
            f"stft({describe('input', input)}): expected a 1D or 2D tensor of floating types",
            expected="a signal (t) or signals (b, t)",
            got=describe("input", input),
            fix="reshape or convert it",
        )
    x = input if len(input._shape) == 2 else input.unsqueeze(0)
    if center:
        x = _with_edges(x, n_fft // 2, pad_mode)
    if not 0 < n_fft <= x._shape[1] or hop <= 0:
        raise ArgumentError(
            f"stft: expected 0 < n_fft <= {x._shape[1]} and hop_length > 0, but got n_fft={n_fft}, hop_length={hop}",
            expected=f"0 < n_fft <= {x._shape[1]}, hop_length > 0",
            got=f"n_fft={n_fft}, hop_length={hop}",
            fix="shorten the frames",
        )
    taps = _frame_window("stft", window, win_length or n_fft, n_fft, x._dtype)
    frames = x.unfold(1, n_fft, hop) * taps  # (b, t) -> (b, frames, n_fft)
    norm = "ortho" if normalized else None
    if onesided and frames._dtype.is_complex:
        raise ArgumentError(
            "Cannot have onesided output if window or input is complex",
            expected="onesided=False",
            got="onesided=True",
            fix="leave onesided out",
        )
    result = (rfft if onesided else fft)(frames, norm=norm).transpose(1, 2)
    result = result if len(input._shape) == 2 else result.squeeze(0)
    return result if return_complex or return_complex is None else view_as_real(result)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal whose `stft` is nearest to the input. Shapes: (..., frequencies, frames) -> (t) or (b, t)."""
    need_tensor("istft", input)
    if not input._dtype.is_complex:
        if len(input._shape) < 3 or input._shape[-1] != 2:
            raise ShapeError(
                "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.",
                expected="complex numbers",
                got=describe("input", input),
                fix="use stft(..., return_complex=True)",
            )
        input = view_as_complex(input)
    n_fft = need_integer("istft", n_fft, "n_fft")
    hop = n_fft // 4 if hop_length is None else hop_length
    x = input if len(input._shape) == 3 else input.unsqueeze(0)
    onesided = x._shape[1] != n_fft if onesided is None else onesided
    norm = "ortho" if normalized else None
    if return_complex:
        frames = ifft(x.transpose(1, 2), n_fft, norm=norm)
    else:
        half = x if onesided else x[:, : n_fft // 2 + 1]
        frames = irfft(half.transpose(1, 2), n_fft, norm=norm)
    taps = _frame_window("istft", window, win_length or n_fft, n_fft, x._dtype.to_real())
    count = x._shape[2]
    total = n_fft + hop * (count - 1)
    signal = _overlapped(frames * taps, hop, total)
    weight = _overlapped((taps * taps).expand(1, count, n_fft), hop, total)
    start = n_fft // 2 if center else 0
    end = total - (n_fft // 2 if center else 0) if length is None else min(start + length, total)
    signal, weight = signal[:, start:end], weight[:, start:end]
    low = call("abs", weight).amin().item() if weight.numel() else 1.0
    if low <= 1e-11:
        raise ArgumentError(
            f"window overlap add min: {low} is not greater than 0",
            expected="windows that overlap everywhere",
            got=f"hop_length={hop}, n_fft={n_fft}",
            fix="shorten hop_length, or pass center=True",
        )
    signal = signal / weight
    if length is not None and length > end - start:
        signal = pad(signal, ((0, 0), (0, length - (end - start))), 0)
    return signal if len(input._shape) == 3 else signal.squeeze(0)


def _overlapped(frames: Tensor, hop: int, total: int) -> Any:
    """The sum of frames, each `hop` after the last. Shapes: (b, frames, n) -> (b, total)."""
    rows, count, size = frames._shape
    places = host.from_numpy((np.arange(count)[:, None] * hop + np.arange(size)).reshape(-1))
    start = frames.new_zeros((rows, total))
    return start.index_add(1, places, frames.reshape(rows, count * size))


publish(globals())
