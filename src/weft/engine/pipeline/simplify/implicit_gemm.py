# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Implicit GEMM: matrix products read their operands through a reshape, so windows of an image are never copied to
memory.

A reshape that strides cannot express is a copy. If matrix products alone read it, `fold_reshapes` leaves it out of the
collected program: the products walk its source, in several strided dimensions per axis. Such operands get memory
references whose strides are tuples of (size, stride) for each dimension of the reshaped value, which
`lowering.implicit_gemm` turns into launches. Packed panels, and so all bits, are the same as with the copy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import cython
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import MATMUL
from cython.cimports.weft.engine.pipeline.program_ir import Program

from weft._build.compiled import require
from weft.engine.devices.tuning import Products
from weft.engine.ir.primitive import VIEW
from weft.engine.ir.strides import contiguous_strides

if TYPE_CHECKING:
    from weft._typing import Shape

    Stride = (
        int | tuple[tuple[int, int], ...]
    )  # of an axis: one, or the dimensions (size, stride) that it walks
    Strides = tuple[Stride, ...]
    Operand = tuple[Shape, Strides]

require(__name__, cython.compiled)

Dims = tuple[tuple[int, ...], ...]  # (size, stride, stride ...), the outermost dimension first
DTYPES = ("float32", "float64")
DIMENSIONS = (
    4  # strided dimensions of an axis at most, as in `weft.engine.devices.cpu.gemm.pack_runs`
)
_view = cython.declare(cython.int, VIEW)


class GemmAxes(NamedTuple):
    """A product: dimensions of the batch (size, A, B, C), of m (size, A, C), n (size, B, C) and k (size, A, B)."""

    batch: Dims
    m: Dims
    n: Dims
    k: Dims

    def transposed(self) -> GemmAxes:
        """The product of the transposed matrices."""
        batch = tuple([(size, b, a, c) for size, a, b, c in self.batch])
        return GemmAxes(batch, self.n, self.m, tuple([(size, b, a) for size, a, b in self.k]))

    def sorted(self) -> GemmAxes:
        """The same axes with the columns in the order of their memory in B."""
        return self._replace(n=tuple(sorted(self.n, key=lambda dim: -abs(dim[1]))))


class GemmForm(NamedTuple):
    """An orientation, and how its operands are packed."""

    axes: GemmAxes
    transposed: bool
    a_step: int
    b_along_k: bool
    b_step: int


# -- which reshapes are left out -----------------------------------------------------------------------------------


def fold_reshapes(program: Program) -> None:
    """Leave out the reshapes that matrix products alone read, where windows overlap in at least one operand."""
    if not _has_views(program):
        return
    found = {node for node in program.order if node.op.kind == VIEW and _may_be(node)}
    found -= program.kept
    if not any([_overlaps(program, node) for node in found]):
        return
    readers: dict[Any, list[Any]] = {}  # of each reshape, in order
    for node in program.order:
        for source in node.inputs:
            root = program.memref(source).root
            if root in found:
                readers.setdefault(root, []).append(node)
    gone = _left_out(program, found & readers.keys(), readers)
    for root, products in readers.items():
        for source in [source for node in products for source in node.inputs]:
            if root in gone and program.memref(source).root is root:
                program.set_memref(source, nested(program, source, gone))
    program.order = [node for node in program.order if node not in gone]
    program.connect_all()


@cython.cfunc
def _has_views(program: Program) -> cython.bint:
    node: Node
    for node in program.order:
        if node.op.kind == _view:
            return True
    return False


def _may_be(node: Node) -> bool:
    return node.dtype.name in DTYPES and node.numel > 0


def _left_out(program: Program, found: set[Node], readers: dict[Node, list[Node]]) -> set[Any]:
    """Those all of whose readers are products that can walk them and are worth it. One that stays makes the readers of
    the others be looked at again."""
    while True:
        kept = {
            root
            for root in found
            if not all([_can_walk(program, node, found) for node in readers[root]])
        }
        if not kept:
            return found
        found = found - kept


