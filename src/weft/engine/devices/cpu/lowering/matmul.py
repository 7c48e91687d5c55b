# cython: language_level=3
"""Lowering of matrix products: one launch for each product that does not collapse into a larger one.

It takes a `matmul` or a `linear`. Rows of a shared right operand become one product, the innermost batch dimension is
the kernel's, and the others are walked here. Attention, and operands that are read through a reshape, have lowerings
of their own. `call_matmul` runs a product whose operands are there without launches: with the same kernel.
"""

from functools import partial

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put, within
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.api import Code
from cython.cimports.weft.engine.devices.cpu.gemm.choose import GemmChoice, Variant, choose, tile_of
from cython.cimports.weft.engine.devices.cpu.lowering.matmul import (
    _ARGUMENTS,
    _BATCH_WORDS,
    _WORDS,
    Product,
)
from cython.cimports.weft.engine.devices.kernel_call import KernelWork, call_kernel_now, is_callable
from cython.cimports.weft.engine.ir.node import Node, address_of
from cython.cimports.weft.engine.ir.primitive import ATTENTION, ATTENTION_GRADIENT, LINEAR, MATMUL
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec, Lowering, new_launch
from cython.cimports.weft.engine.pipeline.memory_plan import value_of
from cython.cimports.weft.engine.pipeline.program_ir import MemRef, operand, row_major, strides_of

from weft._build.compiled import require
from weft.engine.devices.cpu.lowering.copy import contiguous
from weft.engine.devices.cpu.lowering.prepack import Prepacked

require(__name__, cython.compiled)


@cython.cfunc
def lower_matmul(lowering: Lowering, node: Node) -> cython.void:
    """Append the launches of a product, with a bias where it has one."""
    if node.numel == 0:
        return
    form: cython.int = node.op.form
    if form in (ATTENTION, ATTENTION_GRADIENT):
        from weft.engine.devices.cpu.lowering.attention import lower_attention

        lower_attention(lowering, node)
        return
    left: MemRef = operand(lowering.program, node, 0)
    right: MemRef = operand(lowering.program, node, 1)
    if _is_nested(left.strides) or _is_nested(right.strides):
        from weft.engine.devices.cpu.lowering.implicit_gemm import lower_axes

        lower_axes(lowering, node)
        return
    product: Product
    dims: Array = empty()
    try:
        _read(node, left.strides, right.strides, cython.address(product), cython.address(dims))
        _set_right(lowering, node, right, cython.address(product))
        _launch(lowering, node, left, cython.address(product), cython.address(dims))
    finally:
        drop(cython.address(dims))


@cython.cfunc
def _is_nested(strides: tuple) -> cython.bint:
    """True if an axis has several dimensions, as `implicit_gemm` leaves them."""
    for stride in strides:
        if type(stride) is tuple:
            return True
    return False


@cython.cfunc
def call_matmul(node: Node, target: uintptr_t) -> cython.bint:
    """Run a product whose operands are computed into memory of its size, now; False where that is not one call of a
    compiled kernel on operands as they lie."""
    if node.op.form not in (MATMUL, LINEAR) or _WORDS * len(node.shape) > _BATCH_WORDS:
        return False
    product: Product
    batch: cython.longlong[_BATCH_WORDS]
    words: cython.longlong[_ARGUMENTS]
    dims: Array = within(batch, _BATCH_WORDS)
    arguments: Array = within(words, _ARGUMENTS)
    left: tuple = strides_of(node.inputs[0])
    right: tuple = strides_of(node.inputs[1])
    _read(node, left, right, cython.address(product), cython.address(dims))
    _take_rows(cython.address(product), cython.address(dims))
    if dims.count > _WORDS:
        return False
    _put_arguments(cython.address(product), cython.address(dims), cython.address(arguments))
    choice: GemmChoice
    spec: KernelSpec = _choose(node, arguments.words, len(node.inputs) > 2, cython.address(choice))
    work: KernelWork
    work.units, work.grain_size = choice.units, choice.grain_size
    work.cost_ns = _cost_ns(arguments.words)
    if spec.code is None or not is_callable(work.cost_ns):
        return False
    return _call(node, spec.code, arguments, work, target)


