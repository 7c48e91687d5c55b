# cython: language_level=3
"""Tiered compilation: chooses which fused kernels are compiled now, and which run as single operations for the time
being.

It takes a fused Program and gives each kernel its spec. A cold kernel runs as single-operation kernels until it has
come often enough, and then until it has been compiled in the background: no step waits long for the compiler, and rare
structures are never compiled. Often enough is the eighth time, or the second if the kernel's operations alone would
take long, or if the whole program comes again and has batches, or nothing is compiled in the background. A kernel over
so many elements that compiling it takes less time than its operations alone is compiled at once, before the others: its
intermediate values may not fit into memory either. A flush takes a limited number of new ones. Bits do not depend on
it. A program with split kernels (`is_cold`) is cached where these are compiled in the background (`awaited`), until
they are; those that have not come often enough are asked for when the program has run so often that it would have paid,
or eight times if it comes back soon (`executable_cache`).
"""

import cython
from cython.cimports.weft.engine.devices.api import Lowerer
from cython.cimports.weft.engine.devices.tuning import Tiering
from cython.cimports.weft.engine.frontend.node_factory import count_elements
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.fingerprint import LASTING, NEW, SOON
from cython.cimports.weft.engine.pipeline.fusion.def_use import mark_uses
from cython.cimports.weft.engine.pipeline.fusion.regions import find
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, Program, memref_of

from weft._build.compiled import require
from weft.config import config
from weft.engine.ir.primitive import ELEMENTWISE, REDUCE
from weft.engine.pipeline.lowering.row_kernel import prepare, prepared_key, prepared_spec
from weft.engine.pipeline.lowering.spec_table import key_of
from weft.errors import VerificationError

require(__name__, cython.compiled)


def choose_tiers(program: Program, comes: cython.int = NEW, whole: cython.bint = False) -> Program:
    """Work out specs; take novel fused kernels apart. `comes`: how this program has come before; `whole`: leave its
    kernels as they will be once it has come often enough."""
    cold: list = []
    long: list = []
    kernel: Kernel
    spec: KernelSpec
    tuning: Tiering = program.device.tuning.tiering
    again: cython.bint = comes == LASTING or (comes != NEW and not config.background_compilation)
    program.most_waits = tuning.most_waits if comes == SOON else 0
    for kernel in program.kernels:
        if kernel.kind != ELEMENTWISE:
            continue
        spec = prepare(program, kernel)
        if whole or spec is None or not spec.fused or spec.code is not None:
            continue
        work: cython.longlong = count_elements(kernel.shape) * len(kernel.nodes)
        spec.uses += _uses(tuning, work, again)
        (long if work >= tuning.long_elements else cold).append(kernel)
    if cold or long:
        _split(program, long, cold)
    return program


@cython.cfunc
def _uses(tuning: Tiering, work: cython.longlong, again: cython.bint) -> cython.longlong:
    """For how many uses one counts: what has come once is compiled where its program comes again, or the second time
    where its operations alone take long."""
    if again or work >= tuning.long_elements:
        return tuning.uses
    return tuning.uses // 2 if work >= tuning.medium_elements else 1


@cython.cfunc
def _choose(tuning: Tiering, kernels: list, awaited: list, chosen: set) -> set:
    """Add the specs of kernels that have come often enough and are not awaited, as many as a flush takes; the kernels
    that are left."""
    left: set = set()
    kernel: Kernel
    for kernel in kernels:
        spec = prepared_spec(kernel)
        if spec in chosen:
            continue
        if (
            spec.uses >= tuning.uses
            and len(chosen) < tuning.new_kernels_of_a_flush
            and spec not in awaited
        ):
            chosen.add(spec)
        else:
            left.add(kernel)
    return left


@cython.cfunc
def _split(program: Program, long: list, cold: list) -> cython.void:
    chosen: set = set()
    tuning: Tiering = program.device.tuning.tiering
    kernel: Kernel
    split: set = _choose(tuning, long, [], chosen)
    awaited: list = _awaited(program, cold, chosen)
    split |= _choose(tuning, cold, awaited, chosen)
    if not split:
        return
    program.is_cold = True
    if config.background_compilation:
        program.awaited = list(
            {prepared_spec(kernel): None for kernel in program.kernels if kernel in split}
        )
    program.split_kernels = [kernel.nodes for kernel in program.kernels if kernel in split]
    kernels: list = []
    single_kernels: list = []
    for kernel in program.kernels:
        if kernel not in split:
            kernels.append(kernel)
            continue
        for node in kernel.nodes:
            single = _single(node)
            memref_of(program, node).value.kernel = single
            kernels.append(single)
            single_kernels.append(single)
    program.kernels = kernels
    mark_uses(program)
    for kernel in single_kernels:
        prepare(program, kernel)


