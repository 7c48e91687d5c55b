# cython: language_level=3
"""The conditions of replay: a record may be replayed only if it follows from the values and the program alone."""

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.tape import Tape, ambient

from weft._build.compiled import require
from weft.config import config

require(__name__, cython.compiled)

verifying = config.replay == "verify"

plain_kinds = {Tensor}  # classes that change nothing of what operations on their tensors mean


def add_plain_kind(kind: object):
    """Say of a subclass of Tensor that it changes nothing of what operations on its tensors mean."""
    plain_kinds.add(kind)


def set_verifying(on: cython.bint) -> bool:
    """Switch verification of replays on or off: each is also done for real and compared. Returns the previous
    setting."""
    global verifying
    before: cython.bint = verifying
    verifying = on
    return before


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_plain(tape: Tape) -> cython.bint:
    """True if nothing watches or changes what is recorded on a tape, no context wants to see records, and replay is
    on."""
    return ambient == 0 and tape.mode.is_plain() and config.cache
