# ruff: noqa: A002 - PyTorch's names
"""The hash of a tensor: the exclusive or of its elements' bits, over some dimensions or all."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError
from weft.functional.reductions.sums_and_extrema import need_any, need_elements, need_real
from weft.functional.shape.concat import cat
from weft.functional.support.variants import given
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import permute, reshape, slice_axis
from weft.tensor.arguments import TYPE_NAMES, Shape, describe, is_empty, need_tensor, reduced_axes


def hash_tensor(
    input: Tensor,
    dim: int | Sequence[int] = (),
    *,
    keepdim: bool = False,
    mode: int = 0,
    out: Tensor | None = None,
) -> Any:
    """The exclusive or of all elements, or along dimensions, in uint64: each counts with the bits that it has as a
    float64 or int64. Equal tensors have equal hashes, also in another order; a changed element changes it.

    Args:
        dim: one dimension or several; none or an empty tuple means all.
        keepdim: whether reduced dimensions stay, with size 1.
        mode: 0, the only one there is.

    Errors: ArgumentError on another mode; as those of `amax` on empty tensors and wrong dimensions.
    """
    need_tensor("hash_tensor", input)
    if operator.index(mode) != 0:
        raise ArgumentError(
            f"Unknown hash_tensor mode: {mode}",
            expected="0",
            got=str(mode),
            fix="leave mode out",
        )
    need_real("xor_sum", input)
    if isinstance(out, Tensor) and out._dtype is not dtypes.uint64:
        raise DTypeError(
            f"Expected result to be of dtype uint64, but got {TYPE_NAMES[out._dtype.name]}",
            expected="an out= of uint64",
            got=describe("out", out),
            fix="pass weft.empty(0, dtype=weft.uint64)",
        )
    axes = reduced_axes(dim, len(input._shape))
    if dim is None or is_empty(dim):
        need_any("hash_tensor", input)
    need_elements("hash_tensor", input, axes)
    kept = tuple([1 if axis in axes else size for axis, size in enumerate(input._shape)])
    shape = kept if keepdim else tuple([n for axis, n in enumerate(kept) if axis not in axes])
    return given(out, reshape(_folded(_bits(input), axes), shape).view(dtypes.uint64))


def _bits(input: Tensor) -> Any:
    """The elements widened to 64 bits, as int64."""
    if input._dtype.category == 2:
        return cast(input, dtypes.float64).view(dtypes.int64)
    if input._dtype is dtypes.uint64:
        return input.view(dtypes.int64)
    return cast(input, dtypes.int64)


def _folded(bits: Tensor, axes: Shape) -> Any:
    """The exclusive or over axes: what is left is halved until one element of each line is there."""
    rest = tuple([axis for axis in range(len(bits._shape)) if axis not in axes])
    count = 1
    for axis in axes:
        count *= bits._shape[axis]
    lines = bits.numel() // max(count, 1)
    left = reshape(permute(bits, (*rest, *axes)), (lines, count))  # (lines, count)
    while count > 1:
        half = (count + 1) // 2  # an odd one in the middle waits
        pair = call(
            "bitwise_xor",
            slice_axis(left, 1, 0, count - half),
            slice_axis(left, 1, half, count - half),
        )
        middle = slice_axis(left, 1, count - half, 2 * half - count)
        left = pair if 2 * half == count else cat((pair, middle), 1)
        count = half
    return left


publish(globals())
