# cython: language_level=3
"""A flush node by node: each is a call of its kernel, a view, or a program of its own.

It takes an `Interpretation`, and says whether all of its nodes have run; what has not is pending. Compiled for the same
reason as `run_program`.
"""

from typing import Any

import cython
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.weft.engine.devices.api import Memory, bounded
from cython.cimports.weft.engine.devices.trace import NodeTimes, tracing
from cython.cimports.weft.engine.devices.tuning import Tiering
from cython.cimports.weft.engine.ir.node import DONE, Node, set_buffer
from cython.cimports.weft.engine.ir.primitive import SELECT, SLICE, STRIDED
from cython.cimports.weft.engine.pipeline.batching.operand_packing import settle_view
from cython.cimports.weft.engine.pipeline.fingerprint import (
    SINGLE_NODE,
    SOON,
    FlushFingerprint,
    fingerprint_of,
)
from cython.cimports.weft.engine.pipeline.launch_ir import Launch, Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan
from cython.cimports.weft.engine.pipeline.program_ir import Program
from cython.cimports.weft.engine.pipeline.run_program import count, launch
from cython.cimports.weft.engine.pipeline.simplify.decompose import expanded
from cython.cimports.weft.engine.pipeline.single_node import is_rewritten, program_of
from cython.cimports.weft.engine.runtime import executable_cache
from cython.cimports.weft.engine.runtime.executable_cache import CachedExecutable
from cython.cimports.weft.engine.runtime.interpreter import (
    Interpretation,
    commit,
    may_overwrite,
    take_row,
    take_view,
)
from cython.cimports.weft.engine.runtime.loop_calls import (
    call_join,
    call_kernel,
    call_layout,
    call_loop,
    call_put,
    call_source,
)

from weft._build.compiled import require as require_compiled
from weft.config import config
from weft.engine.ir.primitive import MACRO, REGION
from weft.engine.pipeline import memory_plan, passes
from weft.engine.pipeline.lowering import lower
from weft.engine.pipeline.memory_plan import is_private
from weft.engine.runtime.executable_cache import worth_storing

require_compiled(__name__, cython.compiled)

_region = cython.declare(cython.int, REGION)
_macro = cython.declare(cython.int, MACRO)
MACRO_ELEMENTS = cython.declare(cython.longlong, 1 << 14)  # of one that runs as its primitives


@cython.cfunc
@cython.exceptval(-1, check=False)
def leaves_no_room(memory: Memory, pending: list) -> cython.bint:
    """True if nodes that are all stored may take more than the budget leaves."""
    return bounded and memory.budget() != 0 and bytes_of(pending) > memory.room_left()


@cython.cfunc
@cython.exceptval(check=False)
def bytes_of(nodes: list[Node]) -> cython.longlong:
    """The bytes of nodes that are all stored."""
    total: cython.longlong = 0
    node: Node
    for node in nodes:
        total += node.numel * node.dtype.itemsize
    return total


@cython.cfunc
@cython.exceptval(-1, check=False)
def settle_parts(nodes: list) -> cython.bint:
    """Let views of parts of values that are there, and that others see too, refer to these values' memory; whether
    there were any. What reads another part of a value each time, as the next rows of a data set, is one structure then.
    """
    node: Node
    settled: cython.bint = False
    for node in nodes:
        if is_part(node) and node.quotient is None and is_seen(node.inputs[0]):
            settle_view(node, node.inputs[0])
            settled = settled or node.state == DONE
    return settled


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_part(node: Node) -> cython.bint:
    """True for a view whose parameters say where in its operand it lies."""
    return node.op.form in (STRIDED, SELECT, SLICE)


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_seen(source: Node) -> cython.bint:
    """True if a value is there and its memory is seen by others than pending nodes, so that nothing takes it over."""
    return source.state == DONE and source.buffer is not None and not is_private(source)


@cython.cfunc
def interpret(flush: Interpretation) -> cython.bint:
    """Run nodes one by one; False where one cannot be: it and what follows is pending then."""
    if tracing:
        flush.times = NodeTimes(len(flush.order))
    try:
        while flush.runs and flush.order:
            PyErr_CheckSignals()  # of a flag, as a rule: what a node takes is not known
            flush.runs = interpret_next(flush, flush.order.pop())
        return flush.runs
    finally:
        if flush.times is not None:
            flush.times.close()
        flush.stop()
        flush.keep_batches()


@cython.cfunc
def interpret_next(flush: Interpretation, node: Node) -> cython.bint:
    """Run the next node of a flush; False where it cannot be run alone."""
    inputs: tuple = node.inputs  # they live until the values that nobody else reads are freed
    ran: cython.bint = False
    try:
        ran = flush.release() and run_next(flush, node)
        if ran and inputs:
            flush.free()
        if ran and flush.times is not None:
            flush.times.add(node, inputs)
    finally:
        flush.go_on()
    return ran


