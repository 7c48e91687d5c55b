# cython: language_level=3
"""The labels of programs: one for each node that their launches compute, for profilers.

Taken while the nodes still have their operands, and kept with an executable that is cached (about a hundred bytes of a
node): what `engine.devices.trace` records of a run is which launch ran when, and that is the same for every run.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import put
from cython.cimports.weft.engine.devices.trace import MOST_LABELS, Labels
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.launch_ir import Launch, Lowering
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    ProgramValue,
    has_memref,
    maker,
    memref_of,
)

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cfunc
def labels_of(program: Program, lowering: Lowering) -> Labels:
    """The labels of a lowered program that has not been committed."""
    labels: Labels = Labels()
    kernel: Kernel
    node: Node
    launch: Launch
    for kernel in program.kernels:
        for node in kernel.nodes:
            if labels.count < MOST_LABELS:
                _add(labels, program, kernel, node)
            else:
                labels.omitted += 1
    labels.specs = []
    if lowering.layout is not None:
        labels.again = lowering.layout.again
    for launch in lowering.launches:
        labels.specs.append(launch.spec)
        put(cython.address(labels.launches), 2 * launch.kernel + launch.final)
    return labels


@cython.cfunc
@cython.exceptval(-1, check=False)
def _add(labels: Labels, program: Program, kernel: Kernel, node: Node) -> cython.int:
    """Append the label of a node, and of its operands, as they lie before views of them are taken."""
    source: Node
    memref: MemRef
    value: ProgramValue = memref_of(program, node).value if has_memref(program, node) else None
    labels.add(node, (), kernel.position, value is not None and value.stored)
    if value is not None and value.stored:
        labels.note_slot(value.slot, -1 if value.kept else value.last_use)
    for source in node.inputs or ():
        inside: cython.bint = False
        if has_memref(program, source):
            memref = memref_of(program, source)
            inside = memref is not None and maker(memref) is kernel
        labels.add_operand(source.shape, source.dtype, inside)
    return 0
