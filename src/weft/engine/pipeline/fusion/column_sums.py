# cython: language_level=3
"""Column sums: sums over rows join the row kernel that computes what they add up.

It takes a fused Program and moves kernels that consist of elementwise operations and sums over all dimensions but the
last, where a row kernel stores their operands for them alone: the gradients of a norm's weights join the gradient of
its input. Bits are the same (`weft.engine.devices.cpu.codegen.reduce_columns_fused`).
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.tuning import Fusion
from cython.cimports.weft.engine.frontend.node_factory import count_elements
from cython.cimports.weft.engine.ir.node import Node, is_live
from cython.cimports.weft.engine.ir.primitive import OF_ELEMENTS
from cython.cimports.weft.engine.pipeline.fusion.def_use import mark_uses
from cython.cimports.weft.engine.pipeline.fusion.regions import (
    is_over_rows,
    most_nodes,
    most_row_nodes,
)
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    maker,
    memref_of,
    operand,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE, REDUCE

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_reduce = cython.declare(cython.int, REDUCE)


@cython.ccall
def take_sums(program: Program) -> cython.void:
    """Let row kernels that have room make sums over their rows."""
    kernel: Kernel
    host: Kernel
    found: cython.bint = False
    most: cython.int = most_row_nodes(program)
    if most_nodes(program) == 1:
        return
    candidates: list = [kernel for kernel in program.kernels if _is_of_sums(program, kernel)]
    for kernel in candidates:
        for host in _hosts(program, kernel, most):
            if _may_join(program, kernel, host):
                _join(program, kernel, host)
                found = True
                break
    if found:
        mark_uses(program)


@cython.cfunc
def _is_of_sums(program: Program, kernel: Kernel) -> cython.bint:
    """True if a kernel consists of sums over rows, of floats, and elementwise operations before them."""
    rank: cython.Py_ssize_t = len(kernel.shape)
    node: Node
    number: cython.Py_ssize_t
    if kernel.kind != _elementwise or kernel.is_row_kernel or kernel.axes is None or rank < 2:
        return False
    if len(kernel.axes) != rank - 1 or rank - 1 in kernel.axes:
        return False
    rows: cython.longlong = count_elements(kernel.shape[: rank - 1])
    tuning: Fusion = program.device.tuning.fusion
    if rows < tuning.fewest_summed_rows or rows > tuning.most_summed_rows:
        return False
    for node in kernel.nodes:
        if node.op.kind == _reduce and (
            node.op.sums != OF_ELEMENTS
            or node.dtype.name not in ("float32", "float64")
            or cython.cast(Node, node.inputs[0]).dtype is not node.dtype
        ):
            return False
        if node.op.kind != _reduce and not equal(node.shape, kernel.shape):
            return False
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            if (
                len(memref.strides) == rank
                and memref.shape[rank - 1] > 1
                and memref.strides[rank - 1] > 1
            ):
                return False
    return True


@cython.cfunc
def _hosts(program: Program, kernel: Kernel, most: cython.int) -> list:
    """Row kernels over the same rows that have room, and store at least two values for this kernel alone."""
    saved: dict = {}  # row kernel -> what it stores for this one alone
    node: Node
    other: Kernel
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            other = maker(memref)
            if other is None or not other.is_row_kernel or not equal(other.shape, kernel.shape):
                continue
            if memref.value.reader is kernel and not is_live(memref.root) and not memref.value.kept:
                saved.setdefault(other, set()).add(memref.root)
    tuning: Fusion = program.device.tuning.fusion
    return [
        other
        for other in saved
        if len(saved[other]) >= tuning.fewest_saved_values
        and len(other.nodes) + len(kernel.nodes) <= most
        and _bytes_of_sums(other) + _bytes_of_sums(kernel) <= tuning.column_sum_bytes
    ]


@cython.cfunc
def _bytes_of_sums(kernel: Kernel) -> cython.longlong:
    """Bytes of the sums over rows that a kernel makes, for each element of a row."""
    node: Node
    total: cython.longlong = 0
    for node in kernel.nodes:
        if node.op.kind == _reduce and (not kernel.is_row_kernel or is_over_rows(kernel, node)):
            total += node.dtype.itemsize
    return total


@cython.cfunc
def _may_join(program: Program, kernel: Kernel, host: Kernel) -> cython.bint:
    """True if all operands of a kernel exist before its host, or are made by the host row by row."""
    node: Node
    number: cython.Py_ssize_t
    below: Kernel
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            memref: MemRef = operand(program, node, number)
            below = maker(memref)
            if below is None or below is kernel or below.position < host.position:
                continue
            if below is not host or not memref.whole or not equal(memref.shape, kernel.shape):
                return False
            if not equal(memref.root.shape, kernel.shape):
                return False
    return True


@cython.cfunc
def _join(program: Program, kernel: Kernel, host: Kernel) -> cython.void:
    node: Node
    host.nodes = host.nodes + kernel.nodes
    kernel.merged = host
    for node in kernel.nodes:
        memref_of(program, node).value.kernel = host
    cython.cast(list, program.kernels).remove(kernel)
