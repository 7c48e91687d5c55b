"""Where elements of an array stand: what `nonzero` asks NumPy for.

In come arrays of values; out go places, int64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.functional import host


def coordinates(array: Any) -> Any:
    """Where elements are not 0, in row-major order: (dimensions, count). NumPy's own search goes by the element as soon
    as there are two dimensions."""
    flat = host.answering(np.flatnonzero, array)
    found = np.empty((len(flat), array.ndim), np.int64).T
    if array.ndim == 1:
        found[0] = flat
    for axis in range(array.ndim - 1, 0, -1):
        above = np.floor_divide(flat, array.shape[axis], out=found[axis - 1])
        np.subtract(flat, above * array.shape[axis], out=found[axis])
        flat = above
    return found
