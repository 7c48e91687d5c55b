# cython: language_level=3
"""The records that the stages of the schedule pass on: where a value lies, what a kernel computes, the program."""

import cython
from cython.cimports.weft.graph.node import Node

from weft._compiled import require
from weft.graph.rows import ELEMENTWISE

require(__name__, cython.compiled)


@cython.final
@cython.no_gc
@cython.cclass
class Place:
    """A value as a strided region (in elements) of the row-major value of `root`."""

    def __cinit__(self, root: Node, offset: cython.longlong, strides: tuple):
        self.root = root
        self.offset = offset
        self.strides = strides

    def __repr__(self):
        return f"{self.root!r}[{self.offset}, {self.strides}]"


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
    """What one flush computes: nodes in order, where each lies, kernels in order, node -> kernel; and the primitives'
    value that each macro stands for. `external` are values that exist, in order of first use; `kept` are those to be
    computed that a live node is, or is a view of, `viewed` those that exist already."""

    def __cinit__(self):
        self.order = []
        self.places = {}
        self.expanded = {}
        self.kernels = []
        self.producer = {}
        self.external = []
        self.kept = set()
        self.viewed = set()
