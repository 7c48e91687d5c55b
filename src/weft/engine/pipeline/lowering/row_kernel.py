# cython: language_level=3
"""Specs of row kernels: several reductions of the same rows, and what is computed from them, in one kernel.

It takes a fused kernel whose nodes read reductions that the kernel makes itself, and finds its spec. The phase of a
node is the first in which all its operands are complete. A value that a later phase reads is computed again there if
that costs no more than reading it; otherwise it is spilled to local memory, one element or a row. `loop_kernel` takes
kernels with one phase.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put
from cython.cimports.weft.engine.devices.tuning import Costs, Tuning
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.pipeline.fusion.costs import cost_of
from cython.cimports.weft.engine.pipeline.fusion.regions import is_over_rows
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec
from cython.cimports.weft.engine.pipeline.lowering.kernel_encoder import (
    BODY,
    LOAD,
    PART,
    REGION,
    KernelEncoder,
    add_outer_axis,
    collapse,
    new_encoder,
)
from cython.cimports.weft.engine.pipeline.lowering.loop_kernel import (
    loop_key,
    put_key,
)
from cython.cimports.weft.engine.pipeline.lowering.spec_table import look_up, remember
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, MemRef, Program, operand

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import REDUCE
from weft.engine.pipeline.lowering import loop_kernel
from weft.engine.pipeline.lowering.spec_table import spec_of
from weft.ops.registry import OPS

require(__name__, cython.compiled)

_reduce = cython.declare(cython.int, REDUCE)
WHOLE, ADDED = 1, 2
_add = cython.declare(Primitive, OPS["add"])


@cython.final
@cython.cclass
class RowKernelEncoder:
    """One row kernel on the way."""

    def __cinit__(self, program: Program, kernel: Kernel):
        self.program = program
        self.device = program.device
        self.row = program.device.capabilities.longest_row
        self.kernel = kernel
        self.phases = []
        self.phase_of = {}
        self.costs = {}
        self.spilled = {}
        self.locals = []
        self.columns = []

    @cython.cfunc
    def phase(self, number: cython.Py_ssize_t) -> KernelEncoder:
        while len(self.phases) <= number:
            self.phases.append(new_encoder(self.program, self.kernel))
        return self.phases[number]

    @cython.cfunc
    def is_per_row(self, node: Node) -> cython.bint:
        """True if a node has one value for each row."""
        extra = self.kernel.extra
        return node.op.kind == _reduce or (extra is not None and node in extra)

    @cython.cfunc
    def inside(self, node: Node) -> list:
        """The values of this kernel that a node reads."""
        found: list = []
        number: cython.Py_ssize_t
        for number in range(len(node.inputs)):
            root: Node = operand(self.program, node, number).root
            if root in self.phase_of:
                found.append(root)
        return found

    @cython.cfunc
    def add(self, node: Node) -> cython.void:
        """A node in the first phase in which it can be computed."""
        if is_over_rows(self.kernel, node):
            self.add_column(node)
            return
        number: cython.Py_ssize_t = 0
        in_body: cython.bint = not self.is_per_row(node)
        root: Node
        for root in self.inside(node):
            waits: cython.bint = in_body and self.is_per_row(root)
            number = max(number, cython.cast(cython.Py_ssize_t, self.phase_of[root]) + waits)
        self.compute(node, number)
        self.phase_of[node] = number
        costs: Costs = self.program.device.tuning.costs
        cost: cython.double = cost_of(costs, node)
        for root in self.inside(node):
            if not self.is_per_row(root) and root not in self.spilled:
                cost += cython.cast(cython.double, self.costs[root]) - costs.read
        self.costs[node] = cost

    @cython.cfunc
    def add_column(self, node: Node) -> cython.void:
        """Add the value of this row to a sum over rows, which is kept in a row of local memory."""
        memref: MemRef = operand(self.program, node, 0)
        number: cython.Py_ssize_t = self.phase_of.get(memref.root, 0)
        builder: KernelEncoder = self.phase(number)
        dtype: cython.int = node.dtype.code
        value: cython.longlong = builder.argument(memref, False)
        local: cython.int = len(self.locals)
        self.locals.append(dtype << 2 | ADDED | WHOLE)
        self.bytes += node.dtype.itemsize * self.row
        position: cython.Py_ssize_t = builder.operands.count // REGION
        at = builder.region(cython.address(builder.operands), dtype, local, 0, False)
        self.set_row_steps(builder, at, 1)
        before: cython.longlong = builder.code(False, LOAD, dtype, position, 0)
        total: cython.longlong = builder.code(False, _add.code, dtype, -1, 2)
        put(builder.part(False), before)
        put(builder.part(False), value)
        at = builder.region(cython.address(builder.stores), dtype, local, total, False)
        self.set_row_steps(builder, at, 1)
        self.columns.append(node)

    @cython.cfunc
    def compute(self, node: Node, number: cython.Py_ssize_t) -> cython.void:
        """A node in a phase, what it reads there before it."""
        builder: KernelEncoder = self.phase(number)
        root: Node
        for root in self.inside(node):
            self.provide(root, number, self.is_per_row(node) and node.op.kind != _reduce)
        builder.add(node)

    @cython.cfunc
    def provide(
        self, root: Node, number: cython.Py_ssize_t, in_epilogue: cython.bint
    ) -> cython.void:
        """See that a phase has a value of an earlier one."""
        builder: KernelEncoder = self.phase(number)
        known: cython.longlong = builder.late_value_of(root) if in_epilogue else -1
        if known < 0:
            known = builder.value_of(root)
        if known >= 0 and (known >> PART != BODY or not in_epilogue):
            return
        if not self.is_per_row(root) and root not in self.spilled and self.is_cheap(root):
            self.compute(root, number)
            return
        local: cython.int = self.spill(root)
        dtype: cython.int = root.dtype.code
        position: cython.Py_ssize_t = builder.operands.count // REGION
        at = builder.region(cython.address(builder.operands), dtype, local, 0, False)
        self.set_local_steps(root, builder, at)
        known = builder.code(in_epilogue, LOAD, dtype, position, 0)
        if in_epilogue:
            builder.name_late(root, known)
        else:
            builder.name(root, known)

    @cython.cfunc
    def is_cheap(self, node: Node) -> cython.bint:
        """True if a value is computed again rather than spilled; also if local memory is used up."""
        cost: cython.double = self.costs[node]
        tuning: Tuning = self.program.device.tuning
        nbytes: cython.longlong = self.bytes + node.dtype.itemsize * self.row
        return cost <= tuning.costs.store_in_row or nbytes > tuning.fusion.row_memory_bytes

    @cython.cfunc
    def set_local_steps(
        self, node: Node, builder: KernelEncoder, at: cython.Py_ssize_t
    ) -> cython.void:
        """The steps of a value in local memory: along the row, or none."""
        self.set_row_steps(builder, at, 0 if self.is_per_row(node) else 1)

    @cython.cfunc
    def set_row_steps(
        self, builder: KernelEncoder, at: cython.Py_ssize_t, step: cython.longlong
    ) -> cython.void:
        """No steps but along the row."""
        axis: cython.Py_ssize_t
        last: cython.Py_ssize_t = len(self.kernel.shape) - 1
        for axis in range(last):
            builder.steps.words[at + axis] = 0
        builder.steps.words[at + last] = step

    @cython.cfunc
    def spill(self, node: Node) -> cython.int:
        """Local memory that the phase of a node leaves its value in."""
        number = self.spilled.get(node)
        if number is not None:
            return number
        number = self.spilled[node] = len(self.locals)
        self.locals.append(node.dtype.code << 2 | (0 if self.is_per_row(node) else WHOLE))
        if not self.is_per_row(node):
            self.bytes += node.dtype.itemsize * self.row
        builder: KernelEncoder = self.phases[self.phase_of[node]]
        value: cython.longlong = builder.value_of(node)
        stores = cython.address(builder.stores)
        late: cython.bint = value >> PART != BODY
        at = builder.region(stores, node.dtype.code, number, value, late)
        self.set_local_steps(node, builder, at)
        return number

    @cython.cfunc
    def finish(self) -> cython.void:
        """The stores, the axes collapsed for all phases together, the spec."""
        node: Node
        builder: KernelEncoder
        for node in self.kernel.stores:
            if is_over_rows(self.kernel, node):
                continue
            builder = self.phases[self.phase_of[node]]
            builder.store(node)
        collapse(self.phases)
        for builder in self.phases:
            if builder.rank == 1:
                add_outer_axis(builder)
            builder.reduced = 1 if builder.reduces.count > 0 else 0
            builder.program = builder.kernel = None
        self.spec = _find_spec(self)
        self.program = self.kernel = None


@cython.cfunc
def _find_spec(encoder: RowKernelEncoder) -> KernelSpec:
    builder: KernelEncoder
    key: Array = empty()
    try:
        put(cython.address(key), encoder.device.number)
        put(cython.address(key), -len(encoder.phases))
        for builder in encoder.phases:
            put_key(builder, cython.address(key))
        for local in encoder.locals:
            put(cython.address(key), local)
        spec = look_up(cython.address(key))
        if spec is None:
            spec = _spec_of(encoder)
            remember(cython.address(key), spec)
    finally:
        drop(cython.address(key))
    return spec


@cython.cfunc
def _key_of(encoder: RowKernelEncoder) -> tuple:
    """The key as it is named and compiled."""
    builder: KernelEncoder
    keys: list = []
    for builder in encoder.phases:
        keys.append(loop_key(builder))
    memory = tuple(
        [
            (dtypes.ALL[word >> 2].name, bool(word & WHOLE), bool(word & ADDED))
            for word in encoder.locals
        ]
    )
    return "rows", tuple(keys), memory


@cython.cfunc
def _spec_of(encoder: RowKernelEncoder) -> KernelSpec:
    key = _key_of(encoder)
    names = [
        item[0]
        for phase in key[1]
        for item in (*phase[4], *phase[5], *phase[6])
        if item[0] not in ("load", "offset")
    ]
    sums: cython.bint = any([added for _, _, added in key[2]])
    spec: KernelSpec = spec_of(encoder.device, key, names, sums)
    spec.fused = True
    return spec


def prepare(program: Program, kernel: Kernel):
    """Work out the spec of an elementwise and reduce kernel; None where it has nothing to do."""
    if not kernel.is_row_kernel:
        return loop_kernel.prepare(program, kernel)
    kernel.prepared = None
    if not kernel.stores or 0 in kernel.shape:
        return None
    encoder: RowKernelEncoder = RowKernelEncoder(program, kernel)
    for node in kernel.nodes:
        encoder.add(node)
    encoder.finish()
    kernel.prepared = encoder
    return encoder.spec


def prepared_spec(kernel: Kernel):
    """The spec of a prepared kernel."""
    if not kernel.is_row_kernel:
        return loop_kernel.prepared_spec(kernel)
    encoder: RowKernelEncoder = kernel.prepared
    return encoder.spec


def phases_of(kernel: Kernel):
    """Of a prepared row kernel the phase that reads each value from memory last, and the phase that stores each
    result: ({root: phase}, {node: phase}). The phases of a row come one after the other."""
    encoder: RowKernelEncoder = kernel.prepared
    builder: KernelEncoder
    memref: MemRef
    last: dict = {}
    stored: dict = {}
    for number, builder in enumerate(encoder.phases):
        for memref in builder.sources:
            last[memref.root] = number
        stored.update(dict.fromkeys(builder.targets, number))
    return last, stored


def prepared_key(kernel: Kernel):
    """The named key of a prepared kernel, by which its words must have found its spec."""
    if not kernel.is_row_kernel:
        return loop_kernel.prepared_key(kernel)
    return _key_of(kernel.prepared)
