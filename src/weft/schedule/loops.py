# cython: language_level=3
"""Lowering of loop kernels: axes ordered and collapsed, stride classes, instructions, and the cache of specs.

In comes a fused kernel; out go its launches. What is specialised on (structure, dtypes, ranks, stride classes) makes
the key; sizes and strides become arguments. The loop IR's own lowering to LLVM is codegen's.
"""

import hashlib

import cython
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.schedule.collect import row_major
from cython.cimports.weft.schedule.hashing import equal
from cython.cimports.weft.schedule.lower import KernelSpec, Launch, Lowering
from cython.cimports.weft.schedule.records import Kernel, Place, Program

from weft._compiled import require
from weft.graph.rows import REDUCE, SOURCE

require(__name__, cython.compiled)

_reduce = REDUCE
_source = SOURCE
_specs = {}
_KINDS = {"amax": "max", "amin": "min"}
BLOCK = 4096
REAL, VIRTUAL = -1, -2
_real = REAL
_virtual = VIRTUAL


@cython.cclass
class Builder:
    """One kernel on the way, or one phase of a staged one: operands, instructions and stores by their parts of the
    key. `operands` are (dtype name, strides over loop axes, kind), `stores` (dtype name, value, strides, stage, kind);
    the kind is REAL, VIRTUAL or the number of local memory."""

    def __cinit__(self, program: Program, kernel: Kernel):
        self.program = program
        self.kernel = kernel
        shape: tuple = kernel.shape
        reduced: tuple = () if kernel.axes is None else kernel.axes
        self.axes = list(range(len(shape)))
        if reduced:
            self.axes = [axis for axis in self.axes if axis not in reduced] + list(reduced)
        self.reduced = len(reduced)
        self.dims = [shape[axis] for axis in self.axes] if reduced else list(shape)
        self.plain = not reduced and 1 not in shape
        self.operands = []
        self.sources = []
        self.loaded = []
        self.body = []
        self.reduces = []
        self.epilogue = []
        self.stores = []
        self.targets = []
        self.ids = {}
        self.late = {}

    @cython.cfunc
    def body_strides(self, shape: tuple, strides: tuple) -> list:
        """An operand's strides over the loop axes, zero where it is broadcast."""
        if self.plain and equal(shape, self.kernel.shape):
            return list(strides)
        lead: cython.Py_ssize_t = len(self.kernel.shape) - len(shape)
        result: list = []
        axis: cython.Py_ssize_t
        for axis in self.axes:
            if axis < lead or shape[axis - lead] == 1:
                result.append(0)
            else:
                result.append(strides[axis - lead])
        return result

    @cython.cfunc
    def epilogue_strides(self, shape: tuple, strides: tuple) -> list:
        """The same for a value of the reduced space: parallel axes only."""
        target: tuple = self.kernel.reduced_shape
        lead: cython.Py_ssize_t = len(target) - len(shape)
        keepdim: cython.bint = len(target) == len(self.kernel.shape)
        result: list = []
        position: cython.Py_ssize_t
        for position in range(len(self.axes) - self.reduced):
            axis = self.axes[position] if keepdim else position
            if axis < lead or shape[axis - lead] == 1:
                result.append(0)
            else:
                result.append(strides[axis - lead])
        return result + [0] * self.reduced

    @cython.cfunc
    def load(self, code: list, source: Node, place: Place, in_epilogue: cython.bint) -> tuple:
        """The value of an operand that lies in memory."""
        index: cython.Py_ssize_t
        for index in range(len(self.loaded)):
            shape, late, known = cython.cast(tuple, self.loaded[index])
            if (
                late == in_epilogue
                and same_place(self.sources[index], place)
                and equal(shape, source.shape)
            ):
                return known
        strides = (
            self.epilogue_strides(source.shape, place.strides)
            if in_epilogue
            else self.body_strides(source.shape, place.strides)
        )
        name: str = place.root.dtype.name
        self.operands.append((name, strides, _real))
        self.sources.append(place)
        code.append(("load", name, (), len(self.operands) - 1))
        value = ("e" if in_epilogue else "b", len(code) - 1)
        self.loaded.append((source.shape, in_epilogue, value))
        return value

    @cython.cfunc
    def argument(self, source: Node, in_epilogue: cython.bint) -> tuple:
        place: Place = self.program.places[source]
        known = self.late.get(place.root) if in_epilogue else None
        if known is None:
            known = self.ids.get(place.root)
        if known is not None and (known[0] != "b" or not in_epilogue):
            return known
        return self.load(self.epilogue if in_epilogue else self.body, source, place, in_epilogue)

    @cython.cfunc
    def add(self, node: Node) -> cython.void:
        in_epilogue: cython.bint = (
            self.kernel.axes is not None
            and self.kernel.extra is not None
            and node in self.kernel.extra
        )
        if node.row.kind == _reduce:
            value = self.argument(node.inputs[0], False)
            self.reduces.append((_KINDS.get(node.row.name, node.row.name), value, node.dtype.name))
            self.ids[node] = ("r", len(self.reduces) - 1)
            return
        code: list = self.epilogue if in_epilogue else self.body
        if node.row.kind == _source:
            skip: cython.Py_ssize_t = node.params[1]
            strides = (0,) * skip + row_major(node.shape[skip:])
            self.operands.append(("int64", self.body_strides(node.shape, strides), _virtual))
            code.append(("offset", "int64", (), len(self.operands) - 1))
        else:
            arguments: list = []
            for source in node.inputs:
                arguments.append(self.argument(source, in_epilogue))
            code.append((node.row.name, node.dtype.name, tuple(arguments), -1))
        self.ids[node] = ("e" if in_epilogue else "b", len(code) - 1)

    @cython.cfunc
    def store(self, node: Node) -> cython.void:
        value = self.ids[node]
        strides: tuple = row_major(node.shape)
        in_epilogue: cython.bint = value[0] != "b"
        self.stores.append(
            (
                node.dtype.name,
                value,
                self.epilogue_strides(node.shape, strides)
                if in_epilogue
                else self.body_strides(node.shape, strides),
                in_epilogue,
                _real,
            )
        )
        self.targets.append(node)

    @cython.cfunc
    def collapse(self) -> cython.void:
        """Drop axes of size 1 and join neighbours that are one stride for everybody."""
        if len(self.dims) == 1 and self.dims[0] != 1:
            return
        self.dims, kept, self.reduced = collapsed(self.dims, self.strides(), self.reduced)
        self.restride(kept)

    @cython.cfunc
    def strides(self) -> list:
        """The strides of operands, then of stores."""
        return [operand[1] for operand in self.operands] + [store[2] for store in self.stores]

    @cython.cfunc
    def restride(self, kept: list) -> cython.void:
        """Replace them."""
        count: cython.Py_ssize_t = len(self.operands)
        self.operands = [
            (operand[0], kept[i], operand[2]) for i, operand in enumerate(self.operands)
        ]
        self.stores = [
            (store[0], store[1], kept[count + i], store[3], store[4])
            for i, store in enumerate(self.stores)
        ]


