"""Functions that change the shape of ragged tensors and no element: transpose, view, unsqueeze, split, ...

Ragged dimensions move freely; uniform ones are split and merged between them. Nothing is copied but where uniform
dimensions change their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft._typing import Shape
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError, ShapeError
from weft.nested.elementwise import apply
from weft.nested.indexing import get
from weft.nested.rows import RaggedSize, indices
from weft.nested.tensor import NestedTensor, shape_text
from weft.ops.primitives import take


def _refuse(name: str, input: NestedTensor, expected: str, fix: str) -> NotDefinedError:
    return NotDefinedError(
        f"{name} is not defined on a ragged tensor of shape {list(input.shape)} in this way",
        expected=expected,
        got=shape_text(input),
        fix=fix,
    )


def _spread(given: tuple[int | RaggedSize, ...] | tuple[object, ...]) -> tuple[Any, ...]:
    """Sizes or dimensions passed one by one, or as one sequence."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return tuple(given[0])
    return given


# -- order -----------------------------------------------------------------------------------------


def permuted(input: NestedTensor, order: tuple[int, ...]) -> NestedTensor:
    """The dimensions in another order; the batch stays first."""
    if order[0] != 0:
        raise _refuse(
            "moving the batch dimension", input, "dimension 0 in its place", "unbind() the items"
        )
    values = input.packed.permute(0, *(input.axis(dim) for dim in order if dim in input.uniform))
    return NestedTensor(values, input.rows, tuple(order.index(dim) for dim in input.dims))


