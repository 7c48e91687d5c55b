"""Rows that move elements: views, joins, positions, and reads and writes through indices.

A view that no operator has (windows, diagonals, strided regions) is a Gather of the flat operand at the places that its
strides name.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.onnx.graph import OnnxGraph
from weft.onnx.operators.table import RecordedOperation, rule
from weft.onnx.sizes import Size, Varied


@rule("view")
def _view(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.reshape(op.inputs[0], op.shape)


@rule("permute")
def _permute(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.transpose(op.inputs[0], op.params)


@rule("expand")
def _expand(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.call("Expand", op.inputs[0], graph.sizes(op.shape))


@rule("slice")
def _slice(graph: OnnxGraph, op: RecordedOperation) -> str:
    axis, start, length, step = op.params
    return graph.slice(op.inputs[0], axis, start, _end(start, length, step), step)


def _end(start: Size, length: Size, step: Size) -> Size:
    """The place behind the last element of a slice."""
    sizes = (start, length, step)
    calls = max(len(size.values) if isinstance(size, Varied) else 1 for size in sizes)
    rows = zip(*[_by_call(size, calls) for size in sizes], strict=True)
    ends = tuple(begin + (count - 1) * gap + 1 if count else begin for begin, count, gap in rows)
    return ends[0] if len(set(ends)) == 1 else Varied(ends)


def _by_call(size: Size, calls: int) -> tuple[int, ...]:
    return size.values if isinstance(size, Varied) else (size,) * calls


@rule("select")
def _select(graph: OnnxGraph, op: RecordedOperation) -> str:
    axis, place = op.params
    return graph.call("Gather", op.inputs[0], graph.scalar_size(place), axis=axis)


@rule("flip")
def _flip(graph: OnnxGraph, op: RecordedOperation) -> str:
    if not op.params:
        return op.inputs[0]
    axes, count = graph.integers(op.params), len(op.params)
    starts, steps = graph.integers([-1] * count), graph.integers([-1] * count)
    ends = graph.integers([-(1 << 62)] * count)
    return graph.call("Slice", op.inputs[0], starts, ends, axes, steps)


@rule("unfold")
def _windows(graph: OnnxGraph, op: RecordedOperation) -> str:
    """The index (windows, places in one) along the axis; the places become the last dimension."""
    axis, size, step = op.params
    count = op.shape[axis]
    if isinstance(size, int) and isinstance(step, int):
        graph.know_windows(count, op.shapes[0][axis], -size, step)
    index = graph.places((count, size), 0, (step, 1))
    found = graph.call("Gather", op.inputs[0], index, axis=axis)
    order = [*range(axis + 1), *range(axis + 2, op.rank + 1), axis + 1]
    return graph.transpose(found, order)


@rule("diagonal")
def _diagonal(graph: OnnxGraph, op: RecordedOperation) -> str:
    offset, rows, columns = op.params
    strides = _row_major(op.shapes[0])
    kept = [strides[axis] for axis in range(op.rank) if axis not in (rows, columns)]
    first = _times(strides[columns], offset) if offset >= 0 else _times(strides[rows], -offset)
    return _region(
        graph, op.inputs[0], op.shape, first, (*kept, _plus(strides[rows], strides[columns]))
    )


@rule("strided")
def _strided(graph: OnnxGraph, op: RecordedOperation) -> str:
    offset, strides = op.params
    if offset == 0 and _is_whole(op, strides):
        return graph.reshape(op.inputs[0], op.shape)
    if list(strides) == _row_major(op.shape):
        flat = graph.call("Reshape", op.inputs[0], graph.integers([-1]))
        run = graph.slice(flat, 0, offset, _plus(offset, count(op.shape)))
        return graph.reshape(run, op.shape)
    return _region(graph, op.inputs[0], op.shape, offset, strides)


def _is_whole(op: RecordedOperation, strides: Sequence[Size]) -> bool:
    """True if a region is the operand in another shape."""
    wanted = _row_major(op.shape)
    pairs = zip(op.shape, strides, wanted, strict=True)
    same = all(size == 1 or stride == step for size, stride, step in pairs)
    return same and count(op.shape) == count(op.shapes[0])


def _region(
    graph: OnnxGraph, x: str, shape: Sequence[Size], offset: Size, strides: Sequence[Size]
) -> str:
    flat = graph.call("Reshape", x, graph.integers([-1]))
    return graph.call("Gather", flat, graph.places(shape, offset, strides), axis=0)


@rule("put")
def _put(graph: OnnxGraph, op: RecordedOperation) -> str:
    """A region of the flat base is written, and the shape made again."""
    base, source = op.inputs
    offset, strides = op.params
    flat = graph.call("Reshape", base, graph.integers([-1]))
    ends = graph.integers([-1])
    places = graph.call("Reshape", graph.places(op.shapes[1], offset, strides), ends)
    written = graph.call(
        "ScatterElements", flat, places, graph.call("Reshape", source, ends), axis=0
    )
    return graph.reshape(written, op.shape)


# -- sizes of calls ------------------------------------------------------------------------------------------------


def _times(size: Size, other: Size) -> Size:
    return _combined(size, other, lambda a, b: a * b)


def _plus(size: Size, other: Size) -> Size:
    return _combined(size, other, lambda a, b: a + b)


def _combined(size: Size, other: Size, function: object) -> Size:
    if isinstance(size, int) and isinstance(other, int):
        return int(function(size, other))  # type: ignore[operator]
    calls = len((size if isinstance(size, Varied) else other).values)  # type: ignore[union-attr]
    pairs = zip(_by_call(size, calls), _by_call(other, calls), strict=True)
    return Varied(tuple(function(a, b) for a, b in pairs))  # type: ignore[operator]


def _row_major(shape: Sequence[Size]) -> list[Size]:
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        strides.append(step)
        step = _times(step, size)
    return strides[::-1]


def count(shape: Sequence[Size]) -> Size:
    total: Size = 1
    for size in shape:
        total = _times(total, size)
    return total


# -- joins and sources ---------------------------------------------------------------------------------------------


@rule("cat")
def _cat(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.call("Concat", *op.inputs, axis=op.params[0])


@rule("stack")
def _stack(graph: OnnxGraph, op: RecordedOperation) -> str:
    axis = graph.integers([op.params[0]])
    parts = [graph.call("Unsqueeze", x, axis) for x in op.inputs]
    return graph.call("Concat", *parts, axis=op.params[0])


@rule("iota")
def _iota(graph: OnnxGraph, op: RecordedOperation) -> str:
    """Positions in the dimensions behind the first `skip`."""
    shape, skip = op.params
    numbers = graph.range(count(shape[skip:]))
    if len(shape) - skip != 1:
        numbers = graph.reshape(numbers, shape[skip:])
    return graph.call("Expand", numbers, graph.sizes(shape)) if skip else numbers


# -- indices -------------------------------------------------------------------------------------------------------


@rule("gather")
def _gather(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.call("GatherElements", *op.inputs, axis=op.params[0])


@rule("take")
def _take(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.call("Gather", *op.inputs, axis=op.params[0])


_REDUCTIONS = {
    "scatter": "none",
    "scatter_add": "add",
    "scatter_product": "mul",
    "scatter_maximum": "max",
    "scatter_minimum": "min",
}


@rule(*_REDUCTIONS)
def _scatter(graph: OnnxGraph, op: RecordedOperation) -> str:
    base, index, source = op.inputs
    for axis, (size, whole) in enumerate(zip(op.shapes[1], op.shapes[2], strict=True)):
        if size != whole:  # a source may be larger than its index
            source = graph.slice(source, axis, 0, size)
    return graph.call(
        "ScatterElements", base, index, source, axis=op.params[0], reduction=_REDUCTIONS[op.name]
    )


@rule("take_add", "take_put")
def _scatter_slices(graph: OnnxGraph, op: RecordedOperation) -> str:
    """ScatterND writes slices of the first dimension: the axis is moved there, and back."""
    base, index, source = op.inputs
    axis, rank, spread = op.params[0], op.rank, len(op.shapes[1])
    front = [axis, *[a for a in range(rank) if a != axis]]
    base = graph.transpose(base, front)
    moved = [*range(axis, axis + spread), *range(axis), *range(axis + spread, len(op.shapes[2]))]
    source = graph.transpose(source, moved)
    index = graph.call("Unsqueeze", index, graph.integers([spread]))
    reduction = "add" if op.name == "take_add" else "none"
    written = graph.call("ScatterND", base, index, source, reduction=reduction)
    back = [front.index(a) for a in range(rank)]
    return graph.transpose(written, back)
