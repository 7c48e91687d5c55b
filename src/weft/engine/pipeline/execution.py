# cython: language_level=3
"""Execution of one flush: as a cached executable, node by node in the interpreter, or through the passes to commit.

It takes the pending nodes of a tape and leaves them done, failed, or pending where an interrupt came. The driver
decides who may run when, and what other threads need. Compiled, so that Python cannot handle a signal between two of
its lines: an exception of a signal handler comes out of a kernel or of an interpreted function that is called here,
never from the middle of a commit.
"""

from typing import Any

import cython
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.api import (
    Device,
    Lowerer,
    Memory,
    Queue,
    bounded,
    default_device,
    device_at,
    several,
)
from cython.cimports.weft.engine.devices.trace import (
    PROGRAM,
    Labels,
    NodeTimes,
    put_payload,
    tracing,
)
from cython.cimports.weft.engine.devices.tuning import Tiering
from cython.cimports.weft.engine.frontend.collective import used as collectives_used
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node, is_live, set_buffer
from cython.cimports.weft.engine.ir.residuals import drop_inputs
from cython.cimports.weft.engine.ir.tape import Tape
from cython.cimports.weft.engine.pipeline.batching.membership import pending_among
from cython.cimports.weft.engine.pipeline.budget.checkpoints import (
    Recorded,
    any_deferred,
    evict,
    has_deferred,
    recorded_of,
)
from cython.cimports.weft.engine.pipeline.fingerprint import (
    SINGLE_NODE,
    FlushFingerprint,
    fingerprint_of,
)
from cython.cimports.weft.engine.pipeline.launch_ir import Launch, Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan
from cython.cimports.weft.engine.pipeline.partition import DevicePart, Segment, has_collectives
from cython.cimports.weft.engine.pipeline.program_ir import Program
from cython.cimports.weft.engine.pipeline.single_node import is_rewritten, program_of
from cython.cimports.weft.engine.runtime import executable_cache
from cython.cimports.weft.engine.runtime.commit import FlushCounters, commit, decide, note_failure
from cython.cimports.weft.engine.runtime.executable_cache import CachedExecutable
from cython.cimports.weft.engine.runtime.interpreter import (
    Interpretation,
    may_overwrite,
    take_view,
)
from cython.cimports.weft.engine.runtime.interpreter import commit as hand_over
from cython.cimports.weft.engine.runtime.labels import labels_of
from cython.cimports.weft.engine.runtime.launch import ProgramRun, is_compiled
from cython.cimports.weft.engine.runtime.loop_calls import call_loop, call_put
from cython.cimports.weft.engine.runtime.tier_choice import (
    NEW,
    SELDOM,
    SOON,
    lost_ns,
    note_interpreted,
    recurrence,
    spared_ns,
)

from weft._build.compiled import require as require_compiled
from weft.config import config
from weft.engine.capi.interrupts import undisturbed
from weft.engine.frontend import collective
from weft.engine.frontend.write_rollback import release_held, retain, retain_undo_entries
from weft.engine.ir.primitive import COLLECTIVE, REGION
from weft.engine.ir.tape import tape_of
from weft.engine.pipeline import horizontal_fusion, memory_plan, passes
from weft.engine.pipeline.batching import batch, membership
from weft.engine.pipeline.lowering import lower
from weft.engine.pipeline.partition import is_in_order, partition, segments, spans_devices
from weft.engine.runtime import commit as outcomes
from weft.engine.runtime.executable_cache import (
    BY_NAME,
    BY_ROWS,
    has_come,
    storable_as,
    store,
    worth_storing,
)
from weft.engine.runtime.numpy_views import array_over
from weft.engine.runtime.tier_choice import comes_again, may_know_most, note_misses
from weft.errors import OutOfMemoryError, WeftError

require_compiled(__name__, cython.compiled)

