# cython: language_level=3
"""What the layers above bind once, at import: rows of the op table that are recorded here, and the functions that
special methods of Tensor call, whose meaning lies above.
"""

import cython
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require

require(__name__, cython.compiled)

rows = {}
late = {}
add_row: Primitive = None
sub_row: Primitive = None
rsub_row: Primitive = None
mul_row: Primitive = None
div_row: Primitive = None
strided_row: Primitive = None
put_row: Primitive = None
cast_row: Primitive = None
permute_row: Primitive = None


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
