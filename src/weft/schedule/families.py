"""Lowering of the kernels that are not loops: region writes, matrix products, scans, scatters, gathered rows.

Each function takes the Lowering in hand and one node, and appends launches. Places arrive as (slot, byte offset,
element strides); operands that a family cannot read in place are copied to temporaries first.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from weft.graph.strides import contiguous_strides
from weft.schedule.records import Place
from weft.schedule.turning import turned

Region = tuple[int, int, tuple[int, ...]]
POSITIONS = 1 << 21  # of a scatter in one launch: signals are answered between launches


def _spec(key: tuple[Any, ...], build: Any, checked: bool = False) -> Any:
    from weft.schedule import lower

    name = "_".join(str(part) for part in key)
    return lower.KernelSpec(name, build, (name,), checked)


# -- regions -------------------------------------------------------------------------------------------------------


def lower_region(lowering: Any, node: Any) -> None:
    """put: the base, then the region over it. cat: every part into its region."""
    strides = contiguous_strides(node.shape)
    slot = lowering.slot_of(node)
    size = node.dtype.itemsize
    if node.row.name == "put":
        base, new = node.inputs
        offset, region = node.params
        _copy_base(lowering, node, base, (slot, 0, strides))
        lowering.copy(node.dtype, new.shape, lowering.place_of(new), (slot, offset * size, region))
        return
    start, axis = 0, node.params[0]
    for part in node.inputs:
        lowering.copy(
            node.dtype,
            part.shape,
            lowering.place_of(part),
            (slot, start * strides[axis] * size, strides),
        )
        start += part.shape[axis]
    lowering.abreast()


def _copy_base(lowering: Any, node: Any, base: Any, place: Region) -> None:
    """The base where the result is to be, unless it is there."""
    root = base_root(lowering, base)
    if root not in lowering.plan.in_place or lowering.plan.slots[root] != place[0]:
        lowering.copy(node.dtype, node.shape, lowering.place_of(base), place)


def base_root(lowering: Any, node: Any) -> Any:
    """The value that a base's region lies in."""
    place: Place = lowering.program.places[node]
    return place.root


# -- matrix products -----------------------------------------------------------------------------------------------


@cache
def _gemm(dtype: str, variant: str) -> Any:
    from weft.codegen.gemm import lower_gemm

    return _spec(("gemm", dtype, variant), lambda symbol: lower_gemm(dtype, symbol, variant))


@lru_cache(4096)
def _gemm_shape(dtype: str, batch: int, m: int, n: int, k: int, along: tuple[bool, bool]) -> Any:
    from weft.codegen.gemm import launch_gemm

    return launch_gemm(dtype, batch, m, n, k, along=along)


def _batch_strides(
    strides: tuple[int, ...], shape: tuple[int, ...], batch: tuple[int, ...]
) -> list[int]:
    lead = len(batch) - (len(shape) - 2)
    return [0 if i < lead or shape[i - lead] == 1 else strides[i - lead] for i in range(len(batch))]


def lower_matmul(lowering: Any, node: Any) -> None:
    """matmul, and linear as a product with the weight read by columns; attention has kernels of its own."""
    if node.numel == 0:
        return
    if node.row.name.startswith("attention"):
        from weft.schedule.attention import lower_attention

        lower_attention(lowering, node)
        return
    a, b = node.inputs[:2]
    left, right = lowering.place_of(a), lowering.place_of(b)
    if any([isinstance(stride, tuple) for stride in (*left[2], *right[2])]):
        from weft.schedule.products import lower_axes

        lower_axes(lowering, node)
        return
    a_shape, b_shape, shape = a.shape, b.shape, node.shape
    if node.row.name != "matmul":
        b_shape, right = b_shape[::-1], (*right[:2], right[2][::-1])
        if len(a_shape) == 1:
            a_shape, shape, left = (1, *a_shape), (1, *shape), (*left[:2], (0, *left[2]))
    right = turned(lowering, node, right)
    _lower_product(lowering, node, (a_shape, left), (b_shape, right), shape)


