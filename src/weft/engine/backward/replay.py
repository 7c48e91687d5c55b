# cython: language_level=3
"""Known walks: a reverse walk over a graph like one before records what that one recorded, without asking the rules.

In come the roots of a walk that gives leaves their gradients; out go the nodes that it records, and the gradients. What
is known is a script, found by the graph's outline and confirmed by full comparison, from the third walk over such a
graph on. What the result is says the walk itself (`walk`): here is only what nobody observes.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.backward.fingerprint import Outline
from cython.cimports.weft.engine.backward.reachability import give_up
from cython.cimports.weft.engine.backward.trace import (
    INPUT,
    MADE,
    NUMBER,
    RECORD,
    ROOT,
    Script,
    Step,
)
from cython.cimports.weft.engine.capi.call_site import caller
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.frontend.node_factory import append_again, new_scalar
from cython.cimports.weft.engine.frontend.recorder import check_budget
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.tape import Mode, Tape, ambient
from cython.cimports.weft.engine.ir.tuple_cache import one, three, two
from cython.cimports.weft.engine.replay.cache import Cache

from weft._build.compiled import require
from weft.config import config
from weft.engine.backward.accumulate_grad import accumulate_grad
from weft.engine.backward.trace_recorder import Lesson, cache
from weft.engine.pipeline import driver
from weft.engine.pipeline.batching import batch

require(__name__, cython.compiled)

MOST_NODES = 20_000  # pending when a walk is looked up; of larger graphs most are never met again
_INPUT_NUMBER = cython.declare(cython.longlong, (1 << 13) - 1)
_INSTRUCTION = cython.declare(cython.int, (1 << 18) - 1)

_walks = cython.declare(Cache, cache)
counters = _walks.counters


# -- repeating -----------------------------------------------------------------------------------------------------


def repeat(tape: Tape, roots: list, keep: bool):
    """Do what the walk from some roots does, if it is known: True where that is so, a Lesson where it may be learned
    from the walk that the caller makes, or else None.

    Errors: RuntimeError where a record has given up its saved values."""
    if not roots or not _is_plain(tape):
        return None
    look: cython.longlong = _look(tape, roots)
    if not _walks.admits(look):
        return None
    outline: Repeat = Repeat()
    if not outline.describe(roots):
        _walks.admission.miss(look)
        return None
    script: Script = cython.cast(Script, _walks.find(outline.key))
    if script is None:
        _walks.admission.miss(look)
        return Lesson(outline, look)
    if script.among_batches and _form_batches(tape, outline):
        _walks.admission.miss(look)
        return None
    _walks.admission.succeed(look)
    outline.carry_out(tape, script, keep)
    _walks.counters.hits += 1
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def _form_batches(tape: Tape, outline: Outline) -> cython.bint:
    """Look for batches among what is pending; whether records of a walk are members of one."""
    found: cython.bint = driver.form_batches(tape)
    return found and outline.has_members()


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_plain(tape: Tape) -> cython.bint:
    """Whether nothing but the graph has a say in what is recorded."""
    mode: Mode = tape.mode
    if ambient > 0 or tape.running is not None or tape.count > MOST_NODES:
        return False
    if mode.walk != 0 or mode.fiber is not None or mode.duals is not None or mode.extra is not None:
        return False
    if mode.eager or mode.inference or mode.anomaly or mode.saved_hooks:
        return False
    return config.batch and config.cache and not config.explain and batch.watcher() is None


@cython.cfunc
@cython.exceptval(check=False)
def _look(tape: Tape, roots: list) -> cython.longlong:
    """What walks that may be equal have in common at first sight: a graph is described only where they have."""
    edge = cython.cast(tuple, roots[0])[0]
    code: cython.longlong = cython.cast(Node, edge).row.code if isinstance(edge, Node) else -1
    look: cython.ulonglong = mix(len(roots), code)
    look = mix(mix(look, tape.count), tape.pending_bytes)
    return cython.cast(cython.longlong, look >> 1)


@cython.final
@cython.cclass
class Repeat(Outline):
    """A walk that follows a script."""

    made = cython.declare(list)  # the node of each step
    numbers = cython.declare(list)

    def __cinit__(self):
        self.made = []

    @cython.cfunc
    def carry_out(self, tape: Tape, script: Script, keep: cython.bint):
        """Record the script, give the leaves their gradients and let records give up what they saved."""
        mode: Mode = tape.mode
        previous: cython.bint = mode.grad
        mode.grad = False
        mode.walk = self.stamp
        consider(tape)
        try:
            self.record(tape, script)
        finally:
            mode.grad = previous
            mode.walk = 0
            self.let_go()
        if not keep:
            self.give_up_saves()
        check_budget()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record(self, tape: Tape, script: Script) -> cython.int:
        place: cython.int = -1
        pointer: cython.pointer(PyObject) = caller(cython.address(place))
        code = None if pointer == cython.NULL else cython.cast(object, pointer)
        step: cython.pointer(Step)
        index: cython.Py_ssize_t
        node: Node
        self.made = [None] * script.count
        self.numbers = [new_scalar(number, dtype) for number, dtype in script.numbers]
        for index in range(script.count):
            step = cython.address(script.steps[index])
            if step.leaf >= 0:
                self.accumulate(step.leaf, self.operand(script.operands[step.first]))
                continue
            node = append_again(
                tape,
                cython.cast(Primitive, step.row),
                self.inputs(script, step),
                cython.cast(object, step.params),
                cython.cast(tuple, step.shape),
                step.numel,
                cython.cast(DType, step.dtype),
                code,
                _joined_place(place, step.way),
            )
            node.considered = step.considered
            node.live += (
                1  # adding to a gradient may run what is pending, and later steps read this
            )
            self.made[index] = node
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def let_go(self) -> cython.void:
        """All steps have been recorded: none is held for those behind it."""
        node: Node
        for node in self.made:
            if node is not None:
                node.live -= 1
        self.made = []

    @cython.cfunc
    def accumulate(self, number: cython.int, node: Node):
        """Give a leaf its gradient."""
        sink: AccumulateGrad = cython.cast(AccumulateGrad, self.known[number].record)
        accumulate_grad(sink.variable, wrap(node, None), False, sink)

    @cython.cfunc
    def inputs(self, script: Script, step: cython.pointer(Step)) -> tuple:
        codes: cython.p_longlong = script.operands + step.first
        if step.arity == 1:
            return one(self.operand(codes[0]))
        if step.arity == 2:
            return two(self.operand(codes[0]), self.operand(codes[1]))
        if step.arity == 3:
            return three(self.operand(codes[0]), self.operand(codes[1]), self.operand(codes[2]))
        return tuple([self.operand(codes[index]) for index in range(step.arity)])

    @cython.cfunc
    @cython.inline
    def operand(self, code: cython.longlong) -> Node:
        """The value that an operand of the script is in this walk."""
        kind: cython.longlong = code & 7
        number: cython.Py_ssize_t = code >> 16
        if kind == MADE:
            return self.made[number]
        if kind == NUMBER:
            return self.numbers[number]
        if kind == ROOT:
            return self.cotangents[number]
        record: Node = cython.cast(Node, self.known[number].record)
        if kind == RECORD:
            return record
        return record.inputs[code >> 3 & _INPUT_NUMBER] if kind == INPUT else record.result

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def give_up_saves(self) -> cython.int:
        number: cython.int
        for number in range(self.count):
            record = cython.cast(object, self.known[number].record)
            if isinstance(record, Node) and self.wanted(number):
                give_up(cython.cast(Node, record))
        return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _joined_place(place: cython.int, way: cython.int) -> cython.int:
    """The user's instruction, with the way through the library that was gone when the script was learned."""
    return place if place < 0 or way < 0 else (place & _INSTRUCTION) | (way & ~_INSTRUCTION)


@cython.cfunc
@cython.exceptval(-1, check=False)
def consider(tape: Tape) -> cython.int:
    """What has been recorded since the last walk has been looked at for batches."""
    position: cython.Py_ssize_t = tape.filled
    while position > 0:
        position -= 1
        pointer: cython.p_void = tape.nodes[position]
        if pointer == cython.NULL:
            continue
        if cython.cast(Node, pointer).seq <= tape.watermark:
            break
        cython.cast(Node, pointer).considered = True
    return 0


def clear():
    """Forget every known walk."""
    _walks.clear()
