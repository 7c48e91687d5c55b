"""Lowering of implicit GEMM: matrix products whose operands have several strided dimensions per axis.

`weft.engine.pipeline.simplify.implicit_gemm` decides which products these are, and how their axes are walked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from weft.engine.pipeline.launch_ir import KernelSpec
from weft.engine.pipeline.simplify.implicit_gemm import DIMENSIONS, Dims, choose

if TYPE_CHECKING:
    from weft.engine.ir.node import Node
    from weft.engine.pipeline.launch_ir import Lowering


@cache
def _kernel(dtype: str, variant: str) -> Any:
    from weft.engine.devices.cpu.gemm import lower_axes as code

    name = f"gemm_axes_{dtype}_{variant}"
    return KernelSpec(name, lambda symbol: code(dtype, symbol, variant), (name,))


def lower_axes(lowering: Lowering, node: Node) -> None:
    """The launches of a product that has operands with nested strides."""
    from weft.engine.devices.cpu.gemm import launch_axes

    left, right = [lowering.region_of(source) for source in node.inputs]
    shapes = [source.shape for source in node.inputs]
    tuning = lowering.program.device.tuning.products
    form = choose(tuning, node.shape, (shapes[0], left[2]), (shapes[1], right[2]))
    assert form is not None, "absorb has asked before"
    axes, size = form.axes, node.dtype.itemsize
    places = [left[:2], right[:2], (lowering.slot_of(node), 0)]
    if form.transposed:
        places[:2] = places[1::-1]
    *outer, inner = axes.batch or ((1, 0, 0, 0),)
    m, n, k = [math.prod([dim[0] for dim in dims]) for dims in axes[1:]]
    row = axes.m[-1][2] if axes.m else 0
    arguments = [m, n, k, *inner, row]
    for dims in axes[1:]:
        arguments += _filled(dims)
    arguments += [form.a_step, int(form.b_along_k), form.b_step]
    launch = launch_axes(node.dtype.name, inner[0], m, n, k)
    spec = _kernel(node.dtype.name, launch.variant)
    cost_ns = inner[0] * m * n * max(k, 1) // 40
    for moves in _moves(outer):
        pointers = [
            (slot, offset + move * size) for (slot, offset), move in zip(places, moves, strict=True)
        ]
        lowering.add(spec, pointers, list(arguments), launch.units, launch.grain_size, cost_ns)


def _filled(dims: Dims) -> list[int]:
    """The words of an axis."""
    empty = [1, 0, 0] * (DIMENSIONS - len(dims))
    return [*empty, *[word for dim in dims for word in dim]]


def _moves(dims: Sequence[tuple[int, ...]]) -> list[tuple[int, int, int]]:
    """Offsets in A, B and C of the matrices that are launched one by one."""
    found = [(0, 0, 0)]
    for size, a, b, c in dims:
        found = [(x + i * a, y + i * b, z + i * c) for x, y, z in found for i in range(size)]
    return found