_region = cython.declare(cython.int, REGION)
_collective = cython.declare(cython.int, COLLECTIVE)
NODES_BETWEEN_SIGNALS = cython.declare(
    cython.Py_ssize_t, 1024
)  # nodes between two chances for signal handlers
_tally = cython.declare(FlushCounters, outcomes.counters)


@cython.cfunc
def execute(tape: Tape) -> cython.void:
    """Run what is live on a tape; if it does not fit under the budget, without the checkpoints of former programs, some
    of which may be what was refused and ran first."""
    tries: cython.Py_ssize_t = len(tape.refusals) + 2
    while tries > 0:
        tries -= 1
        try:
            execute_in_turn(tape)
            return
        except OutOfMemoryError:
            if tries == 0 or not evict(tape):
                raise


@cython.cfunc
def execute_in_turn(tape: Tape) -> cython.void:
    """Run what is live on a tape: what did not fit when it was to run, each time by itself, and then the rest. So it
    needs no more memory for what has been recorded since."""
    while tape.refusals:
        newest: cython.longlong = tape.refusals[0]
        live: list[Any] = [node for node in tape.pending() if is_live(node)]
        refused: list[Any] = [node for node in pending_among(live) if node.seq <= newest]
        held: cython.Py_ssize_t = len(tape.held)
        if refused:
            run_nodes(membership.needed_by(refused, tape))
        release_held(tape, held)
        del tape.refusals[0]
    execute_live(tape)


@cython.cfunc
def execute_live(tape: Tape) -> cython.void:
    """All stages after recording. A known program skips the search for batches, or at least the scheduling; one that
    has never come before is interpreted where that takes less time."""
    pending: list[Any] = tape.pending()
    if in_parts(tape, pending):
        return
    fingerprint: FlushFingerprint = fingerprint_of(pending, config.batch)
    if not fingerprint.live or run_known(fingerprint):
        return
    if not batch.group(pending):
        comes: cython.int = recurrence(fingerprint)
        if not is_interpreted(tape, pending, fingerprint, comes):
            # kernels of what comes seldom wait until they would have paid, where they can be waited for
            late: cython.bint = comes == SELDOM and config.background_compilation
            schedule(pending, fingerprint, None, comes != NEW and not late)
        return
    pending = tape.pending()
    batched: FlushFingerprint = fingerprint_of(pending, config.batch)
    if not run_known(batched):
        schedule(
            pending, batched, None if fingerprint.tracked else fingerprint, comes_again(batched)
        )


@cython.cfunc
def in_parts(tape: Tape, nodes: list[Node]) -> cython.bint:
    """Run what is pending in parts, if these nodes are no single program; whether they are not."""
    if collectives_used and has_collectives(nodes):
        execute_segments(tape)
        return True
    if several and spans_devices(nodes):
        execute_parts(tape)
        return True
    return False


@cython.cfunc
def execute_segments(tape: Tape) -> cython.void:
    """The same where collectives are pending: they begin as soon as their operands are there, and are waited for where
    their results are read, or at the end. One that makes little of much is waited for behind the segment after the
    next, since its operand takes memory until then."""
    failures: cython.longlong = _tally.failures
    index: cython.Py_ssize_t
    node: Node
    segment: Segment
    batch.group(tape.pending())
    cut: list[Any] = segments(tape.pending())
    if not is_in_order(cut):  # all ranks begin collectives in the order of recording
        membership.ungroup(tape.pending())
        cut = segments(tape.pending())
    held: set[Node] = set()
    for index in range(len(cut)):
        segment = cut[index]
        for node in segment.kept:
            node.external_refs += 1
        tape.held.extend(segment.kept)  # until the flush is over
        held.update(segment.kept)
        for node in segment.awaited:
            receive(node)
        release_read(tape, segment, held)
        if _tally.failures == failures:
            run_segment(tape, segment)
        if _tally.failures > failures:
            return  # what reads a failed value fails before anything else runs
        if index >= 2:
            receive_small(cut[index - 2], held)
        begin(segment.begun)
        give_up(segment.finished, held)
    for segment in cut:
        for node in segment.begun:
            receive(node)


