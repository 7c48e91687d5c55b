# cython: language_level=3
"""Horizontal fusion: independent kernels of one code run as one grouped launch.

It takes a Program with its kernels chosen, reorders them, and gives those of a group one position. The updates of all
parameters are the usual case: members differ in extents and addresses only. Each kernel joins the earliest group of
its code after everything that it reads. The bytes that a group stores for other kernels are bounded: grouping extends
lifetimes, and large kernels do not need it. Lowering makes the members one launch over a table; no bit depends on it.
"""

import bisect

import cython
from cython.cimports.weft.engine.ir.node import Node, is_live
from cython.cimports.weft.engine.pipeline.program_ir import Kernel, Program, maker, operand

from weft._build.compiled import require
from weft.engine.ir.primitive import CONTRACT, ELEMENTWISE, INDEX, SCATTER
from weft.engine.pipeline.lowering.row_kernel import prepared_spec
from weft.errors import VerificationError

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_contract = cython.declare(cython.int, CONTRACT)
_index = cython.declare(cython.int, INDEX)
_scatter = cython.declare(cython.int, SCATTER)
_enabled = True


def set_horizontal_fusion(enabled: bool):
    """Form groups (the default), or launch every kernel alone. Bits are the same; returns the old setting."""
    global _enabled
    previous = _enabled
    _enabled = enabled
    return previous


def fuse_horizontally(program: Program) -> Program:
    """Give kernels that can run together one position, and put them in order of position."""
    groups: list = []
    left: list = []  # bytes that each group stores for other kernels
    open_groups: dict = {}  # key -> positions of groups with room
    kernel: Kernel
    position: cython.Py_ssize_t
    most: cython.longlong = program.device.tuning.horizontal.group_bytes
    for kernel in program.kernels:
        key = _key_of(program, kernel) if _enabled else None
        nbytes: cython.longlong = 0 if key is None else _bytes_of(kernel)
        if key is None or nbytes > most:
            _open(groups, left, kernel, nbytes)
            continue
        positions: list = open_groups.setdefault(key, [])
        place: cython.Py_ssize_t = 0
        if positions:
            place = bisect.bisect_right(
                positions, _floor(program, kernel, positions[len(positions) - 1])
            )
        while place < len(positions) and left[positions[place]] + nbytes > most:
            del positions[place]
        if place == len(positions):
            positions.append(len(groups))
            _open(groups, left, kernel, nbytes)
            continue
        position = positions[place]
        groups[position].append(kernel)
        left[position] += nbytes
        kernel.position = position
    program.kernels = [kernel for members in groups for kernel in members]
    return program


@cython.cfunc
def _open(groups: list, left: list, kernel: Kernel, nbytes: cython.longlong) -> cython.void:
    kernel.position = len(groups)
    groups.append([kernel])
    left.append(nbytes)


@cython.cfunc
def _key_of(program: Program, kernel: Kernel):
    """A key that kernels of one group share; None for a kernel that stays alone. Lowering chooses their variants of a
    matrix product, or of a read through an index."""
    if kernel.kind == _elementwise:
        return None if kernel.prepared is None else prepared_spec(kernel)
    node: Node = kernel.nodes[0]
    if kernel.kind == _contract or _cannot_fail(program, kernel, node):
        return node.op.code, node.dtype.code
    return None


@cython.cfunc
def _cannot_fail(program: Program, kernel: Kernel, node: Node) -> cython.bint:
    """True if the indices that a kernel reads or writes through are known to be in range, and it writes only over
    values from outside: a group that is stopped half-way could not run again over the memory of a value made in this
    program."""
    if node.may_fail:
        return False
    if kernel.kind == _scatter:
        return operand(program, node, 0).value.kernel is None
    return kernel.kind == _index


@cython.cfunc
def _bytes_of(kernel: Kernel) -> cython.longlong:
    """The bytes that a kernel stores for other kernels alone."""
    total: cython.longlong = 0
    node: Node
    for node in kernel.stores:
        if not is_live(node):
            total += node.numel * node.dtype.itemsize
    return total


@cython.cfunc
def _floor(program: Program, kernel: Kernel, enough: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The last position that a kernel reads from, or one that is `enough`; -1 where it reads nothing computed here."""
    floor: cython.Py_ssize_t = -1
    node: Node
    number: cython.Py_ssize_t
    for node in kernel.nodes:
        for number in range(len(node.inputs)):
            below: Kernel = maker(operand(program, node, number))
            if below is not None and below is not kernel and below.position > floor:
                floor = below.position
                if floor >= enough:
                    return floor
    return floor


def count(program: Program):
    """The number of launches; a group counts as one."""
    kernels: list = program.kernels
    return cython.cast(Kernel, kernels[len(kernels) - 1]).position + 1 if kernels else 0


def verify(program: Program):
    """Kernels stand in order of position; each behind all that it reads, also behind the groups."""
    last: cython.int = 0
    kernel: Kernel
    for kernel in program.kernels:
        floor = _floor(program, kernel, len(program.kernels))
        if kernel.position < last or kernel.position <= floor:
            raise VerificationError(
                "group",
                expected=f"{kernel!r} behind position {max(last - 1, floor)}",
                got=f"position {kernel.position}",
            )
        last = kernel.position


def text(program: Program):
    """One line per group: how many members it has."""
    sizes: dict = {}
    for kernel in program.kernels:
        sizes.setdefault(kernel.position, []).append(kernel)
    return "\n".join(
        [
            f"k{position} x {len(members)}: {' '.join([node.op.name for node in members[0].nodes])}"
            for position, members in sizes.items()
            if len(members) > 1
        ]
    )
