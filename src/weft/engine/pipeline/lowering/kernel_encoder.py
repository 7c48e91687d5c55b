# cython: language_level=3
"""The kernel encoder: a loop kernel in words, its operands, instructions and stores, and the steps of every region.

It takes the nodes of a fused kernel, or the regions of a copy, and orders their axes, and collapses them on demand.
`loop_kernel` finds the spec of these words.
"""

import cython
from cython.cimports.weft.engine.capi.growable_array import Array, drop, put, reserve
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.pipeline.lowering.kernel_encoder import (
    BODY,
    EPILOGUE,
    LOAD,
    OFFSET,
    PART,
    REDUCED,
    REGION,
)
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    operand,
    row_major,
)

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import REDUCE, SOURCE

require(__name__, cython.compiled)

REAL, VIRTUAL = -1, -2
_reduce = cython.declare(cython.int, REDUCE)
_source = cython.declare(cython.int, SOURCE)
_int64 = cython.declare(cython.int, dtypes.int64.code)
_real = cython.declare(cython.int, REAL)
_virtual = cython.declare(cython.int, VIRTUAL)


@cython.final
@cython.no_gc
@cython.cclass
class KernelEncoder:
    """One kernel on the way, or one phase of a row kernel: operands, instructions and stores in the words of its key,
    and the steps of every region over the loop axes. A region is REAL, VIRTUAL or the number of local memory. Nodes
    and kernel are those of one program, which outlives it."""

    def __dealloc__(self):
        drop(cython.address(self.dims))
        drop(cython.address(self.steps))
        drop(cython.address(self.operands))
        drop(cython.address(self.stores))
        drop(cython.address(self.body))
        drop(cython.address(self.reduces))
        drop(cython.address(self.epilogue))
        drop(cython.address(self.values))
        drop(cython.address(self.late))
        drop(cython.address(self.loaded))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def start(self, shape: tuple, reduced: tuple | None) -> cython.int:
        """Take a shape as the loop axes, the reduced ones last."""
        axis: cython.Py_ssize_t
        self.shape = shape
        self.rank = len(shape)
        self.wide = max(self.rank, 1)
        self.plain = reduced is None or len(reduced) == 0
        if not self.plain:
            self.reduced = len(reduced)
            kept = [axis for axis in range(self.rank) if axis not in reduced]
            self.axes = (*kept, *reduced)
        reserve(cython.address(self.dims), self.wide)
        for axis in range(self.rank):
            size: cython.longlong = shape[axis if self.axes is None else self.axes[axis]]
            self.dims.words[axis] = size
            if size == 1:
                self.plain = False
        self.dims.count = self.rank
        self.sources = []
        self.targets = []
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def region(
        self,
        regions: cython.pointer(Array),
        dtype: cython.int,
        kind: cython.int,
        value: cython.longlong,
        late: cython.bint,
    ) -> cython.Py_ssize_t:
        """Append an operand or a store; where among the steps its own are to be written."""
        reserve(regions, REGION)
        put(regions, dtype)
        put(regions, kind)
        put(regions, self.steps.count)
        put(regions, value)
        put(regions, late)
        reserve(cython.address(self.steps), self.wide)
        self.steps.count += self.wide
        return self.steps.count - self.wide

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def body_steps(self, at: cython.Py_ssize_t, shape: tuple, strides: tuple) -> cython.int:
        """An operand's strides over the loop axes, zero where it is broadcast."""
        steps: cython.p_longlong = self.steps.words + at
        place: cython.Py_ssize_t
        axis: cython.Py_ssize_t
        if self.plain and equal(shape, self.shape):
            for place in range(self.rank):
                steps[place] = strides[place]
            return 0
        lead: cython.Py_ssize_t = self.rank - len(shape)
        for place in range(self.rank):
            axis = (place if self.axes is None else self.axes[place]) - lead
            steps[place] = 0 if axis < 0 or shape[axis] == 1 else strides[axis]
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def epilogue_steps(self, at: cython.Py_ssize_t, shape: tuple, strides: tuple) -> cython.int:
        """The same for a value of the reduced space: parallel axes only."""
        steps: cython.p_longlong = self.steps.words + at
        target: cython.Py_ssize_t = len(self.kernel.reduced_shape)
        lead: cython.Py_ssize_t = target - len(shape)
        place: cython.Py_ssize_t
        axis: cython.Py_ssize_t
        for place in range(self.rank):
            axis = (self.axes[place] if target == self.rank else place) - lead
            if place >= self.rank - self.reduced or axis < 0 or shape[axis] == 1:
                steps[place] = 0
            else:
                steps[place] = strides[axis]
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def part(self, in_epilogue: cython.bint) -> cython.pointer(Array):
        """The code of the epilogue, or of the body."""
        return cython.address(self.epilogue) if in_epilogue else cython.address(self.body)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def code(
        self,
        in_epilogue: cython.bint,
        what: cython.int,
        dtype: cython.int,
        operand: cython.Py_ssize_t,
        arity: cython.Py_ssize_t,
    ) -> cython.longlong:
        """Append the head of an instruction, whose arguments are put behind it; its value."""
        code: cython.pointer(Array) = self.part(in_epilogue)
        reserve(code, 4 + arity)
        put(code, what)
        put(code, dtype)
        put(code, operand)
        put(code, arity)
        if in_epilogue:
            self.epilogue_count += 1
            return cython.cast(cython.longlong, EPILOGUE) << PART | self.epilogue_count - 1
        self.body_count += 1
        return self.body_count - 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def load(self, memref: MemRef, in_epilogue: cython.bint) -> cython.longlong:
        """The value of an operand that is loaded from memory."""
        index: cython.Py_ssize_t
        for index in range(len(self.sources)):
            if self.loaded.words[2 * index] == in_epilogue and same_memref(
                self.sources[index], memref
            ):
                return self.loaded.words[2 * index + 1]
        dtype: cython.int = memref.root.dtype.code
        number: cython.Py_ssize_t = self.operands.count // REGION
        at = self.region(cython.address(self.operands), dtype, _real, 0, False)
        if in_epilogue:
            self.epilogue_steps(at, memref.shape, memref.strides)
        else:
            self.body_steps(at, memref.shape, memref.strides)
        value: cython.longlong = self.code(in_epilogue, LOAD, dtype, number, 0)
        self.sources.append(memref)
        put(cython.address(self.loaded), in_epilogue)
        put(cython.address(self.loaded), value)
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def argument(self, memref: MemRef, in_epilogue: cython.bint) -> cython.longlong:
        """The value of an operand, made here or loaded."""
        known: cython.longlong = self.late_value_of(memref.root) if in_epilogue else -1
        if known < 0:
            known = self.value_of(memref.root)
        if known >= 0 and (known >> PART != BODY or not in_epilogue):
            return known
        return self.load(memref, in_epilogue)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, node: Node) -> cython.int:
        """A node's instruction, or its reduction."""
        extra = self.kernel.extra
        late: cython.bint = self.kernel.axes is not None and extra is not None and node in extra
        arity: cython.Py_ssize_t = len(node.inputs)
        place: cython.Py_ssize_t
        value: cython.longlong
        if node.op.kind == _reduce:
            value = self.argument(operand(self.program, node, 0), False)
            number: cython.longlong = self.reduces.count // 3
            put(cython.address(self.reduces), node.op.code)
            put(cython.address(self.reduces), value)
            put(cython.address(self.reduces), node.dtype.code)
            return self.name(node, cython.cast(cython.longlong, REDUCED) << PART | number)
        if node.op.kind == _source:
            skip: cython.Py_ssize_t = node.params[1]
            virtual: cython.Py_ssize_t = self.operands.count // REGION
            at = self.region(cython.address(self.operands), _int64, _virtual, 0, False)
            strides: tuple = (0,) * skip + row_major(node.shape[skip:])
            self.body_steps(at, node.shape, strides)
            return self.name(node, self.code(late, OFFSET, _int64, virtual, 0))
        assert arity <= 8, "an elementwise row has few operands"
        arguments: cython.longlong[8]
        for place in range(arity):
            arguments[place] = self.argument(operand(self.program, node, place), late)
        value = self.code(late, node.op.code, node.dtype.code, -1, arity)
        for place in range(arity):
            put(self.part(late), arguments[place])
        return self.name(node, value)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def store(self, node: Node) -> cython.int:
        """Write a node's value to its memory."""
        value: cython.longlong = self.value_of(node)
        late: cython.bint = value >> PART != BODY
        at = self.region(cython.address(self.stores), node.dtype.code, _real, value, late)
        if late:
            self.epilogue_steps(at, node.shape, row_major(node.shape))
        else:
            self.body_steps(at, node.shape, row_major(node.shape))
        self.targets.append(node)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def name(self, node: Node, value: cython.longlong) -> cython.int:
        """Note the value of a node."""
        return _name_in(cython.address(self.values), node, value)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def name_late(self, node: Node, value: cython.longlong) -> cython.int:
        """Note what the epilogue has as the value of a node of an earlier phase."""
        return _name_in(cython.address(self.late), node, value)

    @cython.cfunc
    @cython.exceptval(check=False)
    def value_of(self, node: Node) -> cython.longlong:
        """The value of a node that this kernel computes, or -1."""
        return _value_in(cython.address(self.values), node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def late_value_of(self, node: Node) -> cython.longlong:
        """The value of an earlier phase that the epilogue has, or -1."""
        return _value_in(cython.address(self.late), node)


@cython.cfunc
def new_encoder(program: Program, kernel: Kernel) -> KernelEncoder:
    """An empty builder over the axes of a kernel."""
    encoder: KernelEncoder = KernelEncoder.__new__(KernelEncoder)
    encoder.device = program.device
    encoder.program = program
    encoder.kernel = kernel
    encoder.start(kernel.shape, kernel.axes)
    return encoder


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _name_in(values: cython.pointer(Array), node: Node, value: cython.longlong) -> cython.int:
    put(values, cython.cast(cython.longlong, cython.cast(cython.p_void, node)))
    return put(values, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value_in(values: cython.pointer(Array), node: Node) -> cython.longlong:
    place: cython.longlong = cython.cast(cython.longlong, cython.cast(cython.p_void, node))
    index: cython.Py_ssize_t = values.count - 2
    while index >= 0:
        if values.words[index] == place:
            return values.words[index + 1]
        index -= 2
    return -1


@cython.cfunc
@cython.inline
def same_memref(one: MemRef, other: MemRef) -> cython.bint:
    """True if two memory references are one region of one value."""
    return one is other or (
        one.root is other.root
        and one.offset == other.offset
        and equal(one.strides, other.strides)
        and equal(one.shape, other.shape)
    )


# -- axes ----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def collapse(encoders: list) -> cython.int:
    """Drop axes of size 1 and join neighbours that are one stride for everybody, in all phases together."""
    encoder: KernelEncoder = encoders[0]
    rank: cython.Py_ssize_t = encoder.rank
    if rank == 1 and encoder.dims.words[0] != 1:
        return 0
    first_reduced: cython.Py_ssize_t = rank - encoder.reduced
    left: cython.Py_ssize_t = 0
    reduced: cython.int = 0
    was_reduced: cython.bint = False
    axis: cython.Py_ssize_t
    for axis in range(rank):
        size: cython.longlong = encoder.dims.words[axis]
        is_reduced: cython.bint = axis >= first_reduced
        if size == 1:
            continue
        if left > 0 and was_reduced == is_reduced and _is_one(encoders, left - 1, axis, size):
            _move(encoders, axis, left - 1, encoder.dims.words[left - 1] * size)
        else:
            _move(encoders, axis, left, size)
            left += 1
            reduced += is_reduced
        was_reduced = is_reduced
    if left == 0 or (encoder.reduced > 0 and reduced == 0):
        _move(encoders, -1, left, 1)
        left += 1
        reduced = encoder.reduced > 0
    for encoder in encoders:
        encoder.rank = encoder.dims.count = left
        encoder.reduced = reduced
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _is_one(
    encoders: list, outer: cython.Py_ssize_t, inner: cython.Py_ssize_t, size: cython.longlong
) -> cython.bint:
    """True if two axes are one stride in every region."""
    encoder: KernelEncoder
    place: cython.Py_ssize_t
    for encoder in encoders:
        place = 0
        while place < encoder.steps.count:
            if encoder.steps.words[place + outer] != encoder.steps.words[place + inner] * size:
                return False
            place += encoder.wide
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _move(
    encoders: list, source: cython.Py_ssize_t, target: cython.Py_ssize_t, size: cython.longlong
) -> cython.void:
    """Let an axis stand at another place, with a size; the axis -1 has no stride."""
    encoder: KernelEncoder
    place: cython.Py_ssize_t
    for encoder in encoders:
        encoder.dims.words[target] = size
        place = 0
        while place < encoder.steps.count:
            encoder.steps.words[place + target] = (
                0 if source < 0 else encoder.steps.words[place + source]
            )
            place += encoder.wide


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_outer_axis(encoder: KernelEncoder) -> cython.int:
    """Let the one axis that is left be the inner one of two."""
    _move([encoder], 0, 1, encoder.dims.words[0])
    _move([encoder], -1, 0, 1)
    encoder.rank = encoder.dims.count = 2
    return 0
