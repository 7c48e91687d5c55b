# cython: language_level=3
"""The driver of flushes: who runs pending work, and when.

`flush` runs everything live on the calling thread's tape; `realize` computes given tensors; `array_of` reads a node's
value as a NumPy array. `execution` runs the work of a tape; `passes` lists what it goes through. Differentiation
happens before, in `weft.autograd`, on batches of the same `batch` stage.

Compiled, so that Python cannot handle a signal between two of its lines: an exception of a signal handler comes out of
a kernel or of an interpreted function that is called here, never from the middle of a commit.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

import cython
import numpy as np
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.call_site import (
    CallScope,
    PyGC_Disable,
    PyGC_Enable,
    thread_id,
)
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.api import bounded, default_device, several
from cython.cimports.weft.engine.devices.trace import FLUSH, put_payload, tracing
from cython.cimports.weft.engine.frontend.collective import used as collectives_used
from cython.cimports.weft.engine.ir.mode import Contexts, Mode
from cython.cimports.weft.engine.ir.node import PENDING as PENDING_STATE
from cython.cimports.weft.engine.ir.node import Node, defer_no_more, error_of
from cython.cimports.weft.engine.ir.residuals import drop_inputs
from cython.cimports.weft.engine.ir.tape import Tape, current_tape
from cython.cimports.weft.engine.pipeline.budget.checkpoints import (
    any_deferred,
    keep_sources,
    let_go,
)
from cython.cimports.weft.engine.pipeline.execution import (
    execute,
    execute_alone,
    execute_older,
    initial_values,
)
from cython.cimports.weft.engine.runtime.commit import FlushCounters, note_failure

from weft._build.compiled import require as require_compiled
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.write_rollback import commit_writes, rollback_after
from weft.engine.ir import tape as tapes
from weft.engine.ir.node import FAILED_STATE as FAILED
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.ir.residuals import free_dead_candidates
from weft.engine.ir.tape import other_tapes, rejoin
from weft.engine.pipeline.batching import batch, membership
from weft.engine.pipeline.execution import sequence
from weft.engine.runtime import commit as outcomes
from weft.engine.runtime.executable_cache import released
from weft.engine.runtime.numpy_views import array_over
from weft.errors import ExecutionError, OutOfMemoryError, WeftError

require_compiled(__name__, cython.compiled)

_lock = threading.RLock()
_acquire, _release = _lock.acquire, _lock.release
_runs = cython.declare(cython.int, 0)  # in progress, all on the thread that has the lock
_runner = cython.declare(cython.ulonglong, 0)


def _renew_lock() -> None:
    """Make a new lock in a forked child, where the thread that held the old one does not exist, unless it is the one
    that forks."""
    global _lock, _acquire, _release, _runs
    _lock = threading.RLock()
    _acquire, _release = _lock.acquire, _lock.release
    if _runner != thread_id():
        _runs = 0


os.register_at_fork(after_in_child=_renew_lock)


def form_batches(tape: Tape) -> Any:
    """Put what has been recorded since the last run into batches, before it runs: what `batch.group` says. Under the
    lock of programs: those of other threads number nodes of this tape where they read them, and nothing may number
    these anew meanwhile. Initial values of leaves are computed before: which batches form, and so the last bits of
    gradients, does not depend on whether somebody has looked at them."""
    with _lock:
        nodes: list[Any] = tape.since(tape.watermark)
        newest: cython.longlong = initial_values(nodes, tape.watermark)
        if newest > 0:
            with contextlib.suppress(WeftError):  # whoever reads a value is told
                run_tape(tape, None, "leaves", newest)
            nodes = tape.since(tape.watermark)
        return batch.group(nodes)


def alone(function: Callable[..., object], *arguments: object) -> Any:
    """Call a function that moves values in memory, while no thread runs a program that reads them."""
    with _lock:
        return function(*arguments)


def need_no_run() -> None:
    """For what `alone` calls: no program of this thread may be in progress either, which has been told addresses.
    Errors: ExecutionError, as in a signal handler that comes in the middle of one."""
    if _runs > 0:
        raise ExecutionError(
            "a value would be moved inside a running program",
            fix="do not ask for addresses of tensors in a signal handler",
        )


_tally = cython.declare(FlushCounters, outcomes.counters)
counters = _tally
# Whoever looks at runs: `before_run(tape)` sees what is pending with its inputs, `after_run(tape)` what has come of it.
run_observers: list[Any] = []


def flush() -> None:
    """Compute everything on this thread's tape that a live handle or a declared save needs."""
    tape: Tape = tapes.tape()
    if not others_first(tape):
        run_tape(tape, None, "flush")


