# cython: language_level=3
"""The program IR, the records that passes hand on: memory references, values, kernels, the program."""

import cython
from cython.cimports.weft.engine.capi.growable_array import drop, empty, put
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.devices.api import Device, default_device
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.fingerprint import next_stamp
from cython.cimports.weft.engine.pipeline.program_ir import has_memref, memref_of, operand

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE
from weft.engine.ir.strides import contiguous_strides

require(__name__, cython.compiled)

_LOW = cython.declare(cython.longlong, (1 << 32) - 1)


@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.cclass
class ProgramValue:
    """A value that a program computes or reads: the kernels that make and read it, whether it is stored outside its
    kernel, and the slot that it is stored in (-1: none)."""

    def __cinit__(self):
        self.slot = -1
        self.last_use = -1


@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.cclass
class MemRef:
    """The memory reference of a node of this shape: a strided region (in elements) of the row-major value of
    `root`."""

    def within(self, offset: cython.longlong, strides: tuple, shape: tuple):
        """Another region of the same root."""
        return region(self, offset, strides, shape)

    def __repr__(self):
        return f"{self.root!r}[{self.offset}, {self.strides}]"


@cython.cfunc
def region(memref: MemRef, offset: cython.longlong, strides: tuple, shape: tuple) -> MemRef:
    """A region of the root of a place."""
    found: MemRef = MemRef.__new__(MemRef)
    found.value = memref.value
    found.root = memref.root
    found.offset = offset
    found.strides = strides
    found.shape = shape
    found.whole = (
        offset == 0 and equal(shape, found.root.shape) and equal(strides, row_major(shape))
    )
    return found


