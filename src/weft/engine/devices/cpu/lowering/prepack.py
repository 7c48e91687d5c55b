# cython: language_level=3
"""Prepacking: a weight that many products of a program read across is transposed once for all of them.

A recurrent layer multiplies few rows by the same weight at each step, and the weight is stored along k, while a
product reads neighbouring columns. Transposing it takes a sixth of a product's time. So a matrix that many products of
a program read in this way is copied into the other order before the first of them. Each element of a product is the
same chain of additions; no bit depends on it.
"""

import cython
from cython.cimports.weft.engine.devices.cpu.lowering.copy import lower_copy
from cython.cimports.weft.engine.devices.tuning import Products
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import LINEAR, MATMUL
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, MemRef, Program, memref_of

from weft._build.compiled import require
from weft.engine.ir.primitive import CONTRACT

require(__name__, cython.compiled)

DTYPES = ("float32", "float64")
_contract = cython.declare(cython.int, CONTRACT)


@cython.final
@cython.cclass
class Prepacked:
    """The matrices of a program that enough products read across: where each has been copied, None for not yet; and
    the launches of copies that have to come before the group in hand, whose members are put in another order."""

    regions = cython.declare(dict, visibility="readonly")
    copies = cython.declare(list, visibility="readonly")

    def __init__(self, program: Program):
        self.regions = {}
        self.copies = []
        counts: dict = {}
        kernel: Kernel
        products: list = []
        often: cython.longlong = program.device.tuning.products.fewest_prepacked
        for kernel in program.kernels:
            if kernel.kind == _contract:
                products.append(kernel.nodes[0])
        if len(products) < often:
            return
        for node in products:
            key = _key(program, node)
            if key is not None:
                counts[key] = counts.get(key, 0) + 1
        self.regions = {key: None for key, count in counts.items() if count >= often}

    def take_copies(self):
        """The launches that come before a group; the next one has its own."""
        copies, self.copies = self.copies, []
        return copies

    def prepacked_region(self, lowering, node: Node, right: tuple):
        """The region (slot, byte offset, strides) of the right operand (k, n) of a product: in its copy along n, if it
        has one, which is made for the first product that reads it."""
        key = _key(lowering.program, node) if self.regions else None
        if key is None or key not in self.regions:
            return right
        region = self.regions[key]
        if region is None:
            n, k = node.shape[len(node.shape) - 1], _depth(node)
            region = (lowering.scratch_slot(n * k * node.dtype.itemsize), 0, (n, 1))
            own, lowering.launches = lowering.launches, []
            lower_copy(lowering, node.dtype, (k, n), right, region)
            self.copies.extend(lowering.launches)
            lowering.launches = own
            self.regions[key] = region
        return region


@cython.cfunc
def _depth(node: Node):
    """The length of a product's sums."""
    shape: tuple = cython.cast(Node, node.inputs[0]).shape
    return shape[len(shape) - 1]


@cython.cfunc
def _key(program: Program, node: Node):
    """The matrix that a product of few rows reads across as its right operand, as (root, offset, strides); None if it
    does not."""
    if node.op.form != MATMUL and node.op.form != LINEAR:
        return None
    if node.dtype.name not in DTYPES:
        return None
    weight: Node = node.inputs[1]
    columns: cython.longlong = node.shape[len(node.shape) - 1]
    tuning: Products = program.device.tuning.products
    if len(weight.shape) != 2 or columns < tuning.fewest_prepacked_columns:
        return None
    rows: cython.longlong = node.numel // columns
    if rows < tuning.fewest_prepacked_rows or rows > tuning.most_prepacked_rows:
        return None
    memref: MemRef = memref_of(program, weight)
    along_k, along_n = memref.strides if node.op.form == MATMUL else memref.strides[::-1]
    if along_k != 1 or along_n == 1 or isinstance(along_n, tuple):
        return None
    return memref.root, memref.offset, along_n, weight.numel