def _lower_product(lowering: Any, node: Any, left: Any, right: Any, shape: Any) -> None:
    """One product per batch dimension that does not collapse; rows of a shared right operand become one product."""
    a_shape, (a_slot, a_offset, a_strides) = left
    b_shape, (b_slot, b_offset, b_strides) = right
    out = contiguous_strides(shape)
    batch, (m, n), k = shape[:-2], shape[-2:], a_shape[-1]
    dims = [
        (size, x, y, z)
        for size, x, y, z in zip(
            batch,
            _batch_strides(a_strides, a_shape, batch),
            _batch_strides(b_strides, b_shape, batch),
            out,
            strict=False,
        )
        if size != 1
    ]
    dims = _collapse(dims)
    a_row, a_column = a_strides[-2:]
    if m == 1:
        a_row = k if not dims else dims[-1][1]
    c_row, c_column = n, 1
    while (
        dims
        and dims[-1][2] == 0
        and (m == 1 or (dims[-1][1] == m * a_row and dims[-1][3] == m * c_row))
    ):
        size, a_row, _, c_row = (
            (dims[-1][0], dims[-1][1], 0, dims[-1][3]) if m == 1 else (dims[-1][0], a_row, 0, c_row)
        )
        m *= size
        dims.pop()
    inner = dims.pop() if dims else (1, 0, 0, 0)
    size = node.dtype.itemsize
    slot = lowering.slot_of(node)
    bias = [lowering.contiguous(vector) for vector in node.inputs[2:]]
    for offsets in _outer(dims):
        pointers = [
            (a_slot, a_offset + offsets[0] * size),
            (b_slot, b_offset + offsets[1] * size),
            (slot, offsets[2] * size),
            *bias,
        ]
        arguments = [
            inner[0],
            m,
            n,
            k,
            inner[1],
            a_row,
            a_column,
            inner[2],
            *b_strides[-2:],
            inner[3],
            c_row,
            c_column,
        ]
        _launch_gemm(lowering, node.dtype.name, inner[0], m, n, k, pointers, arguments)


def _launch_gemm(
    lowering: Any, dtype: str, batch: int, m: int, n: int, k: int, pointers: Any, arguments: Any
) -> None:
    along = arguments[6] == 1, arguments[8] == 1
    shape = _gemm_shape(dtype, batch, m, n, k, along)
    suffix = "_bias" if len(pointers) > 3 else ""
    lowering.add(
        _gemm(dtype, shape.variant + suffix),
        pointers,
        arguments,
        shape.units,
        shape.grain,
        batch * m * n * max(k, 1) // 40,
    )


