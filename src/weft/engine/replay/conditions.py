# cython: language_level=3
"""Whether what is recorded follows from the values and the program alone: only then may it be replayed."""

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.tape import Mode, Tape, ambient

from weft._build.compiled import require
from weft.config import config

require(__name__, cython.compiled)

verifying = config.replay == "verify"

plain_kinds = {Tensor}  # classes that change nothing of what operations on their tensors mean


def add_plain_kind(kind: object):
    """Say of a subclass of Tensor that it changes nothing of what operations on its tensors mean."""
    plain_kinds.add(kind)


def set_verifying(on: cython.bint) -> bool:
    """Whether what is known is replayed, done for real and compared from now on; returns whether it was."""
    global verifying
    before: cython.bint = verifying
    verifying = on
    return before


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_plain(tape: Tape) -> cython.bint:
    """Whether nothing watches or changes what is recorded on a tape, and replaying is on: no context that wants to see
    records, no forward mode, no hooks on saves, no reverse walk, no fiber, and no mode in which records differ."""
    mode: Mode = tape.mode
    if ambient > 0 or mode.eager or mode.inference or mode.anomaly or mode.walk != 0:
        return False
    if mode.extra is not None or mode.fiber is not None or mode.duals is not None:
        return False
    return not mode.saved_hooks and config.cache