@cython.cfunc
def _awaited(program: Program, cold: list, chosen: set) -> list:
    """The specs that have come often enough and are being compiled in the background; not those that are compiled now
    for kernels over more elements."""
    if not config.background_compilation:
        return []
    tuning: Tiering = program.device.tuning.tiering
    due: dict = {}
    kernel: Kernel
    for kernel in cold:
        spec = prepared_spec(kernel)
        if spec.uses >= tuning.uses and spec not in chosen:
            due[spec] = None
    if not due:
        return []
    lowerer: Lowerer = program.device.lowerer()
    return lowerer.compile_in_background(list(due), tuning.compiler_wait_ns * 1e-9)


@cython.cfunc
def _single(node: Node) -> Kernel:
    """A kernel of one node."""
    if node.op.kind != REDUCE:
        kernel: Kernel = Kernel(ELEMENTWISE, node.shape)
    else:
        kernel = Kernel(ELEMENTWISE, cython.cast(Node, node.inputs[0]).shape)
        kernel.axes = node.params[0]
        kernel.reduced_shape = node.shape
    kernel.nodes.append(node)
    kernel.open = False
    return kernel


def verify(program: Program, whole: cython.bint = False):
    """Every node is computed by its producer and nowhere else; its spec is that of its key; what is new is bounded
    in number and has come before; what was taken apart runs as single operations."""
    computed: dict = {}
    for kernel in program.kernels:
        for node in kernel.nodes:
            computed[node] = kernel
    for node in program.order:
        if computed.get(node) is None or find(program, node) is not computed[node]:
            raise VerificationError(
                "tier", expected=f"{node!r} in the kernel of its producer", got="elsewhere"
            )
    _verify_specs(program)
    new: set = set() if whole else _new_specs(program)
    tuning: Tiering = program.device.tuning.tiering
    most: cython.longlong = tuning.new_kernels_of_a_flush
    if len(new) > most or any(spec.uses < tuning.uses for spec in new):
        raise VerificationError(
            "tier",
            expected=f"at most {most} new kernels, each after {tuning.uses} uses",
            got=", ".join(f"{spec!r} at {spec.uses}" for spec in new),
        )
    for nodes in program.split_kernels or ():
        for node in nodes:
            if len(computed[node].nodes) != 1:
                raise VerificationError(
                    "tier", expected=f"{node!r} in a kernel of its own", got=repr(computed[node])
                )


@cython.cfunc
def _verify_specs(program: Program):
    """The words of each kernel have found the spec of its key."""
    kernel: Kernel
    for kernel in program.kernels:
        if kernel.prepared is None:
            continue
        spec = prepared_spec(kernel)
        if key_of(spec) != prepared_key(kernel):
            raise VerificationError(
                "tier", expected=f"{kernel!r} with its own kernel", got=repr(spec)
            )


@cython.cfunc
def _new_specs(program: Program) -> set:
    """The fused kernels that would be compiled for this program; asked before it is lowered."""
    found: set = set()
    kernel: Kernel
    spec: KernelSpec
    for kernel in program.kernels:
        if kernel.prepared is not None:
            spec = prepared_spec(kernel)
            if spec.fused and spec.code is None:
                found.add(spec)
    return found


def text(program: Program):
    """The kernels compiled now, and those that run as single operations until they come again; empty if all are
    warm."""
    names: list = sorted([spec.name for spec in _new_specs(program)])
    lines: list = [f"compiled now: {name}" for name in names]
    due: cython.longlong = program.device.tuning.tiering.uses
    awaited: list = [spec for spec in program.awaited or () if spec.uses >= due]
    lines += [f"compiled in the background: {spec.name}" for spec in awaited]
    for nodes in program.split_kernels or ():
        lines.append(f"taken apart until it comes again: {' '.join([n.op.name for n in nodes])}")
    return "\n".join(lines)
