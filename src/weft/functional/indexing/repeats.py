# ruff: noqa: A002 - PyTorch's names
"""Slices repeated, each as often as wanted: `repeat_interleave`. Numbers of repetitions in a tensor are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.engine.frontend.tensor import Tensor
from weft.errors import (
    ArgumentError,
    ShapeError,
)
from weft.functional.shape.rearrange import repeated
from weft.functional.support import host
from weft.functional.support.variants import by_name
from weft.ops.primitives import (
    reshape,
    take,
)
from weft.tensor.arguments import describe, need_tensor, no_kernel, wrap_dim


def _counts(repeats: Tensor) -> Any:
    """The number of repetitions of each slice. Errors: ArgumentError, DTypeError."""
    tensor = isinstance(repeats, Tensor)
    if tensor and (repeats._dtype.category != 1 or repeats._dtype.itemsize < 4):
        raise no_kernel("repeat_interleave_cpu", repeats, "int32 or int64", ".long()")
    counts = np.atleast_1d(host.to_numpy(repeats) if tensor else np.asarray(repeats, np.int64))
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or (counts < 0).any():
        fits = counts.dtype.kind in "iu" and counts.ndim == 1
        raise ArgumentError(
            "repeats can not be negative"
            if fits
            else "repeats must be 0-dim or 1-dim tensor of integers",
            expected="integers >= 0, one for each slice",
            got=describe("repeats", repeats) if tensor else repr(repeats),
            fix="pass one integer, or a vector of them",
        )
    return counts


def repeat_interleave(
    input: Tensor | None = None,
    repeats: Tensor | int | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Any:
    """Each slice `repeats` times in a row; a tensor of repeats gives each its own number (its values are read).
    Errors: ShapeError where `output_size` is another one than that of the result."""
    if input is None or repeats is None:
        counts = _counts(
            need_tensor("repeat_interleave", repeats if input is None else input, "repeats")
        )
        _check_output_size(int(counts.sum()), output_size)
        return host.from_numpy(np.repeat(np.arange(len(counts)), counts))
    need_tensor("repeat_interleave", input)
    if dim is None:
        input, dim = reshape(input, (math.prod(input._shape),)), 0
    axis = wrap_dim(dim, len(input._shape))
    size = input._shape[axis]
    if isinstance(repeats, int):
        _check_output_size(size * repeats, output_size)
        return _repeat_evenly(input, axis, repeats)
    counts = _counts(repeats)
    _check_output_size(int(counts.sum()) * (size if counts.size == 1 else 1), output_size)
    if counts.size == 1:
        return _repeat_evenly(input, axis, int(counts.reshape(-1)[0]))
    if counts.shape != (size,):
        raise ShapeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.size} and input.size({axis}) = {size}",
            expected=f"{size} numbers",
            got=str(counts.shape),
            fix="pass one number per slice",
        )
    return take(input, axis, host.from_numpy(np.repeat(np.arange(size), counts)))


def _check_output_size(size: int, given: int | None) -> None:
    if given is not None and given != size:
        raise ShapeError(
            f"repeat_interleave: Invalid output_size, expected {size} but got {given}",
            expected=f"output_size={size}, the sum of the repeats",
            got=f"output_size={given}",
            fix="pass that sum, or leave output_size away",
        )


def _repeat_evenly(x: Tensor, axis: int, times: int) -> Any:
    if times < 0:
        raise ShapeError(
            "Repeats must be non-negative",
            expected="repeats >= 0",
            got=str(times),
            fix="pass 0 or more",
        )
    return repeated(x, axis, times)


FUNCTIONS: dict[str, Any] = by_name(repeat_interleave)
METHODS: dict[str, Any] = dict(FUNCTIONS)
