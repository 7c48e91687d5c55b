# cython: language_level=3
"""The records that the stages of the schedule pass on: where a value lies, what a kernel computes, the program."""

import cython
from cython.cimports.weft.graph.node import Node

from weft._compiled import require
from weft.graph.rows import ELEMENTWISE

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class Value:
    """A value that a program computes or reads: the kernels that have to do with it, whether it leaves its kernel, the
    slot that it lies in (-1: in none)."""

    def __cinit__(self):
        self.slot = -1
        self.last_use = -1


@cython.final
@cython.no_gc
@cython.cclass
class Place:
    """A value as a strided region (in elements) of the row-major value of `root`."""

    def within(self, offset: cython.longlong, strides: tuple):
        """Another region of the same root."""
        return region(self, offset, strides)

    def __repr__(self):
        return f"{self.root!r}[{self.offset}, {self.strides}]"


@cython.cfunc
def region(place: Place, offset: cython.longlong, strides: tuple) -> Place:
    """A region of the root of a place."""
    found: Place = Place.__new__(Place)
    found.value = place.value
    found.root = place.root
    found.offset = offset
    found.strides = strides
    return found


@cython.cfunc
def maker(place: Place) -> Kernel:
    """The kernel that computes the root of a place, through merges; None for a value that exists."""
    kernel: Kernel = place.value.kernel
    while kernel is not None and kernel.merged is not None:
        kernel = kernel.merged
    return kernel


@cython.final
@cython.cclass
class Kernel:
    """One launch: nodes computed together over one iteration shape, or one contraction, copy, scan, scatter.

    `shape` is the iteration space, `axes` the reduced ones (None: no reduction), `nodes` in order, `stores` those
    whose values leave the kernel. A `staged` kernel goes on, element by element, from reductions of its own.
    """

    def __cinit__(self, kind: cython.int, shape: tuple):
        self.kind = kind
        self.shape = shape
        self.nodes = []
        self.stores = []
        self.open = kind == ELEMENTWISE
        self.first_consumer = 1 << 30
        self.last_consumer = -1
        self.first_indirect = 1 << 30

    def __repr__(self):
        names = " ".join(node.row.name for node in self.nodes)
        return f"<kernel {self.position} {list(self.shape)} {names}>"


@cython.final
@cython.cclass
class Program:
    """What one flush computes: nodes in order, where each lies, values, kernels in order; and the primitives' value
    that each macro stands for. `external` are values that exist, in order of first use; `kept` are those to be
    computed that a live node is, or is a view of, `viewed` those that exist already."""

    def __cinit__(self):
        self.order = []
        self.places = {}
        self.expanded = {}
        self.kernels = []
        self.values = []
        self.external = []
        self.kept = set()
        self.viewed = set()

    @cython.cfunc
    def new_value(self, node: Node, strides: tuple) -> Place:
        """The place of a node that is no part of another value."""
        value: Value = Value.__new__(Value)
        value.node = node
        self.values.append(value)
        place: Place = Place.__new__(Place)
        place.value = value
        place.root = node
        place.strides = strides
        self.places[node] = place
        return place

    @cython.ccall
    def release(self):
        """Let values forget their kernels, some of which lead back to them: nodes would be kept until a collection."""
        value: Value
        for value in self.values:
            value.kernel = value.reader = value.last_reader = None