@cython.cfunc
@cython.inline
def run_next(flush: Interpretation, node: Node) -> cython.bint:
    """Run a node whose operands are there; False where it cannot be run alone."""
    if node.quotient is not None:
        return take_row(node)
    return called(node) or viewed(node) or run_alone(flush, node)


@cython.cfunc
@cython.inline
def called(node: Node) -> cython.bint:
    """Run a node by calling its kernel; False if it has none to call."""
    kind: cython.int = node.op.kind
    if not (
        call_put(node) or call_join(node)
        if kind == _region
        else call_loop(node) or call_kernel(node) or call_source(node)
    ):
        return False
    count(1, 1, 1)
    return True


@cython.cfunc
@cython.inline
def viewed(node: Node) -> cython.bint:
    """Let a view refer to its operand's memory, or copy that; False if it can be neither."""
    if take_view(node):
        return True
    if not call_layout(node):
        return False
    count(1, 1, 1)
    return True


@cython.cfunc
def run_alone(flush: Interpretation, node: Node) -> cython.bint:
    """Run one node whose operands are there as a program of its own. False where its index check failed, where its
    kernels are still to be compiled, with others as a rule, and where too many nodes of the flush have to go through
    the passes."""
    if flush.times is not None:
        flush.times.close()
        flush.times.alone = True
    overwrites: cython.int = memory_plan.BASES if may_overwrite(node) else memory_plan.NOTHING
    fingerprint: FlushFingerprint = fingerprint_of([node], SINGLE_NODE + overwrites)
    known: CachedExecutable = executable_cache.lookup(fingerprint) if config.cache else None
    if known is not None and executable_cache.usable(known, fingerprint):
        count(known.kernels, known.launches, 1)
        outcome = executable_cache.run_cached(known, fingerprint)
        if outcome is None or outcome is False:
            return outcome is None
        raise outcome
    if not is_rewritten(node):
        return launch_single(flush, fingerprint, overwrites)
    if is_small_macro(node) and not worth_storing(fingerprint) and run_primitives(node):
        return True
    if flush.missed >= flush.most_misses:
        return False
    flush.missed += 1
    return schedule_alone(flush, fingerprint, overwrites)


@cython.cfunc
@cython.exceptval(check=False)
def is_small_macro(node: Node) -> cython.bint:
    """True for a macro over so few elements that loading and storing what lies between its primitives is less than to
    schedule it."""
    source: Node
    elements: cython.longlong = node.numel
    for source in node.inputs:
        elements = max(elements, source.numel)
    return node.op.kind == _macro and 0 < elements <= MACRO_ELEMENTS


@cython.cfunc
def run_primitives(macro: Node) -> cython.bint:
    """Run the primitives that a macro stands for, one by one; False where one of them cannot be."""
    nodes: list = []
    result: Node = expanded(macro, nodes)
    if result not in nodes:
        return False
    result.external_refs += 1
    flush: Interpretation = Interpretation(nodes)
    runs: cython.bint = flush.runs and flush.can_run
    try:
        while runs and flush.order:
            runs = interpret_next(flush, flush.order.pop())
    finally:
        flush.stop()
        result.external_refs -= 1
    if not runs or result.strides is not None:
        return False
    commit(macro, result.buffer, result.offset, None)
    set_buffer(result, None)
    return True


@cython.cfunc
def schedule_alone(
    flush: Interpretation, fingerprint: FlushFingerprint, overwrites: cython.int
) -> cython.bint:
    """The same for a node alone; False where its index check failed, or where its kernels wait for the compiler."""
    one: Any = passes.Compilation(fingerprint.nodes, SOON, overwrites=overwrites)
    try:
        passes.schedule(one)
        if waits_for_compiler(flush, one.lowering):
            return False
        return not launch(
            fingerprint, None, one.program, one.memory, one.lowering, fingerprint.nodes
        )
    finally:
        one.program.release()


@cython.cfunc
def launch_single(
    flush: Interpretation, fingerprint: FlushFingerprint, overwrites: cython.int
) -> cython.bint:
    """The same for a node that the passes leave as it is: without them, for sizes that may never come again."""
    program: Program = program_of(fingerprint.nodes[0])
    try:
        memory: Plan = memory_plan.plan(program, overwrites)
        lowering: Lowering = lower.lower(program, memory)
        if waits_for_compiler(flush, lowering):
            return False
        return not launch(fingerprint, None, program, memory, lowering, fingerprint.nodes)
    finally:
        program.release()


@cython.cfunc
def waits_for_compiler(flush: Interpretation, lowering: Lowering) -> cython.bint:
    """True if a node alone needs a kernel that is not compiled and should be left to its flush, which compiles all it
    needs together: on the kernel's first use, if scheduling the rest takes no longer than compiling."""
    tuning: Tiering = lowering.program.device.tuning.tiering
    if len(flush.order) >= tuning.nodes_of_a_kernel:
        return False
    launch: Launch
    for launch in lowering.launches:
        if launch.spec.code is None:
            launch.spec.uses += 1
            if launch.spec.uses < tuning.uses_alone:
                return True
    return False
