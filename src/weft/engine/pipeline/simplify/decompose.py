# cython: language_level=3
"""Expand: a macro becomes the primitives that it stands for.

In comes a pending node of a macro row, of one example or of a batch; out goes the node of its value, which the row's
`lower` records from the macro's inputs. A macro is one node for the recorder, the batches and the reverse walk, which
cost by the node; the kernels are those of its primitives. What else stands for a node when it is collected is recorded
in the same way (`gather_matmul`).
"""

import cython
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.tape import Mode, Tape, current_tape, finish

from weft._build.compiled import require
from weft.engine.ir.tape import last_sequence

require(__name__, cython.compiled)


def expand(macro: Node) -> Node:
    """Record a macro's primitives."""

    def lower():
        operands: list = [wrap(source, None) for source in macro.inputs]
        return macro.row.lower(*operands, macro.params)

    return recorded_apart(macro, lower)


@cython.ccall
def recorded_apart(node: Node, rule: object) -> Node:
    """The value that `rule` records in place of a node: without gradients, and on no tape."""
    tape: Tape = current_tape()
    mode, running = tape.mode, tape.running
    tape.mode, tape.running = _plain_mode(mode), True
    newest: cython.longlong = last_sequence()
    try:
        result: Node = value(rule())
        _leave_tape(tape.since(newest), node)
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
def _leave_tape(nodes: list, former: Node) -> cython.void:
    """Take what stands for a node off the tape; it has the node's place in the user's program."""
    node: Node
    for node in nodes:
        node.considered = True
        node.code, node.offset_in_code = former.code, former.offset_in_code
        finish(node)