@cython.cfunc
def begin(nodes: list[Node]) -> cython.void:
    """Begin collectives; those of a group of one are done."""
    node: Node
    collective.begin(nodes)
    for node in nodes:
        if node.params.size == 1:
            receive(node)


@cython.cfunc
def receive_small(segment: Segment, held: set[Node]) -> cython.void:
    """Wait for those collectives that began behind a segment whose results are smaller than their operands, and let go
    of these."""
    node: Node
    source: Node
    sources: list[Node] = []
    for node in segment.begun:
        if node.state == PENDING:
            source = node.inputs[0]
            if node.numel < source.numel:
                receive(node)
                sources.append(source)
    give_up(sources, held)


@cython.cfunc
def release_read(tape: Tape, segment: Segment, held: set[Node]) -> cython.void:
    """No longer hold values that a segment is the last to read, so that its results may take their memory; but for
    those that a collective behind it reads."""
    node: Node
    index: cython.Py_ssize_t
    sent: list[Node] = [node.inputs[0] for node in segment.begun]
    for node in segment.finished:
        if node.state == DONE and node in held and node not in sent:
            held.discard(node)
            index = len(tape.held) - 1
            while tape.held[index] is not node:  # this flush's own hold, which is the last
                index -= 1
            del tape.held[index]
            node.external_refs -= 1


@cython.cfunc
def give_up(finished: list[Node], held: set[Node]) -> cython.void:
    """Let go of values that nobody reads any more, and nobody but this flush holds."""
    node: Node
    if any_deferred:  # what is computed again later reads them
        return
    for node in finished:
        own: cython.int = node in held
        if node.state == DONE and node.external_refs == own:
            set_buffer(node, None)


@cython.cfunc
def run_segment(tape: Tape, segment: Segment) -> cython.void:
    """Run the nodes of a segment."""
    if several and spans_devices(segment.nodes):
        for part in partition(segment.nodes):
            run_part(tape, part)
    elif segment.nodes:
        run_nodes(segment.nodes)


@cython.cfunc
def receive(node: Node) -> cython.void:
    """Give a collective its result, once it is there, or the error that it has failed with."""
    if node.state != PENDING:
        return
    if node.params.size == 1:
        copy_here(node)
    else:
        outcome = collective.take(node)
        if isinstance(outcome, WeftError):
            note_failure(node, outcome)
            _tally.failures += 1
            drop_inputs(node)
        else:
            hand_over(node, outcome[0], outcome[1], None)
    collective.forget(node)


@cython.cfunc
def copy_here(node: Node) -> cython.void:
    """Copy the operand's value, in row-major order: the result of a collective in a group of one."""
    content: bytes = array_over(node.inputs[0]).tobytes()
    memory: Memory = default_device().memory
    buffer = memory.allocate(len(content))
    memory.upload(buffer, content)
    hand_over(node, buffer, 0, None)
    count(0, 1, 1)


@cython.cfunc
def execute_parts(tape: Tape) -> cython.void:
    """The same where pending nodes are on several devices, or on another one than the default: each device's part is a
    program of its own, and a copy leads from one to the other."""
    failures: cython.longlong = _tally.failures
    batch.group(tape.pending())
    for part in partition(tape.pending()):
        run_part(tape, part)
        if _tally.failures > failures:
            return  # what reads a failed value fails before anything else runs


@cython.cfunc
def run_part(tape: Tape, part: DevicePart) -> cython.void:
    """Run one part, with what later ones read kept."""
    node: Node
    for node in part.kept:
        node.external_refs += 1
    try:
        if part.copies:
            for node in part.nodes:
                copy_over(node)
            return
        run_nodes(part.nodes)
    finally:
        tape.held.extend(part.kept)  # until the flush is over


@cython.cfunc
def run_nodes(nodes: list[Node]) -> cython.void:
    """Run nodes that batches have been formed of as a program, if anybody needs them."""
    fingerprint: FlushFingerprint = fingerprint_of(nodes, False)
    if fingerprint.live and not run_known(fingerprint):
        schedule(nodes, fingerprint, None, comes_again(fingerprint))


