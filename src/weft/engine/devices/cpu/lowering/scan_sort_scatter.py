# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Lowering of scans, sorts, resampling and scatters.

Each function takes the Lowering in progress and one node, and appends launches. Regions are (slot, byte offset,
element strides); operands that a family cannot read in place are copied to temporaries first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.devices.cpu.lowering.copy import copy_base, lower_copy
from cython.cimports.weft.engine.ir.primitive import (
    CUMULATIVE,
    ORDER,
    RESAMPLE,
    RESAMPLE_TRANSPOSED,
    RUNNING,
    SLICES,
)

from weft._build.compiled import require
from weft.engine.devices.cpu.lowering.copy import contiguous
from weft.engine.ir.strides import contiguous_strides
from weft.ops.structure.ordering import NAN_IS_LARGEST

if TYPE_CHECKING:
    from weft.engine.ir.node import Node
    from weft.engine.pipeline.launch_ir import KernelSpec, Lowering

require(__name__, cython.compiled)

ORDER_WORK, SELECTION_WORK, RUNNING_WORK, TAP_WORK = 100, 30, 10, 2  # of an element, in additions
_Dim = tuple[int, tuple[int, ...]]  # a size, and the steps of index, source and output


def _spec(key: tuple[object, ...], build: Callable[[str], object], checked: bool = False) -> Any:
    from weft.engine.pipeline.launch_ir import KernelSpec

    name = "_".join(str(part) for part in key)
    return KernelSpec(name, build, (name,), checked)


@cache
def _scan(kind: str, dtype: str) -> Any:
    from weft.engine.devices.cpu.kernels.scan import lower_scan

    return _spec((kind, dtype), lambda symbol: lower_scan(kind, dtype, symbol))


@cache
def _scan_of_columns(kind: str, dtype: str) -> Any:
    from weft.engine.devices.cpu.kernels.scan import lower_scan_of_columns

    return _spec(
        (kind, "columns", dtype), lambda symbol: lower_scan_of_columns(kind, dtype, symbol)
    )


def lower_scan(lowering: Lowering, node: Node) -> None:
    """cumsum and cumprod: sixteen rows at a time where that suits them; else the operand with the axis last, scanned
    row by row, then moved back."""
    axis = node.params[0]
    if node.numel == 0 or _scanned_by_columns(lowering, node, axis):
        return
    source = _rows_of(lowering, node.inputs[0], axis)
    size, length = node.dtype.itemsize, node.shape[axis]
    kind = node.op.combiner

    def launch(out: int) -> None:
        shape = node.numel // length, length
        _launch_scan(lowering, _scan(kind, node.dtype.name), source, out, shape, size)

    _into_place(lowering, node, axis, launch)


