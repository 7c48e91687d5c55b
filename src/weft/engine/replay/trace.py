# cython: language_level=3
"""Traces: recorded nodes as steps that can be recorded again on other values.

A step is an op, params, shape, dtype, and operands and gradient edges by number. A trace holds no tensors but
constants, and nothing of the graph that it was learned from: nodes forget their inputs when they have run. Clients
derive their own and define its values and what becomes of its results.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.weft.engine.capi.growable_array import drop, empty
from cython.cimports.weft.engine.frontend.node_factory import append_again, hide
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import Node, rare_facts, save
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residuals import retain_residuals
from cython.cimports.weft.engine.ir.tape import finish
from cython.cimports.weft.engine.ir.tuple_cache import one, three, two
from cython.cimports.weft.engine.replay.cache import CacheEntry
from cython.cimports.weft.engine.replay.trace import NOTHING, Step, entry_of

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cclass
class Replay:
    """The state of one replay: values and edges by number, the user's call site, and the nodes made so far, each of
    which is live until the client releases it if it is to `hold` them. Clients derive their own."""


@cython.cclass
class Trace(CacheEntry):
    """Steps in the order in which they were recorded."""

    def __cinit__(self):
        self.operands = empty()
        self.held, self.constants = [], []

    def __dealloc__(self):
        free(self.steps)
        drop(cython.address(self.operands))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def allot(self, steps: cython.Py_ssize_t) -> cython.int:
        """Room for so many steps. Errors: MemoryError."""
        self.steps = cython.cast(cython.pointer(Step), calloc(steps + 1, cython.sizeof(Step)))
        if self.steps == cython.NULL:
            raise MemoryError
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def size(self) -> cython.Py_ssize_t:
        """About the bytes that it takes."""
        total: cython.Py_ssize_t = self.count * (cython.sizeof(Step) + 64) + 8 * self.operands.room
        constant: Tensor
        for constant in self.constants:
            total += constant.node.numel * constant.node.dtype.itemsize
        return total

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def begin(self, run: Replay) -> cython.int:
        """Put the constants behind the values that the client has found."""
        constant: Tensor
        for constant in self.constants:
            run.values.append(constant.node)
        run.made = []
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record(self, run: Replay, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """Record the steps from one to another once more."""
        index: cython.Py_ssize_t
        step: cython.pointer(Step)
        node: Node
        shape: tuple
        numel: cython.longlong
        made: list = run.made
        values: list = run.values
        for index in range(begin, end):
            step = cython.address(self.steps[index])
            shape, numel = run.shape, step.numel
            if shape is None:
                shape = cython.cast(tuple, step.shape)
            else:
                numel = cython.cast(Node, values[0]).numel
            node = append_again(
                run.tape,
                cython.cast(Primitive, step.op),
                _entries(self.operands.words + step.first, step.arity, values, made),
                cython.cast(object, step.params),
                shape,
                numel,
                cython.cast(DType, step.dtype),
                run.code,
                run.offset_in_code,
                step.library_site,
            )
            node.batch_seen = step.batch_seen
            if step.edges >= 0:
                self.record_edges(run, step, node)
            if run.hold:
                node.external_refs += 1
            made.append(node)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record_edges(self, run: Replay, step: cython.pointer(Step), node: Node) -> cython.int:
        """The gradient edges of a node; where it is the record of a whole behind others, that too."""
        first: cython.Py_ssize_t = step.first + step.arity
        node.edges = _entries(self.operands.words + first, step.edges, run.edges, run.made)
        hide(node.edges)
        retain_residuals(node, node.edges)
        node.operand_shapes = cython.cast(object, step.operand_shapes)
        if cython.cast(object, step.grad_name) is not None:
            rare_facts(node).grad_name = cython.cast(object, step.grad_name)
        if step.whole >= 0:
            rare_facts(node).result = run.made[step.whole]
            save(run.made[step.whole])
            finish(node)
        return 0


@cython.cfunc
def _entries(
    numbers: cython.p_longlong, count: cython.Py_ssize_t, given: list, made: list
) -> tuple:
    """The inputs, or edges, that some numbers stand for."""
    if count == 1:
        return one(_entry(numbers[0], given, made))
    if count == 2:
        return two(_entry(numbers[0], given, made), _entry(numbers[1], given, made))
    if count == 3:
        return three(
            _entry(numbers[0], given, made),
            _entry(numbers[1], given, made),
            _entry(numbers[2], given, made),
        )
    return tuple([_entry(numbers[index], given, made) for index in range(count)])


@cython.cfunc
@cython.inline
def _entry(number: cython.longlong, given: list, made: list):
    return None if number == NOTHING else entry_of(number, given, made)
