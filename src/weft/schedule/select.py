# cython: language_level=3
"""Select: which fused kernels are worth compiling now.

In comes a fused Program; out goes the same with every kernel's spec worked out. A fused kernel that has never come
before runs as single-operation kernels until it has come twice, and a flush compiles only so many new ones: dynamic
programs then never wait long for the compiler, and rare structures are never compiled at all. Bits do not depend on
it. A program with kernels taken apart is `provisional`: it is not stored as known.
"""

import cython
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.schedule.lower import KernelSpec
from cython.cimports.weft.schedule.records import Kernel, Program

from weft._compiled import require
from weft.graph.node import ELEMENTWISE, REDUCE
from weft.schedule.fuse import mark_stores
from weft.schedule.loops import prepare, prepared_spec

require(__name__, cython.compiled)

NEW_PER_FLUSH = 12  # about 50 ms of compiling
OCCURRENCES = 2


def select(program: Program) -> Program:
    """Work out specs; take novel fused kernels apart."""
    novel: list = []
    kernel: Kernel
    spec: KernelSpec
    for kernel in program.kernels:
        if kernel.kind != ELEMENTWISE:
            continue
        spec = prepare(program, kernel)
        if spec is not None and spec.fused and spec.address == 0:
            spec.uses += 1
            novel.append(kernel)
    if novel:
        _take_apart(program, novel)
    return program


@cython.cfunc
def _take_apart(program: Program, novel: list) -> cython.void:
    chosen: set = set()
    apart: set = set()
    kernel: Kernel
    for kernel in novel:
        spec = prepared_spec(kernel)
        if spec in chosen:
            continue
        if spec.uses >= OCCURRENCES and len(chosen) < NEW_PER_FLUSH:
            chosen.add(spec)
        else:
            apart.add(kernel)
    if not apart:
        return
    program.provisional = True
    kernels: list = []
    pieces: list = []
    for kernel in program.kernels:
        if kernel not in apart:
            kernels.append(kernel)
            continue
        kernel.prepared = (
            None  # the builder points back: without this only the collector could free both
        )
        for node in kernel.nodes:
            piece = _single(node)
            program.producer[node] = piece
            kernels.append(piece)
            pieces.append(piece)
    program.kernels = kernels
    mark_stores(program)
    for kernel in pieces:
        prepare(program, kernel)


@cython.cfunc
def _single(node: Node) -> Kernel:
    """A kernel of one node."""
    if node.row.kind != REDUCE:
        kernel: Kernel = Kernel(ELEMENTWISE, node.shape)
    else:
        kernel = Kernel(ELEMENTWISE, cython.cast(Node, node.inputs[0]).shape)
        kernel.axes = node.params[0]
        kernel.reduced_shape = node.shape
    kernel.nodes.append(node)
    kernel.open = False
    return kernel
