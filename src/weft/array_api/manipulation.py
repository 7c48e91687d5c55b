"""The standard's functions that move elements: shapes, axes, joining, repeating, picking.

Arrays come in, views or copies go out, as PyTorch has them.
"""

from __future__ import annotations

import weft
from weft.array_api.arguments import axes_of, joined, need_array, one_axis, refuse
from weft.engine.frontend.tensor import Tensor

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays in their common shape. Errors: RuntimeError if there is none."""
    return list(weft.broadcast_tensors(*arrays)) if arrays else []


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The array in a larger shape. Errors: RuntimeError where it does not fit."""
    return weft.broadcast_to(need_array("broadcast_to", x), tuple(shape))


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays behind each other along an axis; flattened first where it is None."""
    parts = joined("concat", *arrays)
    if axis is None:
        return weft.cat([part.reshape(-1) for part in parts])
    axis = one_axis("concat", parts[0].ndim, axis)
    ranks = {part.ndim for part in parts}
    if len(ranks) > 1:
        refuse("concat", "arrays of different rank", "one rank", sorted(ranks), "reshape them")
    return weft.cat(parts, axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """The array with an axis of size 1 more. Errors: IndexError."""
    rank = need_array("expand_dims", x).ndim + 1
    return x.unsqueeze(one_axis("expand_dims", rank, axis))


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """The elements in reverse order along axes, all of them for None."""
    return weft.flip(need_array("flip", x), axes_of("flip", x, axis))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged. Errors: ValueError on fewer."""
    if need_array("matrix_transpose", x).ndim < 2:
        refuse("matrix_transpose", "no matrix", "2 axes or more", x.ndim, "reshape it first")
    return x.mT


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Axes at other positions, the others in their order."""
    return weft.movedim(need_array("moveaxis", x), source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order. Errors: RuntimeError unless each is named once."""
    return weft.permute(need_array("permute_dims", x), tuple(axes))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element so many times, one after another; of the flattened array where the axis is None."""
    counts = repeats if isinstance(repeats, int) else need_array("repeat", repeats).long()
    return weft.repeat_interleave(need_array("repeat", x), counts, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape. Errors: ValueError where `copy` is false and a copy is needed."""
    need_array("reshape", x)
    if copy:
        return x.clone().reshape(tuple(shape))
    if copy is None:
        return x.reshape(tuple(shape))
    try:
        return x.view(tuple(shape))
    except RuntimeError:
        x.reshape(tuple(shape))  # a shape that does not fit has a message of its own
        refuse("reshape", "a copy is needed", "a layout that allows it", x.stride(), "copy=None")
        raise


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """The elements moved along axes, those that leave at the end at the start again."""
    need_array("roll", x)
    if axis is None:
        return weft.roll(x, shift)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    return weft.roll(x, shifts, axes)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """The array without axes of size 1. Errors: ValueError on an axis of another size."""
    axes = axes_of("squeeze", need_array("squeeze", x), axis)
    for number in axes:
        if x.shape[number] != 1:
            refuse("squeeze", f"axis {number}", "size 1", x.shape[number], "leave this axis out")
    return x.squeeze(axes) if axes else x


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    return weft.stack(joined("stack", *arrays), axis)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements at indices along an axis. Errors: ValueError where there are several axes and none is named."""
    if axis is None:
        if need_array("take", x).ndim != 1:
            refuse("take", "no axis", "an axis", f"{x.ndim} dimensions", "pass axis=...")
        axis = 0
    axis = one_axis("take", x.ndim, axis)
    places = need_array("take", indices).to(weft.int64)  # PyTorch takes uint8 for a mask
    return x[(slice(None),) * axis + (places,)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at indices, line by line along an axis; other axes broadcast."""
    axis = one_axis("take_along_axis", need_array("take_along_axis", x).ndim, axis)
    size = x.shape[axis]
    if indices.ndim != x.ndim:
        refuse("take_along_axis", "ranks differ", f"{x.ndim}", indices.ndim, "reshape the indices")
    places = indices.to(weft.int64)
    return weft.take_along_dim(x, weft.where(places < 0, places + size, places), axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Copies of the array, repeated along each axis."""
    return weft.tile(need_array("tile", x), tuple(repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis."""
    axis = one_axis("unstack", need_array("unstack", x).ndim, axis)
    return tuple(weft.unbind(x, axis))