@cython.cfunc
def copy_over(node: Node) -> cython.void:
    """Copy a row-major value from the device of the operand to the node's own."""
    source: Node = node.inputs[0]
    nbytes: cython.longlong = node.numel * node.dtype.itemsize
    device: Device = device_at(node.device)
    buffer = device.memory.allocate(nbytes)
    content: bytes = device_at(source.device).memory.download(source.buffer, source.offset, nbytes)
    device.memory.upload(buffer, content)
    hand_over(node, buffer, 0, None)
    count(0, 1, 1)


@cython.cfunc
def is_interpreted(
    tape: Tape, pending: list[Node], fingerprint: FlushFingerprint, comes: cython.int
) -> cython.bint:
    """Run a flush that has not come just before node by node, if that pays; True if it has run. A node that cannot
    run alone is scheduled with those after it. What storages may have to go back to is kept from the start, as no node
    runs twice. Flushes under anomaly mode are not interpreted."""
    every: cython.bint = config.interpreter == "every"
    if config.interpreter == "none" or (comes == SOON and not every) or tape.mode.anomaly:
        return False
    if config.explain:  # somebody asks about programs
        return False
    device: Device = default_device()
    if (any_deferred and has_deferred(pending)) or leaves_no_room(device.memory, pending):
        return False
    queue: Queue = device.queue()
    if not device.capabilities.calls_kernels or queue.flushes_subnormals(len(pending)):
        return False
    flush: Interpretation = Interpretation(pending)
    gain_ns: cython.double = flush.gain_ns(comes != NEW, lost_ns(fingerprint))
    if not flush.can_run or not (every or (gain_ns > 0 and may_know_most(pending))):
        flush.stop()
        return False
    if tape.written and retain_undo_entries(tape):
        flush.stop()
        flush = Interpretation(pending)
    if every:
        flush.most_misses = len(pending)
    if config.cache:
        worth_storing(fingerprint)
    note_interpreted(fingerprint, spared_ns(cython.address(flush.estimate)))
    ran: cython.bint = interpret(flush)
    note_misses(pending, flush.missed)
    if ran:
        _tally.flushes += 1
    else:
        pending = sorted(tape.pending(), key=sequence)
        schedule(pending, fingerprint_of(pending, False), None, False)
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def leaves_no_room(memory: Memory, pending: list[Node]) -> cython.bint:
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
def interpret(flush: Interpretation) -> cython.bint:
    """Run nodes one by one; False where one cannot be: it and what follows is pending then."""
    if tracing:
        flush.times = NodeTimes()
    try:
        while flush.runs and flush.order:
            if len(flush.order) % NODES_BETWEEN_SIGNALS == 0:
                PyErr_CheckSignals()
            flush.runs = interpret_next(flush, flush.order.pop())
        return flush.runs
    finally:
        if flush.times is not None:
            flush.times.close()
        flush.stop()


@cython.cfunc
def interpret_next(flush: Interpretation, node: Node) -> cython.bint:
    """Run the next node of a flush; False where it cannot be run alone."""
    inputs: tuple = node.inputs  # they live until the values that nobody else reads are freed
    ran: cython.bint = False
    try:
        ran = flush.release() and (called(node) or take_view(node) or run_alone(flush, node))
        if ran and inputs:
            flush.free()
        if ran and flush.times is not None:
            flush.times.add(node, inputs)
    finally:
        flush.go_on()
    return ran


@cython.cfunc
@cython.inline
def called(node: Node) -> cython.bint:
    """Run a node by calling its kernel; False if it has none to call."""
    if not (call_put(node) if node.op.kind == _region else call_loop(node)):
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
    if flush.missed >= flush.most_misses:
        return False
    flush.missed += 1
    return schedule_alone(flush, fingerprint, overwrites)