@cython.cfunc
def maker(memref: MemRef) -> Kernel:
    """The kernel that computes the root of a place, through merges; None for a value that exists."""
    kernel: Kernel = memref.value.kernel
    while kernel is not None and kernel.merged is not None:
        kernel = kernel.merged
    return kernel


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.cclass
class Kernel:
    """One launch: nodes computed together over one iteration shape, or one contraction, copy, scan, scatter.

    `shape` is the iteration space, `axes` the reduced ones (None: no reduction), `nodes` in order, `stores` those
    whose values leave the kernel. A `is_row_kernel` kernel goes on, element by element, from reductions of its own.
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
        names = " ".join(node.op.name for node in self.nodes)
        return f"<kernel {self.position} {list(self.shape)} {names}>"


@cython.final
@cython.no_gc
@cython.cclass
class Program:
    """The computation of one flush: nodes in order, their memory references, values, kernels in order, and the
    primitive that replaces each macro (`expanded`). `external` are values that exist, in order of first use; `kept`
    are values to be computed that a live node is, or is a view of, and `viewed` such values that exist already.
    `clones` compute values again, as `rematerialization` says; `remat_of` has their memrefs, and those of
    `clone_into_readers`, by the nodes whose values they are. Both are None if there are none.

    A node that has a memory reference has a number, kept in `Node.index` until another fingerprint or program is made.
    The passes before `fold_views` use numbers and order alone."""

    def __cinit__(self, device: Device = None):
        self.device = default_device() if device is None else device
        self.operands = empty()
        self.first = empty()
        self.roots = []
        self.start_anew()
        self.expanded = {}
        self.kernels = []
        self.values = []
        self.external = []
        self.kept = set()
        self.viewed = set()

    def __dealloc__(self):
        drop(cython.address(self.operands))
        drop(cython.address(self.first))

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def start_anew(self) -> cython.int:
        """Forget order, numbers and places."""
        self.stamp = next_stamp()
        self.order = []
        self.numbered = []
        self.memrefs = []
        self.operands.count = 0
        self.first.count = 0
        return 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def number(self, node: Node) -> cython.int:
        """Give a node the next number; its memory reference is set later."""
        node.index = self.stamp << 32 | len(self.memrefs)
        self.numbered.append(node)
        self.memrefs.append(None)
        return put(cython.address(self.first), -1)

    @cython.ccall
    def memref(self, node: Node) -> MemRef:
        """The memory reference of a node. Errors: KeyError."""
        if not has_memref(self, node):
            raise KeyError(node)
        return memref_of(self, node)

    @cython.ccall
    def reads(self, node: Node) -> list:
        """The memory references of a computed node's operands."""
        return [operand(self, node, number) for number in range(len(node.inputs))]

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def keep(self, node: Node) -> cython.int:
        """Note that a value, or a view of it, is held from outside."""
        memref_of(self, node).value.kept = True
        self.kept.add(node)
        return 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def add_kernel(self, kernel: Kernel) -> cython.int:
        """Let a kernel, behind the others, compute its nodes."""
        node: Node
        self.kernels.append(kernel)
        for node in kernel.nodes:
            memref_of(self, node).value.kernel = kernel
        return 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def set_memref(self, node: Node, memref: MemRef) -> cython.int:
        """Give a node its memory reference."""
        if not has_memref(self, node):
            self.number(node)
        self.memrefs[node.index & _LOW] = memref
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def connect(self, node: Node) -> cython.int:
        """List the memory references of a computed node's operands."""
        source: Node
        memref: MemRef
        self.first.words[node.index & _LOW] = self.operands.count
        for source in node.inputs:
            memref = memref_of(self, source)
            put(
                cython.address(self.operands),
                cython.cast(cython.longlong, cython.cast(cython.p_void, memref)),
            )
        return 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def connect_all(self) -> cython.int:
        """List them anew for all that is computed, where places have changed."""
        node: Node
        self.operands.count = 0
        for node in self.order:
            self.connect(node)
        return 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def add_external(self, value: ProgramValue) -> cython.int:
        """Give a value that exists a slot, behind those of the others."""
        value.slot = len(self.external)
        self.external.append(value.node)
        return 0

    @cython.ccall
    def new_value(self, node: Node, strides: tuple) -> MemRef:
        """The place of a node that is no part of another value."""
        value: ProgramValue = ProgramValue.__new__(ProgramValue)
        value.node = node
        self.values.append(value)
        memref: MemRef = MemRef.__new__(MemRef)
        memref.value = value
        memref.root = node
        memref.shape = node.shape
        memref.strides = strides
        memref.whole = equal(strides, row_major(node.shape))
        self.set_memref(node, memref)
        return memref

    @cython.ccall
    def release(self):
        """Let values forget their kernels, some of which lead back to them: nodes would be kept for ever."""
        value: ProgramValue
        for value in self.values:
            value.kernel = value.reader = value.last_reader = None


# -- row-major strides ---------------------------------------------------------------------------------------------


_line = cython.declare(tuple, (1,))
_planes = cython.declare(list, [None] * 1024)  # by the size of a row
_contiguous = cython.declare(dict, {})


@cython.cfunc
def row_major(shape: tuple) -> tuple:
    """Contiguous strides, remembered: as a rule the same object for the same shape."""
    rank: cython.Py_ssize_t = len(shape)
    if rank < 2:
        return _line if rank else ()
    if rank == 2:
        return _plane(shape)
    strides = _contiguous.get(shape)
    if strides is None:
        if len(_contiguous) > 10_000:
            _contiguous.clear()
        strides = _contiguous[shape] = contiguous_strides(shape)
    return strides


@cython.cfunc
def strides_of(node: Node) -> tuple:
    """The strides of a value that is computed."""
    return row_major(node.shape) if node.strides is None else node.strides


@cython.cfunc
def _plane(shape: tuple) -> tuple:
    """The strides of rows of one length."""
    size: cython.longlong = shape[1]
    known = _planes[size & 1023]
    if known is not None:
        length: cython.longlong = cython.cast(tuple, known)[0]
        if length == max(size, 1):
            return known
    known = _planes[size & 1023] = contiguous_strides(shape)
    return known