def _scanned_by_columns(lowering: Lowering, node: Node, axis: int) -> bool:
    """True if it has been done: (planes, length, rows of a plane), read where they lie."""
    from weft.engine.devices.cpu.kernels.scan import launch_scan_of_columns, suits_columns

    length = node.shape[axis]
    planes, rows = math.prod(node.shape[:axis]), math.prod(node.shape[axis + 1 :])
    step, strides = rows, (rows * length, rows, 1)
    if rows == 1:
        planes, rows, strides = 1, planes, (0, 1, length)
    if not suits_columns(rows, length, step):
        return False
    source = contiguous(lowering, node.inputs[0])
    units, grain_size = launch_scan_of_columns(planes, rows, length)
    lowering.add(
        _scan_of_columns(node.op.combiner, node.dtype.name),
        [source, (lowering.slot_of(node), 0)],
        [units, length, rows, units // planes, *strides, *strides],
        units,
        grain_size,
        node.numel * 2,
    )
    return True


def _rows_of(lowering: Lowering, source: Node, axis: int) -> tuple[int, int]:
    """(slot, byte offset) of a value whose `axis` is last, row by row; copied if its memory is in another order."""
    slot, offset, strides = lowering.region_of(source)
    order = _last(len(source.shape), axis)
    moved = tuple(source.shape[a] for a in order)
    dense = contiguous_strides(moved)
    steps = tuple(strides[a] for a in order)
    if steps == dense:
        return slot, offset
    target = lowering.scratch_slot(source.numel * source.dtype.itemsize)
    lower_copy(lowering, source.dtype, moved, (slot, offset, steps), (target, 0, dense))
    return target, 0


def _into_place(lowering: Lowering, node: Node, axis: int, launch: Callable[[int], None]) -> None:
    """`launch(slot)` writes what a node is with an axis last; moved back where the axis is another."""
    if axis == len(node.shape) - 1:
        launch(lowering.slot_of(node))
        return
    order = _last(len(node.shape), axis)
    moved = tuple(node.shape[a] for a in order)
    out = lowering.scratch_slot(node.numel * node.dtype.itemsize)
    launch(out)
    final = contiguous_strides(node.shape)
    lower_copy(
        lowering,
        node.dtype,
        moved,
        (out, 0, contiguous_strides(moved)),
        (lowering.slot_of(node), 0, tuple(final[a] for a in order)),
    )


def _last(rank: int, axis: int) -> tuple[int, ...]:
    """The dimensions, one of them moved to the end."""
    return (*(a for a in range(rank) if a != axis), axis)


def _launch_scan(
    lowering: Lowering,
    spec: KernelSpec,
    source: tuple[int, int],
    out: int,
    shape: tuple[int, int],
    size: int,
) -> None:
    """Rows scanned by one launch, long ones by one per segment; each goes on from the total before it."""
    from weft.engine.devices.cpu.kernels.scan import SEGMENT, TOTAL, launch_scan

    rows, length = shape
    units, grain_size = launch_scan(rows, length)[:2]
    long = length > SEGMENT
    totals = lowering.scratch_slot(rows * TOTAL if long else TOTAL)
    for start in range(0, length, SEGMENT):
        count = min(SEGMENT, length - start)
        lowering.add(
            spec,
            [(source[0], source[1] + start * size), (out, start * size), (totals, 0)],
            [rows, count, length, 1, length, 1, int(start > 0), TOTAL if long else 0],
            units,
            grain_size,
            rows * count * 2,
        )


@cache
def _order(dtype: str, wide: bool) -> Any:
    from weft.engine.devices.cpu.kernels.sort import lower_order

    key = ("order", "wide", dtype) if wide else ("order", dtype)
    return _spec(key, lambda symbol: lower_order(dtype, wide, symbol))


def lower_order(lowering: Lowering, node: Node) -> None:
    """The first places of an order: the operand with the axis last, row by row."""
    from weft.engine.devices.cpu.kernels.sort import is_wide, launch_order

    if node.op.combiner:
        lower_selection(lowering, node)
        return
    operand, (axis, kept, descending) = node.inputs[0], node.params
    if node.numel == 0:
        return
    source, dtype = _rows_of(lowering, operand, axis), operand.dtype.name
    length = operand.shape[axis]
    rows = operand.numel // length
    units, grain_size, scratch, launches = launch_order(dtype, rows, length, kept)
    pairs = lowering.scratch_slot(rows * scratch)
    spec = _order(dtype, is_wide(dtype, length))

    def launch(out: int) -> None:
        for first, end in launches:
            lowering.add(
                spec,
                [source, (out, 0), (pairs, 0)],
                [rows, length, kept, length, 1, -int(descending), first, end, scratch],
                units,
                grain_size,
                operand.numel * ORDER_WORK // len(launches),
            )

    _into_place(lowering, node, axis, launch)


@cache
def _selection(dtype: str, wide: bool) -> Any:
    from weft.engine.devices.cpu.kernels import select

    return _spec(("select", dtype), lambda symbol: select.lower_selection(dtype, wide, symbol))


def lower_selection(lowering: Lowering, node: Node) -> None:
    """One place of an order: the operand with the axis last, row by row."""
    from weft.engine.devices.cpu.kernels.select import launch_selection
    from weft.engine.devices.cpu.kernels.sort import is_wide

    operand, (axis, number, nan, first) = node.inputs[0], node.params
    if node.numel == 0:
        return
    source, dtype = _rows_of(lowering, operand, axis), operand.dtype
    length = operand.shape[axis]
    rows = operand.numel // length
    units, grain_size = launch_selection(rows, length)
    rule = nan if dtype.is_floating_point else NAN_IS_LARGEST
    lowering.add(
        _selection(dtype.name, is_wide(dtype.name, 0)),
        [source, (lowering.slot_of(node), 0)],
        [rows, length, number, rule, int(first), length, 1],
        units,
        grain_size,
        operand.numel * SELECTION_WORK,
    )


@cache
def _running(dtype: str, wide: bool) -> Any:
    from weft.engine.devices.cpu.kernels.cumulative_extrema import lower_running

    return _spec(("running", dtype), lambda symbol: lower_running(dtype, wide, symbol))


def lower_running(lowering: Lowering, node: Node) -> None:
    """The places of running extrema: the operand with the axis last, row by row."""
    from weft.engine.devices.cpu.kernels.cumulative_extrema import launch_running
    from weft.engine.devices.cpu.kernels.sort import is_wide

    operand, (axis, smallest) = node.inputs[0], node.params
    if node.numel == 0:
        return
    source, length = _rows_of(lowering, operand, axis), operand.shape[axis]
    rows = operand.numel // length
    units, grain_size = launch_running(rows, length)
    spec = _running(operand.dtype.name, is_wide(operand.dtype.name, 0))

    def launch(out: int) -> None:
        arguments = [rows, length, length, 1, -int(smallest)]
        lowering.add(
            spec, [source, (out, 0)], arguments, units, grain_size, operand.numel * RUNNING_WORK
        )

    _into_place(lowering, node, axis, launch)


@cache
def _resample(direction: str, dtype: str) -> Any:
    from weft.engine.devices.cpu.kernels import resample, resample_taps

    lower = {
        "gathered": partial(resample.lower_resample, dtype, False),
        "spread": partial(resample.lower_resample, dtype, True),
        "products": partial(resample_taps.lower_products, dtype),
        "largest": partial(resample_taps.lower_largest, dtype),
    }
    return _spec(("resample", direction, dtype), lower[direction])


def lower_resample(lowering: Lowering, node: Node) -> None:
    """Along an axis, over (outer, axis, inner): weighted sums or their transpose, what weighs each tap, the largest."""
    from weft.engine.devices.cpu.kernels.resample import launch_resample
    from weft.engine.devices.cpu.kernels.resample_taps import launch_largest, launch_products

    operand, index = node.inputs[:2]
    if node.numel == 0:
        return
    axis, extent = node.params
    outer, inner = math.prod(operand.shape[:axis]), math.prod(operand.shape[axis + 1 :])
    taps, places = index.shape
    spread = node.op.form == RESAMPLE_TRANSPOSED
    direction = node.op.combiner or ("spread" if spread else "gathered")
    launches = {"products": launch_products, "largest": launch_largest}
    launch = launches.get(direction, partial(launch_resample, spread))
    units, grain_size = launch(outer, taps, places, inner)
    in_rows = direction == "gathered" and inner == 1
    at = _taps(lowering, index, in_rows)
    weights = at  # of the largest nobody reads them
    if direction == "products":
        weights = contiguous(lowering, node.inputs[2]), (0, 0)
    elif direction != "largest":
        weights = _taps(lowering, node.inputs[2], in_rows)
    lowering.add(
        _resample(direction, operand.dtype.name),
        [contiguous(lowering, operand), at[0], weights[0], (lowering.slot_of(node), 0)],
        [outer, taps, places, extent, inner, *at[1], *weights[1]],
        units,
        grain_size,
        outer * places * inner * taps * TAP_WORK,
    )


def _taps(
    lowering: Lowering, value: Node, in_rows: bool
) -> tuple[tuple[int, int], tuple[int, ...]]:
    """(slot, byte offset) of an index or weights (taps, places), and their strides; laid out in rows on request."""
    if in_rows:
        return contiguous(lowering, value), contiguous_strides(value.shape)
    slot, offset, strides = lowering.region_of(value)
    return (slot, offset), strides


LOWER = {
    CUMULATIVE: lower_scan,
    ORDER: lower_order,
    RUNNING: lower_running,
    RESAMPLE: lower_resample,
    RESAMPLE_TRANSPOSED: lower_resample,
}


@cache
def _scatter(combine: str | None, dtype: str) -> Any:
    from weft.engine.devices.cpu.kernels.scatter import lower_scatter

    return _spec(
        ("scatter", combine or "store", dtype),
        lambda symbol: lower_scatter(dtype, combine, symbol),
        True,
    )


def scatter_spec(node: Node) -> Any:
    """The kernel of a scatter."""
    return _scatter(node.op.combiner or None, node.dtype.name)


def lower_scatter(lowering: Lowering, node: Node) -> None:
    """The base copied, then the source written through the index in order: over (outer, positions, inner)."""
    base, index, source = node.inputs
    strides = contiguous_strides(node.shape)
    slot = lowering.slot_of(node)
    copy_base(lowering, node, base)
    if index.numel == 0 or source.numel == 0:
        return
    axis = node.params[0]
    at = lowering.region_of(index)
    if node.op.form == SLICES or 0 not in at[2]:
        at = (*contiguous(lowering, index), contiguous_strides(index.shape))
    places = [at[:2], lowering.region_of(source)[:2], (slot, 0)]
    if node.op.form == SLICES:
        outer, inner = math.prod(node.shape[:axis]), math.prod(node.shape[axis + 1 :])
        places[1] = contiguous(lowering, source)
        count = index.numel
        steps = (0, 1, 0), (count * inner, inner, 1), (node.shape[axis] * inner, inner, 1)
        geometry = [((outer, count, inner), steps, (0, 0, 0))]
    else:
        given = at[2], lowering.region_of(source)[2], strides
        geometry = list(_scatter_geometry(index.shape, given, axis))
    for sizes, steps, shifts in geometry:
        _launch_scatter(lowering, node, places, sizes, steps, shifts)


def _launch_scatter(
    lowering: Lowering,
    node: Node,
    places: list[tuple[int, int]],
    sizes: tuple[int, ...],
    steps: tuple[tuple[int, ...], ...],
    shifts: tuple[int, ...],
) -> None:
    """One scatter, many positions by several launches, which keep their order. Steps and shifts (in elements) are
    those of index, source and output."""
    from weft.engine.devices.cpu.kernels.scatter import launch_scatter

    outer, count, inner = sizes
    units, grain_size = launch_scatter(*sizes)[:2]
    spec = scatter_spec(node)
    itemsizes = (8, node.dtype.itemsize, node.dtype.itemsize)
    most = lowering.program.device.tuning.copies.scattered_positions
    for start in range(0, count, most):
        positions = min(most, count - start)
        moves = (start * steps[0][1], start * steps[1][1], 0)
        pointers = [
            (slot, offset + (shift + move) * size)
            for (slot, offset), shift, move, size in zip(
                places, shifts, moves, itemsizes, strict=True
            )
        ]
        lowering.add(
            spec,
            [*pointers, (-1, 0)],
            [outer, positions, inner, node.shape[node.params[0]], *steps[0], *steps[1], *steps[2]],
            units,
            grain_size,
            outer * positions * inner * 2,
        )


def _scatter_geometry(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...], axis: int
) -> Iterator[tuple[Any, Any, Any]]:
    """(outer, positions, inner) views of an elementwise scatter over the shape of its index, of whose strides and
    those of source and output; inner is the dimension behind the axis, if there is one, as in memory. Dimensions
    beyond three are walked here."""
    dims: list[_Dim] = list(zip(shape, zip(*strides, strict=True), strict=True))
    before, behind = _merged(dims[:axis]), _merged(dims[axis + 1 :])
    none: _Dim = (1, (0, 0, 0))
    inner = outer = none
    if behind or len(before) > 1:
        inner = (behind or before).pop()
    if before or behind:
        outer = (before or behind).pop()
    middle = dims[axis] if shape else none
    views = (outer, middle, inner)
    sizes = tuple([size for size, _ in views])
    steps_of_operands = tuple(zip(*[steps for _, steps in views], strict=True))
    for shifts in _starts(before + behind):
        yield sizes, steps_of_operands, shifts


def _merged(dims: list[_Dim]) -> list[_Dim]:
    """Dimensions, those as one over which every operand goes on in equal steps."""
    found: list[_Dim] = []
    for size, steps in dims:
        if size == 1:
            continue
        if found and all(
            wide == step * size for wide, step in zip(found[-1][1], steps, strict=True)
        ):
            size *= found.pop()[0]
        found.append((size, steps))
    return found


def _starts(dims: list[_Dim]) -> list[tuple[int, ...]]:
    """The offsets (index, source, output) of each position in the given dimensions."""
    starts: list[tuple[int, ...]] = [(0, 0, 0)]
    for size, steps in dims:
        starts = [
            tuple([start + i * step for start, step in zip(each, steps, strict=True)])
            for each in starts
            for i in range(size)
        ]
    return starts
