# cython: language_level=3
"""Rematerialization: values that are idle when a program needs most memory are computed again, if that is cheap.

It takes a fused Program, reorders its nodes and fuses them anew. A stored value is idle at the peak if it is read
before and after the peak, or only after it. It is computed again just before its first reader after the peak, by
chains of elementwise nodes of its kernel, from values that are in memory anyway or are together smaller than the bytes
saved: gelu and its derivative from gelu's input. Each of these nodes gets a *clone*, which computes the same; readers
after the peak read the clones. Bits are the same.
"""

import cython
from cython.cimports.weft.engine.devices.tuning import Rematerialization
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.pipeline.fusion.def_use import Use, uses_of
from cython.cimports.weft.engine.pipeline.fusion.form_kernels import form_kernels
from cython.cimports.weft.engine.pipeline.fusion.into_reader import fuse_into_reader
from cython.cimports.weft.engine.pipeline.fusion.regions import is_row_value, most_nodes
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    ProgramValue,
    maker,
    memref_of,
    region,
    row_major,
)

from weft._build.compiled import require
from weft.engine.frontend.node_factory import make_node
from weft.engine.ir.primitive import CONTRACT, ELEMENTWISE, REDUCE, SOURCE

require(__name__, cython.compiled)

READERS = (ELEMENTWISE, REDUCE, CONTRACT)
CHEAP = (ELEMENTWISE, SOURCE)


@cython.ccall
def rematerialize(program: Program) -> cython.void:
    """Put twins into the order of a program that needs much memory, and form its kernels again."""
    enough: cython.longlong = program.device.tuning.rematerialization.peak_bytes
    if most_nodes(program) == 1 or _stored_bytes(program) < enough:
        return
    uses: Liveness = Liveness(program)
    if uses.most < enough:
        return
    choices: list = []
    pinned: set = set()  # values that twins read, which stay
    gone: set = set()
    kernel: Kernel
    for kernel in program.kernels[: uses.peak]:
        if kernel.kind == ELEMENTWISE and kernel.position < uses.peak:
            choice: RematCandidate = _best(program, uses, kernel, pinned, gone)
            if choice is not None:
                pinned.update(choice.roots)
                gone.update(choice.again)
                choices.append(choice)
    if choices:
        _rewrite(program, uses, choices)
        form_kernels(program)
        fuse_into_reader(program)


@cython.cfunc
def _bytes(node: Node) -> cython.longlong:
    return node.numel * node.dtype.itemsize


@cython.cfunc
def _stored_bytes(program: Program) -> cython.longlong:
    value: ProgramValue
    total: cython.longlong = 0
    for value in program.values:
        if value.stored and value.node.state == PENDING:
            total += _bytes(value.node)
    return total


@cython.final
@cython.cclass
class Liveness:
    """Liveness: the readers of each value, in order; the kernel at which most bytes are live, and how many."""

    program: Program
    readers: dict  # value -> its uses
    rank: dict  # node -> its place in the order
    peak: cython.Py_ssize_t
    most: cython.longlong

    def __cinit__(self, program: Program):
        self.program = program
        self.readers, self.rank = uses_of(program, None), {}
        for number, node in enumerate(program.order):
            self.rank[node] = number
        self.find_peak(program)

    @cython.cfunc
    def of(self, root: Node) -> list:
        """The uses of a value in the order of kernels."""
        return self.readers.get(memref_of(self.program, root).value, [])

    @cython.cfunc
    def last(self, root: Node) -> cython.Py_ssize_t:
        """The position of the last kernel that reads a value, -1 where none does."""
        uses: list = self.of(root)
        return uses[len(uses) - 1].kernel.position if uses else -1

    @cython.cfunc
    def find_peak(self, program: Program) -> cython.void:
        changes: list = [0] * (len(program.kernels) + 2)
        kernel: Kernel
        node: Node
        for kernel in program.kernels:
            for node in kernel.stores:
                size: cython.longlong = _bytes(node)
                changes[kernel.position] += size
                if node not in program.kept:
                    changes[max(self.last(node), kernel.position) + 1] -= size
        alive: cython.longlong = 0
        for position, change in enumerate(changes):
            alive += change
            if alive > self.most:
                self.most, self.peak = alive, position

    @cython.cfunc
    def late(self, root: Node) -> list:
        """The uses of a value behind the peak."""
        return [use for use in self.of(root) if use.kernel.position > self.peak]

    @cython.cfunc
    def is_idle(self, root: Node) -> cython.bint:
        """True if a value is read after the peak and not at it, by nodes that can read a clone of it."""
        late: list = self.late(root)
        if not late or any([use.kernel.position == self.peak for use in self.of(root)]):
            return False
        return all([use.node.op.kind in READERS for use in late])


