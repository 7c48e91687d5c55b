# cython: language_level=3
"""Lowering of copies and indexed reads: loops whose text is the same for every program.

In come regions (slot, byte offset, strides), or a `gather` or `take`; out go launches.
"""

import cython
from cython.cimports.weft.graph.dtype import DType
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.schedule.collect import row_major
from cython.cimports.weft.schedule.loops import (
    Builder,
    _real,
    _specs,
    classes,
    find_spec,
    launch_loops,
)
from cython.cimports.weft.schedule.lower import KernelSpec, Launch, Lowering
from cython.cimports.weft.schedule.records import Kernel, Place

from weft._compiled import require
from weft.graph.rows import ELEMENTWISE
from weft.schedule.loops import symbol_of

require(__name__, cython.compiled)


@cython.cfunc
def lower_copy(
    lowering: Lowering, dtype: DType, shape: tuple, source: tuple, target: tuple
) -> cython.void:
    """Copy between strided regions of one shape; each is (slot, byte offset, strides)."""
    if 0 in shape:
        return
    builder: Builder = Builder(lowering.program, Kernel(ELEMENTWISE, shape))
    builder.operands.append((dtype.name, list(source[2]), _real))
    builder.body.append(("load", dtype.name, (), 0))
    builder.stores.append((dtype.name, ("b", 0), list(target[2]), False, _real))
    builder.collapse()
    builder.spec = find_spec(builder)
    launch_loops(lowering, builder, [(source[0], source[1]), (target[0], target[1])])


@cython.cfunc
def lower_indexed(lowering: Lowering, node: Node) -> cython.void:
    """gather and take: a load through index values."""
    if node.numel == 0:
        return
    table: Node = node.inputs[0]
    index: Node = node.inputs[1]
    axis: cython.Py_ssize_t = node.params[0]
    place: Place = lowering.program.places[table]
    index_place: Place = lowering.program.places[index]
    rank: cython.Py_ssize_t = len(node.shape)
    if node.row.name == "gather":
        strides = [0 if i == axis else place.strides[i] for i in range(rank)]
        index_strides = list(index_place.strides)
    else:
        inner: cython.Py_ssize_t = len(index.shape)
        strides = list(place.strides[:axis]) + [0] * inner + list(place.strides[axis + 1 :])
        index_strides = [0] * axis + list(index_place.strides)
        index_strides += [0] * (rank - len(index_strides))
    builder: Builder = Builder(lowering.program, Kernel(ELEMENTWISE, node.shape))
    builder.operands.append((index.dtype.name, index_strides, _real))
    builder.operands.append((node.dtype.name, strides, _real))
    builder.body.append(("load", index.dtype.name, (), 0))
    builder.body.append(("load_indexed", node.dtype.name, (("b", 0),), 1))
    builder.stores.append((node.dtype.name, ("b", 1), list(row_major(node.shape)), False, _real))
    builder.collapse()
    pointers: list = [
        lowering.pointer(index_place, index.dtype.itemsize),
        lowering.pointer(place, node.dtype.itemsize),
        (lowering.plan.slots[node], 0),
        (-1, 0),
    ]
    _launch_indexed(lowering, builder, pointers, place.strides[axis], table.shape[axis])


@cython.cfunc
def _launch_indexed(
    lowering: Lowering, builder: Builder, pointers: list, stride, extent
) -> cython.void:
    rank: cython.Py_ssize_t = len(builder.dims)
    key = (
        "indexed",
        rank,
        tuple([(o[0], classes(o[1])) for o in builder.operands]),
        classes(builder.stores[0][2]),
    )
    spec = _specs.get(key)
    if spec is None:

        def build(symbol):
            from weft.schedule.specs import indexed_text

            return indexed_text(key, symbol)

        spec = _specs[key] = KernelSpec(
            symbol_of(key, ["indexed"]), build, (symbol_of(key, ["indexed"]),), True
        )
    arguments: list = [
        *builder.dims,
        *builder.operands[0][1],
        *builder.operands[1][1],
        stride,
        extent,
        *builder.stores[0][2],
    ]
    total: cython.longlong = 1
    for size in builder.dims:
        total *= size
    lowering.launches.append(
        Launch(
            spec,
            pointers,
            arguments,
            builder.dims[0],
            1024 if rank == 1 else 1,
            total,
            lowering.current,
        )
    )