def _collapse(dims: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Join neighbouring batch dimensions that are one stride for all three operands."""
    result: list[tuple[int, int, int, int]] = []
    for size, *strides in dims:
        if result and all(
            outer == inner * size for outer, inner in zip(result[-1][1:], strides, strict=True)
        ):
            result[-1] = (result[-1][0] * size, *strides)  # type: ignore[assignment]
        else:
            result.append((size, *strides))  # type: ignore[arg-type]
    return result


def _outer(dims: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int]]:
    offsets = [(0, 0, 0)]
    for size, a, b, c in dims:
        offsets = [(x + i * a, y + i * b, z + i * c) for x, y, z in offsets for i in range(size)]
    return offsets


# -- scans and scatters --------------------------------------------------------------------------------------------


@cache
def _scan(kind: str, dtype: str) -> Any:
    from weft.codegen.scan import lower_scan

    return _spec((kind, dtype), lambda symbol: lower_scan(kind, dtype, symbol))


def lower_scan(lowering: Any, node: Any) -> None:
    """cumsum and cumprod: the operand with the axis last, scanned row by row, then moved back."""
    source, axis = node.inputs[0], node.params[0]
    if node.numel == 0:
        return
    slot, offset, strides = lowering.place_of(source)
    order = (*(a for a in range(len(node.shape)) if a != axis), axis)
    moved = tuple(node.shape[a] for a in order)
    rows, length = node.numel // node.shape[axis], node.shape[axis]
    size = node.dtype.itemsize
    dense = contiguous_strides(moved)
    last = axis == len(node.shape) - 1
    if strides != contiguous_strides(node.shape) or not last:
        target = lowering.scratch_slot(node.numel * size)
        lowering.copy(
            node.dtype, moved, (slot, offset, tuple(strides[a] for a in order)), (target, 0, dense)
        )
        slot, offset = target, 0
    out = lowering.slot_of(node) if last else lowering.scratch_slot(node.numel * size)
    kind = node.row.name.removeprefix("cum")
    _launch_scan(lowering, _scan(kind, node.dtype.name), (slot, offset), out, (rows, length), size)
    if not last:
        final = contiguous_strides(node.shape)
        lowering.copy(
            node.dtype,
            moved,
            (out, 0, dense),
            (lowering.slot_of(node), 0, tuple(final[a] for a in order)),
        )


def _launch_scan(
    lowering: Any, spec: Any, source: tuple[int, int], out: int, shape: tuple[int, int], size: int
) -> None:
    """Rows scanned by one launch, long ones by one per segment; each goes on from the total before it."""
    from weft.codegen.scan import SEGMENT, TOTAL, launch_scan

    rows, length = shape
    units, grain = launch_scan(rows, length)[:2]
    long = length > SEGMENT
    totals = lowering.scratch_slot(rows * TOTAL if long else TOTAL)
    for start in range(0, length, SEGMENT):
        count = min(SEGMENT, length - start)
        lowering.add(
            spec,
            [(source[0], source[1] + start * size), (out, start * size), (totals, 0)],
            [rows, count, length, 1, length, 1, int(start > 0), TOTAL if long else 0],
            units,
            grain,
            rows * count * 2,
        )


@cache
def _scatter(add: bool, dtype: str) -> Any:
    from weft.codegen.scatter import lower_scatter

    return _spec(
        ("scatter", "add" if add else "store", dtype),
        lambda symbol: lower_scatter(dtype, add, symbol),
        True,
    )


def lower_scatter(lowering: Any, node: Any) -> None:
    """The base copied, then the source written through the index in order: over (outer, positions, inner)."""
    base, index, source = node.inputs
    strides = contiguous_strides(node.shape)
    slot = lowering.slot_of(node)
    _copy_base(lowering, node, base, (slot, 0, strides))
    if index.numel == 0 or source.numel == 0:
        return
    axis = node.params[0]
    places = [lowering.contiguous(index), lowering.place_of(source)[:2], (slot, 0)]
    if node.row.name.startswith("take"):
        outer, inner = _product(node.shape[:axis]), _product(node.shape[axis + 1 :])
        places[1] = lowering.contiguous(source)
        count = index.numel
        steps = (0, 1, 0), (count * inner, inner, 1), (node.shape[axis] * inner, inner, 1)
        geometry = [((outer, count, inner), steps, (0, 0, 0))]
    else:
        source_strides = lowering.place_of(source)[2]
        geometry = list(_scatter_geometry(node, index, source_strides, strides, axis))
    for sizes, steps, shifts in geometry:
        _launch_scatter(lowering, node, places, sizes, steps, shifts)


def _launch_scatter(
    lowering: Any, node: Any, places: Any, sizes: Any, steps: Any, shifts: Any
) -> None:
    """One scatter, many positions by several launches, which keep their order. Steps and shifts (in elements) are
    those of index, source and output."""
    from weft.codegen.scatter import launch_scatter

    outer, count, inner = sizes
    units, grain = launch_scatter(*sizes)[:2]
    spec = _scatter(node.row.name in ("scatter_add", "take_add"), node.dtype.name)
    itemsizes = (8, node.dtype.itemsize, node.dtype.itemsize)
    for start in range(0, count, POSITIONS):
        positions = min(POSITIONS, count - start)
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
            grain,
            outer * positions * inner * 2,
        )


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _scatter_geometry(node: Any, index: Any, source_strides: Any, strides: Any, axis: int) -> Any:
    """(outer, positions, inner) views of an elementwise scatter; dimensions beyond three are walked here."""
    rank = len(node.shape)
    index_strides = contiguous_strides(index.shape)
    others = [a for a in range(rank) if a != axis]
    inner = others[-1] if others else None
    outer = others[-2] if len(others) > 1 else None
    walked = others[:-2]
    starts = [(0, 0, 0)]
    for a in walked:
        starts = [
            (s + i * source_strides[a], x + i * index_strides[a], o + i * strides[a])
            for s, x, o in starts
            for i in range(index.shape[a])
        ]

    def dims(values: Any) -> tuple[int, int, int]:
        return (
            values[outer] if outer is not None else 0,
            values[axis] if rank else 0,
            values[inner] if inner is not None else 0,
        )

    sizes = (
        index.shape[outer] if outer is not None else 1,
        index.shape[axis],
        index.shape[inner] if inner is not None else 1,
    )
    steps = dims(index_strides), dims(source_strides), dims(strides)
    for source_shift, index_shift, out_shift in starts:
        yield sizes, steps, (index_shift, source_shift, out_shift)
