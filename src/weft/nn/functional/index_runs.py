"""Runs of indices: elements taken along a dimension by indices that are known at the call.

The indices of resizing and padding are runs: neighbours, ascending or descending, each repeated equally often. Taken
as slices, they are moved as a whole, and their derivative is a sum of slices; as indices they would be looked up one
by one and their derivative scattered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.engine.frontend.tensor import Tensor
from weft.functional.shape.rearrange import repeated
from weft.functional.support import host
from weft.ops.primitives import concat, expand, flip, slice_axis, take

MOST_RUNS = 5  # runs of an index; more cost more than indices


class IndexRun(NamedTuple):
    """`length` neighbours from `start` on, in steps of 1 or -1, each `repeat` times."""

    start: int
    length: int
    step: int
    repeat: int


class Places(NamedTuple):
    """An array of int64, and what it consists of."""

    index: Any
    runs: list[IndexRun]


def places_of(index: np.ndarray) -> Places:
    """The places of an index array with their runs, for callers to keep."""
    return Places(index, runs(index))


def taken(x: Tensor, axis: int, places: Places) -> Any:
    """The elements of `x` along an axis at places within the axis."""
    index, found = places
    if not found or len(found) > MOST_RUNS:
        return take(x, axis, host.from_numpy(index))
    parts = [_part(x, axis, run) for run in found]
    return parts[0] if len(parts) == 1 else concat(tuple(parts), axis)


def runs(index: np.ndarray) -> list[IndexRun]:
    """The runs of an index array; counting stops once there are more than `MOST_RUNS`."""
    if not len(index):
        return []
    edges = np.flatnonzero(np.diff(index)) + 1
    starts = np.concatenate(([0], edges))
    values, repeats = index[starts].tolist(), np.diff(np.append(starts, len(index))).tolist()
    found: list[IndexRun] = []
    for value, repeat in zip(values, repeats, strict=True):
        last = found[-1] if found else None
        if last is not None and last.repeat == repeat:
            step = value - last.start if last.length == 1 else last.step
            if abs(step) == 1 and value == last.start + step * last.length:
                found[-1] = IndexRun(last.start, last.length + 1, step, repeat)
                continue
        if len(found) > MOST_RUNS:
            break
        found.append(IndexRun(value, 1, 1, repeat))
    return found


def _part(x: Tensor, axis: int, run: IndexRun) -> Any:
    """The elements of one run."""
    first = min(run.start, run.start + run.step * (run.length - 1))
    part = x if run.length == x._shape[axis] else slice_axis(x, axis, first, run.length)
    if run.step < 0:
        part = flip(part, (axis,))
    if run.length == 1:
        shape = part._shape
        return expand(part, (*shape[:axis], run.repeat, *shape[axis + 1 :]))
    return part if run.repeat == 1 else repeated(part, axis, run.repeat)
