# cython: language_level=3
"""The run of one program: a known one is bound and run, a scheduled one is compiled, launched, committed and stored.

It takes launches and the nodes that they compute, and leaves these done, failed, or pending where an interrupt came.
Compiled, so that Python cannot handle a signal between two of its lines: an exception of a signal handler comes out of
a kernel or of an interpreted function that is called here, never from the middle of a commit.
"""

from typing import Any

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.api import Lowerer
from cython.cimports.weft.engine.devices.trace import (
    PROGRAM,
    Labels,
    put_payload,
    tracing,
)
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.tape import note_search
from cython.cimports.weft.engine.pipeline.budget.checkpoints import Recorded, recorded_of
from cython.cimports.weft.engine.pipeline.fingerprint import FlushFingerprint
from cython.cimports.weft.engine.pipeline.launch_ir import Launch, Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan
from cython.cimports.weft.engine.pipeline.program_ir import Program
from cython.cimports.weft.engine.runtime import executable_cache
from cython.cimports.weft.engine.runtime.commit import FlushCounters, commit, decide
from cython.cimports.weft.engine.runtime.executable_cache import CachedExecutable
from cython.cimports.weft.engine.runtime.labels import labels_of
from cython.cimports.weft.engine.runtime.launch import ProgramRun, is_compiled

from weft._build.compiled import require as require_compiled
from weft.config import config
from weft.engine.capi.interrupts import undisturbed
from weft.engine.frontend.write_rollback import retain, retain_undo_entries
from weft.engine.ir.tape import tape_of
from weft.engine.pipeline import horizontal_fusion, memory_plan
from weft.engine.pipeline.batching import batch, membership
from weft.engine.runtime import commit as outcomes
from weft.engine.runtime.executable_cache import (
    BY_NAME,
    BY_ROWS,
    has_come,
    storable_as,
    store,
    worth_storing,
)

require_compiled(__name__, cython.compiled)

_tally = cython.declare(FlushCounters, outcomes.counters)


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
    if fingerprint.tracked > 0:
        note_search(tape_of(fingerprint.nodes[0]), fingerprint.tracked, known.narrow)
    outcome = executable_cache.run_cached(known, fingerprint)
    if outcome is None:
        return True
    if outcome is False:
        return False
    raise outcome


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
    pending: list,
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