@cython.final
@cython.cclass
class RematCandidate:
    """A candidate of rematerialization: the values of one kernel to compute again (`again`), the nodes to clone, the
    roots that they read, the position in the order that they go to, and the bytes saved."""

    again: set
    nodes: list
    roots: set
    place: cython.Py_ssize_t
    free: cython.longlong


@cython.cfunc
def _best(program: Program, uses: Liveness, kernel: Kernel, pinned: set, gone: set):
    """The choice that frees most, of those with the fewest twins; None where none is worth it."""
    tuning: Rematerialization = program.device.tuning.rematerialization
    least: cython.longlong = tuning.freed_bytes
    idle: list = [
        node
        for node in kernel.stores
        if _bytes(node) >= least
        and _is_cheap(kernel, node)
        and node not in program.kept
        and node not in pinned
        and uses.is_idle(node)
    ]
    idle = idle[-tuning.most_values :]
    best: RematCandidate = None
    bits: cython.int
    for bits in range(1, 1 << len(idle)):
        again: set = {node for number, node in enumerate(idle) if bits >> number & 1}
        choice: RematCandidate = _choice(program, uses, kernel, again, gone)
        if choice is None or choice.free < least:
            continue
        if best is None or (choice.free, -len(choice.nodes)) > (best.free, -len(best.nodes)):
            best = choice
    return best


@cython.cfunc
def _is_cheap(kernel: Kernel, node: Node) -> cython.bint:
    """True if a node of a kernel is computed element by element."""
    if node.op.kind not in CHEAP or node.shape != kernel.shape:
        return False
    return not is_row_value(kernel, node)


@cython.cfunc
def _choice(program: Program, uses: Liveness, kernel: Kernel, again: set, gone: set):
    """The candidate that computes these values again; None if that is impossible."""
    root: Node
    choice: RematCandidate = RematCandidate()
    choice.again, choice.roots = again, set()
    late: list = [use for node in again for use in uses.late(node)]
    first: cython.Py_ssize_t = min([use.kernel.position for use in late])
    choice.place = min([uses.rank[use.node] for use in late])
    chain: set = _chain(program, uses, kernel, choice, first)
    if len(chain) > program.device.tuning.rematerialization.most_clones or choice.roots & gone:
        return None
    choice.free = sum([_bytes(node) for node in again])
    for root in choice.roots:
        if uses.rank[root] >= choice.place:
            return None
        if uses.last(root) < first and root not in program.kept:
            choice.free -= _bytes(root)
    choice.nodes = [node for node in kernel.nodes if node in chain]
    return choice


@cython.cfunc
def _chain(
    program: Program,
    uses: Liveness,
    kernel: Kernel,
    choice: RematCandidate,
    first: cython.Py_ssize_t,
) -> set:
    """The nodes of a kernel that a choice has to compute; its roots are noted. What the kernel stores and is still
    there at the position `first` is a root."""
    source: Node
    root: Node
    chain: set = set(choice.again)
    stack: list = list(choice.again)
    while stack:
        for source in stack.pop().inputs:
            memref: MemRef = memref_of(program, source)
            root = memref.root
            if root.state == DONE or root in chain:
                continue
            inside: cython.bint = maker(memref) is kernel and _is_cheap(kernel, root)
            held: cython.bint = root in kernel.stores and uses.last(root) >= first
            if inside and not held and memref.whole:
                chain.add(root)
                stack.append(root)
            else:
                choice.roots.add(root)
    return chain


