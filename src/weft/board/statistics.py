"""The statistics of an array on the page: extremes, mean, size, zeros, what is not finite, a histogram.

Of a large array a sample is looked at, equally spaced; the figures say of how many elements they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.board.run import rounded
from weft.engine.frontend.tensor import Tensor

MOST_ELEMENTS = 1 << 20  # of an array are looked at
BINS = 32
FEW_ELEMENTS = 4096  # of arrays that are described many at a time
MOST_TOGETHER = 1 << 21  # elements of them
COLUMNS = ("low", "high", "mean", "norm", "zeros", "bad")


def array_of(tensor: Tensor) -> np.ndarray:
    """A tensor's elements, flat, as floats or integers; a sample of a large one. Computes what is pending."""
    plain = _sample(tensor.detach())
    if plain.dtype.is_complex:
        plain = plain.abs()
    numpy_has_it = plain._dtype.numpy is not None
    array: np.ndarray = (plain if numpy_has_it else plain.float()).numpy()
    return array.reshape(-1)


def _sample(plain: Tensor) -> Tensor:
    """A view of few enough elements: of each axis every so-manyth, so that nothing large is copied, also where the
    tensor is expanded."""
    if plain.numel() <= MOST_ELEMENTS:
        return plain
    if plain.is_contiguous():
        return plain.reshape(-1)[:: -(-plain.numel() // MOST_ELEMENTS)]
    sizes = list(plain.shape)
    while math.prod(sizes) > MOST_ELEMENTS:
        axis = sizes.index(max(sizes))
        sizes[axis] = -(-sizes[axis] // 2)
    steps = [-(-whole // size) for whole, size in zip(plain.shape, sizes, strict=True)]
    return plain[tuple(slice(None, None, step) for step in steps)]


def describe(array: np.ndarray) -> tuple[Any, ...]:
    """`COLUMNS` of an array: extremes, mean and L2 norm of what is finite, shares of zeros and of the rest."""
    size = array.size
    if size == 0:
        return (None, None, None, 0.0, 0.0, 0)
    if array.dtype.kind == "f":
        if array.itemsize < 4:
            array = array.astype(np.float32)
        total = float(np.dot(array, array))
        finite = array if np.isfinite(total) else array[np.isfinite(array)]
    else:
        finite = array
    bad = size - finite.size
    if finite.size == 0:
        return (None, None, None, None, 0.0, bad)
    wide = finite.astype(np.float64) if finite.size <= 4096 or finite.dtype.kind != "f" else finite
    norm = float(np.sqrt(np.dot(wide, wide)))
    zeros = 1.0 - np.count_nonzero(finite) / size - bad / size
    low, high, mean = float(finite.min()), float(finite.max()), float(wide.mean())
    return (*map(rounded, (low, high, mean, norm, max(zeros, 0.0))), bad)


def describe_all(arrays: Sequence[np.ndarray]) -> list[tuple[Any, ...]]:
    """`describe` of many flat arrays: small ones of one size and type are looked at together."""
    by_form: dict[tuple[int, str], list[int]] = {}
    for number, array in enumerate(arrays):
        by_form.setdefault((array.size, array.dtype.str), []).append(number)
    rows: list[tuple[Any, ...]] = [()] * len(arrays)
    for (size, _), numbers in by_form.items():
        together = max(MOST_TOGETHER // max(size, 1), 1) if 0 < size <= FEW_ELEMENTS else 1
        for start in range(0, len(numbers), together):
            block = numbers[start : start + together]
            found = _described([arrays[number] for number in block])
            for number, row in zip(block, found, strict=True):
                rows[number] = row
    return rows


def _described(arrays: list[np.ndarray]) -> list[tuple[Any, ...]]:
    """The rows of arrays of one size."""
    if len(arrays) == 1:
        return [describe(arrays[0])]
    block = np.stack(arrays).astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", block, block))
    columns = (
        block.min(1), block.max(1), block.mean(1), norms, (block == 0).mean(1),
    )  # fmt: skip
    rows = zip(*[column.tolist() for column in columns], strict=True)
    return [
        (*map(rounded, row), 0) if math.isfinite(row[3]) else describe(array)
        for row, array in zip(rows, arrays, strict=True)
    ]


def norms_of(tensor: Tensor, count: int) -> list[float | str | None]:
    """The L2 norms of so many equal parts of a tensor's elements."""
    plain = tensor.detach()
    if plain.dtype.is_complex:
        plain = plain.abs()
    if plain._dtype.numpy is None:
        plain = plain.float()
    rows = np.asarray(plain.numpy()).reshape(count, -1)
    if rows.dtype.itemsize < 4 or rows.size <= FEW_ELEMENTS:
        rows = rows.astype(np.float64)
    return [rounded(norm) for norm in np.sqrt(np.einsum("ij,ij->i", rows, rows)).tolist()]


def histogram(array: np.ndarray) -> dict[str, Any]:
    """The counts of `BINS` equal bins between the extremes of what is finite."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    if finite.size == 0:
        return {"low": None, "high": None, "counts": [], "bad": int(array.size)}
    finite = finite.astype(np.float64)
    low, high = float(finite.min()), float(finite.max())
    same = low == high
    counts = [int(finite.size)] if same else np.histogram(finite, BINS, (low, high))[0].tolist()
    bad = int(array.size - finite.size)
    return {"low": rounded(low), "high": rounded(high), "counts": counts, "bad": bad}
