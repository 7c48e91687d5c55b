# ruff: noqa: A001, A002 - PyTorch's names
"""Distinct elements and their counts: unique, bincount, isin.

The long tail: NumPy compares values read at the call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ShapeError
from weft.functional.shape.views import movedim
from weft.functional.support import host
from weft.functional.support.variants import by_name
from weft.tensor.arguments import (
    describe,
    need_integer,
    need_rank,
    need_tensor,
    no_kernel,
    wrap_dim,
)


def _axis(name: str, input: Tensor, dim: int) -> int:
    """A dimension whose slices are compared. Errors: ShapeError, DimensionError."""
    need_rank(name, input, 1)
    return wrap_dim(dim, len(input._shape))


def _need_lines(input: Tensor, dim: int) -> None:
    """Errors: ShapeError where slices along a dimension have no elements to compare."""
    if 0 in (*input._shape[:dim], *input._shape[dim + 1 :]):
        raise ShapeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied",
            expected="slices with elements",
            got=describe("input", input),
            fix="name the dimension without elements, or check .numel() first",
        )


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along `dim`) in ascending order, with inverse indices and counts on request.
    Reads the values."""
    need_tensor("unique", input)
    dim = None if dim is None else _axis("unique", input, dim)
    if dim is not None:
        _need_lines(input, dim)
    found = host.answering(
        np.unique,
        host.to_numpy(input),
        return_inverse=return_inverse,  # each of the two takes longer than the values
        return_counts=return_counts,
        axis=dim,
        equal_nan=False,
    )
    values, *rest = found if return_inverse or return_counts else (found,)
    counts = rest.pop() if return_counts else None
    inverse = rest[0].reshape(input._shape if dim is None else -1) if return_inverse else None
    lines = values if dim is None else np.moveaxis(values, dim, 0)
    name = "_unique2" if dim is None else "unique_dim"
    return _found(name, input, dim, lines, inverse, counts)


def _found(
    name: str,
    input: Tensor,
    dim: int | None,
    lines: np.ndarray,
    inverse: np.ndarray | None,
    counts: np.ndarray | None,
) -> Any:
    """The values, which were found as lines along the first dimension, and what else is wanted: what is not None. Their
    record has the `name` that PyTorch gives it."""
    values = host.from_numpy(np.ascontiguousarray(lines), input._dtype)
    values = values if dim is None else movedim(values, 0, dim)
    if input.requires_grad:
        from weft.functional.support.not_differentiable import underived

        values = underived(name, values, input)
    result = [values]
    result += [
        host.from_numpy(np.asarray(places, np.int64))
        for places in (inverse, counts)
        if places is not None
    ]
    return result[0] if len(result) == 1 else tuple(result)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Runs of equal elements (or slices) as one each. Reads the values."""
    need_tensor("unique_consecutive", input)
    dim = None if dim is None else _axis("unique_consecutive", input, dim)
    array = host.to_numpy(input)
    lines = array.reshape(-1) if dim is None else np.moveaxis(array, dim, 0)
    changed = np.ones(len(lines), bool)
    if len(lines) > 1:
        changed[1:] = (lines[1:] != lines[:-1]).reshape(len(lines) - 1, -1).any(1)
    inverse = counts = None
    if return_inverse:
        inverse = (np.cumsum(changed) - 1).reshape(array.shape if dim is None else -1)
    if return_counts:
        counts = np.diff(np.append(np.flatnonzero(changed), len(lines)))
    return _found("unique_consecutive", input, dim, lines[changed], inverse, counts)


def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Any:
    """The number of occurrences of each non-negative integer (or the sum of its weights). Reads the values."""
    need_tensor("bincount", input)
    if input._dtype.category > 1 and len(input._shape) == 1:
        raise no_kernel("bincount_cpu", input, "integers", ".long()")
    array = host.to_numpy(input)
    whole = array.ndim == 1 and input._dtype.category <= 1
    numbers = array.astype(np.int64, copy=False) if whole else array
    least = numbers.min(initial=0)
    if not whole or least < 0:
        raise ArgumentError(
            "bincount only supports 1-d non-negative integral inputs.",
            expected="a vector of integers >= 0",
            got=describe("input", input) + (f", least {least}" if least < 0 else ""),
            fix="flatten or convert it first",
        )
    values = (
        None if weights is None else host.to_numpy(need_tensor("bincount", weights, "weights", 2))
    )
    if values is not None and values.shape != numbers.shape:
        raise ShapeError(
            "weights should be 1-d and have the same length as input",
            expected=str(list(numbers.shape)),
            got=describe("weights", weights),
            fix="pass one weight per element",
        )
    minlength = need_integer("bincount", minlength, "minlength")
    if minlength < 0:
        raise ArgumentError(
            "minlength should be >= 0",
            expected="minlength >= 0",
            got=str(minlength),
            fix="leave minlength away",
        )
    if values is None:
        size = max(int(numbers.max(initial=-1)) + 1, minlength)
        return host.from_numpy(host.occurrences(numbers, size))
    sums = np.bincount(numbers, values, minlength)
    return host.from_numpy(sums.astype(np.float32) if values.dtype == np.float32 else sums)


def isin(
    elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """True where an element is among others. Reads the values."""
    first = host.to_numpy(elements) if isinstance(elements, Tensor) else np.asarray(elements)
    second = (
        host.to_numpy(test_elements)
        if isinstance(test_elements, Tensor)
        else np.asarray(test_elements)
    )
    found = host.answering(np.isin, first, second, assume_unique=assume_unique, invert=invert)
    return host.from_numpy(found)


FUNCTIONS: dict[str, Any] = by_name(unique, unique_consecutive, bincount, isin)
METHODS: dict[str, Any] = by_name(unique, unique_consecutive, bincount)
