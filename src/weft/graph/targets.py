# cython: language_level=3
"""What a gradient edge leads to beside a node: an output of a Function, the sink of a leaf."""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF
from cython.cimports.weft.graph.burial import bury, end_burial
from cython.cimports.weft.graph.tape import next_sequence
from cython.cimports.weft.graph.targets import (
    SINKS,
    Py_SET_REFCNT,
    PyObject_GC_Track,
    PyObject_GC_UnTrack,
    PyTypeObject,
)

from weft._compiled import require

require(__name__, cython.compiled)

_sinks_waiting = 0


@cython.cclass
class GradientFunction:
    """A gradient record that is not one op: a custom Function, a node with several outputs. Subclasses give
    `pull(cotangents) -> list of cotangents`, one per edge, and `name()`. Collected by the garbage collector, so that
    a user's cycle through it can be broken."""

    def __cinit__(self):
        self.seq = next_sequence()
        self.edges = ()
        self.outputs = 1

    def check_usable(self):
        """Raise where saved values have been freed; called before a walk runs anything."""

    def release(self):
        """Give up saved values after a walk that does not retain the graph."""

    def pull(self, cotangents, create):
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

    def __cinit__(self, function: GradientFunction, number: cython.int):
        self.function = function
        self.number = number


@cython.final
@cython.no_gc_clear
@cython.cclass
class AccumulateGrad:
    """The sink of a leaf. The edge to it and its reference to the leaf are strong; the leaf knows it weakly: at
    `known_at`, which lies in the leaf."""

    @property
    def edges(self):
        return ()

    @property
    def next_functions(self):
        return ()

    def name(self):
        """The name as PyTorch prints it."""
        return "torch::autograd::AccumulateGrad"


@cython.cfunc
@cython.exceptval(check=False)
def _retire_sink(dying: cython.pointer(PyObject)) -> cython.void:
    """Free a sink (tp_dealloc); it waits as nodes do."""
    global _sinks_waiting
    PyObject_GC_UnTrack(dying)
    Py_SET_REFCNT(dying, 1)
    _empty_sink(cython.cast(AccumulateGrad, dying))
    if _sinks_waiting < SINKS:
        _sinks[_sinks_waiting] = dying
        _sinks_waiting += 1
    else:
        Py_SET_REFCNT(dying, 0)
        _free_sink(dying)


@cython.cfunc
@cython.exceptval(check=False)
def _empty_sink(sink: AccumulateGrad) -> cython.void:
    if sink.known_at != cython.NULL:
        sink.known_at[0] = cython.NULL
        sink.known_at = cython.NULL
    if sink.scratch is not None:
        sink.scratch = None
    if sink.observers is not None:
        sink.observers = None
    sink.variable = None


@cython.cfunc
def new_sink(variable, known_at: cython.pp_void) -> AccumulateGrad:
    """The sink of a leaf, which knows it at `known_at`."""
    global _sinks_waiting
    sink: AccumulateGrad
    if _sinks_waiting > 0:
        _sinks_waiting -= 1
        sink = cython.cast(AccumulateGrad, _sinks[_sinks_waiting])
        Py_DECREF(sink)
        sink.mark = 0
        sink.count = 0
        PyObject_GC_Track(cython.cast(cython.p_void, sink))
    else:
        sink = AccumulateGrad.__new__(AccumulateGrad)
    sink.variable = variable
    sink.known_at = known_at
    known_at[0] = cython.cast(cython.p_void, sink)
    return sink


@cython.cfunc
def _take_over_sinks() -> cython.void:
    global _free_sink
    kind: cython.pointer(PyTypeObject) = cython.cast(cython.pointer(PyTypeObject), AccumulateGrad)
    _free_sink = kind.tp_dealloc
    kind.tp_dealloc = _retire_sink


_take_over_sinks()
