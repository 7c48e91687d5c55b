# cython: language_level=3
"""The batch of a quotient (a batched node, which stands for an equivalence class of equal nodes)."""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.no_gc
@cython.cclass
class Batch:
    """The facts of a quotient: which operands have a row for each member (`flags`), the number of rows, the dimension
    that they are along, and how many members have not given up their residuals yet (`members`). Where operands have
    other rows than the value has, `operand_rows` holds for each operand the first row and the number of rows of each
    member; several members may have the same rows."""


@cython.cfunc
def new_batch(flags: tuple, count: cython.longlong, axis: cython.Py_ssize_t) -> Batch:
    batch: Batch = Batch.__new__(Batch)
    batch.flags, batch.count, batch.axis = flags, count, axis
    return batch


def make_batch(flags: tuple, count: int, axis: int):
    """`new_batch` for interpreted callers."""
    return new_batch(flags, count, axis)
