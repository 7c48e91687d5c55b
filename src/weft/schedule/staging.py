# cython: language_level=3
"""Lowering of staged kernels: several reductions of the same rows, and what is computed from them, in one kernel.

In comes a fused kernel whose nodes read reductions that it makes itself; out goes one launch. Each node has a phase:
the first in which all that it reads is there. What a later phase reads is computed again there where that costs no
more than reading it, otherwise it is left in local memory, one element or a row. Kernels that are not staged are left
to `loops`.
"""

import cython
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.schedule.loops import (
    Builder,
    _specs,
    collapsed,
    loop_key,
    lower_loops,
)
from cython.cimports.weft.schedule.lower import KernelSpec, Launch, Lowering
from cython.cimports.weft.schedule.records import Kernel, Place, Program

from weft._compiled import require
from weft.graph.rows import REDUCE
from weft.schedule import loops
from weft.schedule.costs import cost_of
from weft.schedule.fuse import LONGEST_ROW
from weft.schedule.loops import symbol_of

require(__name__, cython.compiled)

_reduce = cython.declare(cython.int, REDUCE)
_longest_row = cython.declare(cython.longlong, LONGEST_ROW)
CHEAP = 5  # a value of at most this cost is computed again in a later phase
MOST_BYTES = 1 << 19  # of rows in local memory; beyond, everything is


@cython.final
@cython.cclass
class Staging:
    """One staged kernel on the way."""

    program: Program
    kernel: Kernel
    phases: list
    born: dict  # node -> phase
    costs: dict  # body node -> what computing it once more costs
    held: dict  # node -> number of local memory
    locals: list  # (dtype name, whether a whole row)
    bytes: cython.longlong  # of whole rows
    spec: KernelSpec

    def __cinit__(self, program: Program, kernel: Kernel):
        self.program = program
        self.kernel = kernel
        self.phases = []
        self.born = {}
        self.costs = {}
        self.held = {}
        self.locals = []

    @cython.cfunc
    def phase(self, number: cython.Py_ssize_t) -> Builder:
        while len(self.phases) <= number:
            self.phases.append(Builder(self.program, self.kernel))
        return self.phases[number]

    @cython.cfunc
    def by_row(self, node: Node) -> cython.bint:
        """Whether a node has one value for each row."""
        extra = self.kernel.extra
        return node.row.kind == _reduce or (extra is not None and node in extra)

    @cython.cfunc
    def inside(self, node: Node) -> list:
        """The values of this kernel that a node reads."""
        found: list = []
        source: Node
        for source in node.inputs:
            root: Node = cython.cast(Place, self.program.places[source]).root
            if root in self.born:
                found.append(root)
        return found

    @cython.cfunc
    def add(self, node: Node) -> cython.void:
        """A node in the first phase in which it can be computed."""
        number: cython.Py_ssize_t = 0
        in_body: cython.bint = not self.by_row(node)
        root: Node
        for root in self.inside(node):
            waits: cython.bint = in_body and self.by_row(root)
            number = max(number, cython.cast(cython.Py_ssize_t, self.born[root]) + waits)
        self.compute(node, number)
        self.born[node] = number
        cost: cython.double = cost_of(node.row.name) + len(node.inputs)
        for root in self.inside(node):
            if not self.by_row(root) and root not in self.held:
                cost += cython.cast(cython.double, self.costs[root]) - 1
        self.costs[node] = cost

    @cython.cfunc
    def compute(self, node: Node, number: cython.Py_ssize_t) -> cython.void:
        """A node in a phase, what it reads there before it."""
        builder: Builder = self.phase(number)
        root: Node
        for root in self.inside(node):
            self.provide(root, number, self.by_row(node) and node.row.kind != _reduce)
        builder.add(node)

    @cython.cfunc
    def provide(
        self, root: Node, number: cython.Py_ssize_t, in_epilogue: cython.bint
    ) -> cython.void:
        """See that a phase has a value of an earlier one."""
        builder: Builder = self.phase(number)
        known = builder.late.get(root) if in_epilogue else None
        if known is None:
            known = builder.ids.get(root)
        if known is not None and (known[0] != "b" or not in_epilogue):
            return
        if not self.by_row(root) and root not in self.held and self.is_cheap(root):
            self.compute(root, number)
            return
        local: cython.int = self.hold(root)
        code: list = builder.epilogue if in_epilogue else builder.body
        strides: list = self.local_strides(root)
        builder.operands.append((root.dtype.name, strides, local))
        code.append(("load", root.dtype.name, (), len(builder.operands) - 1))
        if in_epilogue:
            builder.late[root] = ("e", len(code) - 1)
        else:
            builder.ids[root] = ("b", len(code) - 1)

    @cython.cfunc
    def is_cheap(self, node: Node) -> cython.bint:
        """Whether a value is computed again rather than held; also where local memory is used up."""
        cost: cython.double = self.costs[node]
        return cost <= CHEAP or self.bytes + node.dtype.itemsize * _longest_row > MOST_BYTES

    @cython.cfunc
    def local_strides(self, node: Node) -> list:
        return [0] * (len(self.kernel.shape) - 1) + [0 if self.by_row(node) else 1]

    @cython.cfunc
    def hold(self, node: Node) -> cython.int:
        """Local memory that the phase of a node leaves its value in."""
        number = self.held.get(node)
        if number is not None:
            return number
        number = self.held[node] = len(self.locals)
        self.locals.append((node.dtype.name, not self.by_row(node)))
        if not self.by_row(node):
            self.bytes += node.dtype.itemsize * _longest_row
        builder: Builder = self.phases[self.born[node]]
        value = builder.ids[node]
        builder.stores.append(
            (node.dtype.name, value, self.local_strides(node), value[0] != "b", number)
        )
        return number

    @cython.cfunc
    def finish(self) -> cython.void:
        """The stores, the axes collapsed for all phases together, the spec."""
        node: Node
        builder: Builder
        for node in self.kernel.stores:
            builder = self.phases[self.born[node]]
            builder.store(node)
        rows: list = []
        for builder in self.phases:
            rows.extend(builder.strides())
        builder = self.phases[0]
        dims, kept, _ = collapsed(builder.dims, rows, builder.reduced)
        if len(dims) == 1:
            dims.insert(0, 1)
            for strides in kept:
                strides.insert(0, 0)
        first: cython.Py_ssize_t = 0
        for builder in self.phases:
            count: cython.Py_ssize_t = len(builder.operands) + len(builder.stores)
            builder.restride(kept[first : first + count])
            builder.dims = dims
            builder.reduced = 1 if builder.reduces else 0
            first += count
        self.spec = _find_spec(self)


