# cython: language_level=3
"""The program of a single node whose operands are computed, made without the passes, which have nothing to decide in
it.

It takes a pending node and returns the Program that the passes would make of it alone, planned and lowered, or None if
they would rewrite it: a macro, a concatenation of one part, a view of a number.
"""

import cython
from cython.cimports.weft.engine.devices.api import device_at
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import STACK, STRIDED, Primitive
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    has_memref,
    row_major,
    strides_of,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE, MACRO, REDUCE, SCALAR_OP, SOURCE, VIEW
from weft.engine.pipeline.lowering.row_kernel import prepare

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_macro = cython.declare(cython.int, MACRO)
_reduce = cython.declare(cython.int, REDUCE)
_view = cython.declare(cython.int, VIEW)
_scalar_op = cython.declare(Primitive, SCALAR_OP)
_source = cython.declare(cython.int, SOURCE)


@cython.cfunc
def is_rewritten(node: Node) -> cython.bint:
    """True if the passes replace the node: by other nodes, or by a region of its operand."""
    if node.op.kind == _view:
        return node.op.form == STRIDED or cython.cast(Node, node.inputs[0]).op is _scalar_op
    if node.op.kind == _macro or node.op.form == STACK:
        return True
    return len(node.inputs) == 1 and node.op.is_identity_of_one


@cython.cfunc
def program_of(node: Node) -> Program:
    """The program of one node: memory references of its operands and itself, and the kernel that computes it, with its
    spec."""
    program: Program = Program(device_at(node.device))
    source: Node
    memref: MemRef
    program.roots.append(node)
    for source in node.inputs:
        if not has_memref(program, source):
            memref = program.new_value(source, strides_of(source))
            program.add_external(memref.value)
            if source.external_refs > 0:
                program.viewed.add(source)
    memref = program.new_value(node, row_major(node.shape))
    memref.value.kept = True
    program.kept.add(node)
    program.order.append(node)
    program.connect(node)
    kernel: Kernel = kernel_of(node)
    program.kernels.append(kernel)
    memref.value.kernel = kernel
    memref.value.stored = True
    if kernel.kind == _elementwise:
        prepare(program, kernel)
    return program


@cython.cfunc
def kernel_of(node: Node) -> Kernel:
    """The kernel of one node, which stores it."""
    kernel: Kernel
    if node.op.kind == _reduce:
        kernel = Kernel(_elementwise, cython.cast(Node, node.inputs[0]).shape)
        kernel.axes = node.params[0]
        kernel.reduced_shape = node.shape
    elif node.op.kind == _source:
        kernel = Kernel(_elementwise, node.shape)
    else:
        kernel = Kernel(node.op.kind, node.shape)
    kernel.nodes.append(node)
    kernel.stores.append(node)
    kernel.open = False
    return kernel
