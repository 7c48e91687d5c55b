# cython: language_level=3
"""Rematerialization into readers: a value that is cheap to compute from one array is computed where it is read, not
stored.

It takes a fused Program. The values concerned are made by a few simple operations from one array, which is in memory
anyway, and from much smaller values, for less than storing them costs (`costs`); later kernels read them element by
element. Each reader gets *clones* of these operations and reads the array instead: as much is read, and less is
written. Batch norm stores neither its differences from the mean nor the normalised values. Bits are the same.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import put
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.tuning import Costs
from cython.cimports.weft.engine.ir.node import Node, is_live
from cython.cimports.weft.engine.pipeline.fusion.costs import cost_of
from cython.cimports.weft.engine.pipeline.fusion.def_use import (
    Use,
    mark_uses,
    reads_elements,
    uses_of,
)
from cython.cimports.weft.engine.pipeline.fusion.regions import most_nodes
from cython.cimports.weft.engine.pipeline.fusion.rematerialization import copy_of
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    ProgramValue,
    maker,
    memref_of,
    operand,
    row_major,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.ccall
def clone_into_readers(program: Program) -> cython.void:
    """Let kernels that have room compute again what they read."""
    kernel: Kernel
    node: Node
    found: cython.bint = False
    most: cython.int = most_nodes(program)
    if most == 1:
        return
    candidates: set = _candidates(program)
    if not candidates:
        return
    uses: dict = None
    originals: dict = {place.root: node for node, place in (program.remat_of or {}).items()}
    for kernel in program.kernels:
        left: cython.Py_ssize_t = len(kernel.stores)
        for node in kernel.stores:
            if left < 2 or memref_of(program, node).value not in candidates:
                continue
            chain: list = _chain(program, kernel, node)
            if chain is None:
                continue
            if uses is None:
                uses = uses_of(program, candidates)
            others: list = _other_uses(program, kernel, node, uses)
            if others and _have_room(program, others, len(chain), most):
                _give(program, node, chain, others, originals)
                left -= 1
                found = True
    if found:
        mark_uses(program)


@cython.cfunc
def _candidates(program: Program) -> set:
    """The large values that kernels store which have others to store, and that one operation makes cheaply."""
    found: set = set()
    kernel: Kernel
    node: Node
    costs: Costs = program.device.tuning.costs
    least: cython.longlong = program.device.tuning.rematerialization.cloned_bytes
    for kernel in program.kernels:
        if kernel.kind != _elementwise or kernel.is_row_kernel or len(kernel.stores) < 2:
            continue
        for node in kernel.stores:
            if is_live(node) or node.numel * node.dtype.itemsize < least or node in program.kept:
                continue
            if cost_of(costs, node) <= costs.store:
                found.add(memref_of(program, node).value)
    return found


@cython.cfunc
def _other_uses(program: Program, kernel: Kernel, node: Node, uses: dict) -> list:
    """The uses of a value in other kernels; none where one of them may not compute it."""
    found: list = []
    use: Use
    for use in uses.get(memref_of(program, node).value, ()):
        memref: MemRef = operand(program, use.node, use.number)
        if use.kernel.is_row_kernel or not reads_elements(use.kernel, memref):
            return []
        if use.kernel is not kernel:
            found.append(use)
    return found


@cython.cfunc
def _chain(program: Program, kernel: Kernel, node: Node) -> list | None:
    """The nodes of a kernel, in order, that make a value of one array of its size in memory and of small values; None
    where that costs more than storing it."""
    chain: set = {node}
    stack: list = [node]
    array: ProgramValue = None
    one: Node
    number: cython.Py_ssize_t
    cost: cython.double = 0
    costs: Costs = program.device.tuning.costs
    ratio: cython.longlong = program.device.tuning.rematerialization.negligible_ratio
    while stack:
        one = stack.pop()
        if one.dtype is not node.dtype or one.shape != node.shape:
            return None
        cost += cost_of(costs, one)
        for number in range(len(one.inputs)):
            memref: MemRef = operand(program, one, number)
            stored: cython.bint = memref.value.kernel is None or memref.value.stored
            if memref.root.numel * ratio <= node.numel and stored:
                continue
            if not stored and reads_elements(kernel, memref):
                cost -= costs.read
                if memref.root not in chain:
                    chain.add(memref.root)
                    stack.append(memref.root)
            elif stored and _is_array(memref, node) and (array is None or array is memref.value):
                array = memref.value
            else:
                return None
        if cost > costs.store:
            return None
    return None if array is None else [one for one in kernel.nodes if one in chain]


@cython.cfunc
def _is_array(memref: MemRef, node: Node) -> cython.bint:
    """True if a memory reference is all of a value in row-major order, with a node's shape and elements no larger than
    the node's."""
    root: Node = memref.root
    if memref.offset != 0 or root.numel != node.numel or root.dtype.itemsize > node.dtype.itemsize:
        return False
    return equal(memref.shape, node.shape) and equal(memref.strides, row_major(node.shape))


@cython.cfunc
def _have_room(
    program: Program, reads: list, count: cython.Py_ssize_t, most: cython.int
) -> cython.bint:
    """True if few kernels read a value, and each has room for `count` nodes more."""
    kernel: Kernel
    use: Use
    kernels: set = set()
    for use in reads:
        kernels.add(use.kernel)
    for kernel in kernels:
        if len(kernel.nodes) + count > most:
            return False
    return len(kernels) <= program.device.tuning.rematerialization.most_readers


@cython.cfunc
def _give(program: Program, node: Node, chain: list, reads: list, originals: dict) -> cython.void:
    """Let each kernel that reads a value compute it by twins of a chain."""
    use: Use
    made: dict = {}  # kernel -> node -> its twin
    for use in reads:
        if use.kernel not in made:
            made[use.kernel] = _clones(program, use.kernel, chain)
            _note(program, use.kernel, made[use.kernel], originals)
        memref: MemRef = memref_of(program, made[use.kernel][node])
        first: cython.longlong = program.first.words[_number(use.node)]
        program.operands.words[first + use.number] = _address(memref)


@cython.cfunc
def _clones(program: Program, kernel: Kernel, chain: list) -> dict:
    """Twins of a chain in front of a kernel's nodes."""
    clones: dict = {}
    node: Node
    number: cython.Py_ssize_t
    for node in chain:
        clone: Node = copy_of(node, node.inputs)
        program.new_value(clone, row_major(clone.shape)).value.kernel = kernel
        program.first.words[_number(clone)] = program.operands.count
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            if memref.root in clones:
                memref = memref_of(program, clones[memref.root])
            put(cython.address(program.operands), _address(memref))
        clones[node] = clone
    kernel.nodes = list(clones.values()) + kernel.nodes
    return clones


@cython.cfunc
def _note(program: Program, kernel: Kernel, clones: dict, originals: dict) -> cython.void:
    """Note where a run that goes on computes values again: in the last kernel that does, until which they are not
    there. `originals` are the recorded nodes of twins."""
    if program.remat_of is None:
        program.remat_of = {}
    for node, clone in clones.items():
        original = originals[clone] = originals.get(node, node)
        before: MemRef = program.remat_of.get(original)
        if before is None or maker(before).position < kernel.position:
            program.remat_of[original] = memref_of(program, clone)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _number(node: Node) -> cython.Py_ssize_t:
    """A placed node's number."""
    return node.index & 0xFFFFFFFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _address(memref: MemRef) -> cython.longlong:
    """A place as it stands among operands."""
    return cython.cast(cython.longlong, cython.cast(cython.p_void, memref))
