# cython: language_level=3
"""Sibling fusion: two kernels one behind the other that read the same values are one, which reads them once.

`form_kernels` joins what reads to what it reads. Where an operand comes from outside there is nothing to join: an
update of a parameter and that of its running mean would be two kernels over the same gradient.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.fusion.def_use import mark_uses
from cython.cimports.weft.engine.pipeline.fusion.regions import most_nodes
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, MemRef, Program, maker, operand

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.ccall
def join_siblings(program: Program) -> cython.void:
    """Make one of each two elementwise kernels that follow each other and read an operand alike."""
    most: cython.int = most_nodes(program)
    before: Kernel = None
    kernel: Kernel
    kept: list = []
    if most == 1:
        return
    for kernel in program.kernels:
        if before is not None and _are_siblings(program, before, kernel, most):
            kernel.nodes = before.nodes + kernel.nodes
            before.merged = kernel
            kept.pop()
        kept.append(kernel)
        before = kernel
    if len(kept) < len(program.kernels):
        program.kernels = kept
        mark_uses(program)


@cython.cfunc
def _are_siblings(program: Program, early: Kernel, late: Kernel, most: cython.int) -> cython.bint:
    """True if two kernels over one space share an operand, and the later one reads nothing of the earlier one."""
    if early.kind != _elementwise or late.kind != _elementwise:
        return False
    if early.axes is not None or late.axes is not None or not equal(early.shape, late.shape):
        return False
    if len(early.nodes) + len(late.nodes) > most or _has_clone(program, late):
        return False
    return _share(program, early, late)


@cython.cfunc
def _share(program: Program, early: Kernel, late: Kernel) -> cython.bint:
    node: Node
    number: cython.Py_ssize_t
    seen: set = set()
    shared: cython.bint = False
    for node in early.nodes:
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            if memref.whole and equal(memref.shape, early.shape):
                seen.add(memref.root)
    for node in late.nodes:
        for number in range(len(node.inputs)):
            memref = operand(program, node, number)
            if maker(memref) is early:
                return False
            if memref.whole and memref.root in seen and equal(memref.shape, late.shape):
                shared = True
    return shared


@cython.cfunc
def _has_clone(program: Program, kernel: Kernel) -> cython.bint:
    """True if a kernel computes a value again: then what it was computed from shall not be kept for it."""
    return program.clones is not None and any([node in program.clones for node in kernel.nodes])
