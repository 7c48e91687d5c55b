# cython: language_level=3
"""Fusion of reductions: chooses the kernel that computes a reduction.

It is the kernel that computes the reduction's operand, or one that reduces other values of the same space in the same
way, so that values that both need are read once. `form_kernels` does the rest.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.fusion.regions import (
    append_kernel,
    in_epilogue,
    raise_kernel,
    room,
)
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, MemRef, Program, maker, operand

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE, REDUCE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_reduce = cython.declare(cython.int, REDUCE)


@cython.cfunc
def join_reduce(program: Program, kernels: list, node: Node) -> Kernel:
    """The kernel that computes the operand, where that is one elementwise space without another reduction."""
    memref: MemRef = operand(program, node, 0)
    shape: tuple = memref.shape
    axes: tuple = node.params[0]
    kernel: Kernel = maker(memref) if memref.whole else None
    if kernel is not None:
        if not (
            kernel.open
            and equal(kernel.shape, shape)
            and room(program, kernel) > 0
            and memref.root.op.kind != _reduce
            and not in_epilogue(kernel, memref.root)
            and (
                kernel.axes is None or (kernel.axes == axes and kernel.reduced_shape == node.shape)
            )
        ):
            kernel = None
        if kernel is None:
            kernel = _sibling(program, kernels, node, maker(memref))
        elif kernel.axes is None:
            kernel = _beside(program, kernels, node, kernel)
    if kernel is None:
        kernel = Kernel(_elementwise, shape)
        append_kernel(kernels, kernel)
    kernel.axes = axes
    kernel.reduced_shape = node.shape
    if len(axes) == 0 or _is_empty_beside(shape, axes):
        kernel.open = False
    return kernel


@cython.cfunc
def _is_empty_beside(shape: tuple, axes: tuple) -> cython.bint:
    """True if a dimension that is not reduced has no elements."""
    axis: cython.Py_ssize_t
    for axis in range(len(shape)):
        if shape[axis] == 0 and axis not in axes:
            return True
    return False


@cython.cfunc
def _sibling(program: Program, kernels: list, node: Node, below: Kernel) -> Kernel:
    """One of the latest kernels that makes the same kind of reduction of values of the kernel `below`: what both read
    is read once."""
    shape: tuple = cython.cast(Node, node.inputs[0]).shape
    other: Node
    number: cython.Py_ssize_t
    for kernel in kernels[-program.device.tuning.fusion.most_siblings :]:
        candidate: Kernel = kernel
        if candidate is None or not candidate.open or candidate.position <= below.position:
            continue
        if candidate.axes != node.params[0] or candidate.reduced_shape != node.shape:
            continue
        if candidate.shape != shape or room(program, candidate) <= 0:
            continue
        for other in candidate.nodes:
            for number in range(len(other.inputs)):
                if maker(operand(program, other, number)) is below:
                    return candidate
    return None


@cython.cfunc
def _beside(program: Program, kernels: list, node: Node, kernel: Kernel) -> Kernel:
    """One of the latest kernels that makes the same kind of reduction and reads some of the same values, with what is
    to be reduced taken into it: the gradients of a window's taps are sums over the same two images. Otherwise the
    kernel itself."""
    number: cython.Py_ssize_t = len(kernels)
    seen: cython.int = 0
    while number > 0 and seen < program.device.tuning.fusion.most_siblings:
        number -= 1
        candidate: Kernel = kernels[number]
        if candidate is None or candidate is kernel:
            continue
        seen += 1
        if (
            candidate.axes == node.params[0]
            and not candidate.is_row_kernel
            and candidate.reduced_shape == node.shape
            and candidate.shape == kernel.shape
            and room(program, candidate) > len(kernel.nodes)
            and _shares(program, candidate, kernel)
            and raise_kernel(program, kernels, candidate, kernel)
        ):
            return candidate
    return kernel


@cython.cfunc
def _shares(program: Program, one: Kernel, other: Kernel) -> cython.bint:
    """True if two kernels read a common value of at least half the size of their iteration space."""
    size: cython.longlong = 1
    for extent in one.shape:
        size *= cython.cast(cython.longlong, extent)
    read: set = set()
    kernel: Kernel
    for kernel in (one, other):
        for node in kernel.nodes:
            for number in range(len(cython.cast(Node, node).inputs)):
                memref: MemRef = operand(program, node, number)
                if 2 * memref.root.numel < size or maker(memref) is kernel:
                    continue
                if kernel is one:
                    read.add(memref.root)
                elif memref.root in read:
                    return True
    return False