@cython.cfunc
@cython.inline
def same_place(one: Place, other: Place) -> cython.bint:
    """Whether two places are one region of one value, but for its shape."""
    return one is other or (
        one.root is other.root and one.offset == other.offset and equal(one.strides, other.strides)
    )


@cython.cfunc
def collapsed(sizes: list, rows: list, reduced_axes: cython.int) -> tuple:
    """Extents, strides and the number of reduced axes that are left."""
    dims: list = []
    kept: list = [[] for _ in rows]
    reduced: cython.int = 0
    first_reduced: cython.Py_ssize_t = len(sizes) - reduced_axes
    previous_reduced: cython.bint = False
    axis: cython.Py_ssize_t
    for axis in range(len(sizes)):
        size = sizes[axis]
        is_reduced: cython.bint = axis >= first_reduced
        if size == 1:
            continue
        merge: cython.bint = len(dims) > 0 and previous_reduced == is_reduced
        if merge:
            for number in range(len(rows)):
                if kept[number][len(dims) - 1] != rows[number][axis] * size:
                    merge = False
                    break
        if merge:
            dims[len(dims) - 1] *= size
            for number in range(len(rows)):
                kept[number][len(dims) - 1] = rows[number][axis]
        else:
            dims.append(size)
            for number in range(len(rows)):
                kept[number].append(rows[number][axis])
            if is_reduced:
                reduced += 1
        previous_reduced = is_reduced
    if (reduced_axes and reduced == 0) or not dims:
        dims.append(1)
        for strides in kept:
            strides.append(0)
        reduced = 1 if reduced_axes else 0
    return dims, kept, reduced


_CLASSES = ("0", "1", "s")
_OF_ONE = cython.declare(tuple, _CLASSES)
_OF_TWO = cython.declare(tuple, tuple([one + two for one in _CLASSES for two in _CLASSES]))


@cython.cfunc
@cython.inline
def _class_of(stride: cython.longlong) -> cython.Py_ssize_t:
    return stride if 0 <= stride <= 1 else 2


@cython.cfunc
def classes(strides: list) -> str:
    """The stride class of each axis."""
    if len(strides) == 1:
        return _OF_ONE[_class_of(strides[0])]
    if len(strides) == 2:
        return _OF_TWO[3 * _class_of(strides[0]) + _class_of(strides[1])]
    return "".join([_OF_ONE[_class_of(stride)] for stride in strides])


_WHOLE = cython.declare(
    cython.int, 100
)  # how much more an operand counts that is read as a whole than a line of one


@cython.cfunc
def _vector_axis(builder: Builder) -> cython.int:
    """Across outputs where the reduced inner axis is strided and the last parallel one is unit, else along."""
    rank: cython.Py_ssize_t = len(builder.dims)
    if builder.reduced == 0 or rank == builder.reduced:
        return rank - 1
    outer: cython.Py_ssize_t = rank - builder.reduced - 1
    across: cython.int = 0
    along: cython.int = 0
    for _name, strides, kind in builder.operands:
        if kind != _real:
            continue
        if strides[rank - 1] == 1:
            along += _WHOLE if strides[outer] != 0 else 1
        elif strides[rank - 1] != 0 and strides[outer] == 1:
            across += _WHOLE
    return outer if across > along else rank - 1


