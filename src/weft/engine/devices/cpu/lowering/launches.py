# cython: language_level=3
"""Launches on the CPU: planned kernels become launches, by one module for each kind of kernel.

It takes a planned Program and appends Launch records: a kernel (a KernelSpec: a key and a way to build its LLVM IR),
its pointers as (slot, byte offset), its integer arguments, its units of work. Kernels are specialised on structure,
dtypes, collapsed axes and stride classes, never on sizes.
"""

import cython
from cython.cimports.weft.engine.devices.cpu.lowering.copy import (
    lower_copy,
    lower_indexed,
    lower_region,
)
from cython.cimports.weft.engine.devices.cpu.lowering.matmul import lower_matmul
from cython.cimports.weft.engine.devices.cpu.lowering.rows import lower_kernel
from cython.cimports.weft.engine.devices.cpu.lowering.segment_gather import lower_joined, lower_rows
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import CONCAT
from cython.cimports.weft.engine.pipeline.launch_ir import Lowering, joined
from cython.cimports.weft.engine.pipeline.memory_plan import Plan, value_of
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    operand,
    row_major,
)

from weft._build.compiled import require
from weft.engine.devices.cpu.lowering import scan_sort_scatter
from weft.engine.ir.primitive import CONTRACT, ELEMENTWISE, INDEX, REGION, ROWS, SCAN, SCATTER, VIEW
from weft.errors import VerificationError

require(__name__, cython.compiled)


def lower(program: Program, plan: Plan) -> Lowering:
    """The launches of a planned program, in order."""
    lowering: Lowering = Lowering(program, plan)
    launches: list = []
    members: list = []  # the launches of each kernel of the group in hand
    kernel: Kernel
    for kernel in program.kernels:
        if kernel.position != lowering.current:
            _close(lowering, launches, members)
            members = []
        lowering.current = kernel.position
        lowering.launches = []
        _lower_one(lowering, kernel)
        members.append(lowering.launches)
    _close(lowering, launches, members)
    lowering.launches = launches
    return lowering


@cython.cfunc
def _close(lowering: Lowering, launches: list, members: list) -> cython.void:
    """Append a group; before it the copies that several of its members read."""
    if lowering.prepacked is not None and lowering.prepacked.copies:
        launches.extend(lowering.prepacked.take_copies())
    launches.extend(joined(members))


@cython.cfunc
def _lower_one(lowering: Lowering, kernel: Kernel) -> cython.void:
    """Append the launches of one kernel."""
    if kernel.kind == ELEMENTWISE:
        lower_kernel(lowering, kernel)
        return
    node: Node = kernel.nodes[0]
    if value_of(lowering.plan, node).slot < 0:
        return
    if kernel.kind == VIEW:
        _lower_reshape(lowering, node)
    elif kernel.kind == INDEX:
        lower_indexed(lowering, node)
    elif kernel.kind == REGION:
        _lower_update(lowering, node)
    elif kernel.kind == CONTRACT:
        lower_matmul(lowering, node)
    elif kernel.kind == SCAN:
        scan_sort_scatter.LOWER[node.op.form](lowering, node)
    elif kernel.kind == SCATTER:
        scan_sort_scatter.lower_scatter(lowering, node)
    elif kernel.kind == ROWS:
        lower_rows(lowering, node)
    else:
        raise VerificationError("lower", expected="a kind of kernel", got=repr(kernel))


@cython.cfunc
def _lower_update(lowering: Lowering, node: Node) -> cython.void:
    """A write of regions: a concatenation with a kernel of its own where there is one."""
    if node.op.form != CONCAT or not lower_joined(lowering, node):
        lower_region(lowering, node)


@cython.cfunc
def _lower_reshape(lowering: Lowering, node: Node) -> cython.void:
    """A view that its operand's strides cannot express: a copy in row-major order."""
    source: Node = node.inputs[0]
    memref: MemRef = operand(lowering.program, node, 0)
    slot, offset = lowering.pointer(memref, source.dtype.itemsize)
    lower_copy(
        lowering,
        node.dtype,
        source.shape,
        (slot, offset, memref.strides),
        (value_of(lowering.plan, node).slot, 0, row_major(source.shape)),
    )
