# cython: language_level=3
"""Extraction: dead code elimination and topological order of the live nodes.

It takes the pending nodes of a tape and sets the Program's `roots` (those that are live) and `order` (all that they
are computed from, each after its value inputs, views and macros included). Dead code is what no live value needs: it
stays on the tape, untouched. A batch is in the order where its members are needed. A replacement (`program.expanded`)
takes the position of its node; the pass that makes one calls `reach` again.
"""

import cython
from cython.cimports.weft.engine.ir.node import PENDING, Node, is_live
from cython.cimports.weft.engine.pipeline.program_ir import Program, has_memref

from weft._build.compiled import require
from weft.errors import VerificationError

require(__name__, cython.compiled)


@cython.ccall
def extract(program: Program, pending: list) -> cython.void:
    """Put everything live among pending nodes (oldest first) into a program, and all that it needs."""
    node: Node
    for node in pending:
        if is_live(node) and node.state == PENDING:
            program.roots.append(node)
    reach(program)


@cython.ccall
def reach(program: Program) -> cython.void:
    """Order what the roots of a program need."""
    node: Node
    program.start_anew()
    for node in program.roots:
        if has_memref(program, node):
            continue
        if node.quotient is not None and has_memref(program, node.quotient):
            program.number(node)
        else:
            _visit(program, node)


@cython.cfunc
def _visit(program: Program, start: Node) -> cython.void:
    """Depth-first by an explicit stack: values before their readers."""
    stack: list = [start]
    node: Node
    instead: Node
    replaced: cython.bint = len(program.expanded) > 0
    while stack:
        node = stack[len(stack) - 1]
        if has_memref(program, node):
            stack.pop()
            continue
        ready: cython.bint = True
        instead = None
        if node.state == PENDING:
            instead = node.quotient
            if instead is None and replaced:
                instead = program.expanded.get(node)
            if instead is None:
                ready = _has_inputs(program, node, stack)
            elif not has_memref(program, instead):
                stack.append(instead)
                ready = False
        if ready:
            stack.pop()
            program.number(node)
            if node.state == PENDING and instead is None:
                program.order.append(node)


@cython.cfunc
@cython.inline
def _has_inputs(program: Program, node: Node, stack: list) -> cython.bint:
    """True if all that a node reads has a number: values get one here, pending inputs go onto the stack."""
    ready: cython.bint = True
    source: Node
    for source in node.inputs:
        if not has_memref(program, source):
            if source.state == PENDING:
                stack.append(source)
                ready = False
            else:
                program.number(source)
    return ready


def verify(program: Program):
    """Every node of the order comes after what it reads, and none twice; all run on the program's device."""
    seen: set = set()
    number: cython.int = program.device.number
    for node in program.order:
        if node.device != number:
            raise VerificationError(
                "extract", expected=f"{node!r} on {program.device!r}", got=f"device {node.device}"
            )
        for source in node.inputs:
            below: Node = _computed(program, source)
            if below.state == PENDING and below not in seen:
                raise VerificationError(
                    "extract", expected=f"{below!r} before {node!r}", got="after it or missing"
                )
        if node in seen:
            raise VerificationError("extract", expected="each node once", got=f"{node!r} twice")
        seen.add(node)


@cython.cfunc
def _computed(program: Program, node: Node) -> Node:
    """The node that is computed for a node: the batch that it is a row of, its replacement, or itself."""
    other: Node
    while node.state == PENDING:
        other = node.quotient if node.quotient is not None else program.expanded.get(node)
        if other is None:
            break
        node = other
    return node
