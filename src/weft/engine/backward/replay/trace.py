# cython: language_level=3
"""Traces of backward: the nodes that a walk over a graph of one fingerprint records, and the leaves that get
gradients.

It takes the graph's fingerprint before the walk, the recorded nodes, and which leaf got what, and makes a trace. It
makes none if the walk did more than apply ops to values that the trace will find again: batches of its records,
flushes in between, values from elsewhere.
"""

import cython
from cython.cimports.cpython.list import PyList_New, PyList_SET_ITEM
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.weft.engine.backward.replay.fingerprint import WalkFingerprint
from cython.cimports.weft.engine.backward.replay.trace import INPUT, NUMBER, RECORD, RESULT, ROOT
from cython.cimports.weft.engine.capi.growable_array import drop, empty, put
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import Node, result_of
from cython.cimports.weft.engine.ir.primitive import scalar_op
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.ir.tape import Tape
from cython.cimports.weft.engine.replay.cache import Cache
from cython.cimports.weft.engine.replay.recorder import Recorder
from cython.cimports.weft.engine.replay.trace import Replay, Trace, entry_of

from weft._build.compiled import require
from weft.engine.ir.primitive import COMPOSITE
from weft.engine.ir.tape import last_sequence
from weft.engine.pipeline import driver
from weft.engine.replay import verify
from weft.engine.replay.cache import named

require(__name__, cython.compiled)

_composite = cython.declare(cython.int, COMPOSITE)
_INPUT_NUMBER = cython.declare(cython.longlong, (1 << 13) - 1)
walks = cython.declare(Cache, named("walks"))
cache = walks


@cython.final
@cython.cclass
class WalkTrace(Trace):
    """The nodes and gradient deliveries that a walk over a graph of one fingerprint records."""

    def __cinit__(self):
        self.sources, self.deliveries = empty(), empty()

    def __dealloc__(self):
        drop(cython.address(self.sources))
        drop(cython.address(self.deliveries))

    @cython.cfunc
    def values_of(self, outline: WalkFingerprint) -> list:
        """The values that the steps read, in a graph of this outline."""
        values: list = PyList_New(self.sources.count)
        index: cython.Py_ssize_t
        node: Node
        for index in range(self.sources.count):
            code: cython.longlong = self.sources.words[index]
            kind: cython.longlong = code & 7
            number: cython.Py_ssize_t = code >> 16
            if kind == NUMBER:
                node = cython.cast(Tensor, self.constants[number]).node
            elif kind == ROOT:
                node = outline.cotangents[number]
            else:
                node = cython.cast(Node, outline.known[number].record)
                if kind == INPUT:
                    node = node.inputs[code >> 3 & _INPUT_NUMBER]
                elif kind == RESULT:
                    node = result_of(node)
            Py_INCREF(node)
            PyList_SET_ITEM(values, index, node)
        return values


