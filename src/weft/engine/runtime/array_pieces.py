"""Arrays in pieces: what looks at all elements of a large array, or of an expanded one, copies few at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

MOST_ELEMENTS = 1 << 22  # of a piece


def pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Views of an array's elements in row-major order, of few elements each."""
    axis = next((axis for axis, size in enumerate(array.shape) if size > 1), None)
    if array.size <= MOST_ELEMENTS or axis is None:
        yield array
        return
    whole, before = array.shape[axis], (slice(None),) * axis
    step = max(1, whole * MOST_ELEMENTS // array.size)
    for begin in range(0, whole, step):
        yield from pieces(array[(*before, slice(begin, begin + step))])


def without_repeats(array: np.ndarray) -> np.ndarray:
    """A view of an array in which what is expanded stands once."""
    return array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]


def is_finite(array: np.ndarray) -> bool:
    """True if no element is nan or infinite; bfloat16 comes as its bits. Extremes carry a nan, so that nothing is
    copied."""
    seen = without_repeats(array)
    if seen.dtype == np.uint16:
        return all(bool(((piece & 0x7F80) != 0x7F80).all()) for piece in pieces(seen))
    if seen.dtype.kind not in "fc" or seen.size == 0:
        return True
    parts = (seen.real, seen.imag) if seen.dtype.kind == "c" else (seen,)
    return all(bool(np.isfinite(part.min()) and np.isfinite(part.max())) for part in parts)