@cython.cfunc
def execute_alone(tape: Tape, wanted: Node) -> cython.void:
    """Compute one value where memory does not suffice for all that is live: with the batches that it is part of, and
    then without them. The rest stays pending."""
    together: cython.bint
    for together in (True, False):
        if not together:
            membership.ungroup(tape.pending())
        needed = membership.needed_by([wanted], tape)
        if in_parts(tape, needed):
            return
        fingerprint: FlushFingerprint = fingerprint_of(needed, False)
        try:
            if not run_known(fingerprint):
                schedule(needed, fingerprint, None, comes_again(fingerprint), wanted)
            return
        except OutOfMemoryError:
            if not together:
                raise


@cython.cfunc
def run_known(fingerprint: FlushFingerprint) -> cython.bint:
    """Run a program that has come before; whether there was one and it ran to its end."""
    if not fingerprint.complete or not config.cache or config.explain:
        return False
    known: CachedExecutable = executable_cache.lookup(fingerprint)
    if known is None or not executable_cache.usable(known, fingerprint):
        return False
    if known.blocks and batch.watcher() is not None:  # somebody asks what is batched, and why not
        return False
    _tally.flushes += 1
    count(known.kernels, known.launches, len(fingerprint.nodes))
    outcome = executable_cache.run_cached(known, fingerprint)
    if outcome is None:
        return True
    if outcome is False:
        return False
    raise outcome


@cython.cfunc
def schedule(
    pending: list[Node],
    fingerprint: FlushFingerprint,
    bare: FlushFingerprint | None,
    again: cython.bint,
    wanted: Node | None = None,
) -> cython.void:
    """The passes that a new program goes through, and its run. It is stored under `bare`, its key before batches
    were formed, where it can: where no derivative will ask for the batches. It is for `wanted`, or for everything live;
    `again` is whether it has come before."""
    one: Any = passes.Compilation(pending, again)
    _tally.flushes += 1
    try:
        passes.schedule(one)
        failed: cython.bint = launch(
            fingerprint, bare, one.program, one.memory, one.lowering, pending
        )
    finally:
        one.program.release()
    one = None
    if failed:
        tape: Tape = tape_of(pending[0])
        if in_parts(tape, tape.pending()):
            return
        alone: list[Any] = (
            sorted(tape.pending(), key=sequence)
            if wanted is None
            else membership.needed_by([wanted], tape)
        )
        fingerprint = fingerprint_of(alone, False)
        schedule(alone, fingerprint, None, comes_again(fingerprint), wanted)


@cython.cfunc
def schedule_alone(
    flush: Interpretation, fingerprint: FlushFingerprint, overwrites: cython.int
) -> cython.bint:
    """The same for a node alone; False where its index check failed, or where its kernels wait for the compiler."""
    one: Any = passes.Compilation(fingerprint.nodes, again=True, overwrites=overwrites)
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


def sequence(node: Node) -> int:
    """The number of a node in order of creation; members of batches come back to the end of the tape."""
    return int(node.seq)


@cython.cfunc
def count(
    kernels: cython.Py_ssize_t, launches: cython.Py_ssize_t, nodes: cython.Py_ssize_t
) -> cython.void:
    """Count events of one program."""
    _tally.kernels += kernels
    _tally.launches += launches
    _tally.nodes += nodes