@cython.final
@cython.cclass
class WalkRecorder(Recorder):
    """A walk that may be learned: `watch` it, and `close` when it is over."""

    def __init__(
        self,
        outline: WalkFingerprint,
        look: cython.longlong,
        expected: WalkTrace | None = None,
        run: Replay | None = None,
    ):
        self.outline, self.look = outline, look
        self.expected, self.run = expected, run
        self.places, self.leaves = {}, {}
        self.find_places()

    def after_batches(self):
        """Batches were found: the recorder itself, or None where records of the walk are members of them; then it is
        not to be learned."""
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
        """The walk is over: keep what it recorded, if it is nothing but operations on what the trace will find."""
        trace: WalkTrace = None
        if self.flushes == driver.counters["flushes"] and not walk.has_groups():
            if self.expected is not None:
                self.verify(tape.since(self.start), walk.is_narrow())
                return
            trace = self.write_walk(tape.since(self.start))
            if trace is not None:
                trace.narrow = walk.is_narrow()
        if trace is None:
            walks.admission.miss(self.look)
        else:
            walks.keep(self.outline.key, trace, trace.size())

    @cython.cfunc
    def write_walk(self, nodes: list) -> WalkTrace:
        """The trace of the recorded nodes and the leaves' gradients, in order; None where it cannot be written."""
        node: Node
        entries: list = self.entries_of(nodes)
        trace: WalkTrace = WalkTrace()
        trace.among_batches = self.among_batches
        trace.allot(len(entries))
        self.trace = trace
        for _, node, sink in entries:
            if node is None or not (self.add(node) if sink is None else self.deliver(node, sink)):
                return None
        return trace

    @cython.cfunc
    def entries_of(self, nodes: list) -> list:
        """The actions of the walk, in order: (when, node, None) for a node, (when, node, sink) for the gradient of a
        leaf."""
        entries: list = []
        within: list = [(before, after) for _, _, before, after in self.journal]
        node: Node
        for node in nodes:
            if not _is_inside(node.seq, within):
                entries.append((node.seq, node, None))
        for sink, node, before, _ in self.journal:
            entries.append((before + 0.5, node, sink))
        entries.sort(key=_first)
        return entries

    @cython.cfunc
    def verify(self, nodes: list, narrow: cython.bint) -> cython.void:
        """Replay the known trace after the real walk and compare both. Whether a walk was `narrow`, and so
        whether its nodes are left alone, hangs on what else is pending. Errors: AssertionError if they differ."""
        index: cython.Py_ssize_t
        run: Replay = self.run
        trace: WalkTrace = self.expected
        entries: list = self.entries_of(nodes)
        run.hold = False
        trace.record(run, 0, trace.count)
        real: list = [node for _, node, sink in entries if sink is None]
        apart_from: str = "" if narrow == trace.narrow else "batch_seen"
        pairs = verify.compare("a reverse walk", run.made, real, apart_from)
        expected: list = []
        for index in range(0, trace.deliveries.count, 3):
            node: Node = entry_of(trace.deliveries.words[index + 2], run.values, run.made)
            expected.append((trace.deliveries.words[index + 1], pairs.get(node, node)))
        found = [(self.leaves[sink], node) for _, node, sink in entries if sink is not None]
        if found != expected:
            raise verify.mismatch("a reverse walk", f"gradients {expected}", f"gradients {found}")

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def deliver(self, node: Node, sink) -> cython.bint:
        """Note that a leaf gets a gradient here; whether that is known."""
        trace = cython.cast(WalkTrace, self.trace)
        number = self.number_of(node)
        if number is None:
            return False
        put(cython.address(trace.deliveries), trace.count)
        put(cython.address(trace.deliveries), self.leaves[sink])
        put(cython.address(trace.deliveries), number)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def accepts(self, node: Node) -> cython.bint:
        if node.edges is not None or node.operand_shapes is not None or node.info is not None:
            return False
        return Recorder.accepts(self, node)

    @cython.cfunc
    def number_of(self, source: Node):
        """The number of a value, which it gets where it is read first. None where the trace would not find it."""
        trace = cython.cast(WalkTrace, self.trace)
        number = self.numbers.get(source)
        if number is not None:
            return number
        code = self.places.get(source)
        if code is None and source.op is scalar_op:
            code = _code(NUMBER, 0, len(trace.constants))
            trace.constants.append(wrap(source, None))
        if code is None:
            return None
        put(cython.address(trace.sources), code)
        number = self.numbers[source] = self.filled
        self.filled += 1
        return number

    @cython.cfunc
    def find_places(self) -> cython.void:
        """Note where a walk finds what rules are given: the code of each value, the number of each leaf."""
        places: dict = self.places
        outline: WalkFingerprint = self.outline
        number: cython.int
        index: cython.Py_ssize_t
        node: Node
        for index in range(len(outline.cotangents)):
            places[outline.cotangents[index]] = _code(ROOT, 0, index)
        for number in range(outline.count):
            record = cython.cast(object, outline.known[number].record)
            if not isinstance(record, Node):
                self.leaves[record] = number
                continue
            node = cython.cast(Node, record)
            if node.op.kind != _composite:
                places.setdefault(node, _code(RECORD, 0, number))
            elif result_of(node) is not None:
                places.setdefault(result_of(node), _code(RESULT, 0, number))
            for index in range(len(node.inputs or ())):
                if is_saved(node.residual_mask, index):
                    places.setdefault(node.inputs[index], _code(INPUT, index, number))


@cython.cfunc
def _first(entry):
    return cython.cast(tuple, entry)[0]


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_inside(number: cython.longlong, ranges: list) -> cython.bint:
    """True if a node was recorded while a gradient was added to another: a replay makes this addition itself."""
    for before, after in ranges:
        if before < number <= after:
            return True
    return False


@cython.cfunc
def _code(kind: cython.longlong, index: cython.longlong, number: cython.longlong):
    return kind | index << 3 | number << 16
