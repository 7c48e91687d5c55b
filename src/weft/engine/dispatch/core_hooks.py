# cython: language_level=3
"""What the layers above bind once, at import: rows of the op table that are recorded here, and the functions that
special methods of Tensor call, whose meaning lies above.
"""

import cython
from cython.cimports.weft.engine.ir.primitive import OpRow

from weft._build.compiled import require

require(__name__, cython.compiled)

rows = {}
late = {}
add_row: OpRow = None
sub_row: OpRow = None
rsub_row: OpRow = None
mul_row: OpRow = None
div_row: OpRow = None
strided_row: OpRow = None
put_row: OpRow = None
cast_row: OpRow = None
permute_row: OpRow = None


def bind(table, functions):
    """Called once by the layers above: the op table's rows, and functions that special methods call."""
    global add_row, sub_row, rsub_row, mul_row, div_row, strided_row, put_row, cast_row, permute_row
    rows.update(table)
    late.update(functions)
    add_row = rows["add"]
    sub_row = rows["sub"]
    rsub_row = late["rsub_row"]
    mul_row = rows["mul"]
    div_row = rows["div"]
    strided_row = rows["strided"]
    put_row = rows["put"]
    cast_row = rows["cast"]
    permute_row = rows["permute"]


def bound_to(name: str):
    """What a name of `late` stands for, for interpreted callers."""
    return late[name]