@cython.cfunc
def launch(
    fingerprint: FlushFingerprint | None,
    bare: FlushFingerprint | None,
    program: Program,
    memory: Plan,
    lowering: Lowering,
    pending: list[Node],
) -> cython.bint:
    """Compile, reserve memory, run, commit; store the program under its fingerprint, where it has one. An interrupt
    leaves what has not run pending, inputs intact (of a program under a budget, everything). Where an index check
    failed, nothing is handed over at first: says that everything is to run again, the examples of batches alone, and
    with what explains the failure or is to be gone back to kept; of a node alone, that its flush is."""
    run: ProgramRun = prepared(lowering)
    executable = run.executable()
    count(horizontal_fusion.count(program), len(lowering.launches), len(program.order))
    keys: list[Any] = []
    if config.cache and (not program.is_cold or program.awaited is not None):
        keys = [key for key in keys_of(fingerprint, bare, memory) if worth_storing(key)]
    labels: Labels = None
    if tracing:
        labels = labels_of(program, lowering)
        labels.first = cython.cast(Node, pending[0]).seq
    began: int64_t = 0 if labels is None else now()
    done = executable.run(run.addresses)
    if labels is not None:
        put_payload(PROGRAM, began, now(), labels, labels.first)
    stopped: Any = executable.take_interrupt()
    launches: list[Any] = lowering.launches
    complete: cython.bint = done >= len(launches)
    failed = failed_kernels(run)
    if stopped is not None and (failed or (not complete and lowering.layout is not None)):
        raise stopped
    alone: cython.bint = memory.overwrites != memory_plan.ALL
    if failed and (alone or prepare_again(pending, program, failed)):
        return True
    if lowering.layout is not None:
        lowering.layout.account.add_run()
    poisoned, raised = poisoned_by(program, memory, run, failed)
    finished = len(program.kernels) if complete else cython.cast(Launch, launches[done]).kernel
    gone: list[Any] = []
    recorded: Recorded = recorded_of(program, lowering.layout, pending)
    commits = decide(program, poisoned, finished, gone, recorded)
    try:
        if complete and not failed:
            for key in keys:
                store(key, program, memory, lowering, run, executable, commits, gone, recorded)
    finally:  # `repr` handles signals, and what has been overwritten cannot be computed again
        commit(commits, gone, run, recorded)
    raised = stopped if raised is None else raised
    if raised is not None:
        raise raised
    return False


def keys_of(
    fingerprint: FlushFingerprint | None, bare: FlushFingerprint | None, memory: Plan
) -> list[FlushFingerprint]:
    """The fingerprints under which a program is stored: its key before batches were formed, if it has one that names
    what the program reads; also the one behind them, where it names it by how rows lie, which may change."""
    if fingerprint is None or bare is None:
        return [] if fingerprint is None else [fingerprint]
    named = storable_as(bare, memory) if has_come(bare) else BY_NAME
    if named == BY_NAME:
        return [bare]
    return [bare, fingerprint] if named == BY_ROWS else [fingerprint]


@cython.cfunc
def prepared(lowering: Lowering) -> ProgramRun:
    """A run of a program: its kernels compiled, its memory reserved, its tables filled."""
    if not is_compiled(lowering):
        lowerer: Lowerer = lowering.program.device.lowerer()
        lowerer.compile(
            list({one.spec: None for one in lowering.launches if one.spec.code is None})
        )
    run: ProgramRun = ProgramRun(lowering)
    run.fill_tables()
    return run


def poisoned_by(program: Program, memory: Plan, run: Any, failed: list[int]) -> tuple[Any, Any]:
    """(values that failed with these kernels or with rows that they read, the exception that was raised meanwhile)."""
    from weft.engine.runtime.error_propagation import poison

    if not failed and _tally.failures == 0:
        return {}, None
    return undisturbed(poison, program, memory, run, failed)


@cython.cfunc
def failed_kernels(run: ProgramRun) -> list[Any]:
    """Kernel positions whose index check failed."""
    failed: list[Any] = []
    index: cython.Py_ssize_t
    for index in range(len(run.checked)):
        if run.has_failed(index):
            failed.append(cython.cast(Launch, run.checked[index]).kernel)
    return failed


def prepare_again(pending: list[Node], program: Program, failed: list[int]) -> bool:
    """A program has failed: whether running it again tells more. Batches are taken apart; the indices of what failed
    and the values that storages may go back to are kept from now on."""
    again = membership.ungroup(pending)
    tape = tape_of(pending[0])
    again = retain_undo_entries(tape) or again
    for kernel in program.kernels:
        if kernel.position in failed:
            for node in kernel.nodes:
                again = retain(tape, node.inputs[1]) or again
    return again
