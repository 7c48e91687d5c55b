# cython: language_level=3
"""Direct calls: one node whose operands are computed runs now, on the calling thread, without a program.

It takes a product, an indexed read or a scatter, and the memory for its result. The kernel and its arguments are those
of the launch that `launches` would make. What would be several launches, or needs a kernel that is not compiled, or has
an index that does not hold, is not run here, and nor is a scatter that is worth a second thread.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.weft.engine.devices.api import default_device
from cython.cimports.weft.engine.devices.cpu.lowering.copy import call_indexed
from cython.cimports.weft.engine.devices.cpu.lowering.matmul import call_matmul
from cython.cimports.weft.engine.devices.tuning import Tuning
from cython.cimports.weft.engine.ir.node import Node, address_of
from cython.cimports.weft.engine.ir.primitive import SLICES
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec

from weft._build.compiled import require
from weft.engine.devices.cpu.lowering.scan_sort_scatter import scatter_spec
from weft.engine.ir.primitive import CONTRACT, INDEX, SCATTER

require(__name__, cython.compiled)

_contract = cython.declare(cython.int, CONTRACT)
_index = cython.declare(cython.int, INDEX)
_scatter = cython.declare(cython.int, SCATTER)
COLUMNS = cython.declare(cython.longlong, 128)  # of a unit of `kernels/scatter`


@cython.cfunc
def call(node: Node, target: uintptr_t) -> cython.bint:
    """Run a node into memory of its size; False where it is not to be run so. What a scatter goes to holds its base
    already."""
    kind: cython.int = node.op.kind
    if kind == _contract:
        return call_matmul(node, target)
    if kind == _index:
        return call_indexed(node, target)
    return kind == _scatter and call_scatter(node, target)


@cython.cfunc
def call_scatter(node: Node, target: uintptr_t) -> cython.bint:
    """Write rows through an index into memory that holds the base."""
    index: Node = node.inputs[1]
    source: Node = node.inputs[2]
    tuning: Tuning = default_device().tuning
    count: cython.longlong = index.numel
    if node.op.form != SLICES or count > tuning.copies.scattered_positions:
        return False
    if 2 * source.numel >= tuning.threads.split_ns or source.numel == 0:
        return False
    if index.strides is not None or source.strides is not None:
        return False
    if index.buffer is None or source.buffer is None:
        return False
    spec: KernelSpec = scatter_spec(node)
    if spec.code is None:
        return False
    axis: cython.Py_ssize_t = node.params[0]
    extent: cython.longlong = node.shape[axis]
    inner: cython.longlong = _product(node.shape, axis + 1, len(node.shape))
    arguments: int64_t[13]
    arguments[0] = _product(node.shape, 0, axis)
    arguments[1] = count
    arguments[2] = inner
    arguments[3] = extent
    arguments[4], arguments[5], arguments[6] = 0, 1, 0
    arguments[7], arguments[8], arguments[9] = count * inner, inner, 1
    arguments[10], arguments[11], arguments[12] = extent * inner, inner, 1
    status: int64_t = 0
    pointers: cython.p_void[4]
    pointers[0] = address_of(index)
    pointers[1] = address_of(source)
    pointers[2] = cython.cast(cython.p_void, target)
    pointers[3] = cython.address(status)
    units: int64_t = arguments[0] * ((inner + COLUMNS - 1) // COLUMNS)
    spec.code.call(pointers, arguments, units)
    return status == 0


@cython.cfunc
@cython.exceptval(check=False)
def _product(shape: tuple, first: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """The number of places in these dimensions of a shape."""
    count: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(first, end):
        count *= cython.cast(cython.longlong, shape[axis])
    return count