@cython.cfunc
def _call(
    node: Node, code: Code, arguments: Array, work: KernelWork, target: uintptr_t
) -> cython.bint:
    """Call the kernel of a product; False where an operand has no memory, or the bias has gaps."""
    pointers: cython.p_void[4]
    index: cython.Py_ssize_t
    source: Node
    for index in range(len(node.inputs)):
        source = node.inputs[index]
        if source.buffer is None or (index == 2 and source.strides is not None):
            return False
        pointers[index if index < 2 else 3] = address_of(source)
    pointers[2] = cython.cast(cython.p_void, target)
    call_kernel_now(
        code,
        pointers,
        len(node.inputs) + 1,
        cython.cast(cython.pointer(int64_t), arguments.words),
        arguments.count,
        work,
    )
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def _read(
    node: Node,
    left: tuple,
    right: tuple,
    product: cython.pointer(Product),
    dims: cython.pointer(Array),
) -> cython.int:
    """The sizes and steps of a product whose operands have these strides, and its batch dimensions. The weight of a
    `linear` is read by columns."""
    a: tuple = cython.cast(Node, node.inputs[0]).shape
    b: tuple = cython.cast(Node, node.inputs[1]).shape
    rank: cython.Py_ssize_t = len(b)
    turned: cython.bint = node.op.form == LINEAR
    product.k = a[len(a) - 1]
    product.b_row = right[rank - 1 if turned else rank - 2]
    product.b_column = right[rank - 2 if turned else rank - 1]
    _set_rows(product, node, a, left)
    return _put_batch(node, (a, left), (b, right), dims)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _set_right(
    lowering: Lowering, node: Node, right: MemRef, product: cython.pointer(Product)
) -> cython.int:
    """Set the region of the right operand; a weight that many products read across may be prepacked for all of
    them."""
    product.b_slot = right.value.slot
    product.b_offset = right.offset * node.dtype.itemsize
    if len(right.strides) == 2 and product.b_row == 1 and product.b_column != 1:
        if lowering.prepacked is None:
            lowering.prepacked = Prepacked(lowering.program)
        if lowering.prepacked.regions:
            _set_prepacked(lowering, node, product)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _set_prepacked(lowering: Lowering, node: Node, product: cython.pointer(Product)) -> cython.int:
    place = (product.b_slot, product.b_offset, (product.b_row, product.b_column))
    slot, offset, strides = lowering.prepacked.prepacked_region(lowering, node, place)
    product.b_slot, product.b_offset = slot, offset
    product.b_row, product.b_column = strides
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _set_rows(product: cython.pointer(Product), node: Node, a: tuple, left: tuple) -> cython.int:
    """The rows of A and C; a vector is one row."""
    rank: cython.Py_ssize_t = len(a)
    product.a_column = left[rank - 1]
    product.n = node.shape[len(node.shape) - 1]
    product.c_row = product.n
    product.m = 1 if rank == 1 else a[rank - 2]
    product.a_row = 0 if rank == 1 else left[rank - 2]
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_batch(node: Node, left: tuple, right: tuple, dims: cython.pointer(Array)) -> cython.int:
    """The batch dimensions; neighbours that are one stride for all three operands are joined. `left` and `right` are
    the operands' shapes and strides."""
    strides: tuple = row_major(node.shape)
    batch: cython.Py_ssize_t = len(node.shape) - 2
    axis: cython.Py_ssize_t
    last: cython.p_longlong
    for axis in range(batch):
        size: cython.longlong = node.shape[axis]
        if size == 1:
            continue
        x: cython.longlong = _lead(left[0], left[1], axis - batch)
        y: cython.longlong = _lead(right[0], right[1], axis - batch)
        z: cython.longlong = strides[axis]
        if dims.count > 0:
            last = dims.words + dims.count - _WORDS
            if last[1] == x * size and last[2] == y * size and last[3] == z * size:
                last[0] *= size
                last[1], last[2], last[3] = x, y, z
                continue
        put(dims, size)
        put(dims, x)
        put(dims, y)
        put(dims, z)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _lead(shape: tuple, strides: tuple, axis: cython.Py_ssize_t) -> cython.longlong:
    """The step of a batch dimension, counted from the matrix, in an operand, which broadcasts."""
    place: cython.Py_ssize_t = len(shape) - 2 + axis
    return 0 if place < 0 or shape[place] == 1 else strides[place]


@cython.cfunc
@cython.exceptval(check=False)
def _take_rows(product: cython.pointer(Product), dims: cython.pointer(Array)) -> cython.void:
    """Merge a batch into the rows of one product, where the right operand is shared and rows are equally far apart."""
    last: cython.p_longlong
    if product.m == 1:
        product.a_row = product.k if dims.count == 0 else dims.words[dims.count - _WORDS + 1]
    while dims.count > 0:
        last = dims.words + dims.count - _WORDS
        if last[2] != 0:
            break
        if product.m == 1:
            product.a_row, product.c_row = last[1], last[3]
        elif last[1] != product.m * product.a_row or last[3] != product.m * product.c_row:
            break
        product.m *= last[0]
        dims.count -= _WORDS


