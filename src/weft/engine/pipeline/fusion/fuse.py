# cython: language_level=3
"""Fuse: from nodes in order to kernels in order.

In comes a collected Program; out go its kernels: chains of elementwise nodes over one iteration space, with the
reductions of that space and the elementwise nodes of the reduced space behind them, and over rows also what goes on
from those (a staged kernel: softmax is one); everything else is a kernel of its own. A kernel comes after the kernels
that it reads. Fusion never changes bits: every value rounds to its own dtype inside a kernel as it does in memory.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.pipeline.fusion.clones import make_twins
from cython.cimports.weft.engine.pipeline.fusion.column_sums import is_over_rows, take_sums
from cython.cimports.weft.engine.pipeline.fusion.into_reader import sink
from cython.cimports.weft.engine.pipeline.fusion.reductions import join_reduce
from cython.cimports.weft.engine.pipeline.fusion.rematerialization import recompute
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    Place,
    Program,
    Value,
    maker,
    operand,
    place_of,
    row_major,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE, REDUCE, SOURCE
from weft.errors import VerificationError

require(__name__, cython.compiled)

MAX_NODES = 32
MAX_STAGED = 64  # of a staged kernel, whose phases are loops of their own
LONGEST_ROW = 16384  # of a staged kernel, as in `weft.engine.kernels.loop_ir`
FEWEST_ROWS = 16  # fewer are not worth giving up the freedom to cut rows between threads
_longest_row = cython.declare(cython.longlong, LONGEST_ROW)
_fewest_rows = cython.declare(cython.longlong, FEWEST_ROWS)
_max_nodes = MAX_NODES
_max_staged = cython.declare(cython.int, MAX_STAGED)
_elementwise = ELEMENTWISE
_reduce = REDUCE
_source = SOURCE


def set_fusion(enabled: bool):
    """Fuse chains (the default), or give every node a kernel of its own. Bits are the same; returns the old setting."""
    global _max_nodes
    previous = _max_nodes > 1
    _max_nodes = MAX_NODES if enabled else 1
    return previous


def fuse(program: Program) -> Program:
    """Assign every node of the order to a kernel, then say which values leave each; again where some of them are better
    computed twice."""
    _form(program)
    if _max_nodes > 1 and recompute(program):
        _form(program)
    if _max_nodes > 1 and take_sums(program, _max_staged):
        mark_stores(program)
    if _max_nodes > 1 and make_twins(program, _max_nodes):
        mark_stores(program)
    return program


@cython.cfunc
def _form(program: Program) -> cython.void:
    """Kernels for the order as it stands."""
    kernels: list = []
    node: Node
    for node in _numbers_first(program):
        kernel: Kernel = None
        if node.row.kind == _elementwise or node.row.kind == _source:
            kernel = _join_elementwise(program, kernels, node)
        elif node.row.kind == _reduce:
            kernel = join_reduce(program, kernels, node)
        else:
            kernel = Kernel(node.row.kind, node.shape)
            append_kernel(kernels, kernel)
        kernel.nodes.append(node)
        place_of(program, node).value.kernel = kernel
        _note_consumers(program, kernel, node)
    program.kernels = [k for k in kernels if k is not None]
    mark_stores(program)
    if _max_nodes > 1 and sink(program, _max_nodes):
        mark_stores(program)


@cython.cfunc
def _numbers_first(program: Program) -> list:
    """The order, in front of it the single elements that are computed from existing ones alone, as a mean's factor is:
    what reads one need not wait for it."""
    first: list = []
    known: set = set()
    node: Node
    for node in program.order:
        if node.numel == 1 and node.row.kind == _elementwise and _is_constant(program, node, known):
            first.append(node)
            known.add(node)
    return first + [node for node in program.order if node not in known] if first else program.order


@cython.cfunc
def _is_constant(program: Program, node: Node, known: set) -> cython.bint:
    """Whether a node reads single elements that exist, or that are known to be computed from such."""
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        root: Node = operand(program, node, number).root
        if root.numel != 1 or (root.state == PENDING and root not in known):
            return False
    return True


@cython.cfunc
def room(kernel: Kernel) -> cython.int:
    """How many nodes a kernel may have yet."""
    most: cython.int = _max_staged if kernel.staged and _max_nodes > 1 else _max_nodes
    return most - cython.cast(cython.int, len(kernel.nodes))


@cython.cfunc
def append_kernel(kernels: list, kernel: Kernel) -> cython.void:
    kernel.position = len(kernels)
    kernels.append(kernel)


@cython.cfunc
def find(program: Program, node: Node) -> Kernel:
    """The kernel that computes a node, through merges; None for a value that exists."""
    return maker(place_of(program, node))


@cython.cfunc
def _join_elementwise(program: Program, kernels: list, node: Node) -> Kernel:
    """The kernel of the latest input, where the iteration spaces agree; merged with the other inputs' kernels
    where nothing stands between them; otherwise a new one."""
    best: Kernel = None
    floor: cython.int = -1
    candidates: list = []
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        place: Place = operand(program, node, number)
        kernel: Kernel = maker(place)
        if kernel is None:
            continue
        first: cython.bint = program.twins is not None and _is_first_twin(program, node, place.root)
        if not first and _reads_inside(program, kernel, node, place):
            if kernel not in candidates:
                candidates.append(kernel)
        elif kernel.position > floor:
            floor = kernel.position
    for kernel in candidates:
        if kernel.position > floor and (best is None or kernel.position > best.position):
            best = kernel
    if best is None:
        best = Kernel(_elementwise, node.shape)
        append_kernel(kernels, best)
        return best
    if best.axes is not None and not best.staged:
        best.staged = _goes_on(program, best, node)
    if len(candidates) > 1:
        candidates.sort(key=_position_of, reverse=True)
    for kernel in candidates:
        if kernel is best or _merge(kernels, kernel, best):
            continue
        if kernel.position > floor and raise_kernel(program, kernels, kernel, best):
            best = kernel
            best.staged = best.staged or _goes_on(program, best, node)
        else:  # it is read by `best`, which cannot rise above it
            floor = max(floor, kernel.position)
    return best


@cython.cfunc
def _is_first_twin(program: Program, node: Node, root: Node) -> cython.bint:
    """Whether a twin reads a value that is none: the kernel of that is the one that it is not to be computed in."""
    return node in program.twins and root not in program.twins


def _position_of(kernel: Kernel):
    return kernel.position


@cython.cfunc
def _reads_inside(program: Program, kernel: Kernel, node: Node, place: Place) -> cython.bint:
    """Whether an elementwise node may read an input within the kernel that computes it."""
    if place.whole and equal(place.shape, node.shape):
        return _accepts(kernel, node, place.root)
    return (
        kernel.open
        and room(kernel) > 0
        and kernel.shape == node.shape
        and is_row_value(kernel, place.root)
        and _by_row(kernel, place)
        and (kernel.staged or _may_be_staged(program, kernel))
    )


@cython.cfunc
def _goes_on(program: Program, kernel: Kernel, node: Node) -> cython.bint:
    """Whether an elementwise node of the whole space reads reductions of its kernel."""
    number: cython.Py_ssize_t
    if not equal(node.shape, kernel.shape):
        return False
    for number in range(len(node.inputs)):
        place: Place = operand(program, node, number)
        if maker(place) is kernel and is_row_value(kernel, place.root):
            return True
    return False


@cython.cfunc
def is_row_value(kernel: Kernel, root: Node) -> cython.bint:
    """Whether a kernel computes one of these for each of its rows: a reduction, or what goes on from one."""
    if kernel.axes is None or is_over_rows(kernel, root):
        return False
    return root.row.kind == _reduce or in_epilogue(kernel, root)


@cython.cfunc
def _by_row(kernel: Kernel, place: Place) -> cython.bint:
    """Whether a region of a value of the reduced space is that value for each element of its row."""
    shape: tuple = place.shape
    rank: cython.Py_ssize_t = len(kernel.shape)
    if place.offset != 0 or len(shape) != rank or place.root.shape != kernel.reduced_shape:
        return False
    if kernel.axes != (rank - 1,):
        return False
    if shape[rank - 1] != 1 and place.strides[rank - 1] != 0:
        return False
    strides: tuple = row_major(kernel.reduced_shape)
    axis: cython.Py_ssize_t
    for axis in range(rank - 1):
        if shape[axis] != kernel.shape[axis]:
            return False
        if shape[axis] != 1 and place.strides[axis] != strides[axis]:
            return False
    return True


@cython.cfunc
def _may_be_staged(program: Program, kernel: Kernel) -> cython.bint:
    """Whether a kernel reduces rows that local memory can hold, enough of them, and reads along them."""
    rank: cython.Py_ssize_t = len(kernel.shape)
    if kernel.axes is None or rank < 2 or kernel.axes != (rank - 1,):
        return False
    length: cython.longlong = kernel.shape[rank - 1]
    if length < 2 or length > _longest_row:
        return False
    rows: cython.longlong = 1
    axis: cython.Py_ssize_t
    for axis in range(rank - 1):
        rows *= cython.cast(cython.longlong, kernel.shape[axis])
    if rows < _fewest_rows:
        return False
    node: Node
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            place: Place = operand(program, node, number)
            if (
                len(place.strides) == rank
                and place.strides[rank - 1] > 1
                and place.shape[rank - 1] > 1
            ):
                return False
    return True


@cython.cfunc
def _accepts(kernel: Kernel, node: Node, root: Node) -> cython.bint:
    """Whether an elementwise node may join the kernel that computes its input `root`."""
    if not kernel.open or room(kernel) <= 0:
        return False
    if kernel.axes is None:
        return kernel.shape == node.shape
    if root.row.kind == _reduce or in_epilogue(kernel, root):
        return kernel.reduced_shape == node.shape and kernel.reduced_shape != kernel.shape
    return kernel.shape == node.shape


@cython.cfunc
def in_epilogue(kernel: Kernel, node: Node) -> cython.bint:
    return (
        kernel.axes is not None
        and node.row.kind != _reduce
        and kernel.extra is not None
        and node in kernel.extra
    )


@cython.cfunc
def _merge(kernels: list, early: Kernel, late: Kernel) -> cython.bint:
    """Compute `early` inside `late` where nobody between them reads it, and `late` only element by element."""
    if early.axes is not None or late.axes is not None or early.shape != late.shape:
        return False
    if early.position > late.position or early.first_consumer < late.position:
        return False
    if early.first_indirect <= late.position:
        return False
    if len(early.nodes) + len(late.nodes) > _max_nodes:
        return False
    late.nodes = early.nodes + late.nodes
    late.last_consumer = max(late.last_consumer, early.last_consumer)
    late.first_indirect = min(late.first_indirect, early.first_indirect)
    if early.first_consumer > late.position:
        late.first_consumer = min(late.first_consumer, early.first_consumer)
    elif (
        early.last_consumer > late.position
    ):  # read by `late`, and by kernels behind it: which is first, is not known
        late.first_consumer = late.position + 1
    early.merged = late
    kernels[early.position] = None
    return True


@cython.cfunc
def raise_kernel(program: Program, kernels: list, early: Kernel, late: Kernel) -> cython.bint:
    """Compute `late` inside `early` where all that it reads is there by then, or made by `early` element by element."""
    if late.axes is not None or early.shape != late.shape or early.position > late.position:
        return False
    if not early.open or len(late.nodes) >= room(early):
        return False
    node: Node
    number: cython.Py_ssize_t
    for node in late.nodes:
        for number in range(len(node.inputs)):
            place: Place = operand(program, node, number)
            below: Kernel = maker(place)
            if below is None or below is late or below.position < early.position:
                continue
            if below is not early or not _reads_inside(program, early, node, place):
                return False
    early.nodes = early.nodes + late.nodes
    early.first_consumer = min(early.first_consumer, late.first_consumer)
    early.last_consumer = max(early.last_consumer, late.last_consumer)
    early.first_indirect = min(early.first_indirect, late.first_indirect)
    late.merged = early
    kernels[late.position] = None
    for node in late.nodes:  # what it reads is read earlier now
        _note_consumers(program, early, node)
        if early.axes is not None and not early.staged:
            early.staged = _goes_on(program, early, node)
    return True


@cython.cfunc
def _note_consumers(program: Program, kernel: Kernel, node: Node) -> cython.void:
    number: cython.Py_ssize_t
    for number in range(len(node.inputs)):
        place: Place = operand(program, node, number)
        below: Kernel = maker(place)
        if below is None or below is kernel:
            continue
        below.first_consumer = min(below.first_consumer, kernel.position)
        below.last_consumer = max(below.last_consumer, kernel.position)
        if not place.whole or not equal(place.shape, node.shape):
            below.first_indirect = min(below.first_indirect, kernel.position)
    if kernel.axes is not None and node.row.kind != _reduce and node.shape != kernel.shape:
        if kernel.extra is None:
            kernel.extra = set()
        kernel.extra.add(node)


def mark_stores(program: Program):
    """Say which values leave their kernel, and number the kernels."""
    kernel: Kernel
    node: Node
    value: Value
    number: cython.Py_ssize_t
    for value in program.values:
        value.stored = value.kept or value.kernel is None
    for kernel in program.kernels:
        for node in kernel.nodes:
            for number in range(len(node.inputs)):
                place: Place = operand(program, node, number)
                if not place.value.stored and not _stays_within(kernel, place):
                    place.value.stored = True
    for index, kernel in enumerate(program.kernels):
        kernel.position = index
        kernel.stores = []
        for node in kernel.nodes:
            if place_of(program, node).value.stored:
                kernel.stores.append(node)


@cython.cfunc
def _stays_within(kernel: Kernel, place: Place) -> cython.bint:
    """Whether a kernel reads a value that it need not find in memory: one of its own."""
    return kernel.kind == _elementwise and maker(place) is kernel and _within(kernel, place)


@cython.cfunc
def _within(kernel: Kernel, place: Place) -> cython.bint:
    """Whether a kernel's own value is read element by element, or row by row."""
    if place.whole:
        return True
    return kernel.staged and is_row_value(kernel, place.root) and _by_row(kernel, place)