@cython.cfunc
@cython.inline
def others_first(tape: Tape) -> cython.bint:
    """In a fiber of `weft.map`: wait until the others wait too, and all of it has run. False where the caller is to run
    the tape: outside, in a reverse walk, and where nobody else is left."""
    mode: Mode = tape.mode
    return mode.fiber is not None and mode.walk == 0 and mode.fiber.wait()


def most_pending_bytes() -> int:
    """The bytes that may be recorded, or held by recorded nodes, before they run: room for whole training steps, or a
    quarter of a small machine's memory."""
    device = default_device()
    return min(device.tuning.memory.pending_bytes, device.memory.size() // 4) + 1


@cython.ccall
def run_tape(
    tape: Tape, wanted: Node | None = None, asked_by: str = "budget", newest: cython.longlong = 0
) -> cython.void:
    """Run one thread's pending work on the calling thread, or only what one value needs, or only what was recorded up
    to the sequence number `newest`. `asked_by` is for profilers."""
    global _runs, _runner
    if tape.running is not None:
        return
    release = _release  # in a child that a signal handler forks meanwhile, the lock is another one
    began: int64_t = now() if tracing else 0
    _acquire()
    _runs += 1
    _runner = thread_id()
    mode: Mode = current_tape().mode
    scope: CallScope = mode.scope
    mode.scope.frame = (
        cython.NULL
    )  # what a run records does not count in the call that reads a value
    try:
        tape.running = True
        others: list[Any] = other_tapes(tape)
        collector: cython.bint = PyGC_Disable() != 0
        try:
            if _tally.failures > 0:
                fail_descendants(tape.pending(), others)
            if others:
                keep_for_others(tape, others)
            if any_deferred:
                keep_sources(tape)
            if run_observers:
                run_observed(tape, wanted, newest, others)
            else:
                execute_wanted(tape, wanted, newest, others)
            tape.left = tape.count
            tape.arrived_bytes = -tape.pending_bytes  # what stays pending has had its turn
            if any_deferred:
                let_go(tape)
            free_dead_candidates()
        finally:
            if collector:
                PyGC_Enable()
            if tape.written or tape.held:
                commit_writes(tape)
            tape.running = None
    finally:
        mode.scope = scope
        _runs -= 1
        release()
        if tracing:
            put_payload(FLUSH, began, now(), asked_by, 0)


@cython.cfunc
def run_observed(
    tape: Tape, wanted: Node | None, newest: cython.longlong, others: list[Tape]
) -> cython.void:
    """Run a tape while somebody looks on."""
    observers: list[Any] = list(run_observers)
    for observer in observers:
        observer.before_run(tape)
    try:
        execute_wanted(tape, wanted, newest, others)
    finally:
        for observer in observers:
            observer.after_run(tape)


@cython.cfunc
@cython.inline
def execute_wanted(
    tape: Tape, wanted: Node | None, newest: cython.longlong, others: list[Tape]
) -> cython.void:
    """Run a tape, or only what one value needs, or what is older."""
    if newest > 0:
        execute_older(tape, newest)
    elif wanted is None:
        execute_all(tape, others)
    else:
        execute_alone(tape, wanted)


@cython.cfunc
def execute_all(tape: Tape, others: list[Tape]) -> cython.void:
    """Run a tape. Where it runs in parts, for several devices or collectives, a failure ends the run: it goes on with
    what does not read the failed value."""
    failures: cython.longlong = -1
    while failures != _tally.failures:
        if failures >= 0:
            fail_descendants(tape.pending(), others)
        failures = _tally.failures
        try:
            execute(tape)
        except OutOfMemoryError:
            note_refusal(tape)
            raise
        if not (several or collectives_used):
            return


@cython.cfunc
def note_refusal(tape: Tape) -> cython.void:
    """Note that what is pending does not fit into memory: it is tried again before what is recorded from now on."""
    if not tape.refusals or tape.since(tape.refusals[len(tape.refusals) - 1]):
        tape.refusals.append(tapes.last_sequence())


@cython.cfunc
def keep_for_others(tape: Tape, others: list[Tape]) -> cython.void:
    """Keep, until the run is over, what other threads may read afterwards: what has a handle, which they may write to
    meanwhile; what their pending work reads, also of values that are there and could make room here; and what this run
    takes from their tapes."""
    home: cython.p_void = cython.cast(cython.p_void, tape)
    other: Tape
    node: Node
    source: Node
    own: list[Any] = tape.pending()
    kept: list[Any] = [node for node in own if node.external_refs > 0]
    for other in others:
        for node in other.pending():
            for source in node.inputs or ():
                if (
                    source.tape == home
                    if source.state == PENDING_STATE
                    else source.external_refs == 0
                ):
                    kept.append(source)
    for node in (*kept, *membership.needed_elsewhere(own, tape)):
        node.external_refs += 1
        tape.held.append(node)


def refuse(node: Node, error: WeftError) -> None:
    """Fail a pending node that shall not run; what was recorded of it fails before the next run."""
    note_failure(node, error)
    drop_inputs(node)
    _tally.failures += 1


def fail_descendants(pending: list[Node], others: list[Tape]) -> None:
    """Fail the nodes that were recorded on failed values since these failed, with the same error, before anything
    runs."""
    if others:
        pending = sorted([*pending, *(n for tape in others for n in tape.pending())], key=sequence)
    for node in pending:
        for source in node.inputs or ():
            if error_of(source) is not None and fails_with(node, source):
                break


@cython.cfunc
def fails_with(node: Node, source: Node) -> cython.bint:
    """Fail a node that reads a failed value, or the failed part of one; whether it does."""
    from weft.engine.runtime.error_propagation import failure_by_rows

    error = error_of(source) if source.state == FAILED else failure_by_rows(node, source)
    if error is None:
        return False
    note_failure(node, error)
    drop_inputs(node)
    return True


@cython.cfunc
def run_for(tape: Tape, wanted: Node) -> cython.void:
    """Run one thread's pending work to have one value; where there is no room for all of it, what the value needs. Of
    two programs that do not fit under a budget the first one's error says what would do."""
    short: Any = None
    refusals: cython.Py_ssize_t = len(tape.refusals)
    try:
        run_tape(tape, None, "read")
    except OutOfMemoryError as error:
        short = error
    if short is None:
        return
    try:
        run_tape(tape, wanted, "read")
    except OutOfMemoryError:
        if not bounded:
            raise
        raise short from None
    del tape.refusals[refusals:]  # nobody was refused: the rest may run with what comes next


@cython.ccall
def require(node: Node) -> cython.void:
    """Make a node's value present. Errors: the error of a failed ancestor; ExecutionError where it is gone."""
    if node.state == PENDING_STATE:
        node.external_refs += 1
        defer_no_more(node)
        try:
            if node.tape == cython.NULL:
                rejoin(node)
            tape: Tape = cython.cast(Tape, node.tape)
            contexts: Contexts = tape.mode.contexts
            if contexts is not None and contexts.refuse_reads is not None:
                refusal = contexts.refuse_reads(node)
                if refusal is not None:
                    raise refusal
            if tape is current_tape():
                others_first(tape)
            if node.state == PENDING_STATE:
                run_for(tape, node)
            if node.state == PENDING_STATE and tape.running is not None:
                raise ExecutionError(
                    "read inside a running program",
                    where=node.where,
                    fix="do not read tensors from a thread that is being run",
                )
        finally:
            node.external_refs -= 1
    if node.state == FAILED:
        rollback_after(error_of(node))
        raise error_of(node).again()
    if node.buffer is None and node.op is not SCALAR_OP:
        raise released(node)


def realize(*tensors: object) -> None:
    """Compute the given tensors (and whatever else is live); without arguments, everything pending."""
    if not tensors:
        flush()
    for tensor in tensors:
        if (
            tensor._storage is None or tensor._storage.foreign is None
        ):  # memory of others has values
            require(value_of(tensor))


def array_of(node: Node) -> np.ndarray[Any, Any]:
    """The value of a node as a read-only array over its own memory; bfloat16 as its bits in uint16."""
    require(node)
    return array_over(node)


__all__ = ["array_of", "counters", "execute", "flush", "realize", "require", "run_tape"]