def transpose(function: Callable[..., Tensor], input: NestedTensor, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    order = list(range(input.ndim))
    a, b = input.dimension(dim0), input.dimension(dim1)
    order[a], order[b] = order[b], order[a]
    return permuted(input, tuple(order))


def permute(function: Callable[..., object], input: Any, *dims: int) -> Any:
    """All dimensions in another order."""
    order = tuple(input.dimension(dim) for dim in _spread(dims))
    if sorted(order) != list(range(input.ndim)):
        raise ShapeError(
            "permute(dims): the dimensions are not those of the tensor",
            expected=f"each of 0 to {input.ndim - 1} once",
            got=str(list(order)),
            fix="name each dimension once",
        )
    return permuted(input, order)


def movedim(function: Callable[..., object], input: Any, source: int, destination: int) -> Any:
    """Dimensions moved to other places."""
    listed = [source] if isinstance(source, int) else list(source)
    places = [destination] if isinstance(destination, int) else list(destination)
    moved = {
        input.dimension(to): input.dimension(dim) for dim, to in zip(listed, places, strict=True)
    }
    rest = iter(dim for dim in range(input.ndim) if dim not in moved.values())
    return permuted(
        input, tuple(moved[to] if to in moved else next(rest) for to in range(input.ndim))
    )


# -- sizes -----------------------------------------------------------------------------------------


def unsqueeze(function: object, input: NestedTensor, dim: int) -> Any:
    """A dimension of size 1 inserted."""
    place = input.dimension(dim, 1)
    if place == 0:
        raise _refuse("unsqueeze(0)", input, "a place behind the batch", "use unsqueeze(1)")
    axis = sum(own < place for own in input.uniform) + 1
    dims = tuple(own + (own >= place) for own in input.dims)
    return NestedTensor(input.packed.unsqueeze(axis), input.rows, dims)


def squeeze(function: Callable[..., Tensor], input: NestedTensor, dim: int | None = None) -> Any:
    """Uniform dimensions of size 1 removed."""
    chosen = input.uniform if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    gone = {input.dimension(one) for one in chosen}
    gone = {one for one in gone if one in input.uniform and input.size(one) == 1}
    if not gone:
        return input
    values = input.packed.squeeze(tuple(input.axis(one) for one in gone))
    dims = tuple(own - sum(one < own for one in gone) for own in input.dims)
    return NestedTensor(values, input.rows, dims)


def _marked(input: NestedTensor, sizes: tuple[int | RaggedSize, ...]) -> list[Any]:
    """Target sizes in which -1 for a ragged dimension is replaced by its size."""
    wanted = [input.size(dim) for dim in sorted(input.dims)]
    found: list[Any] = []
    missing = len(wanted) - sum(isinstance(size, RaggedSize) for size in sizes)
    for size in sizes[1:]:
        place = sum(isinstance(one, RaggedSize) for one in found)
        if missing and not isinstance(size, RaggedSize) and size == -1 and place < len(wanted):
            size, missing = wanted[place], missing - 1
        found.append(size)
    return found


def view(function: Callable[..., object], input: Any, *shape: object) -> Any:
    """Uniform dimensions split or merged; ragged ones stay, as their size or as -1."""
    sizes = _spread(shape)
    if len(sizes) == 1 and isinstance(sizes[0], weft.dtype):
        return input.like(input.packed.view(sizes[0]))
    target = _marked(input, sizes)
    ragged = [place + 1 for place, size in enumerate(target) if isinstance(size, RaggedSize)]
    have = sorted(input.dims)
    if (
        not sizes
        or sizes[0] not in (len(input), -1)
        or [target[place - 1] for place in ragged] != [input.size(dim) for dim in have]
    ):
        raise _refuse(
            f"{function.__name__.removeprefix('function_')}{list(sizes)}",
            input,
            "the batch and the ragged dimensions in their order, with uniform ones between",
            "pass the sizes of tensor.shape, with -1 or tensor.size(dim) for a ragged dimension",
        )
    runs = zip(_runs(input, have), _target_runs(target), strict=True)
    uniform = [size for (total, old), new in runs for size in _fitted(input, total, old, new)]
    moved = tuple(ragged[have.index(dim)] for dim in input.dims)
    return NestedTensor(input.packed.reshape(input.rows.total, *uniform), input.rows, moved)


def _runs(input: NestedTensor, ragged: list[int]) -> list[tuple[int, list[int]]]:
    """The uniform sizes before, between and after ragged dimensions, with their products."""
    edges = [0, *ragged, input.ndim]
    runs = [
        [input.size(dim) for dim in range(start + 1, end)]
        for start, end in zip(edges, edges[1:], strict=False)
    ]
    return [(math.prod(run), run) for run in runs]


def _target_runs(target: list[int | RaggedSize]) -> list[list[int]]:
    runs: list[list[int]] = [[]]
    for size in target:
        if isinstance(size, RaggedSize):
            runs.append([])
        else:
            runs[-1].append(int(size))
    return runs


def _fitted(input: NestedTensor, total: int, old: list[int], new: list[int]) -> list[int]:
    """A run's new sizes, with -1 computed."""
    known = math.prod(size for size in new if size != -1)
    if new.count(-1) == 1 and known and total % known == 0:
        return [total // known if size == -1 else size for size in new]
    if -1 in new or known != total:
        raise ShapeError(
            f"shape {new} is invalid for uniform dimensions of size {old}",
            expected=f"sizes whose product is {total}",
            got=str(new),
            fix="split and merge uniform dimensions only between the same ragged ones",
        )
    return new


def view_as(function: Callable[..., Tensor], input: Tensor, other: Any) -> Any:
    """The shape of another ragged tensor."""
    return view(function, input, *other.shape)


def flatten(
    function: Callable[..., object], input: NestedTensor, start_dim: int = 0, end_dim: int = -1
) -> Any:
    """Neighbouring uniform dimensions as one; the batch with the ragged dimension as one: the values."""
    start, end = input.dimension(start_dim), input.dimension(end_dim)
    if start == end:
        return input
    depth = len(input.dims)
    if start == 0 and end >= depth and input.dims == tuple(range(1, depth + 1)):
        return input.packed.flatten(0, end - depth)
    within = range(start, end + 1)
    if start == 0 or any(dim in input.dims for dim in within):
        raise _refuse(
            f"flatten({start}, {end})", input, "uniform dimensions", "use .values() for all entries"
        )
    merged = math.prod(input.size(dim) for dim in within)
    return view(function, input, *input.shape[:start], merged, *input.shape[end + 1 :])


def unflatten(function: Callable[..., object], input: NestedTensor, dim: int, sizes: Shape) -> Any:
    """A uniform dimension as several."""
    place = input.dimension(dim)
    if place not in input.uniform:
        raise _refuse(
            f"unflatten({dim})",
            input,
            "a uniform dimension",
            "see weft.nested.nested_tensor_from_jagged",
        )
    values = input.packed.unflatten(input.axis(place), sizes)
    more = values.ndim - input.packed.ndim
    return NestedTensor(values, input.rows, tuple(own + more * (own > place) for own in input.dims))


def expand(function: Callable[..., Tensor] | Sequence[int], input: Any, *sizes: object) -> Any:
    """Uniform dimensions of size 1 repeated; ragged ones and the batch stay."""
    target = _spread(sizes)
    for dim, size in enumerate(target):
        if dim not in input.uniform and size not in (-1, input.size(dim)):
            raise _refuse(
                f"expand{list(target)}", input, "-1 for the batch and ragged dimensions", "pass -1"
            )
    inner = [-1 if target[dim] == -1 else target[dim] for dim in input.uniform]
    return input.like(input.packed.expand(-1, *inner))


def expand_as(function: Callable[..., object], input: Tensor, other: Any) -> Any:
    """An operand repeated to the shape of a ragged tensor."""
    return apply(weft.add, weft.mul(other, 0).to(input.dtype), input)


# -- parts -----------------------------------------------------------------------------------------


def split(
    function: Callable[..., Tensor], input: NestedTensor, split_size: int, dim: int = 0
) -> Any:
    """Parts of a uniform dimension, or of the batch."""
    place = input.dimension(dim)
    if place in input.uniform:
        parts = function(input.packed, split_size, input.axis(place))
        return type(parts)(input.like(part) for part in parts)
    if place in input.dims:
        raise _refuse(
            function.__name__, input, "a uniform dimension or the batch", "slice: tensor[:, a:b]"
        )
    cuts = function(weft.arange(len(input)), split_size)
    return tuple(get(input, slice(int(cut[0]), int(cut[-1]) + 1)) for cut in cuts)


def narrow(function: object, input: Any, dim: int, start: int, length: int) -> Any:
    """`length` places of a dimension from `start` on."""
    index = [slice(None)] * input.dimension(dim) + [slice(start, start + length)]
    return get(input, tuple(index))


def select(function: Callable[..., Tensor], input: Any, dim: int, index: int) -> Any:
    """One place of a dimension."""
    return get(input, (*[slice(None)] * input.dimension(dim), index))


def index_select(function: Callable[..., Tensor], input: Any, dim: int, index: Tensor) -> Any:
    """Places of the batch or of a uniform dimension."""
    return get(input, (*[slice(None)] * input.dimension(dim), index))


def unbind(function: Callable[..., Tensor], input: Any, dim: int = 0) -> Any:
    """The items, or the places of a uniform dimension."""
    place = input.dimension(dim)
    if place in input.uniform:
        return tuple(select(function, input, place, at) for at in range(input.size(place)))
    return input.unbind(place)


def flip(function: Callable[..., Tensor], input: NestedTensor, *dims: int) -> Any:
    """Dimensions in reverse order; a ragged one row by row."""
    found = input
    for dim in _spread(dims):
        place = input.dimension(dim)
        if place in input.uniform:
            found = found.like(function(found.packed, (input.axis(place),)))
        elif place == 0:
            found = get(found, slice(None, None, -1))
        else:
            found = _flip_ragged(found, input.dims.index(place))
    return found


def _flip_ragged(input: NestedTensor, level: int) -> NestedTensor:
    if level + 1 < input.rows.depth:
        return get(input, (*[slice(None)] * input.dims[level], slice(None, None, -1)))
    rows = input.rows
    ids = rows.ancestors(level)
    mirrored = rows.offsets[ids] + rows.offsets[ids + 1] - 1
    return input.like(take(input.packed, 0, indices(mirrored - np.arange(rows.total))))


def same_size(function: Callable[..., object], input: Tensor, other: Any) -> bool:
    """True if two shapes are equal, ragged lengths included."""
    return tuple(input.shape) == tuple(other.shape)


def plain(function: Callable[..., object], input: Tensor, *args: object) -> Any:
    """The answer of the class's own method."""
    return getattr(input, function.__name__)(*args)


RULES = {
    "transpose": transpose, "permute": permute, "function_permute": permute, "movedim": movedim,
    "unsqueeze": unsqueeze, "squeeze": squeeze, "view": view, "reshape": view,
    "function_reshape": view, "view_as": view_as, "reshape_as": view_as, "flatten": flatten,
    "unflatten": unflatten, "expand": expand, "expand_as": expand_as, "split": split, "chunk": split,
    "tensor_split": split, "narrow": narrow, "select": select, "index_select": index_select,
    "unbind": unbind, "flip": flip, "function_flip": flip, "numel": plain, "size": plain, "dim": plain,
}  # fmt: skip