def verify(program: Program):
    """Each node in one kernel; each kernel after those it reads; what is read elsewhere is stored; what a kernel reads
    of its own is there by then."""
    seen: dict = {}
    ranks: dict = {}  # node -> how many of its kernel come before it
    for kernel in program.kernels:
        for rank, node in enumerate(kernel.nodes):
            if node in seen:
                raise VerificationError(
                    "fuse", expected="each node in one kernel", got=f"{node!r} in two"
                )
            seen[node], ranks[node] = kernel, rank
    for kernel in program.kernels:
        for node in kernel.nodes:
            for number in range(len(node.inputs)):
                place: Place = operand(program, node, number)
                root = place.root
                if root.state != PENDING:
                    continue
                below = seen[root]
                if below is not kernel and (
                    below.position > kernel.position or root not in below.stores
                ):
                    raise VerificationError(
                        "fuse", expected=f"{root!r} stored before {kernel!r}", got=repr(below)
                    )
                if below is kernel:
                    _verify_own(kernel, node, place, ranks[root] < ranks[node])


@cython.cfunc
def _verify_own(kernel: Kernel, node: Node, place: Place, earlier: cython.bint):
    """That a node may read a value of its own kernel: one before it, in its own region, finished where it is asked
    for."""
    if not earlier:
        raise VerificationError(
            "fuse",
            expected=f"{kernel!r} computes {place.root!r} before it reads it",
            got=f"{node!r} before that",
        )
    if not _within(kernel, place):
        raise VerificationError(
            "fuse",
            expected=f"{kernel!r} reads its own {place.root!r} element by element",
            got=f"{node!r} reads another region of it",
        )
    if not _is_finished(kernel, node, place):
        raise VerificationError(
            "fuse",
            expected=f"{kernel!r} reads its own {place.root!r} where that is finished",
            got=f"{node!r} reads it elsewhere",
        )


@cython.cfunc
def _is_finished(kernel: Kernel, node: Node, place: Place) -> cython.bint:
    """Whether a value of the same kernel is there where a node is computed: in its body, behind its reductions, or in
    a later phase of its rows."""
    behind: cython.bint = in_epilogue(kernel, node)
    if not is_row_value(kernel, place.root):
        return place.shape == kernel.shape and not behind
    if behind:
        return place.shape == node.shape
    if node.row.kind == _reduce:
        return False
    return kernel.staged and _by_row(kernel, place)


def text(program: Program):
    """One line per kernel: what it computes and what it stores, and where a chain was cut."""
    lines = []
    for kernel in program.kernels:
        names = " ".join(node.row.name for node in kernel.nodes)
        reduced = "" if kernel.axes is None else f" reduce{list(kernel.axes)}"
        reduced += " staged" if kernel.staged else ""
        stores = ", ".join(f"{node.row.name}{list(node.shape)}" for node in kernel.stores)
        lines.append(f"k{kernel.position} {list(kernel.shape)}{reduced}: {names} -> {stores}")
    return "\n".join(lines)