def _can_walk(program: Program, node: Node, found: set[Node]) -> bool:
    """True if a reader is a product that can read its operands through the reshapes, at least one of which repeats
    elements."""
    if node.op.form != MATMUL or node.numel == 0:
        return False
    overlaps = False
    operands = []
    for source in node.inputs:
        memref = program.memref(source)
        if memref.root in found:
            overlaps = overlaps or _overlaps(program, memref.root)
            memref = nested(program, source, found)
            if memref is None:
                return False
        operands.append((source.shape, memref.strides))
    return overlaps and choose(program.device.tuning.products, node.shape, *operands) is not None


def _overlaps(program: Program, reshape: Node) -> bool:
    """True if the reshape repeats elements of its source."""
    below = program.memref(reshape.inputs[0])
    return bool(reshape.numel > below.root.numel)


def nested(program: Program, node: Node, found: set[Node]) -> Any:
    """The place of a view of a reshape in the reshape's source; None where its axes do not follow the dimensions."""
    memref = program.memref(node)
    if memref.root not in found:
        return memref
    source = memref.root.inputs[0]
    below = program.memref(source)
    if memref.offset != 0:
        return None
    strides = []
    for size, stride in zip(node.shape, memref.strides, strict=True):
        dims = split(size, stride, source.shape, below.strides)
        if dims is None:
            return None
        strides.append(dims)
    return below.within(below.offset, tuple(strides), node.shape)


