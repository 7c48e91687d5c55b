# cython: language_level=3
"""Execution of one flush: as a known program, node by node in the interpreter, or through the passes to commit.

It takes the pending nodes of a tape and leaves them done, failed, or pending where an interrupt came. The driver
decides who may run when, and what other threads need. Where collectives or several devices are among the nodes, they
are several programs. Compiled for the same reason as `run_program`.
"""

from typing import Any

import cython
from cython.cimports.weft.engine.devices.api import (
    Device,
    Memory,
    Queue,
    default_device,
    device_at,
    several,
)
from cython.cimports.weft.engine.frontend.collective import used as collectives_used
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node, is_live, set_buffer
from cython.cimports.weft.engine.ir.residuals import drop_inputs
from cython.cimports.weft.engine.ir.tape import Tape
from cython.cimports.weft.engine.pipeline.batching.membership import pending_among
from cython.cimports.weft.engine.pipeline.budget.checkpoints import (
    any_deferred,
    evict,
    has_deferred,
)
from cython.cimports.weft.engine.pipeline.fingerprint import (
    LASTING,
    NEW,
    SOON,
    FlushFingerprint,
    fingerprint_of,
)
from cython.cimports.weft.engine.pipeline.interpreting import (
    interpret,
    leaves_no_room,
    settle_parts,
)
from cython.cimports.weft.engine.pipeline.partition import DevicePart, Segment, has_collectives
from cython.cimports.weft.engine.pipeline.run_program import count, launch, run_known
from cython.cimports.weft.engine.runtime.commit import FlushCounters, note_failure
from cython.cimports.weft.engine.runtime.interpreter import Interpretation
from cython.cimports.weft.engine.runtime.interpreter import commit as hand_over
from cython.cimports.weft.engine.runtime.tier_choice import (
    add_lost,
    lost_ns,
    note_interpreted,
    recurrence,
    spared_ns,
)

from weft._build.compiled import require as require_compiled
from weft.config import config
from weft.engine.frontend import collective
from weft.engine.frontend.write_rollback import release_held, retain_undo_entries
from weft.engine.ir.tape import tape_of
from weft.engine.pipeline import passes
from weft.engine.pipeline.batching import batch, membership
from weft.engine.pipeline.partition import is_in_order, partition, segments, spans_devices
from weft.engine.pipeline.run_program import sequence
from weft.engine.runtime import commit as outcomes
from weft.engine.runtime.executable_cache import worth_storing
from weft.engine.runtime.numpy_views import array_over
from weft.engine.runtime.tier_choice import may_know_most, note_misses
from weft.errors import OutOfMemoryError, WeftError

require_compiled(__name__, cython.compiled)

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
        execute_older(tape, tape.refusals[0])
        del tape.refusals[0]
    execute_live(tape)


@cython.cfunc
def execute_older(tape: Tape, newest: cython.longlong) -> cython.void:
    """Run what is live on a tape and was recorded up to a sequence number; the rest stays pending."""
    live: list[Any] = [node for node in tape.pending() if is_live(node)]
    older: list[Any] = [node for node in pending_among(live) if node.seq <= newest]
    held: cython.Py_ssize_t = len(tape.held)
    if older:
        batch.group(sorted(older, key=sequence))
        needed: list[Any] = membership.needed_by(older, tape)
        fingerprint: FlushFingerprint = fingerprint_of(needed, False)
        if fingerprint.live and not run_known(fingerprint):
            run_unknown(tape, needed, fingerprint)
    release_held(tape, held)


@cython.cfunc
@cython.exceptval(-1, check=False)
def initial_values(nodes: list, watermark: cython.longlong) -> cython.longlong:
    """The sequence number of the last of some nodes, oldest first, that somebody holds, before the first that has
    gradient edges, if the first leaf that such edges lead to is still to be computed; 0 otherwise, and where the oldest
    node is older than the last walk, which has seen to it, or a run consists of parts. What is made of data for the
    first operation alone, as for those behind it, belongs to the graph."""
    if not nodes or cython.cast(Node, nodes[0]).seq <= watermark:
        return 0
    count: cython.Py_ssize_t = 0
    while count < len(nodes) and cython.cast(Node, nodes[count]).edges is None:
        count += 1
    if count == 0 or not first_leaf_is_pending(nodes, count) or runs_in_parts(nodes):
        return 0
    while count > 0 and not is_held(nodes[count - 1]):
        count -= 1
    if count > 0:
        return cython.cast(Node, nodes[count - 1]).seq
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_held(node: Node) -> cython.bint:
    """True if a node is held by more than derivatives."""
    return node.external_refs > node.saves


