# cython: language_level=3
"""A flush on one screen: known program, or `batch -> passes -> launch -> commit`.

`flush` runs everything live on the calling thread's tape; `realize` makes sure that given tensors are computed;
`array_of` reads a node's value as a NumPy array. Differentiation happens before, in `weft.autograd`, on batches made
by the same `batch` stage. The passes, how each is printed and verified, are the list in `passes`.

Compiled, so that Python cannot handle a signal between two of its lines: an exception of a signal handler comes out
of a kernel or of an interpreted function that is called here, never from the middle of a commit.
"""

import os
import threading
from typing import Any

import cython
import numpy as np
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.call_site import PyGC_Disable, PyGC_Enable
from cython.cimports.weft.engine.ir.node import PENDING as PENDING_STATE
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.residuals import drop_inputs
from cython.cimports.weft.engine.ir.tape import Mode, Tape, current_tape
from cython.cimports.weft.engine.pipeline.fingerprint import Signature, signature
from cython.cimports.weft.engine.pipeline.launch_ir import Launch, Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan
from cython.cimports.weft.engine.pipeline.program_ir import Program
from cython.cimports.weft.engine.runtime import executable_cache
from cython.cimports.weft.engine.runtime.commit import Counters, commit, decide, note_failure
from cython.cimports.weft.engine.runtime.executable_cache import Template
from cython.cimports.weft.engine.runtime.launch import Run, is_compiled

from weft._build.compiled import require as require_compiled
from weft.config import config
from weft.engine.capi.interrupts import undisturbed
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.write_rollback import hold, hold_formers, put_back_after, settle
from weft.engine.ir import tape as tapes
from weft.engine.ir.node import FAILED_STATE as FAILED
from weft.engine.ir.primitive import SCALAR_ROW
from weft.engine.ir.residuals import free_idle
from weft.engine.ir.tape import other_tapes, rejoin, tape_of
from weft.engine.pipeline import horizontal_fusion, passes
from weft.engine.pipeline.batching import batch, membership
from weft.engine.runtime import commit as outcomes
from weft.engine.runtime.executable_cache import (
    comes_again,
    has_come,
    released,
    storable_as,
    store,
    worth_storing,
)
from weft.engine.runtime.numpy_views import array_over
from weft.errors import ExecutionError, OutOfMemoryError

require_compiled(__name__, cython.compiled)

_lock = threading.RLock()
_acquire, _release = _lock.acquire, _lock.release


def _renew_lock() -> None:
    """In a forked child: whoever held the lock does not exist there."""
    global _lock, _acquire, _release
    _lock = threading.RLock()
    _acquire, _release = _lock.acquire, _lock.release


os.register_at_fork(after_in_child=_renew_lock)


def form_batches(tape: Tape) -> Any:
    """Put what has been recorded since the last run into batches, before it runs; whether any were formed. Under the
    lock of programs: those of other threads number nodes of this tape where they read them, and nothing may number
    these anew meanwhile."""
    with _lock:
        return batch.group(tape.since(tape.watermark))


def alone(function: Any, *arguments: Any) -> Any:
    """Call a function that moves values in memory, while no thread runs a program that reads them."""
    with _lock:
        return function(*arguments)


_tally = cython.declare(Counters, outcomes.counters)
counters = _tally


def flush() -> None:
    """Compute everything on this thread's tape that a live handle or a declared save needs."""
    tape: Tape = tapes.tape()
    if not others_first(tape):
        run_tape(tape)


@cython.cfunc
@cython.inline
def others_first(tape: Tape) -> cython.bint:
    """In a fiber of `weft.map`: wait until the others wait too, and all of it has run. False where the caller is to run
    the tape: outside, in a reverse walk, and where nobody else is left."""
    mode: Mode = tape.mode
    return mode.fiber is not None and mode.walk == 0 and mode.fiber.wait()


MOST_PENDING_BYTES = 1 << 32


