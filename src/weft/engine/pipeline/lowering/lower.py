# cython: language_level=3
"""Lower: from planned kernels to launches.

In comes a planned Program; out go Launch records: which kernel (a KernelSpec: a key and a way to build its LLVM IR),
its pointers as (slot, byte offset), its integer arguments, its work units. Kernels are specialised on structure,
dtypes, collapsed axes and stride classes, never on sizes. Compiling a spec and running a launch are the runtime's.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import OpRow
from cython.cimports.weft.engine.pipeline.lowering.copy import (
    copy_base,
    lower_copy,
    lower_indexed,
    lower_region,
)
from cython.cimports.weft.engine.pipeline.lowering.lower import KernelSpec, Launch, Lowering
from cython.cimports.weft.engine.pipeline.lowering.matmul import lower_matmul
from cython.cimports.weft.engine.pipeline.lowering.row_kernel import lower_kernel
from cython.cimports.weft.engine.pipeline.lowering.segment_gather import lower_joined, lower_rows
from cython.cimports.weft.engine.pipeline.memory_plan import Plan, value_of
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    Place,
    Program,
    operand,
    place_of,
    row_major,
)

from weft._build.compiled import require
from weft.config import config
from weft.engine.ir.primitive import CONTRACT, ELEMENTWISE, INDEX, REGION, ROWS, SCAN, SCATTER, VIEW
from weft.engine.pipeline.lowering import scan_sort_scatter
from weft.errors import VerificationError
from weft.ops.row import TABLE

require(__name__, cython.compiled)

_LEAST = cython.declare(cython.longlong, 0 if config.guard else 64)  # bytes of a temporary

_cat_row = cython.declare(OpRow, TABLE["cat"])


@cython.cclass
class KernelSpec:
    """A kernel by its key: how to build its text, and, once compiled, where it is. `uses` counts flushes."""

    def __init__(self, name: str, build, symbols: tuple, checked: bool = False):
        self.name = name
        self.build = build
        self.symbols = symbols
        self.checked = checked

    def __repr__(self):
        return f"<kernel {self.name}>"


@cython.final
@cython.no_gc
@cython.cclass
class Launch:
    """One call: pointers are (slot, byte offset), slots below the plan's count are the plan's, then temporaries. Of a
    gang one call for all `members`, which are launches, too; its units are grains of theirs."""

    def __dealloc__(self):
        free(self.words)

    @property
    def pointers(self):
        """(slot, byte offset) of each operand, then of each result; of a gang those of its members."""
        if self.members is not None:
            return [pointer for launch in self.members for pointer in launch.pointers]
        return [
            (self.words[2 * index], self.words[2 * index + 1])
            for index in range(self.pointer_count)
        ]

    @property
    def arguments(self):
        """What the kernel is told beside its pointers."""
        if self.members is not None:
            return [argument for launch in self.members for argument in launch.arguments]
        return [self.words[2 * self.pointer_count + index] for index in range(self.argument_count)]


@cython.cfunc
def new_launch(
    lowering: Lowering,
    spec: KernelSpec,
    pointers: cython.pointer(Array),
    arguments: cython.pointer(Array),
    units: cython.longlong,
    grain: cython.longlong,
    work: cython.longlong,
) -> Launch:
    """Append one launch of the kernel in hand; `pointers` are pairs of words."""
    launch: Launch = Launch.__new__(Launch)
    launch.spec = spec
    launch.units = units
    launch.grain = grain
    launch.work = work
    launch.kernel = lowering.current
    launch.pointer_count = pointers.count // 2
    launch.argument_count = arguments.count
    launch.words = cython.cast(
        cython.p_longlong, malloc(8 * (pointers.count + arguments.count + 1))
    )
    if launch.words == cython.NULL:
        raise MemoryError
    memcpy(launch.words, pointers.words, 8 * pointers.count)
    memcpy(launch.words + pointers.count, arguments.words, 8 * arguments.count)
    lowering.launches.append(launch)
    return launch


@cython.cclass
class Lowering:
    """The launches of one program as they are put together; `scratch` are sizes of temporaries."""

    def __init__(self, program: Program, plan: Plan):
        self.program = program
        self.plan = plan
        self.launches = []
        self.scratch = []
        self.current = -1
        self.turned = None  # the matrices that are copied for many products (`turning.Turned`)

    @cython.cfunc
    def pointer(self, place: Place, itemsize: cython.longlong) -> tuple:
        return (place.value.slot, place.offset * itemsize)

    @cython.cfunc
    def temporary(self, nbytes: cython.longlong) -> cython.int:
        self.scratch.append(max(nbytes, _LEAST))
        return len(self.plan.external) + len(self.plan.sizes) + len(self.scratch) - 1

    def slot_of(self, node: Node):
        """The slot that a stored node is written to."""
        return value_of(self.plan, node).slot

    def place_of(self, node: Node):
        """(slot, byte offset, strides) of a value."""
        place: Place = place_of(self.program, node)
        slot, offset = self.pointer(place, place.root.dtype.itemsize)
        return slot, offset, place.strides

    def scratch_slot(self, nbytes):
        """A temporary for this program."""
        return self.temporary(nbytes)

    def add(self, spec: KernelSpec, pointers, arguments, units, grain, work):
        """Append one launch of the kernel in hand, from sequences."""
        places: Array = empty()
        words: Array = empty()
        try:
            for slot, offset in pointers:
                put(cython.address(places), slot)
                put(cython.address(places), offset)
            for argument in arguments:
                put(cython.address(words), argument)
            new_launch(
                self, spec, cython.address(places), cython.address(words), units, grain, work
            )
        finally:
            drop(cython.address(places))
            drop(cython.address(words))

    def copy(self, dtype, shape, source, target):
        """Append a copy between strided regions, each (slot, byte offset, strides)."""
        lower_copy(self, dtype, shape, source, target)

    def copy_base(self, node: Node, base: Node):
        """Append a copy of what a node writes into, unless it lies there."""
        copy_base(self, node, base)

    def contiguous(self, node: Node):
        """(slot, byte offset) of a value in row-major order, copied to a temporary where it is not."""
        slot, offset, strides = self.place_of(node)
        if strides == row_major(node.shape):
            return slot, offset
        target = self.temporary(node.numel * node.dtype.itemsize)
        lower_copy(
            self,
            node.dtype,
            node.shape,
            (slot, offset, strides),
            (target, 0, row_major(node.shape)),
        )
        return target, 0


def lower(program: Program, plan: Plan) -> Lowering:
    """The launches of a planned program, in order."""
    lowering: Lowering = Lowering(program, plan)
    launches: list = []
    members: list = []  # the launches of each kernel of the gang in hand
    kernel: Kernel
    for kernel in program.kernels:
        if kernel.position != lowering.current:
            _close(lowering, launches, members)
            members = []
        lowering.current = kernel.position
        lowering.launches = []
        _lower_one(lowering, kernel)
        members.append(lowering.launches)
    _close(lowering, launches, members)
    lowering.launches = launches
    return lowering


@cython.cfunc
def _close(lowering: Lowering, launches: list, members: list) -> cython.void:
    """Append a gang; before it the copies that several of its members read."""
    if lowering.turned is not None and lowering.turned.copies:
        launches.extend(lowering.turned.take_copies())
    launches.extend(joined(members))


@cython.cfunc
def _lower_one(lowering: Lowering, kernel: Kernel) -> cython.void:
    """Append the launches of one kernel."""
    if kernel.kind == ELEMENTWISE:
        lower_kernel(lowering, kernel)
        return
    node: Node = kernel.nodes[0]
    if value_of(lowering.plan, node).slot < 0:
        return
    if kernel.kind == VIEW:
        _lower_reshape(lowering, node)
    elif kernel.kind == INDEX:
        lower_indexed(lowering, node)
    elif kernel.kind == REGION:
        if node.row is not _cat_row or not lower_joined(lowering, node):
            lower_region(lowering, node)
    elif kernel.kind == CONTRACT:
        lower_matmul(lowering, node)
    elif kernel.kind == SCAN:
        scan_sort_scatter.ROWS.get(node.row.name, scan_sort_scatter.lower_scan)(lowering, node)
    elif kernel.kind == SCATTER:
        scan_sort_scatter.lower_scatter(lowering, node)
    elif kernel.kind == ROWS:
        lower_rows(lowering, node)
    else:
        raise VerificationError("lower", expected="a kind of kernel", got=repr(kernel))


@cython.cfunc
def joined(members: list) -> list:
    """The launches of a gang: those of its members that run the same codes in the same order are one each."""
    if len(members) < 2:
        return members[0] if members else []
    alike: dict = {}
    launches: list
    for launches in members:
        alike.setdefault(_codes_of(launches), []).append(launches)
    found: list = []
    for group in alike.values():
        for step in zip(*group, strict=True):
            found.append(step[0] if len(step) == 1 else _together(list(step)))
    return found


@cython.cfunc
def _codes_of(launches: list):
    """What launches run, for a dictionary."""
    launch: Launch
    if len(launches) == 1:
        launch = launches[0]
        if not launch.final:
            return launch.spec
    return tuple([(launch.spec, launch.final) for launch in launches])


@cython.cfunc
def _together(members: list) -> Launch:
    """One launch for all."""
    first: Launch = members[0]
    launch: Launch
    whole: Launch = Launch.__new__(Launch)
    whole.spec = first.spec
    whole.final = first.final
    whole.kernel = first.kernel
    whole.grain = 1
    whole.members = members
    for launch in members:
        whole.units += (launch.units + launch.grain - 1) // launch.grain
        whole.work += launch.work
    return whole


@cython.cfunc
def _lower_reshape(lowering: Lowering, node: Node) -> cython.void:
    """A view that its operand's strides cannot express: a copy in row-major order."""
    source: Node = node.inputs[0]
    place: Place = operand(lowering.program, node, 0)
    slot, offset = lowering.pointer(place, source.dtype.itemsize)
    lower_copy(
        lowering,
        node.dtype,
        source.shape,
        (slot, offset, place.strides),
        (value_of(lowering.plan, node).slot, 0, row_major(source.shape)),
    )


def verify(lowering: Lowering):
    """Launches only name slots that exist; before its first element reach only values from outside, whose first
    element may stand behind others in memory (a reversed view that is kept)."""
    count = lowering.plan.count + len(lowering.scratch)
    outside = len(lowering.plan.external)
    for launch in lowering.launches:
        for slot, offset in launch.pointers:
            status: cython.bint = slot == -1 and launch.spec.checked
            if not (0 <= slot < count or status) or (offset < 0 and slot >= outside):
                raise VerificationError(
                    "lower", expected=f"a slot below {count}", got=f"{slot}+{offset}"
                )


def text(lowering: Lowering):
    """One line per launch."""
    lines = []
    for launch in lowering.launches:
        pointers = " ".join(
            f"s{slot}+{offset}" if offset else f"s{slot}" for slot, offset in launch.pointers
        )
        lines.append(
            f"k{launch.kernel} {launch.spec.name}{' final' if launch.final else ''}"
            f"{f' x {len(launch.members)}' if launch.members else ''} ({pointers}) "
            f"units {launch.units} grain {launch.grain}"
        )
    return "\n".join(lines)
