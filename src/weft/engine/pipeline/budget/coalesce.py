# cython: language_level=3
"""Copy coalescing: results that lie in memory of operands, where they are made.

`affinities_of` takes a Lowering and its StepGraph and gives each step's affinities, of what it writes and what it
reads. An elementwise kernel, also one that sums besides, writes an element where it has read one, of a value or of a
region of it that is not read any more in a schedule (`BudgetSchedule.joined`). So does a row kernel, whose rows do not
know each other, where no phase behind the one that stores reads the operand. A concatenation finds its parts where
they belong, and copies nothing; both may live on. (Register allocators coalesce copies so; Chaitin et al., 1981.)
`Coalescing` makes units of what is joined: instances with fixed distances, for the arena.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import CONCAT
from cython.cimports.weft.engine.pipeline.budget.schedule import Affinity, Instance
from cython.cimports.weft.engine.pipeline.launch_ir import Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import value_of
from cython.cimports.weft.engine.pipeline.program_ir import (
    Kernel,
    MemRef,
    Program,
    operand,
    row_major,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE, REGION
from weft.engine.pipeline.lowering.row_kernel import phases_of

require(__name__, cython.compiled)

LEAST_BYTES = 1 << 10  # of a result that is worth it
MOST_TOGETHER = 256  # instances in one place: a longer chain is cut


# -- what may be joined ---------------------------------------------------------------------------------------------


def affinities_of(lowering: Lowering, graph, by_step: list) -> list:
    """The affinities of each step of a graph, from its kernels by step."""
    affinities: list = [[] for _ in graph.positions]
    regions: dict = regions_of(lowering.program, by_step)
    kernel: Kernel
    for step, kernels in enumerate(by_step):
        made: set = set(graph.moving_writes[step]) - graph.rewritten
        alone: set = {
            slot
            for slot in graph.moving_reads[step]
            if slot not in graph.rewritten
            and slot not in graph.lent
            and len({one[1] for one in regions.get(slot, ()) if one[0] == step}) == 1
        }
        if not made or not alone:
            continue
        for kernel in kernels:
            if kernel.kind == ELEMENTWISE:
                affinities[step] += _in_place(lowering, graph, step, kernel, made, alone, regions)
            elif kernel.kind == REGION:
                affinities[step] += _parts(lowering, graph, kernel, made, alone)
    return affinities


def regions_of(program: Program, by_step: list) -> dict:
    """By slot the reads of its value: (step, kernel, the first byte, the end)."""
    regions: dict = {}
    kernel: Kernel
    for step, kernels in enumerate(by_step):
        for kernel in kernels:
            _note_regions(program, step, kernel, regions)
    return regions


def elided_of(by_step: list, affinities: list) -> dict:
    """By step the affinities with all of which nothing is left to do: their number, of a concatenation alone in it."""
    found: dict = {}
    kernel: Kernel
    for step, kernels in enumerate(by_step):
        kernel = kernels[0]
        node: Node = kernel.nodes[0]
        is_alone: cython.bint = len(kernels) == 1 and kernel.kind == REGION
        if is_alone and node.op.form == CONCAT and len(affinities[step]) == len(node.inputs):
            found[step] = len(node.inputs)
    return found


@cython.cfunc
def _note_regions(program: Program, step, kernel: Kernel, regions: dict) -> cython.void:
    """Note the bytes of values that a kernel reads: from the first to the last."""
    node: Node
    memref: MemRef
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            memref = operand(program, node, number)
            begin, end = _bytes_of(memref)
            regions.setdefault(memref.value.slot, []).append((step, kernel, begin, end))


@cython.cfunc
def _bytes_of(memref: MemRef) -> tuple:
    """The bytes of a value that a reference reaches, from the first to behind the last."""
    axis: cython.Py_ssize_t
    size: cython.longlong = memref.root.dtype.itemsize
    first: cython.longlong = memref.offset
    last: cython.longlong = memref.offset
    for axis in range(len(memref.shape)):
        if type(memref.strides[axis]) is not int:  # nested ones, of windows
            return 0, memref.root.numel * size
        reach: cython.longlong = memref.shape[axis]
        reach = (reach - 1) * cython.cast(cython.longlong, memref.strides[axis])
        first, last = first + min(reach, 0), last + max(reach, 0)
    return first * size, (last + 1) * size


@cython.cfunc
def _in_place(
    lowering: Lowering, graph, step, kernel: Kernel, made: set, alone: set, regions: dict
) -> list:
    """The affinities of an elementwise or row kernel: of each result an operand that ends there, else one that may."""
    operands: list = _element_by_element(lowering.program, kernel, alone)
    last, stored = phases_of(kernel) if kernel.is_row_kernel else ({}, {})
    aligned: cython.longlong = lowering.program.device.capabilities.alignment
    found: list = []
    node: Node
    root: Node
    for node in kernel.stores:
        slot = value_of(lowering.plan, node).slot
        nbytes: cython.longlong = node.numel * node.dtype.itemsize
        if slot not in made or nbytes < LEAST_BYTES or not equal(node.shape, kernel.shape):
            continue
        choices: list = []
        for root, offset in operands:
            other = value_of(lowering.plan, root).slot
            begin = offset * node.dtype.itemsize
            fits: cython.bint = root.dtype.itemsize == node.dtype.itemsize and begin % aligned == 0
            fits = fits and last.get(root, 0) <= stored.get(node, 0)
            if fits and not any([one.ending == other for one in found]):
                choices.append(
                    _affinity_at(graph, step, slot, other, begin, nbytes, regions[other])
                )
        choices = [one for one in choices if one is not None]
        found += ([one for one in choices if _ends(graph, step, one)] + choices)[:1]
    return found


@cython.cfunc
def _affinity_at(graph, step, made, ending, begin, nbytes, read: list) -> object:
    """The affinity of a result with bytes of an operand from `begin` on; None where that can never be free."""
    size: cython.longlong = graph.sizes[ending]
    if begin + graph.sizes[made] > size:
        return None
    if begin == 0 and graph.sizes[made] == size:
        is_free: cython.bint = graph.last[ending] == step or graph.droppable[ending]
        return Affinity(made, ending, 0, size, None) if is_free else None
    readers = frozenset([one[0] for one in read if one[2] < begin + nbytes and begin < one[3]])
    if max(readers) > step:
        return None
    return Affinity(made, ending, begin, graph.sizes[made], readers)


@cython.cfunc
def _ends(graph, step, affinity: Affinity) -> cython.bint:
    """True if an affinity holds where nothing is dropped."""
    return affinity.readers is not None or graph.last[affinity.ending] == step


@cython.cfunc
def _element_by_element(program: Program, kernel: Kernel, alone: set) -> list:
    """The values that a kernel reads in one region alone, element by element, and where that begins, in order."""
    strides: tuple = row_major(kernel.shape)
    found: dict = {}
    node: Node
    memref: MemRef
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            memref = operand(program, node, number)
            if memref.value.slot not in alone:
                continue
            fits: cython.bint = equal(memref.shape, kernel.shape)
            fits = fits and equal(memref.strides, strides)
            fits = fits and found.get(memref.root, memref.offset) == memref.offset
            found[memref.root] = memref.offset if fits else -1
    return [(root, offset) for root, offset in found.items() if offset >= 0]


@cython.cfunc
def _parts(lowering: Lowering, graph, kernel: Kernel, made: set, alone: set) -> list:
    """The affinities of a concatenation whose parts lie one behind the other in it: of those that are whole values."""
    node: Node = kernel.nodes[0]
    slot = value_of(lowering.plan, node).slot
    if node.op.form != CONCAT or slot not in made:
        return []
    axis: cython.Py_ssize_t = node.params[0]
    if any([size != 1 for size in node.shape[:axis]]):
        return []
    aligned: cython.longlong = lowering.program.device.capabilities.alignment
    found: list = []
    number: cython.Py_ssize_t
    begin: cython.longlong = 0
    memref: MemRef
    for number in range(len(node.inputs)):
        part: Node = node.inputs[number]
        memref = operand(lowering.program, node, number)
        other = memref.value.slot
        size: cython.longlong = graph.sizes[other]
        fits: cython.bint = begin % aligned == 0 and begin + size <= graph.sizes[slot]
        if fits and other in alone and _is_whole(memref, part):
            found.append(Affinity(slot, other, -begin, size, None, is_copy=True))
            alone = alone - {other}
        begin += part.numel * node.dtype.itemsize
    return found


@cython.cfunc
def _is_whole(memref: MemRef, part: Node) -> cython.bint:
    """True if an operand is all of a value, in row-major order."""
    if memref.offset != 0 or memref.root.numel != part.numel:
        return False
    return equal(memref.strides, row_major(memref.shape))


# -- what lies together ---------------------------------------------------------------------------------------------


class Coalescing:
    """The units of a schedule: `units` are lists of (instance, bytes from the unit's begin), of the instances that are
    joined. `held` counts the affinities that hold by action. An affinity does not where it would bring values to one
    place that are needed at the same time."""

    def __init__(self, joined: list, sizes: list):
        self.held: dict = {}
        self._places: dict = {}  # instance -> (unit, bytes from its begin)
        self._given: dict = {}  # instance -> (its bytes from, to, action, who has them, how far behind)
        self.units: list = []
        self._sizes = sizes
        together: list = []
        for one in joined:
            if together and one[1] is not together[0][1]:
                self._join(together)
                together = []
            together.append(one)
        self._join(together)
        seen: dict = {id(unit): unit for unit, _ in self._places.values()}
        for unit in seen.values():
            begin = min([offset for _, offset in unit])
            self.units.append([(one, offset - begin) for one, offset in unit])

    def _join(self, together: list):
        """Hold those affinities of one result that can be."""
        affinity: Affinity
        for affinity, made, ending in together:
            begin = max(affinity.shift, 0)
            action = ending.last if affinity.is_copy else made.first
            give = (begin, begin + affinity.nbytes, action, made, affinity.shift)
            self._given.setdefault(ending, []).append(give)
        for affinity, made, ending in together:
            if self._merge(made, ending, affinity.shift):
                self.held[made.first] = self.held.get(made.first, 0) + 1
            else:
                self._given[ending].pop()

    def _merge(self, made: Instance, ending: Instance, shift) -> bool:
        """Bring two instances into one unit; False if that is impossible."""
        unit, at = self._place_of(ending)
        other, begin = self._place_of(made)
        move = at + shift - begin  # of the other unit's members
        if other is unit:
            return bool(move == 0)
        if len(unit) + len(other) > MOST_TOGETHER:
            return False
        for one, offset in unit:
            for more, further in other:
                if self._collide(one, offset, more, further + move):
                    return False
        unit += [(one, offset + move) for one, offset in other]
        for one, offset in other:
            self._places[one] = (unit, offset + move)
        return True

    def _place_of(self, one: Instance):
        if one not in self._places:
            self._places[one] = ([(one, 0)], 0)
        return self._places[one]

    def _collide(self, one: Instance, at, other: Instance, begin) -> bool:
        """True if two instances would be in one place at one time."""
        if one.first > other.first:
            one, at, other, begin = other, begin, one, at
        if other.first > one.last:
            return False
        low = max(at, begin)
        high = min(at + self._sizes[one.slot], begin + self._sizes[other.slot])
        if low >= high:
            return False
        for lower, upper, action, taker, shift in self._given.get(one, ()):
            is_taker: cython.bint = taker is other and begin - at == shift
            is_given: cython.bint = lower <= low - at and high - at <= upper
            if is_given and (is_taker or action < other.first):
                return False
        return True
