# cython: language_level=3
"""Lowering: planned kernels become launches, which the program's device makes (`Lowerer.lower`).

It takes a planned Program and returns Launch records: a kernel (a KernelSpec), its pointers as (slot, byte offset),
its integer arguments, its units of work. The runtime compiles specs and runs launches.
"""

import cython
from cython.cimports.weft.engine.devices.api import Lowerer
from cython.cimports.weft.engine.pipeline.launch_ir import Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan
from cython.cimports.weft.engine.pipeline.program_ir import Program

from weft._build.compiled import require
from weft.errors import VerificationError

require(__name__, cython.compiled)


def lower(program: Program, plan: Plan) -> Lowering:
    """The launches of a planned program, in order."""
    lowerer: Lowerer = program.device.lowerer()
    return lowerer.lower(program, plan)


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
            f"units {launch.units} grain {launch.grain_size}"
        )
    return "\n".join(lines)