@cython.cfunc
def _find_spec(staging: Staging) -> KernelSpec:
    builder: Builder
    keys: list = []
    for builder in staging.phases:
        rank: cython.Py_ssize_t = len(builder.dims)
        keys.append(loop_key(builder, rank, builder.reduced, rank - 1))
    key = ("staged", tuple(keys), tuple(staging.locals))
    spec = _specs.get(key)
    if spec is None:
        spec = _specs[key] = _new_spec(key)
    return spec


def _new_spec(key):
    names = [
        item[0]
        for phase in key[1]
        for item in (*phase[5], *phase[6], *phase[7])
        if item[0] not in ("load", "offset")
    ]

    def build(symbol):
        from weft.schedule.specs import staged_text

        return staged_text(key, symbol)

    name = symbol_of(key, names)
    spec: KernelSpec = KernelSpec(name, build, (name,))
    spec.fused = True
    return spec


def prepare(program: Program, kernel: Kernel):
    """Work out the spec of an elementwise and reduce kernel; None where it has nothing to do."""
    if not kernel.staged:
        return loops.prepare(program, kernel)
    kernel.prepared = None
    if not kernel.stores or 0 in kernel.shape:
        return None
    staging: Staging = Staging(program, kernel)
    for node in kernel.nodes:
        staging.add(node)
    staging.finish()
    kernel.prepared = staging
    return staging.spec


def prepared_spec(kernel: Kernel):
    """The spec of a prepared kernel."""
    if not kernel.staged:
        return loops.prepared_spec(kernel)
    staging: Staging = kernel.prepared
    return staging.spec


@cython.cfunc
def lower_kernel(lowering: Lowering, kernel: Kernel) -> cython.void:
    """Launch a prepared kernel."""
    if not kernel.staged or kernel.prepared is None:
        lower_loops(lowering, kernel)
        return
    staging: Staging = kernel.prepared
    kernel.prepared = None
    builder: Builder = staging.phases[0]
    dims: list = builder.dims
    arguments: list = list(dims)
    pointers: list = []
    total: cython.longlong = 1
    for size in dims:
        total *= size
    work: cython.longlong = 0
    for builder in staging.phases:
        for place in builder.sources:
            pointers.append(lowering.pointer(place, cython.cast(Place, place).root.dtype.itemsize))
        for node in builder.targets:
            pointers.append((lowering.plan.slots[node], 0))
        for item in builder.operands:
            arguments.extend(item[1])
        for item in builder.stores:
            arguments.extend(item[2])
        work += total * (len(builder.body) + 1) // 8 + 1
    units: cython.longlong = dims[0]
    grain: cython.longlong = max(1, 1024 * units // max(total, 1))
    lowering.launches.append(
        Launch(staging.spec, pointers, arguments, units, grain, work, lowering.current)
    )
