# cython: language_level=3
"""Decomposition: a macro is replaced by the primitives that it stands for.

It takes an ordered Program and removes the macros: the `lower` rule of each macro's op records primitives on the
macro's inputs, and their result replaces the macro (`program.expanded`). The recorder, batching and backward cost by
the node, so they see a macro as one; kernels are made of its primitives. `gather_matmul` records its replacements in
the same way.
"""

import cython
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import STACK
from cython.cimports.weft.engine.ir.tape import Tape, current_tape, finish
from cython.cimports.weft.engine.pipeline.program_ir import Program
from cython.cimports.weft.engine.pipeline.simplify.extract import reach

from weft._build.compiled import require
from weft.engine.ir.primitive import MACRO
from weft.engine.ir.tape import last_sequence
from weft.errors import VerificationError

require(__name__, cython.compiled)


_macro = cython.declare(cython.int, MACRO)


@cython.ccall
def decompose(program: Program) -> cython.void:
    """Let primitives stand for the macros of a program."""
    node: Node
    found: cython.bint = True
    while found:
        found = False
        for node in program.order:
            if _is_macro(node):
                program.expanded[node] = expanded(node)
                found = True
        if found:
            reach(program)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_macro(node: Node) -> cython.bint:
    """True if a node is replaced by primitives: a macro, or a stack whose parts no gather has packed."""
    return node.op.kind == _macro or (node.op.form == STACK and len(node.inputs) > 1)


@cython.cfunc
def expanded(macro: Node, recorded: list | None = None) -> Node:
    """Record a macro's primitives, which `recorded` gets in their order."""

    def lower():
        operands: list = [wrap(source, None) for source in macro.inputs]
        return macro.op.lower(*operands, macro.params)

    return recorded_apart(macro, lower, recorded)


@cython.ccall
def recorded_apart(node: Node, rule: object, recorded: list | None = None) -> Node:
    """The value that `rule` records in place of a node: without gradients, and on no tape. `recorded` gets all nodes
    that it records."""
    tape: Tape = current_tape()
    mode, running = tape.mode, tape.running
    tape.mode, tape.running = _plain_mode(mode), True
    newest: cython.longlong = last_sequence()
    try:
        result: Node = value(rule())
        nodes: list = tape.since(newest)
        _leave_tape(nodes, node)
        if recorded is not None:
            recorded.extend(nodes)
    finally:
        tape.mode, tape.running = mode, running
    return result


@cython.cfunc
def _plain_mode(mode: Mode) -> Mode:
    """The state of a thread in which nothing but values is recorded."""
    plain: Mode = mode.copy()
    plain.grad = plain.eager = plain.anomaly = False
    plain.duals = plain.saved_hooks = None
    return plain


@cython.cfunc
def _leave_tape(nodes: list, previous: Node) -> cython.void:
    """Take what stands for a node off the tape; it has the node's place in the user's program."""
    node: Node
    for node in nodes:
        node.batch_seen = True
        node.code, node.offset_in_code = previous.code, previous.offset_in_code
        node.library_site = previous.library_site
        finish(node)


def verify(program: Program):
    """No macro is left."""
    for node in program.order:
        if _is_macro(node):
            raise VerificationError("decompose", expected="primitives", got=repr(node))
