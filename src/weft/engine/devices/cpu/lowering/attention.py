# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Lowering of attention: one launch of its kernel per node, with operands read in place.

It takes a node of one of the four ops of `weft.ops.contractions.attention` and the Lowering in progress. A batch of
nodes is one launch; of nested batches, all but the last dimension are walked here.
"""

from __future__ import annotations

import itertools
import math
import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.ir.primitive import ATTENTION_GRADIENT

from weft._build.compiled import require
from weft.engine.devices.cpu.lowering.copy import contiguous
from weft.engine.ir.strides import contiguous_strides
from weft.ops.contractions.attention import PLAIN, gradient_shapes, result_shapes

if TYPE_CHECKING:
    from weft.engine.ir.node import Node
    from weft.engine.pipeline.launch_ir import KernelSpec, Lowering

require(__name__, cython.compiled)

Shape = tuple[int, ...]
Region = tuple[
    int, int, Shape
]  # slot, byte offset, strides of every dimension that the kernel walks
DENSE = {
    "out": 1,
    "stats": 2,
}  # the number of last dimensions of an operand that the kernel takes to be row-major


@cache
def _spec(dtype: str, variant: str) -> Any:
    from weft.engine.devices.cpu.attention import lower_attention
    from weft.engine.pipeline.launch_ir import KernelSpec

    name = f"attention_{variant}_{dtype}"
    return KernelSpec(name, lambda symbol: lower_attention(dtype, symbol, variant), (name,))


@lru_cache(4096)
def _units(kind: str, dtype: str, matrices: Shape, rows: int, keys: int, depth: int) -> Any:
    from weft.engine.devices.cpu.attention import launch_attention, launch_gradient

    outer, inner, heads, group = matrices
    if kind == "backward":
        return launch_gradient(outer * inner * heads, group * rows, keys, depth)
    return launch_attention(dtype, outer * inner * heads, rows, keys, depth)


def lower_attention(lowering: Lowering, node: Node) -> None:
    """Any of the four rows: operands, what the kernel writes, the mask."""
    kind = "backward" if node.op.form == ATTENTION_GRADIENT else "forward"
    given = dict(zip(node.op.operands, node.inputs, strict=True))
    lead = node.shape[:-4]
    mask = given.pop("mask", None)
    shapes = tuple([given[name].shape[-4:] for name in ("query", "key", "value")])
    regions = [_read(lowering, source, lead, DENSE.get(name, 0)) for name, source in given.items()]
    regions += _written(lowering, node, kind, shapes)
    if mask is not None:
        regions.append(_read(lowering, mask, lead, 1)[:3])
    variant = kind if mask is None else f"{kind}_masked"
    _launch(lowering, node, kind, _spec(node.dtype.name, variant), shapes, regions)


def _read(lowering: Lowering, source: Node, lead: Shape, dense: int) -> Region:
    """The region of an operand: strides of the batch, its own first three dimensions, and columns if it has any.
    Copied if its last `dense` dimensions are not row-major."""
    slot, offset, strides = lowering.region_of(source)
    shape = source.shape
    if strides[len(shape) - dense :] != contiguous_strides(shape)[len(shape) - dense :]:
        slot, offset = contiguous(lowering, source)
        strides = contiguous_strides(shape)
    steps = tuple([0 if n == 1 else step for n, step in zip(shape, strides, strict=True)])
    missing = (0,) * (len(lead) + 4 - len(shape))
    kept = len(steps) if dense == 0 else len(steps) - dense
    return slot, offset, (*missing, *steps[:kept])


def _written(lowering: Lowering, node: Node, kind: str, shapes: tuple[Shape, ...]) -> list[Region]:
    """The arrays that one vector holds, each (B, heads, rows, columns) in its order in memory."""
    slot, size = lowering.slot_of(node), node.dtype.itemsize
    query, _, value = shapes
    parts = result_shapes(query, value) if kind == "forward" else gradient_shapes(*shapes)
    lead = contiguous_strides(node.shape)[:-4]
    found, start = [], 0
    for number, shape in enumerate(parts):
        statistics = (
            kind == "forward" and number == 1
        )  # of rows that are contiguous: the kernel needs no stride
        order = PLAIN if statistics else node.params[2]
        steps = contiguous_strides(tuple([shape[axis] for axis in order]))
        inner = [steps[order.index(axis)] for axis in range(2 if statistics else 3)]
        found.append((slot, start * size, (*lead, *inner)))
        start += math.prod(shape)
    return found


def _launch(
    lowering: Lowering,
    node: Node,
    kind: str,
    spec: KernelSpec,
    shapes: tuple[Shape, ...],
    regions: list[Region],
) -> None:
    """One launch for each place in all leading dimensions but the last."""
    (inner, heads, rows, depth), (_, groups, keys, _), (*_, width) = shapes
    lead, share = node.shape[:-4], heads // groups
    outer = lead[-1] if lead else 1
    matrices = (outer, inner, groups if kind == "backward" else heads, share)
    scale, causal, _ = node.params
    bits = struct.unpack("<q", struct.pack("<d", scale))[0]
    size = node.dtype.itemsize
    arguments = [*matrices, rows, keys, depth, width, int(causal), bits]
    skipped = max(len(lead) - 1, 0)
    for _, _, strides in regions:
        arguments += strides[skipped:] if lead else (0, *strides)
    units, grain_size = _units(kind, node.dtype.name, matrices, rows, keys, max(depth, width))
    cost_ns = (
        outer * inner * heads * rows * keys * (depth + width) // (40 if kind == "forward" else 16)
    )
    for place in itertools.product(*map(range, lead[:skipped])):
        pointers = [
            (slot, offset + size * sum([i * step for i, step in zip(place, strides, strict=False)]))
            for slot, offset, strides in regions
        ]
        lowering.add(spec, pointers, list(arguments), units, grain_size, cost_ns)