def most_pending_bytes() -> int:
    """How many bytes may be recorded, or held by what is recorded, before it runs: an amount that whole training steps
    fit into, or a quarter of a small machine's memory."""
    from weft.engine.devices.cpu.hardware import physical_memory

    return min(MOST_PENDING_BYTES, physical_memory() // 4) + 1


@cython.ccall
def run_tape(tape: Tape, wanted: Node | None = None) -> cython.void:
    """Run one thread's pending work on the calling thread, or only what one value needs."""
    if tape.running is not None:
        return
    release = _release  # in a child that a signal handler forks meanwhile, the lock is another one
    _acquire()
    try:
        tape.running = True
        others: list[Any] = other_tapes(tape)
        collector: cython.bint = PyGC_Disable() != 0
        try:
            if _tally.failures > 0:
                fail_descendants(tape.pending(), others)
            if others:
                keep_for_others(tape, others)
            if wanted is None:
                execute(tape)
            else:
                execute_alone(tape, wanted)
            tape.left = tape.count
            tape.arrived_bytes = -tape.pending_bytes  # what stays pending has had its turn
            free_idle()
        finally:
            if collector:
                PyGC_Enable()
            if tape.written or tape.held:
                settle(tape)
            tape.running = None
    finally:
        release()


@cython.cfunc
def keep_for_others(tape: Tape, others: list[Any]) -> cython.void:
    """Keep, until the run is over, what other threads may read afterwards: what has a handle, which they may write to
    meanwhile; what their pending work reads, also of values that are there and could make room here; and what this run
    takes from their tapes."""
    place: cython.p_void = cython.cast(cython.p_void, tape)
    other: Tape
    node: Node
    source: Node
    own: list[Any] = tape.pending()
    kept: list[Any] = [node for node in own if node.live > 0]
    for other in others:
        for node in other.pending():
            for source in node.inputs or ():
                if source.tape == place if source.state == PENDING_STATE else source.live == 0:
                    kept.append(source)
    for node in (*kept, *membership.needed_elsewhere(own, tape)):
        node.live += 1
        tape.held.append(node)


def fail_descendants(pending: list[Any], others: list[Any]) -> None:
    """What has been recorded on a failed value since it failed, fails with the same error before anything runs."""
    if others:
        pending = sorted([*pending, *(n for tape in others for n in tape.pending())], key=sequence)
    for node in pending:
        for source in node.inputs or ():
            if source.error is not None and fails_with(node, source):
                break


@cython.cfunc
def fails_with(node: Node, source: Node) -> cython.bint:
    """Fail a node that reads a failed value, or the failed part of one; whether it does."""
    from weft.engine.runtime.error_propagation import failure_by_rows

    error = source.error if source.state == FAILED else failure_by_rows(node, source)
    if error is None:
        return False
    note_failure(node, error)
    drop_inputs(node)
    return True


@cython.cfunc
def execute(tape: Tape) -> cython.void:
    """All stages after recording; a known program skips the search for batches, or at least the scheduling."""
    pending: list[Any] = tape.pending()
    form: Signature = signature(pending, config.batch)
    if not form.live or run_known(form):
        return
    if not batch.group(pending):
        schedule(pending, form, None)
        return
    pending = tape.pending()
    batched: Signature = signature(pending, config.batch)
    if not run_known(batched):
        schedule(pending, batched, None if form.tracked else form)


@cython.cfunc
def execute_alone(tape: Tape, wanted: Node) -> cython.void:
    """Compute one value where memory does not suffice for all that is live: with the batches that it is part of, and
    then without them. The rest stays pending."""
    together: cython.bint
    for together in (True, False):
        if not together:
            membership.ungroup(tape.pending())
        needed = membership.needed_by(wanted, tape)
        form: Signature = signature(needed, False)
        try:
            if not run_known(form):
                schedule(needed, form, None, wanted)
            return
        except OutOfMemoryError:
            if not together:
                raise


@cython.cfunc
def run_known(form: Signature) -> cython.bint:
    """Run a program that has come before; whether there was one and it ran to its end."""
    if not form.complete or not config.cache or config.explain:
        return False
    known: Template = executable_cache.lookup(form)
    if known is None or not executable_cache.usable(known, form):
        return False
    count(known.kernels, known.launches, len(form.nodes))
    outcome = executable_cache.run_template(known, form)
    if outcome is None:
        return True
    if outcome is False:
        return False
    raise outcome


@cython.cfunc
def schedule(
    pending: list[Any], form: Signature, bare: Signature | None, wanted: Node | None = None
) -> cython.void:
    """The passes that a new program goes through, and its run. It is stored under `bare`, its signature before batches
    were formed, where it can: where no derivative will ask for the batches. It is for `wanted`, or for everything
    live."""
    one: Any = passes.Compilation(pending, comes_again(form))
    try:
        passes.schedule(one)
        again: cython.bint = launch(form, bare, one.program, one.memory, one.lowering, pending)
    finally:
        one.program.release()
    one = None
    if again:
        tape: Tape = tape_of(pending[0])
        alone: list[Any] = (
            sorted(tape.pending(), key=sequence)
            if wanted is None
            else membership.needed_by(wanted, tape)
        )
        schedule(alone, signature(alone, False), None, wanted)


def sequence(node: Node) -> int:
    """The number of a node in order of creation; members of batches come back to the end of the tape."""
    return int(node.seq)


@cython.cfunc
def count(
    kernels: cython.Py_ssize_t, launches: cython.Py_ssize_t, nodes: cython.Py_ssize_t
) -> cython.void:
    """Count events of one flush."""
    _tally.flushes += 1
    _tally.kernels += kernels
    _tally.launches += launches
    _tally.nodes += nodes


@cython.cfunc
def launch(
    form: Signature,
    bare: Signature | None,
    program: Program,
    memory: Plan,
    lowering: Lowering,
    pending: list[Any],
) -> cython.bint:
    """Compile, reserve memory, run, commit. An interrupt leaves what has not run pending, inputs intact. Where an
    index check failed, nothing is handed over at first: says that everything is to run again, the examples of batches
    alone, and with what explains the failure or is to be gone back to kept."""
    run: Run = prepared(lowering)
    executable = run.executable()
    count(horizontal_fusion.count(program), len(lowering.launches), len(program.order))
    if bare is not None and (not has_come(bare) or storable_as(bare, memory)):
        form = bare
    storable = config.cache and not program.provisional and worth_storing(form)
    done = executable.run(run.addresses)
    launches: list[Any] = lowering.launches
    complete: cython.bint = done >= len(launches)
    failed = failed_kernels(run)
    if failed and not complete:
        stopped: Any = executable.interrupt
        raise stopped
    if failed and prepare_again(pending, program, failed):
        return True
    poisoned, raised = poisoned_by(program, memory, run, failed)
    finished = len(program.kernels) if complete else cython.cast(Launch, launches[done]).kernel
    gone: list[Any] = []
    commits = decide(program, poisoned, finished, gone)
    try:
        if storable and complete and not failed:
            store(form, program, memory, lowering, run, executable, commits, gone)
    finally:  # `repr` handles signals, and what has been overwritten cannot be computed again
        commit(commits, gone, run)
    raised = executable.interrupt if raised is None else raised
    if raised is not None:
        raise raised
    return False


@cython.cfunc
def prepared(lowering: Lowering) -> Run:
    """A run of a program: its kernels compiled, its memory reserved, its tables filled."""
    if not is_compiled(lowering):
        from weft.engine.runtime.compile_kernels import compile_specs

        compile_specs(lowering)
    run: Run = Run(lowering)
    run.fill_tables()
    return run


def poisoned_by(program: Program, memory: Plan, run: Any, failed: list[int]) -> tuple[Any, Any]:
    """Which values have failed with these kernels, or with rows that they read; and what was raised meanwhile."""
    from weft.engine.runtime.error_propagation import poison

    if not failed and _tally.failures == 0:
        return {}, None
    return undisturbed(poison, program, memory, run, failed)


@cython.cfunc
def failed_kernels(run: Run) -> list[Any]:
    """Kernel positions whose index check failed."""
    cells = cython.cast(cython.pointer(int64_t), run.status.address)
    failed: list[Any] = []
    index: cython.Py_ssize_t
    for index in range(len(run.checked)):
        if cells[index] != 0:
            failed.append(cython.cast(Launch, run.checked[index]).kernel)
    return failed


def prepare_again(pending: list[Any], program: Any, failed: list[int]) -> bool:
    """A program has failed: whether running it again tells more. Batches are taken apart; the indices of what failed
    and the values that storages may go back to are kept from now on."""
    again = membership.ungroup(pending)
    tape = tape_of(pending[0])
    again = hold_formers(tape) or again
    for kernel in program.kernels:
        if kernel.position in failed:
            for node in kernel.nodes:
                again = hold(tape, node.inputs[1]) or again
    return again


@cython.cfunc
def run_for(tape: Tape, wanted: Node) -> cython.void:
    """Run one thread's pending work to have one value; where there is no room for all of it, what the value needs."""
    short: cython.bint = False
    try:
        run_tape(tape)
    except OutOfMemoryError:
        short = True
    if short:
        run_tape(tape, wanted)


@cython.ccall
def require(node: Node) -> cython.void:
    """Make a node's value present. Errors: the error of a failed ancestor; ExecutionError where it is gone."""
    if node.state == PENDING_STATE:
        node.live += 1
        try:
            if node.tape == cython.NULL:
                rejoin(node)
            tape: Tape = cython.cast(Tape, node.tape)
            if tape.mode.extra is not None and "refuse" in tape.mode.extra:
                raise tape.mode.extra["refuse"]()
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
            node.live -= 1
    if node.state == FAILED:
        put_back_after(node.error)
        raise node.error.again()
    if node.buffer is None and node.row is not SCALAR_ROW:
        raise released(node)


def realize(*tensors: Any) -> None:
    """Compute the given tensors (and whatever else is live); without arguments, everything pending."""
    if not tensors:
        flush()
    for tensor in tensors:
        if tensor._cell is None or tensor._cell.foreign is None:  # memory of others has values
            require(value_of(tensor))


def array_of(node: Any) -> np.ndarray[Any, Any]:
    """The value of a node as a read-only array over its own memory; bfloat16 as its bits in uint16."""
    require(node)
    return array_over(node)


__all__ = ["array_of", "counters", "execute", "flush", "realize", "require", "run_tape"]
