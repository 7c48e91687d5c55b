"""`weft.plot`: a tensor as a small picture of characters, or as a figure of matplotlib."""

from __future__ import annotations

import numpy as np

from weft.autograd.anomaly.nonfinite_origin import in_numbers
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, MissingPackageError, class_name
from weft.tensor.reading.html import sampled

BARS, SHADES = " ▁▂▃▄▅▆▇█", " ░▒▓█"
WIDTH, HEIGHT = 64, 16
MOST_ELEMENTS = 1 << 22  # that are looked at


class Plot:
    """Text that prints as itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def plot(tensor: Tensor, *, figure: bool = False) -> object:
    """A picture of a tensor: a curve of one dimension, shades of two, a histogram of more; what is not finite is `!`.
    Of more than four million elements a sample is looked at.

    Args:
        tensor: the values to look at.
        figure: give a figure of matplotlib instead, which has to be installed (`weft[plots]`). Default: False.

    Returns:
        Text whose `repr` is the picture, or a figure.

    Example:
        >>> import weft
        >>> weft.plot(weft.arange(8.0))
        tensor float32[8]: min 0, max 7, mean 3.5, 0 of 8 not finite
        ▁▂▃▄▅▆▇█
    """
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(
            f"plot: expected a tensor, got {class_name(tensor)}",
            expected="a tensor",
            got=f"{tensor!r:.80}",
            fix="weft.plot(weft.tensor(values))",
        )
    values = sampled(tensor.detach(), MOST_ELEMENTS)
    array = (values.float() if values.dtype.name == "bfloat16" else values).numpy(force=True)
    reals = (np.abs(array) if array.dtype.kind == "c" else array).astype(np.float64)
    if figure:
        return _figure(reals)
    head = str(in_numbers(array, "tensor", tensor.dtype.name, tuple(tensor.shape)))
    if values.numel() < tensor.numel():
        head += f", a sample of {tensor.numel():,}"
    if reals.size == 0:
        return Plot(head)
    if reals.ndim == 2:
        rows = _shrunk(_shrunk(reals, HEIGHT, 0), WIDTH, 1)
        lines = ["".join(line) for line in _letters(rows, SHADES)]
    elif reals.ndim <= 1:
        lines = ["".join(_letters(_shrunk(reals.reshape(-1), WIDTH, 0), BARS))]
    else:
        finite = reals[np.isfinite(reals)]
        counts = np.histogram(finite, WIDTH // 2)[0] if finite.size else np.zeros(1)
        lines = ["".join(_letters(counts.astype(np.float64), BARS))]
    return Plot("\n".join([head, *lines]))


def _shrunk(array: np.ndarray, most: int, axis: int) -> np.ndarray:
    """The means of neighbours along an axis, so that at most so many are left; a nan stays one."""
    size = array.shape[axis]
    if size <= most:
        return array
    starts = np.unique(np.linspace(0, size, most, endpoint=False).astype(int))
    counts = np.diff([*starts, size])
    shape = [-1 if a == axis else 1 for a in range(array.ndim)]
    shrunk: np.ndarray = np.add.reduceat(array, starts, axis) / counts.reshape(shape)
    return shrunk


def _letters(array: np.ndarray, scale: str) -> np.ndarray:
    """A letter for each element, by its place between the extremes."""
    finite = np.isfinite(array)
    low, high = (array[finite].min(), array[finite].max()) if finite.any() else (0.0, 1.0)
    shares = (np.where(finite, array, low) - low) / ((high - low) or 1.0)
    levels = 1 + np.round(shares * (len(scale) - 2)).astype(int)
    return np.where(finite, np.array(list(scale))[levels], "!")


def _figure(array: np.ndarray) -> object:
    """A figure of matplotlib. Errors: ImportError where it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError(
            "plot: matplotlib is not installed",
            expected="the package matplotlib, for figure=True",
            got="no module matplotlib",
            fix="pip install 'weft[plots]', or leave figure out for a picture in text",
        ) from error
    made = Figure()
    axes = made.subplots()
    if array.ndim == 2:
        made.colorbar(axes.imshow(array), ax=axes)
    elif array.ndim <= 1:
        axes.plot(array.reshape(-1))
    else:
        axes.hist(array[np.isfinite(array)], 64)
    return made
