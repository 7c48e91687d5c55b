# cython: language_level=3
"""Def-use: the readers of the values that kernels compute, for the passes of this folder.

`mark_uses` finds in one walk over all operands, for each value, whether it must be stored and which single other
kernel reads it element by element; the marks hold until nodes move. `uses_of` lists every use of the few values for
which a pass needs that.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.fusion.regions import lies_within
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    ProgramValue,
    maker,
    memref_of,
    operand,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.cclass
class Use:
    """That a node of a kernel reads a value as the operand of this number."""


@cython.ccall
def mark_uses(program: Program) -> cython.void:
    """Number the kernels, and say of each value whether it leaves its kernel, and which kernel alone reads it then."""
    kernel: Kernel
    node: Node
    value: ProgramValue
    number: cython.Py_ssize_t
    for value in program.values:
        value.stored = value.kept or value.kernel is None
        value.read = False
        value.reader = None
    for kernel in program.kernels:
        for node in kernel.nodes:
            for number in range(len(node.inputs)):
                _mark(kernel, operand(program, node, number))
    for index, kernel in enumerate(program.kernels):
        kernel.position = index
        kernel.stores = []
        for node in kernel.nodes:
            if memref_of(program, node).value.stored:
                kernel.stores.append(node)


@cython.cfunc
@cython.inline
def _mark(kernel: Kernel, memref: MemRef) -> cython.void:
    """That a kernel reads a place."""
    value: ProgramValue = memref.value
    if value.kernel is None or (value.stored and value.read and value.reader is None):
        return
    own: cython.bint = kernel.kind == _elementwise and maker(memref) is kernel
    fits: cython.bint = reads_elements(kernel, memref)
    if own and fits:
        return
    value.stored = value.stored or not own or not lies_within(kernel, memref)
    value.reader = kernel if fits and (not value.read or value.reader is kernel) else None
    value.read = True


@cython.cfunc
def reads_elements(kernel: Kernel, memref: MemRef) -> cython.bint:
    """True if a kernel reads all of a value, element by element of its own iteration space."""
    return kernel.kind == _elementwise and memref.whole and equal(memref.shape, kernel.shape)


@cython.cfunc
def uses_of(program: Program, wanted) -> dict:
    """Value -> its uses, in the order of the kernels; of the stored values that are wanted, or of all
    that kernels compute."""
    found: dict = {}
    kernel: Kernel
    node: Node
    value: ProgramValue
    number: cython.Py_ssize_t
    for kernel in program.kernels:
        for node in kernel.nodes:
            for number in range(len(node.inputs)):
                value = operand(program, node, number).value
                if value.kernel is None:
                    continue
                if wanted is not None and not (value.stored and value in wanted):
                    continue
                use: Use = Use.__new__(Use)
                use.kernel, use.node, use.number = kernel, node, number
                found.setdefault(value, []).append(use)
    return found
