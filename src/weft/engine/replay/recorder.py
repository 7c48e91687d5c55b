# cython: language_level=3
"""The recorder of traces: recorded nodes become steps, if a trace can express all that they are.

A client gives the values and edges that it will find again, in order, and then the nodes. A node that has run or
failed, that a hook observes, that belongs to a batch, or that reads a value that was not given is refused: its record
is not replayed.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.capi.growable_array import put
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import (
    DONE,
    PENDING,
    Node,
    grad_name_of,
    observers_on,
    result_of,
)
from cython.cimports.weft.engine.ir.primitive import scalar_op, value_op
from cython.cimports.weft.engine.replay.trace import NOTHING, Step, Trace

from weft._build.compiled import require
from weft.engine.ir.primitive import ROWS

require(__name__, cython.compiled)

_rows = cython.declare(cython.int, ROWS)


@cython.cclass
class Recorder:
    """Makes a trace: values and edges by number. Numbers are constants of the trace; so are other values that were not
    given, up to `constant_bytes`."""

    def __cinit__(self):
        self.numbers, self.edges = {}, {}
        self.constant_bytes = -1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def give(self, value: Node, edge) -> cython.int:
        """The next value that the client will find again, and its gradient edge. Of equal ones the first counts."""
        self.numbers.setdefault(value, self.filled)
        if edge is not None:
            self.edges.setdefault(edge, self.filled)
        self.filled += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write(self, trace: Trace, nodes: list) -> cython.bint:
        """Write a step for each node; whether all can be written."""
        node: Node
        self.trace = trace
        self.trace.allot(len(nodes))
        for node in nodes:
            if not self.add(node):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reads_all(self, values: list) -> cython.bint:
        """True if each of these values is an operand of a step."""
        index: cython.Py_ssize_t
        place: cython.Py_ssize_t
        read: set = set()
        for index in range(self.trace.count):
            for place in range(self.trace.steps[index].arity):
                read.add(self.trace.operands.words[self.trace.steps[index].first + place])
        return all([self.numbers[value] in read for value in values])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def accepts(self, node: Node) -> cython.bint:
        """True if a step expresses all that a node is. Clients add their own conditions."""
        if node.state != PENDING or node.inputs is None or observers_on(node) is not None:
            return False
        if node.quotient is not None or node.op.kind == _rows:
            return False
        return (node.tape == cython.NULL) == (result_of(node) is not None)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, node: Node) -> cython.bint:
        """Write one step; whether it can be written."""
        trace: Trace = self.trace
        step: cython.pointer(Step) = cython.address(trace.steps[trace.count])
        if not self.accepts(node):
            return False
        step.first = trace.operands.count
        for source in node.inputs:
            if not self.put_operand(self.number_of(cython.cast(Node, source))):
                return False
        step.arity = len(node.inputs)
        step.edges = step.whole = -1
        if node.edges is not None:
            if not self.add_edges(node):
                return False
            step.edges = len(node.edges)
        if result_of(node) is not None:
            whole = self.numbers.get(node.result)
            if whole is None or whole >= 0:
                return False
            step.whole = -1 - cython.cast(int, whole)
        _fill(trace, step, node)
        trace.count += 1
        self.numbers[node] = self.edges[node] = -trace.count
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_edges(self, node: Node) -> cython.bint:
        for edge in node.edges:
            if not self.put_operand(NOTHING if edge is None else self.edges.get(edge)):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_operand(self, number) -> cython.bint:
        if number is None:
            return False
        put(cython.address(self.trace.operands), number)
        return True

    @cython.cfunc
    def number_of(self, source: Node):
        """The number of a value; a constant gets one. None: unknown."""
        number = self.numbers.get(source)
        if number is None and self.is_constant(source):
            number = self.numbers[source] = self.filled
            self.trace.constants.append(wrap(source, None))
            self.filled += 1
        return number

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def is_constant(self, source: Node) -> cython.bint:
        """True if a value that was not given is a number, or small enough to be a constant."""
        if source.op is scalar_op:
            return True
        return (
            source.op is value_op
            and source.state == DONE
            and source.numel * source.dtype.itemsize <= self.constant_bytes
        )


@cython.cfunc
def _fill(trace: Trace, step: cython.pointer(Step), node: Node) -> cython.void:
    """All of a node but its operands."""
    grad_name: str = grad_name_of(node)
    trace.held.append(
        (node.op, node.params, node.shape, node.dtype, node.operand_shapes, grad_name)
    )
    step.op = cython.cast(cython.pointer(PyObject), node.op)
    step.params = cython.cast(cython.pointer(PyObject), node.params)
    step.shape = cython.cast(cython.pointer(PyObject), node.shape)
    step.dtype = cython.cast(cython.pointer(PyObject), node.dtype)
    step.operand_shapes = cython.cast(cython.pointer(PyObject), node.operand_shapes)
    step.grad_name = cython.cast(cython.pointer(PyObject), grad_name)
    step.numel = node.numel
    step.library_site = node.library_site
    step.batch_seen = node.batch_seen
