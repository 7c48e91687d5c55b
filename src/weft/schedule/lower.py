# cython: language_level=3
"""Lower: from planned kernels to launches.

In comes a planned Program; out go Launch records: which kernel (a KernelSpec: a key and a way to build its LLVM IR),
its pointers as (slot, byte offset), its integer arguments, its work units. Kernels are specialised on structure,
dtypes, collapsed axes and stride classes, never on sizes. Compiling a spec and running a launch are the runtime's.
"""

import cython
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.schedule.collect import row_major
from cython.cimports.weft.schedule.copies import lower_copy, lower_indexed
from cython.cimports.weft.schedule.lower import KernelSpec, Launch, Lowering
from cython.cimports.weft.schedule.plan import Plan
from cython.cimports.weft.schedule.records import Kernel, Place, Program
from cython.cimports.weft.schedule.rows import lower_rows
from cython.cimports.weft.schedule.staging import lower_kernel

from weft._compiled import require
from weft.errors import VerificationError
from weft.graph.rows import CONTRACT, ELEMENTWISE, INDEX, REGION, ROWS, SCAN, SCATTER, VIEW
from weft.schedule import families

require(__name__, cython.compiled)


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

    def __init__(
        self,
        spec: KernelSpec,
        pointers: list,
        arguments: list,
        units: cython.longlong,
        grain: cython.longlong,
        work: cython.longlong,
        kernel: cython.int,
        final: cython.bint = False,
        table=None,
        members: list | None = None,
    ):
        self.spec = spec
        self.pointers = pointers
        self.arguments = arguments
        self.units = units
        self.grain = grain
        self.work = work
        self.kernel = kernel
        self.final = final
        self.table = table
        self.members = members


@cython.cclass
class Lowering:
    """The launches of one program as they are put together; `scratch` are sizes of temporaries."""

    def __init__(self, program: Program, plan: Plan):
        self.program = program
        self.plan = plan
        self.launches = []
        self.scratch = []
        self.current = -1
        self.turned = None  # places of the matrices that are copied for many products

    @cython.cfunc
    def pointer(self, place: Place, itemsize: cython.longlong) -> tuple:
        return (self.plan.slots[place.root], place.offset * itemsize)

    @cython.cfunc
    def temporary(self, nbytes: cython.longlong) -> cython.int:
        self.scratch.append(nbytes if nbytes > 64 else 64)
        return len(self.plan.external) + len(self.plan.sizes) + len(self.scratch) - 1

    def slot_of(self, node: Node):
        """The slot that a stored node is written to."""
        return self.plan.slots[node]

    def place_of(self, node: Node):
        """(slot, byte offset, strides) of a value."""
        place: Place = self.program.places[node]
        slot, offset = self.pointer(place, place.root.dtype.itemsize)
        return slot, offset, place.strides

    def scratch_slot(self, nbytes):
        """A temporary for this program."""
        return self.temporary(nbytes)

    def add(
        self, spec: KernelSpec, pointers, arguments, units, grain, work, final=False, table=None
    ):
        """Append one launch of the kernel in hand."""
        self.launches.append(
            Launch(spec, pointers, arguments, units, grain, work, self.current, final, table)
        )

    def copy(self, dtype, shape, source, target):
        """Append a copy between strided regions, each (slot, byte offset, strides)."""
        lower_copy(self, dtype, shape, source, target)

    def abreast(self):
        """The launches of the kernel in hand do not wait for each other: those of one code become one."""
        self.launches = joined([[launch] for launch in self.launches])

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
            launches.extend(joined(members))
            members = []
        lowering.current = kernel.position
        lowering.launches = []
        _lower_one(lowering, kernel)
        members.append(lowering.launches)
    launches.extend(joined(members))
    lowering.launches = launches
    return lowering


@cython.cfunc
def _lower_one(lowering: Lowering, kernel: Kernel) -> cython.void:
    """Append the launches of one kernel."""
    if kernel.kind == ELEMENTWISE:
        lower_kernel(lowering, kernel)
        return
    node: Node = kernel.nodes[0]
    if node not in lowering.plan.slots:
        return
    if kernel.kind == VIEW:
        _lower_reshape(lowering, node)
    elif kernel.kind == INDEX:
        lower_indexed(lowering, node)
    elif kernel.kind == REGION:
        families.lower_region(lowering, node)
    elif kernel.kind == CONTRACT:
        families.lower_matmul(lowering, node)
    elif kernel.kind == SCAN:
        families.lower_scan(lowering, node)
    elif kernel.kind == SCATTER:
        families.lower_scatter(lowering, node)
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
    for launches in members:
        codes = tuple([(id(launch.spec), launch.final) for launch in launches])
        alike.setdefault(codes, []).append(launches)
    found: list = []
    for group in alike.values():
        for step in zip(*group, strict=True):
            found.append(step[0] if len(step) == 1 else _together(list(step)))
    return found


@cython.cfunc
def _together(members: list) -> Launch:
    """One launch for all."""
    pointers: list = []
    arguments: list = []
    units: cython.longlong = 0
    work: cython.longlong = 0
    launch: Launch
    for launch in members:
        pointers.extend(launch.pointers)
        arguments.extend(launch.arguments)
        units += (launch.units + launch.grain - 1) // launch.grain
        work += launch.work
    launch = members[0]
    return Launch(
        launch.spec,
        pointers,
        arguments,
        units,
        1,
        work,
        launch.kernel,
        launch.final,
        None,
        members,
    )


@cython.cfunc
def _lower_reshape(lowering: Lowering, node: Node) -> cython.void:
    """A view that its operand's strides cannot express: a copy in row-major order."""
    source: Node = node.inputs[0]
    place: Place = lowering.program.places[source]
    slot, offset = lowering.pointer(place, source.dtype.itemsize)
    lower_copy(
        lowering,
        node.dtype,
        source.shape,
        (slot, offset, place.strides),
        (lowering.plan.slots[node], 0, row_major(source.shape)),
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
