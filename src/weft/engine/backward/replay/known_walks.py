# cython: language_level=3
"""Replay of backward: a walk over a graph like an earlier one records that walk's trace, without calling derivative
rules.

It takes the roots of a walk that gives leaves their gradients, and records the nodes and gradients. The trace is found
by the graph's fingerprint, from the third walk over such a graph on. Replays must equal `walk`; graphs with hooks,
Functions or captures never take this path.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.backward.reachability import give_up
from cython.cimports.weft.engine.backward.replay.fingerprint import WalkFingerprint
from cython.cimports.weft.engine.backward.replay.trace import WalkTrace
from cython.cimports.weft.engine.capi.call_site import caller
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.frontend.recorder import check_budget
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.prefetch import FAR, prefetch
from cython.cimports.weft.engine.ir.tape import Tape
from cython.cimports.weft.engine.replay.cache import Cache
from cython.cimports.weft.engine.replay.conditions import is_plain, verifying
from cython.cimports.weft.engine.replay.trace import Replay, entry_of

from weft._build.compiled import require
from weft.config import config
from weft.engine.backward.accumulate_grad import accumulate_grad
from weft.engine.backward.replay.trace import WalkRecorder, cache
from weft.engine.pipeline import driver
from weft.engine.pipeline.batching import batch

require(__name__, cython.compiled)

MOST_NODES = 20_000  # pending when a walk is looked up; most larger graphs never come again

_walks = cython.declare(Cache, cache)
counters = _walks.counters


def repeat(tape: Tape, roots: list, keep: bool):
    """Do what the walk from some roots does, if it is known: True where that is so, a WalkRecorder where it may be
    learned from the walk that the caller makes, or else None.

    Errors: RuntimeError where a record has given up its saved values."""
    if not roots or not _may_replay(tape):
        return None
    look: cython.longlong = _look(tape, roots)
    if not _walks.admits(look):
        return None
    outline: WalkReplay = WalkReplay()
    if not outline.describe(roots):
        _walks.admission.miss(look)
        return None
    trace: WalkTrace = cython.cast(WalkTrace, _walks.find(outline.key))
    if trace is None:
        _walks.admission.miss(look)
        return WalkRecorder(outline, look)
    if trace.among_batches and _form_batches(tape, outline):
        _walks.admission.miss(look)
        return None
    _walks.admission.succeed(look)
    if verifying:
        _walks.counters.hits += 1
        return WalkRecorder(outline, look, trace, outline.begin(tape, trace))
    outline.replay_walk(tape, trace, keep)
    _walks.counters.hits += 1
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def _form_batches(tape: Tape, outline: WalkFingerprint) -> cython.bint:
    """Look for batches among what is pending; whether records of a walk are members of one."""
    found: cython.bint = driver.form_batches(tape)
    return found and outline.has_members()


@cython.cfunc
@cython.exceptval(-1, check=False)
def _may_replay(tape: Tape) -> cython.bint:
    """True if the graph alone decides what is recorded, and nothing watches batching."""
    if not is_plain(tape) or tape.running is not None or tape.count > MOST_NODES:
        return False
    return config.batch and not config.explain and batch.watcher() is None


@cython.cfunc
@cython.exceptval(check=False)
def _look(tape: Tape, roots: list) -> cython.longlong:
    """A number that is equal for equal walks and quick to compute, of the operations recorded since the last walk and
    their sizes: only if it has come before is the graph fingerprinted, and what is recorded of it kept."""
    edge = cython.cast(tuple, roots[0])[0]
    code: cython.longlong = cython.cast(Node, edge).op.code if isinstance(edge, Node) else -1
    look: cython.ulonglong = mix(len(roots), code)
    position: cython.Py_ssize_t = tape.filled
    while position > 0:
        position -= 1
        if position >= FAR:
            prefetch(tape.nodes[position - FAR])
        pointer: cython.p_void = tape.nodes[position]
        if pointer == cython.NULL:
            continue
        if cython.cast(Node, pointer).seq <= tape.watermark:
            break
        look = mix(look, cython.cast(Node, pointer).op.code)
        look = mix(look, cython.cast(Node, pointer).numel)
    return cython.cast(cython.longlong, look >> 1)


@cython.final
@cython.cclass
class WalkReplay(WalkFingerprint):
    """A walk that follows a trace."""

    @cython.cfunc
    def replay_walk(self, tape: Tape, trace: WalkTrace, keep: cython.bint):
        """Record the trace, give the leaves their gradients and let records give up what they saved."""
        mode: Mode = tape.mode
        previous: cython.bint = mode.grad
        run: Replay = self.begin(tape, trace)
        mode.grad = False
        mode.walk = self.stamp
        consider(tape)
        try:
            self.record(trace, run)
        finally:
            mode.grad = previous
            mode.walk = 0
            let_go(run.made)
        if not keep:
            self.release_residuals()
        check_budget()

    @cython.cfunc
    def begin(self, tape: Tape, trace: WalkTrace) -> Replay:
        """The replay that the trace is recorded with. It holds its nodes: adding to a gradient may run pending nodes
        that later steps read."""
        run: Replay = Replay.__new__(Replay)
        instruction: cython.int = -1
        code: cython.pointer(PyObject) = caller(cython.address(instruction))
        run.code = None if code == cython.NULL else cython.cast(object, code)
        run.offset_in_code = instruction
        run.tape, run.values, run.made = tape, trace.values_of(self), []
        run.hold = True
        return run

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record(self, trace: WalkTrace, run: Replay) -> cython.int:
        """Record the steps, and give leaves their gradients in between."""
        index: cython.Py_ssize_t
        done: cython.Py_ssize_t = 0
        words: cython.p_longlong = trace.deliveries.words
        for index in range(0, trace.deliveries.count, 3):
            trace.record(run, done, words[index])
            done = words[index]
            node: Node = entry_of(words[index + 2], run.values, run.made)
            self.accumulate(cython.cast(cython.int, words[index + 1]), node)
        return trace.record(run, done, trace.count)

    @cython.cfunc
    def accumulate(self, number: cython.int, node: Node):
        """Give a leaf its gradient."""
        sink: AccumulateGrad = cython.cast(AccumulateGrad, self.known[number].record)
        accumulate_grad(sink.variable, wrap(node, None), False, sink)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def release_residuals(self) -> cython.int:
        number: cython.int
        for number in range(self.count):
            record = cython.cast(object, self.known[number].record)
            if isinstance(record, Node) and self.wanted(number):
                give_up(cython.cast(Node, record))
        return 0


@cython.cfunc
@cython.exceptval(check=False)
def let_go(made: list) -> cython.void:
    """All steps have been recorded: none is held for those behind it."""
    node: Node
    for node in made:
        node.external_refs -= 1


@cython.cfunc
@cython.exceptval(-1, check=False)
def consider(tape: Tape) -> cython.int:
    """Mark the nodes recorded since the last walk as seen by batching."""
    position: cython.Py_ssize_t = tape.filled
    while position > 0:
        position -= 1
        pointer: cython.p_void = tape.nodes[position]
        if pointer == cython.NULL:
            continue
        if cython.cast(Node, pointer).seq <= tape.watermark:
            break
        cython.cast(Node, pointer).batch_seen = True
    return 0


def clear():
    """Forget every known walk."""
    _walks.clear()