@cython.cfunc
@cython.exceptval(-1, check=False)
def first_leaf_is_pending(nodes: list, start: cython.Py_ssize_t) -> cython.bint:
    """True if the first leaf that gradient edges of some nodes lead to, from a position on, is still to be computed."""
    position: cython.Py_ssize_t
    for position in range(start, len(nodes)):
        for edge in cython.cast(Node, nodes[position]).edges or ():
            if isinstance(edge, AccumulateGrad):
                leaf: Tensor = cython.cast(AccumulateGrad, edge).variable
                return value(leaf).state == PENDING
    return False


@cython.cfunc
def execute_live(tape: Tape) -> cython.void:
    """All stages after recording. A known program skips the search for batches, or at least the scheduling; one that
    has never come before is interpreted where that takes less time."""
    pending: list[Any] = tape.pending()
    newest: cython.longlong = initial_values(pending, tape.watermark)
    if newest > 0:
        execute_older(tape, newest)
        pending = tape.pending()
    if in_parts(tape, pending):
        return
    fingerprint: FlushFingerprint = fingerprint_of(pending, config.batch)
    if not fingerprint.live or run_known(fingerprint):
        return
    formed = batch.group(pending)
    if not formed:
        fingerprint.narrow = formed is None
        run_unknown(tape, pending, fingerprint)
        return
    pending = tape.pending()
    batched: FlushFingerprint = fingerprint_of(pending, config.batch)
    if not run_known(batched):
        comes: cython.int = lasts(batched)
        if comes != NEW or not is_interpreted(tape, pending, batched, comes):
            schedule(pending, batched, None if fingerprint.tracked else fingerprint, comes)


@cython.cfunc
@cython.exceptval(-1, check=False)
def lasts(fingerprint: FlushFingerprint) -> cython.int:
    """The way a structure comes of which kernels are asked for as soon as it has come again: others share them."""
    return NEW if recurrence(fingerprint) == NEW else LASTING


@cython.cfunc
def run_unknown(tape: Tape, nodes: list[Node], fingerprint: FlushFingerprint) -> cython.void:
    """Interpret nodes of a structure that is no known program, or schedule them; where that structure has not come of
    late, first look for the one that is the same wherever the parts lie that it reads."""
    comes: cython.int = recurrence(fingerprint)
    if comes != SOON and config.cache and not config.explain and settle_parts(nodes):
        run_settled(tape, [node for node in nodes if node.state == PENDING], fingerprint)
    elif not is_interpreted(tape, nodes, fingerprint, comes):
        schedule(nodes, fingerprint, None, comes)


@cython.cfunc
def run_settled(tape: Tape, nodes: list[Node], before: FlushFingerprint) -> cython.void:
    """The same for the nodes that are left where parts have been settled; what interpreting them costs counts for the
    structure that they had before, too, which may come back."""
    fingerprint: FlushFingerprint = fingerprint_of(nodes, before.variant)
    fingerprint.narrow = before.narrow
    if not fingerprint.live or run_known(fingerprint):
        return
    comes: cython.int = recurrence(fingerprint)
    lost: cython.double = lost_ns(fingerprint)
    if is_interpreted(tape, nodes, fingerprint, comes):
        add_lost(before, lost_ns(fingerprint) - lost)
    else:
        schedule(nodes, fingerprint, None, comes)


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
@cython.exceptval(-1, check=False)
def runs_in_parts(nodes: list) -> cython.bint:
    """True if some nodes are no single program."""
    return (collectives_used and has_collectives(nodes)) or (several and spans_devices(nodes))


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
        schedule(nodes, fingerprint, None, lasts(fingerprint))


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
    """Run a flush that is no known program node by node, if that pays; True if it has run. A node that cannot
    run alone is scheduled with those after it. What storages may have to go back to is kept from the start, as no node
    runs twice. Flushes under anomaly mode are not interpreted, and those with batches only when they are new."""
    every: cython.bint = config.interpreter == "every"
    if config.interpreter == "none" or tape.mode.anomaly:
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
    gain_ns: cython.double = flush.gain_ns(comes, lost_ns(fingerprint))
    pays: cython.bint = gain_ns > 0 and (comes == NEW or not flush.batched)
    if not flush.can_run or not (every or (pays and may_know_most(pending))):
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
        rest: list[Any] = sorted(pending_among(pending), key=sequence)
        schedule(rest, fingerprint_of(rest, False), None, NEW)
    return True


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
                schedule(needed, fingerprint, None, lasts(fingerprint), wanted)
            return
        except OutOfMemoryError:
            if not together:
                raise


@cython.cfunc
def schedule(
    pending: list[Node],
    fingerprint: FlushFingerprint,
    bare: FlushFingerprint | None,
    comes: cython.int,
    wanted: Node | None = None,
) -> cython.void:
    """The passes that a new program goes through, and its run. It is stored under `bare`, its key before batches
    were formed, where it can: where no derivative will ask for the batches. It is for `wanted`, or for everything live;
    `comes` is how it has come before."""
    one: Any = passes.Compilation(pending, comes)
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
        schedule(alone, fingerprint, None, lasts(fingerprint), wanted)
