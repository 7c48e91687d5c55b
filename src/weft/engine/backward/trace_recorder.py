# cython: language_level=3
"""Learning a walk: the script of what it recorded.

In come the outline of a graph before the walk, what was recorded, and which leaf got what; out goes a script, unless
the walk did more than to apply rows to what a script will find again: batches of its records, what it ran, values from
elsewhere.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.backward.fingerprint import Outline
from cython.cimports.weft.engine.backward.trace import (
    INPUT,
    MADE,
    NUMBER,
    RECORD,
    RESULT,
    ROOT,
    Script,
    Step,
)
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.ir.primitive import scalar_row
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.ir.tape import Tape
from cython.cimports.weft.engine.replay.cache import Cache

from weft._build.compiled import require
from weft.engine.ir.primitive import COMPOSITE, ROWS
from weft.engine.ir.tape import last_sequence
from weft.engine.pipeline import driver
from weft.engine.replay.cache import named

require(__name__, cython.compiled)

STEP_BYTES = cython.declare(
    cython.Py_ssize_t, 160
)  # about what a step of a script takes, with its operands
walks = cython.declare(Cache, named("walks"))
cache = walks


@cython.final
@cython.cclass
class Lesson:
    """A walk that may be learned: `watch` it, and `close` when it is over."""

    outline = cython.declare(Outline)
    look = cython.declare(cython.longlong)
    places = cython.declare(dict)
    journal = cython.declare(list)
    flushes = cython.declare(object)
    start = cython.declare(cython.longlong)
    among_batches = cython.declare(cython.bint)
    filled = cython.declare(cython.Py_ssize_t)

    def __init__(self, outline: Outline, look: cython.longlong):
        self.outline = outline
        self.look = look
        self.places = _places(outline)

    def after_batches(self):
        """Batches were found: the lesson itself, or None where records of the walk are members of them; then it is not
        to be learned."""
        if self.outline.has_members():
            walks.admission.miss(self.look)
            return None
        self.among_batches = True
        return self

    def watch(self, walk):
        """The walk is about to begin."""
        self.journal = []
        walk.keep_journal(self.journal)
        self.flushes = driver.counters["flushes"]
        self.start = last_sequence()

    def close(self, tape: Tape, walk):
        """The walk is over: keep what it recorded, if it is nothing but operations on what the script will find."""
        if self.flushes != driver.counters["flushes"] or walk.has_groups():
            walks.admission.miss(self.look)
            return
        script: Script = self.write(tape.since(self.start))
        if script is None:
            walks.admission.miss(self.look)
        else:
            walks.keep(self.outline.key, script, STEP_BYTES * script.count)

    @cython.cfunc
    def write(self, nodes: list) -> Script:
        """The script of the recorded nodes and the leaves' gradients, in order; None where it cannot be written."""
        entries: list = []
        within: list = [(before, after) for _, _, before, after in self.journal]
        node: Node
        for node in nodes:
            if not _is_inside(node.seq, within):
                entries.append((node.seq, node, None))
        for sink, node, before, _ in self.journal:
            entries.append((before + 0.5, node, sink))
        entries.sort(key=_first)
        script: Script = Script()
        script.among_batches = self.among_batches
        script.allot(len(entries), sum([_arity(node, sink) for _, node, sink in entries]))
        for _, node, sink in entries:
            if node is None or not self.add_step(script, node, sink):
                return None
        return script

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_step(self, script: Script, node: Node, sink) -> cython.bint:
        """Write one step; whether it can be written."""
        step: cython.pointer(Step) = cython.address(script.steps[script.count])
        if sink is None and not _is_repeatable(node):
            return False
        step.first = self.filled
        step.leaf = -1
        for source in node.inputs if sink is None else (node,):
            code = self.code_of(source, script)
            if code is None:
                return False
            script.operands[self.filled] = code
            self.filled += 1
        if sink is None:
            _fill_step(script, step, node)
            self.places[node] = _code(MADE, 0, script.count)
        else:
            step.leaf = self.places[sink]
        script.count += 1
        return True

    @cython.cfunc
    def code_of(self, source: Node, script: Script):
        """Where a script finds a value: a number is made anew. None where it would not."""
        code = self.places.get(source)
        if code is None and source.row is scalar_row:
            code = self.places[source] = _code(NUMBER, 0, len(script.numbers))
            script.numbers.append((source.params, source.dtype))
        return code


@cython.cfunc
def _first(entry):
    return cython.cast(tuple, entry)[0]


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_inside(number: cython.longlong, ranges: list) -> cython.bint:
    """Whether a node was recorded in adding a gradient to another: a repeated walk adds by itself."""
    for before, after in ranges:
        if before < number <= after:
            return True
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_repeatable(node: Node) -> cython.bint:
    """Whether a node is nothing but a row, params and operands."""
    return (
        node.state == PENDING
        and node.inputs is not None
        and node.edges is None
        and node.payload is None
        and node.quotient is None
        and node.result is None
        and node.info is None
        and node.row.kind != ROWS
    )


@cython.cfunc
def _fill_step(script: Script, step: cython.pointer(Step), node: Node) -> cython.void:
    script.held.append((node.row, node.params, node.shape, node.dtype))
    step.row = cython.cast(cython.pointer(PyObject), node.row)
    step.params = cython.cast(cython.pointer(PyObject), node.params)
    step.shape = cython.cast(cython.pointer(PyObject), node.shape)
    step.dtype = cython.cast(cython.pointer(PyObject), node.dtype)
    step.numel = node.numel
    step.way = node.offset_in_code
    step.considered = node.considered
    step.arity = len(node.inputs)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _arity(node: Node, sink) -> cython.Py_ssize_t:
    """How many operands the step of an entry has."""
    return 1 if sink is not None or node is None or node.inputs is None else len(node.inputs)


@cython.cfunc
def _places(outline: Outline) -> dict:
    """Where a script finds what rules are given: the code of each value, the number of each leaf."""
    found: dict = {}
    number: cython.int
    index: cython.Py_ssize_t
    node: Node
    for index in range(len(outline.cotangents)):
        found[outline.cotangents[index]] = _code(ROOT, 0, index)
    for number in range(outline.count):
        record = cython.cast(object, outline.known[number].record)
        if not isinstance(record, Node):
            found[record] = number
            continue
        node = cython.cast(Node, record)
        if node.row.kind != COMPOSITE:
            found.setdefault(node, _code(RECORD, 0, number))
        elif node.result is not None:
            found.setdefault(node.result, _code(RESULT, 0, number))
        for index in range(len(node.inputs or ())):
            if is_saved(node.saved, index):
                found.setdefault(node.inputs[index], _code(INPUT, index, number))
    return found


@cython.cfunc
def _code(kind: cython.longlong, index: cython.longlong, number: cython.longlong):
    return kind | index << 3 | number << 16
