"""The standard's functions that search, sort and find what is different.

Arrays come in; arrays, or named tuples of them, go out. nan is different from nan here, where PyTorch counts it once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import weft
from weft.array_api.arguments import joined, need_array, one_axis, refuse
from weft.engine.frontend.tensor import Tensor
from weft.functional.support import host


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements, where each comes first, which one each element is, and how often each comes."""
    array = host.to_numpy(need_array("unique_all", x))
    values, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    rest = [first, inverse.reshape(array.shape), counts]
    places = [host.from_numpy(part.astype(np.int64)) for part in rest]
    return UniqueAll(host.from_numpy(values, x.dtype), *places)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements, and how often each comes."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements, and which one each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements."""
    return unique_all(x).values


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements other than 0, axis by axis. Errors: ValueError without axes."""
    if need_array("nonzero", x).ndim == 0:
        refuse("nonzero", "no axes", "an array with dimensions", "a number", "reshape it to (1,)")
    return tuple(weft.nonzero(x, as_tuple=True))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """The positions at which to insert elements into a sorted array."""
    if side not in ("left", "right"):
        refuse("searchsorted", "side", "'left' or 'right'", repr(side), "choose one of these")
    line, wanted = joined("searchsorted", x1, x2)
    if sorter is not None:
        line = line[sorter.to(weft.int64)]
    return weft.searchsorted(line.contiguous(), wanted, right=side == "right")


def where(condition: Tensor, x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Elements of the one array where a condition holds, of the other elsewhere."""
    return weft.where(need_array("where", condition), *joined("where", x1, x2))


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort an array along an axis."""
    axis = one_axis("argsort", need_array("argsort", x).ndim, axis)
    return weft.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The array sorted along an axis."""
    axis = one_axis("sort", need_array("sort", x).ndim, axis)
    return weft.sort(x, dim=axis, descending=descending, stable=stable)[0]
