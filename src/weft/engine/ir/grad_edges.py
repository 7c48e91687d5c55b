# cython: language_level=3
"""Gradient edge targets other than nodes: an output of a Function, the gradient accumulator of a leaf."""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.ir.deferred_free import bury, end_burial
from cython.cimports.weft.engine.ir.free_list import keep, reuse, revive, take
from cython.cimports.weft.engine.ir.grad_edges import (
    FREE_ACCUMULATORS,
    PyObject_GC_Track,
    PyObject_GC_UnTrack,
)
from cython.cimports.weft.engine.ir.tape import next_sequence

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cclass
class GradientFunction:
    """A gradient record that is not one op: a custom Function, a node with several outputs. Subclasses give
    `vjp(cotangents) -> list of cotangents`, one per edge, and `name()`. Collected by the garbage collector, so that
    a user's cycle through it can be broken."""

    def __cinit__(self):
        self.seq = next_sequence()
        self.edges = ()
        self.outputs = 1

    requires_grad = True
    behind = None  # the edge that users see and observe in place of one to this record

    def check_usable(self):
        """Raise where saved values have been freed; called before a walk runs anything."""

    def release(self):
        """Give up saved values after a walk that does not retain the graph."""

    def vjp(self, cotangents, create):
        """The cotangents of the inputs, one per edge."""
        raise NotImplementedError(type(self).__name__)

    def __dealloc__(self):
        if self.edges is not None:
            bury(self.edges)
            self.edges = None
            end_burial()


@cython.cclass
class OutputEdge:
    """The gradient edge to output `number` of a GradientFunction."""

    def __init__(self, function: GradientFunction, number: cython.int):
        self.function = function
        self.number = number


@cython.cfunc
def new_edge(function: GradientFunction, number: cython.int) -> OutputEdge:
    """`OutputEdge` for compiled callers."""
    edge: OutputEdge = OutputEdge.__new__(OutputEdge)
    edge.function = function
    edge.number = number
    return edge


@cython.final
@cython.no_gc_clear
@cython.cclass
class AccumulateGrad:
    """The gradient accumulator of a leaf. The edge to it and its reference to the leaf are strong; the leaf's
    reference to it, at `known_at` within the leaf, is weak. `expects` is None, or the shape of the gradients that
    come: the shape that the leaf had when it was first recorded, if its data has been replaced since by data of
    another shape."""

    requires_grad = True

    @property
    def edges(self):
        return ()

    @property
    def next_functions(self):
        return ()

    def name(self):
        """The name as PyTorch prints it."""
        return "torch::autograd::AccumulateGrad"

    def __repr__(self):
        return f"<AccumulateGrad object at {id(self):#x}>"


@cython.cfunc
@cython.exceptval(check=False)
def _empty(sink: AccumulateGrad) -> cython.void:
    """A dying sink gives up everything it holds, and its leaf forgets it."""
    if sink.known_at != cython.NULL:
        sink.known_at[0] = cython.NULL
        sink.known_at = cython.NULL
    if sink.observers is not None:
        sink.observers = None
    if sink.expects is not None:
        sink.expects = None
    sink.variable = None


@cython.cfunc
@cython.exceptval(check=False)
def _retire(dying: cython.pointer(PyObject)) -> cython.void:
    """Free a sink (tp_dealloc): emptied, it waits to be used again."""
    PyObject_GC_UnTrack(dying)
    revive(dying)
    _empty(cython.cast(AccumulateGrad, dying))
    keep(cython.address(_dead_sinks), dying)


reuse(cython.address(_dead_sinks), AccumulateGrad, _retire, FREE_ACCUMULATORS)


@cython.cfunc
def new_sink(variable, known_at: cython.pp_void) -> AccumulateGrad:
    """The sink of a leaf, which knows it at `known_at`."""
    sink: AccumulateGrad
    if _dead_sinks.count > 0:
        sink = cython.cast(AccumulateGrad, take(cython.address(_dead_sinks)))
        sink.walk_number = 0
        PyObject_GC_Track(cython.cast(cython.p_void, sink))
    else:
        sink = AccumulateGrad.__new__(AccumulateGrad)
    sink.variable = variable
    sink.known_at = known_at
    known_at[0] = cython.cast(cython.p_void, sink)
    return sink