# -- the order with twins ------------------------------------------------------------------------------------------


@cython.cfunc
def _rewrite(program: Program, uses: Liveness, choices: list) -> cython.void:
    """Put twins in front of what reads them. A node that nobody else needs any more is replaced by its twin."""
    instead: dict = {}  # node -> what stands for it everywhere
    given: dict = {}  # reader -> value -> its twin
    before: dict = {}  # place in the order -> twins
    program.clones, program.remat_of = set(), {}
    choice: RematCandidate
    use: Use
    for choice in choices:
        clones: dict = _clones_of(program, choice)
        before.setdefault(choice.place, []).extend(clones.values())
        stays: set = _needed_early(uses, choice)
        for node, clone in clones.items():
            if node not in stays:
                instead[node] = clone
                continue
            program.remat_of[node] = program.new_value(clone, row_major(node.shape))
            for use in uses.late(node) if node in choice.again else ():
                given.setdefault(use.node, {})[node] = clone
    order: list = []
    for number, node in enumerate(program.order):
        order += before.get(number, ())
        if node in given:
            instead[node] = _with_clones(program, node, given[node])
            order.append(instead[node])
        elif node not in instead:
            order.append(node)
    program.order = order
    _replace(program, instead)


@cython.cfunc
def _clones_of(program: Program, choice: RematCandidate) -> dict:
    """The twin of each node of a choice, in order."""
    clones: dict = {}
    for node in choice.nodes:
        inputs = [clones.get(_root(program, source), source) for source in node.inputs]
        clones[node] = copy_of(node, tuple(inputs))
    program.clones.update(clones.values())
    return clones


@cython.cfunc
def _root(program: Program, node: Node) -> Node:
    return memref_of(program, node).root


@cython.cfunc
def copy_of(node: Node, inputs: tuple) -> Node:
    """A node that computes the same from other values; it is on no tape."""
    copy: Node = make_node(node.op, inputs, node.params, node.shape, node.dtype)
    copy.batch_seen = True
    copy.code, copy.offset_in_code = node.code, node.offset_in_code
    copy.library_site = node.library_site
    return copy


@cython.cfunc
def _needed_early(uses: Liveness, choice: RematCandidate) -> set:
    """Those nodes of a choice that something in front of the peak reads."""
    stays: set = set()
    chain: set = set(choice.nodes)
    use: Use
    for node in reversed(choice.nodes):
        for use in uses.of(node):
            early: cython.bint = use.kernel.position <= uses.peak or node not in choice.again
            if use.node in stays if use.node in chain else early:
                stays.add(node)
                break
    return stays


@cython.cfunc
def _with_clones(program: Program, reader: Node, clones: dict) -> Node:
    """A copy of a reader that reads twins, where the originals were."""
    inputs: list = []
    for source in reader.inputs:
        memref: MemRef = memref_of(program, source)
        clone: Node = clones.get(memref.root)
        if clone is None:
            inputs.append(source)
        elif source is memref.root:
            inputs.append(clone)
        else:
            view: Node = copy_of(source, source.inputs)
            own: MemRef = memref_of(program, clone)
            program.set_memref(view, region(own, memref.offset, memref.strides, memref.shape))
            inputs.append(view)
    return copy_of(reader, tuple(inputs))


@cython.cfunc
def _replace(program: Program, instead: dict) -> cython.void:
    """Let nodes stand for others in all places."""
    node: Node
    value: ProgramValue
    memref: MemRef
    for value in program.values:
        if value.node in instead:
            value.node = instead[value.node]
    for node, copy in instead.items():
        program.set_memref(copy, memref_of(program, node))
        if node in program.kept:
            program.kept.remove(node)
            program.kept.add(copy)
    for memref in program.memrefs:
        memref.root = instead.get(memref.root, memref.root)
    program.connect_all()