def prepare(program: Program, kernel: Kernel):
    """Work out the spec of an elementwise and reduce kernel; None where it has nothing to do."""
    builder: Builder = Builder(program, kernel)
    kernel.prepared = None
    if not kernel.stores or 0 in builder.dims[: len(builder.dims) - builder.reduced]:
        return None
    node: Node
    for node in kernel.nodes:
        builder.add(node)
    for node in kernel.stores:
        builder.store(node)
    builder.collapse()
    builder.spec = find_spec(builder)
    kernel.prepared = builder
    return builder.spec


def prepared_spec(kernel: Kernel):
    """The spec of a prepared kernel."""
    builder: Builder = kernel.prepared
    return builder.spec


@cython.cfunc
def lower_loops(lowering: Lowering, kernel: Kernel) -> cython.void:
    """Launch a prepared kernel."""
    if kernel.prepared is None:
        return
    builder: Builder = kernel.prepared
    kernel.prepared = (
        None  # the two refer to each other: a cycle would keep nodes until a collection
    )
    place: Place
    node: Node
    pointers: list = []
    for place in builder.sources:
        pointers.append(lowering.pointer(place, place.root.dtype.itemsize))
    for node in builder.targets:
        pointers.append((lowering.plan.slots[node], 0))
    launch_loops(lowering, builder, pointers)


@cython.cfunc
def find_spec(builder: Builder) -> KernelSpec:
    rank: cython.Py_ssize_t = len(builder.dims)
    axis: cython.int = _vector_axis(builder)
    key = loop_key(builder, rank, builder.reduced, axis)
    spec = _specs.get(key)
    if spec is None:
        spec = _specs[key] = _new_spec(key, builder)
    return spec


@cython.cfunc
def loop_key(
    builder: Builder, rank: cython.Py_ssize_t, reduced: cython.int, axis: cython.int
) -> tuple:
    """What a kernel, or a phase of one, is specialised on."""
    return (
        "loop",
        rank,
        reduced,
        axis,
        tuple([(o[0], classes(o[1]), o[2]) for o in builder.operands]),
        tuple(builder.body),
        tuple(builder.reduces),
        tuple(builder.epilogue),
        tuple([(s[0], s[1], classes(s[2]), s[3], s[4]) for s in builder.stores]),
    )


@cython.cfunc
def launch_loops(lowering: Lowering, builder: Builder, pointers: list) -> cython.void:
    spec: KernelSpec = builder.spec
    arguments: list = list(builder.dims)
    for operand in builder.operands:
        arguments.extend(operand[1])
    for store in builder.stores:
        arguments.extend(store[2])
    rank: cython.Py_ssize_t = len(builder.dims)
    total: cython.longlong = 1
    for size in builder.dims:
        total *= size
    work: cython.longlong = total * (len(builder.body) + 1) // 8 + 1
    units: cython.longlong = builder.dims[0]
    grain: cython.longlong = 1024 if rank == 1 else max(1, 1024 * units // max(total, 1))
    if builder.reduced == rank:
        units = (total + BLOCK - 1) // BLOCK
        nbytes: cython.longlong = max(units, 1) * 16 * len(builder.reduces) * 2 + 64
        pointers.append((lowering.temporary(nbytes), 0))
        lowering.launches.append(
            Launch(spec, pointers, arguments, units, 4, work, lowering.current)
        )
        lowering.launches.append(Launch(spec, pointers, arguments, 1, 1, 0, lowering.current, True))
        return
    if builder.reduced and axis_is_across(builder) and rank - builder.reduced == 1:
        grain = 64
    lowering.launches.append(
        Launch(spec, pointers, arguments, units, grain, work, lowering.current)
    )


@cython.cfunc
def axis_is_across(builder: Builder) -> cython.bint:
    return _vector_axis(builder) < len(builder.dims) - 1


def symbol_of(key, names) -> str:
    """A name for the kernel of a key: readable, and the same in every process."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()
    return f"{'_'.join(names)[:40] or 'copy'}_{digest}"


def _new_spec(key, builder: Builder):
    """A spec for a new key; the loop IR is built only when the spec is compiled."""
    names = [
        item[0]
        for item in (*builder.body, *builder.reduces, *builder.epilogue)
        if item[0] not in ("load", "offset")
    ]
    name = symbol_of(key, names)
    symbols = (name, name + "_final") if builder.reduced == len(builder.dims) else (name,)

    def build(symbol):
        from weft.schedule.specs import loop_text

        return loop_text(key, symbol)

    spec: KernelSpec = KernelSpec(name, build, symbols)
    spec.fused = len(names) > 1
    return spec


def kernel_specs():
    """All loop kernels met so far: key -> KernelSpec."""
    return _specs