def split(size: int, stride: int, shape: Shape, strides: Strides) -> Dims | None:
    """The dimensions (size, stride) in memory of an axis that has this size and stride in the row-major value of
    `shape`; None if strides cannot express them."""
    if size == 1 or stride == 0:
        return ((size, 0),)
    dims: list[tuple[int, int]] = []
    steps = contiguous_strides(shape)
    for have, step, place in zip(reversed(shape), reversed(steps), reversed(strides), strict=True):
        if have == 1 or stride >= step * have:
            continue
        if stride % step:
            return None
        factor = stride // step
        if have % factor:
            return None
        part = min(size, have // factor)
        if size % part:
            return None
        dims.append((part, place * factor))
        size //= part
        if size == 1:
            return tuple(reversed(dims))
        if part * factor != have:
            return None
        stride = step * have
    return None


# -- axes ----------------------------------------------------------------------------------------------------------


def choose(tuning: Products, shape: Shape, left: Operand, right: Operand) -> GemmForm | None:
    """The GEMM form of a product of the given shape; `left` and `right` are the operands' shapes and strides. None if
    an axis needs more than `DIMENSIONS`."""
    return _choose(tuning, shape, *left, *right)


@lru_cache(4096)
def _choose(
    tuning: Products, shape: Shape, a_shape: Shape, a: Strides, b_shape: Shape, b: Strides
) -> GemmForm | None:
    axes = _axes(shape, (a_shape, a), (b_shape, b))
    if axes is None:
        return None
    forms = [
        _form(tuning, way, transposed)
        for transposed, axes in ((False, axes), (True, axes.transposed()))
        for way in (axes, axes.sorted())
    ]
    forms = [form for form in forms if form is not None]
    return min(forms, key=lambda form: _cost(tuning, form)) if forms else None


def _axes(shape: Shape, left: Operand, right: Operand) -> GemmAxes | None:
    out = contiguous_strides(shape)
    (a_shape, a), (b_shape, b) = left, right
    m = _joined((shape[-2], a[-2], out[-2]))
    n = _joined((shape[-1], b[-1], out[-1]))
    k = _joined((a_shape[-1], a[-1], b[-2]))
    batch: list[tuple[int, ...]] = []
    for axis, size in enumerate(shape[:-2]):
        steps = [_lead(x, s, axis - len(shape)) for x, s in ((a_shape, a), (b_shape, b))]
        dims = _joined((size, *steps, out[axis]))
        if dims is None:
            return None
        batch += dims
    if m is None or n is None or k is None:
        return None
    batch = [dim for dim in batch if dim[0] > 1]
    # Where A is shared, the matrices of a batch are columns of one.
    outer = [(size, y, z) for size, x, y, z in batch if x == 0]
    rest = _collapsed([dim for dim in batch if dim[1] != 0])
    return GemmAxes(rest, _collapsed(m), _collapsed([*outer, *n]), _collapsed(k))


def _lead(shape: Shape, strides: Strides, axis: int) -> Any:
    """The stride of a leading dimension of an operand, which broadcasts."""
    if -axis > len(shape) or shape[axis] == 1:
        return 0
    return strides[axis]


def _joined(parts: tuple[Any, ...]) -> list[tuple[int, ...]] | None:
    """The common refinement of an axis that several operands divide into dimensions: (size, stride in each operand).
    None if they divide it at different points."""
    size, *given = parts
    operands = [list(x) if isinstance(x, tuple) else [(size, x)] for x in given]
    found: list[tuple[int, ...]] = []
    while any(operands):
        last = [dims.pop() for dims in operands]
        part = min([have for have, _ in last])
        if any([have % part for have, _ in last]):
            return None
        found.append((part, *[step for _, step in last]))
        for dims, (have, step) in zip(operands, last, strict=True):
            if have > part:
                dims.append((have // part, step * part))
        if any(operands) and not all(operands):
            return None
    return found[::-1]


def _collapsed(dims: list[tuple[int, ...]]) -> Dims:
    """Neighbouring dimensions that are one stride for all operands joined; those of size 1 left out."""
    found: list[tuple[int, ...]] = []
    for size, *strides in dims:
        if size == 1:
            continue
        if found and all([o == i * size for o, i in zip(found[-1][1:], strides, strict=True)]):
            found[-1] = (found[-1][0] * size, *strides)
        else:
            found.append((size, *strides))
    return tuple(found)


def _size(dims: Dims) -> int:
    return math.prod([dim[0] for dim in dims])


def _form(tuning: Products, axes: GemmAxes, transposed: bool) -> GemmForm | None:
    """The packing of both operands in one orientation; None if rows of C are not equally far apart, or an axis has too
    many dimensions."""
    if max(map(len, axes[1:])) > DIMENSIONS:
        return None
    rows = _collapsed([(size, z) for size, _, z in axes.m])
    if len(rows) > 1:
        return None
    line = _collapsed([(size, x) for size, x, _ in axes.k])
    a_step = -1 if _run(axes.k, 1, -1) > 1 else 1
    if not line or (len(line) == 1 and line[0][1] == 1):
        a_step = 0
    ways = [
        (_packing(tuning, _run(dims, operand, step), step, along_k), along_k, step)
        for along_k, dims, operand in ((False, axes.n, 1), (True, axes.k, 2))
        for step in (1, 2)
    ]
    _, along_k, step = min(ways)
    return GemmForm(axes, transposed, a_step, along_k, step)


def _run(dims: Dims, operand: int, step: int) -> int:
    """The number of consecutive elements of an axis that are `step` apart in memory."""
    return dims[-1][0] if dims and dims[-1][operand] == step else 1


def _packing(tuning: Products, run: int, step: int, transposing: bool) -> float:
    """An estimate of the cycles for packing one vector from runs, and for transposing it if it is stored along the
    other axis. Vectors begin at multiples of their length."""
    lanes = tuning.vector_elements
    runs = max(lanes // run, 1) if lanes % run == 0 or run % lanes == 0 else lanes / run + 1
    runs = min(runs, lanes)
    if runs > (4 if transposing else 8):
        return 2.0 * lanes
    reading = 1 + runs + (runs + 1 if step == 2 else 0)
    return reading + 4 if transposing else 1.5 * reading


def _cost(tuning: Products, form: GemmForm) -> float:
    """About how many cycles a product takes: multiplying, packing both operands, writing."""
    axes, lanes = form.axes, tuning.vector_elements
    m, n, k = [max(_size(dims), 1) for dims in axes[1:]]
    along = (axes.k, 2) if form.b_along_k else (axes.n, 1)
    packing_a = 3 if form.a_step == 0 else _packing(tuning, _run(axes.k, 1, form.a_step), 1, False)
    packing_b = _packing(tuning, _run(*along, form.b_step), form.b_step, form.b_along_k)
    groups = -(-m // tuning.packed_rows)
    columns = -(-n // (2 * lanes)) * 2 * lanes
    writing = 1 / 8 if axes.n and axes.n[-1][2] == 1 else 3
    vectors = (
        m * columns + m * packing_a * -(-n // tuning.unit_columns) + columns * packing_b * groups
    )
    return k * vectors / lanes + m * n * writing
