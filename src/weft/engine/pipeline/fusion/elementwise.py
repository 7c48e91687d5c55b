# cython: language_level=3
"""Elementwise fusion: chooses the kernel that an elementwise node joins, or makes a new one."""

import cython
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.fusion.regions import (
    append_kernel,
    goes_on,
    merge,
    raise_kernel,
    reads_inside,
)
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, MemRef, Program, maker, operand

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.cfunc
def join_elementwise(program: Program, kernels: list, node: Node) -> Kernel:
    """The kernel of the latest input, where the iteration spaces agree; merged with the other inputs' kernels
    where nothing stands between them; otherwise a new one."""
    candidates: list = []
    floor: cython.int = _find_candidates(program, node, candidates)
    best: Kernel = _latest_above(candidates, floor)
    if best is None:
        best = Kernel(_elementwise, node.shape)
        append_kernel(kernels, best)
        return best
    if best.axes is not None and not best.is_row_kernel:
        best.is_row_kernel = goes_on(program, best, node)
    if len(candidates) > 1:
        candidates.sort(key=_position_of, reverse=True)
    kernel: Kernel
    for kernel in candidates:
        if kernel is best or merge(program, kernels, kernel, best):
            continue
        if kernel.position > floor and raise_kernel(program, kernels, kernel, best):
            best = kernel
            best.is_row_kernel = best.is_row_kernel or goes_on(program, best, node)
        else:  # it is read by `best`, which cannot rise above it
            floor = max(floor, kernel.position)
    return best


@cython.cfunc
def _find_candidates(program: Program, node: Node, candidates: list) -> cython.int:
    """Append the kernels of inputs that a node can join; the position of the last other one, above which it must
    stay, or -1."""
    floor: cython.int = -1
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        memref: MemRef = operand(program, node, number)
        kernel: Kernel = maker(memref)
        if kernel is None:
            continue
        first: cython.bint = program.clones is not None and _is_first_clone(
            program, node, memref.root
        )
        if not first and reads_inside(program, kernel, node, memref):
            if kernel not in candidates:
                candidates.append(kernel)
        elif kernel.position > floor:
            floor = kernel.position
    return floor


@cython.cfunc
def _latest_above(candidates: list, floor: cython.int) -> Kernel:
    """The last kernel behind a position, or None."""
    best: Kernel = None
    kernel: Kernel
    for kernel in candidates:
        if kernel.position > floor and (best is None or kernel.position > best.position):
            best = kernel
    return best


@cython.cfunc
def _is_first_clone(program: Program, node: Node, root: Node) -> cython.bint:
    """True if a clone reads a value that is no clone: the kernel that made this value must not take the clone."""
    return node in program.clones and root not in program.clones


def _position_of(kernel: Kernel):
    return kernel.position
