"""Memory formats of results, as in PyTorch: channels last if an input's are, matrices by columns as LAPACK has them.

It takes a fresh result and the tensors that it was made of, and sets the result's strides. Kernels choose the real
memory order, so nothing is copied before somebody looks at memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.strides import contiguous_strides
from weft.tensor.layout import channels_last, channels_last_3d, format_strides

_FORMATS = {4: channels_last, 5: channels_last_3d}


def _channels_form(tensor: Tensor) -> Any:
    """The format of a tensor whose channels are last in memory, as those of a part of such a one, else None."""
    strides = tensor.strides
    if strides is None or len(tensor._shape) not in _FORMATS:
        return None
    reach = 0  # of the dimensions within: channels, then places from the last to the first, then examples
    for axis in (1, *range(len(strides) - 1, 1, -1), 0):
        size, stride = tensor._shape[axis], strides[axis]
        alone = axis == 0 and reach == strides[1]  # of one place and channel: in any order
        if size == 0 or stride < reach or stride == 0 or alone:
            return None
        reach = stride * max(size, 1)
    return _FORMATS[len(strides)]


def all_channels_last(tensors: Iterable[Tensor]) -> bool:
    """True if the channels of all of them are last in memory."""
    return all(_channels_form(tensor) is not None for tensor in tensors)


def like_channels(result: Tensor, *given: Tensor) -> Any:
    """The result, its channels last where those of one of the tensors are (a tensor in row-major order has no say)."""
    for tensor in given:
        form = _channels_form(tensor)
        if form is not None:
            if result._storage is None and len(result._shape) == len(tensor._shape):
                result.strides = format_strides(result._shape, form)
            return result
    return result


def stacked_channels(shape: tuple[int, ...], axis: int, count: int) -> tuple[int, ...]:
    """The strides of tensors that are stacked along a dimension: those of the tensors joined, the dimension split."""
    joined = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
    strides = format_strides(joined, _FORMATS[len(shape)]) or contiguous_strides(joined)
    return (*strides[:axis], strides[axis] * shape[axis], *strides[axis:])


def in_order(x: Tensor) -> Any:
    """The same tensor, which nobody has seen yet, in row-major order in memory."""
    if x._storage is None:
        x.strides = None
    return x


def columns_first(x: Tensor) -> Any:
    """The same tensor, which nobody has seen yet, with columns side by side in memory, as LAPACK leaves matrices."""
    *lead, rows, wide = x._shape
    if x._storage is None and x.numel() and rows > 1 and wide > 1:
        before = contiguous_strides(x._shape)
        x.strides = (*before[: len(lead)], 1, rows)
    return x