@cython.cfunc
def _launch(
    lowering: Lowering,
    node: Node,
    left: MemRef,
    product: cython.pointer(Product),
    dims: cython.pointer(Array),
) -> cython.void:
    """The launches: one for each place in all batch dimensions but the last."""
    _take_rows(product, dims)
    pointers: Array = empty()
    arguments: Array = empty()
    try:
        _put_arguments(product, dims, cython.address(arguments))
        _put_pointers(lowering, node, left, product, cython.address(pointers))
        _launch_all(lowering, node, dims, cython.address(pointers), cython.address(arguments))
    finally:
        drop(cython.address(pointers))
        drop(cython.address(arguments))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_arguments(
    product: cython.pointer(Product), dims: cython.pointer(Array), arguments: cython.pointer(Array)
) -> cython.int:
    """Put the arguments of a kernel; the innermost batch dimension is its own, and taken from `dims`."""
    inner: cython.longlong[4]
    inner[0], inner[1], inner[2], inner[3] = 1, 0, 0, 0
    axis: cython.Py_ssize_t
    if dims.count > 0:
        dims.count -= _WORDS
        for axis in range(_WORDS):
            inner[axis] = dims.words[dims.count + axis]
    put(arguments, inner[0])
    put(arguments, product.m)
    put(arguments, product.n)
    put(arguments, product.k)
    put(arguments, inner[1])
    put(arguments, product.a_row)
    put(arguments, product.a_column)
    put(arguments, inner[2])
    put(arguments, product.b_row)
    put(arguments, product.b_column)
    put(arguments, inner[3])
    put(arguments, product.c_row)
    return put(arguments, 1)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_pointers(
    lowering: Lowering,
    node: Node,
    left: MemRef,
    product: cython.pointer(Product),
    pointers: cython.pointer(Array),
) -> cython.int:
    """Both operands, the result, the bias, which is copied where it has gaps."""
    size: cython.longlong = node.dtype.itemsize
    bias: MemRef
    index: cython.Py_ssize_t
    put(pointers, left.value.slot)
    put(pointers, left.offset * size)
    put(pointers, product.b_slot)
    put(pointers, product.b_offset)
    put(pointers, value_of(lowering.plan, node).slot)
    put(pointers, 0)
    for index in range(2, len(node.inputs)):
        bias = operand(lowering.program, node, index)
        if equal(bias.strides, row_major(bias.shape)):
            put(pointers, bias.value.slot)
            put(pointers, bias.offset * size)
        else:
            slot, offset = contiguous(lowering, node.inputs[index])
            put(pointers, slot)
            put(pointers, offset)
    return 0


@cython.cfunc
def _launch_all(
    lowering: Lowering,
    node: Node,
    dims: cython.pointer(Array),
    pointers: cython.pointer(Array),
    arguments: cython.pointer(Array),
) -> cython.void:
    """Walk the outer batch dimensions, the last one fastest."""
    spec: KernelSpec
    words: cython.p_longlong = arguments.words
    choice: GemmChoice
    spec = _choose(node, words, pointers.count > 6, cython.address(choice))
    cost_ns: cython.longlong = _cost_ns(words)
    size: cython.longlong = node.dtype.itemsize
    total: cython.longlong = 1
    number: cython.longlong
    operand: cython.Py_ssize_t
    dim: cython.Py_ssize_t
    start: cython.longlong[3]
    for dim in range(dims.count // _WORDS):
        total *= dims.words[_WORDS * dim]
    for operand in range(3):
        start[operand] = pointers.words[2 * operand + 1]
    for number in range(total):
        left: cython.longlong = number
        for operand in range(3):
            pointers.words[2 * operand + 1] = start[operand]
        for dim in reversed(range(dims.count // _WORDS)):
            place: cython.longlong = left % dims.words[_WORDS * dim]
            left = left // dims.words[_WORDS * dim]
            for operand in range(3):
                step: cython.longlong = dims.words[_WORDS * dim + 1 + operand]
                pointers.words[2 * operand + 1] += place * step * size
        new_launch(lowering, spec, pointers, arguments, choice.units, choice.grain_size, cost_ns)


@cython.cfunc
def _choose(
    node: Node, words: cython.p_longlong, biased: cython.bint, choice: cython.pointer(GemmChoice)
) -> KernelSpec:
    """The kernel of a product with these arguments, and how it is divided."""
    dtype: str = node.dtype.name
    variant: Variant = tile_of(dtype).pick(words[1], words[2], words[6] == 1, words[8] == 1)
    choice[0] = choose(variant, words[0], words[1], words[2], words[3])
    return _spec_of(dtype, variant, biased)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _cost_ns(words: cython.p_longlong) -> cython.longlong:
    """About the time that a product with these arguments takes."""
    return words[0] * words[1] * words[2] * max(words[3], 1) // 40


@cython.cfunc
def _spec_of(dtype: str, variant: Variant, biased: cython.bint) -> KernelSpec:
    """The kernel of a variant, which is known by its name."""
    spec = variant.specs[biased]
    if spec is None:
        text = variant.name + ("_bias" if biased else "")
        name = f"gemm_{dtype}_{text}"
        build = partial(_written, dtype, text)
        spec = variant.specs[biased] = KernelSpec(name, build, (name,))
    return spec


def _written(dtype, variant, symbol):
    from weft.engine.devices.cpu.gemm import lower_gemm

    return lower_gemm(dtype, symbol, variant)
