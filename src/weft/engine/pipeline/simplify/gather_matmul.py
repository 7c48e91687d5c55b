# cython: language_level=3
"""Commuting gathers with matrix products: each row of a table is multiplied once, however often it is gathered.

If an operand of a product consists of rows of a smaller table, some of them many times (as behind an embedding of
characters), three exchanges save work. With x = table[index]:

    x w            is  (table w)[index]        the same chains of additions, so the same bits
    gᵀ x, xᵀ g     is  sᵀ table, tableᵀ s      where s adds up the rows of g that belong to one row of the table
    scatter(g w)   is  s w                     the cotangent of the table

The last two add in another order, as gradients may and forward values may not: only what rules of derivatives recorded
is exchanged.

It takes an ordered Program and records replacements of such products off the tape, as `decompose` does. Rows of the
table that no index names count as zeros, whatever they hold: an infinite one makes no nan.
"""

import cython
from cython.cimports.weft.engine.capi.call_site import rule_bit
from cython.cimports.weft.engine.devices.api import device_at
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import PENDING, Node, is_live
from cython.cimports.weft.engine.ir.primitive import (
    EXPAND,
    INTO_BASE,
    LINEAR,
    MATMUL,
    PERMUTE,
    RESHAPE,
    SLICES,
    Primitive,
)
from cython.cimports.weft.engine.pipeline.program_ir import Program
from cython.cimports.weft.engine.pipeline.simplify.extract import reach

from weft._build.compiled import require
from weft.engine.frontend.recorder import record
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import INDEX, SCALAR_OP, VIEW
from weft.engine.ir.strides import inverse_order
from weft.engine.pipeline.simplify.decompose import recorded_apart
from weft.ops.primitives import (
    full,
    matmul,
    permute,
    reshape,
    take_add,
    take_put,
    transpose,
    where,
)

require(__name__, cython.compiled)

DTYPES = (dtypes.float32, dtypes.float64)

_scalar_op = cython.declare(Primitive, SCALAR_OP)
_view = cython.declare(cython.int, VIEW)
_index = cython.declare(cython.int, INDEX)


@cython.ccall
def commute_gathers(program: Program) -> cython.void:
    """Multiply rows of tables before they are gathered, where that is less work."""
    node: Node
    asked: set = set()
    found: cython.bint = True
    while found:
        found = False
        for node in program.order:
            if not _may_commute(node) or node in asked:
                continue
            asked.add(node)
            made = commuted(node)
            if made is not None:
                program.expanded[node] = made
                found = True
        if found:
            reach(program)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _may_commute(node: Node) -> cython.bint:
    """True if a node is a product, or a scatter that adds rows."""
    form: cython.int = node.op.form
    return form in (MATMUL, LINEAR) or _adds_rows(node)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _adds_rows(node: Node) -> cython.bint:
    """True if a node adds slices to the slices of its base that an index names."""
    return node.op.form == SLICES and node.op.sums == INTO_BASE


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _takes_rows(node: Node) -> cython.bint:
    """True if a node takes the slices of its operand that an index names."""
    return node.op.form == SLICES and node.op.kind == _index


@cython.ccall
def commuted(node: Node):
    """The replacement of a product, or of a scatter of one; None if an exchange saves nothing."""
    if node.dtype not in DTYPES:
        return None
    if _adds_rows(node):
        return _scattered_product(node) if rule_bit(node.library_site) else None
    made = _rows_of_product(node)
    if made is None and node.op.form == MATMUL and rule_bit(node.library_site):
        made = _sum_over_rows(node)
    return made


@cython.cfunc
def _rows_of_product(node: Node):
    """x w, with or without a bias, in rows of the table's product."""
    found: Node = _gather_below(node.inputs[0])
    weight: Node = node.inputs[1]
    if found is None or len(weight.shape) != 2:
        return None
    table: Node = found.inputs[0]
    if not _pays(table, found.inputs[1], table.shape[1]):
        return None
    given: tuple = node.inputs

    def rule():
        operands = tuple([wrap(table, None), *[wrap(source, None) for source in given[1:]]])
        shape = (table.shape[0], node.shape[len(node.shape) - 1])
        rows = record(node.op, operands, node.params, shape, node.dtype)
        index = _index_of(given[0])
        return record(found.op, (rows, index), found.params, node.shape, node.dtype)

    return recorded_apart(node, rule)


@cython.cfunc
def _sum_over_rows(node: Node):
    """gᵀ x or xᵀ g: the gradient of what gathered rows were multiplied by."""
    left: Node = node.inputs[0]
    right: Node = node.inputs[1]
    if left.op.form != PERMUTE or left.state != PENDING or left.quotient is not None:
        return None
    if len(left.shape) != 2 or len(right.shape) != 2:
        return None
    rows: Node = left.inputs[0]
    found: Node = _gather_below(right)
    turned: cython.bint = found is None
    if turned:
        found = _gather_below(rows)
    g: Node = right if turned else rows
    x: Node = rows if turned else right
    if found is None or not _lies_in_rows(g):
        return None
    table: Node = found.inputs[0]
    if not _pays(table, found.inputs[1], table.shape[1]):
        return None

    def rule():
        index = _index_of(x)
        sums = _sums(wrap(g, None), index, table.shape[0])
        taken = where(_taken(index, table.shape[0]), wrap(table, None), 0)
        return matmul(transpose(taken), sums) if turned else matmul(transpose(sums), taken)

    return recorded_apart(node, rule)


@cython.cfunc
def _scattered_product(node: Node):
    """The products of cotangents, added to a number at the rows taken: the product of the cotangents' sums."""
    base: Node = node.inputs[0]
    source: Node = node.inputs[2]
    if node.params != (0,) or len(node.shape) != 2 or not _is_number(base):
        return None
    product: Node = _below_views(source)
    if product is None or is_live(product):
        return None
    if product.op.form != MATMUL and product.op.form != LINEAR:
        return None
    g: Node = product.inputs[0]
    weight: Node = product.inputs[1]
    if len(weight.shape) != 2 or len(product.inputs) != 2 or not _lies_in_rows(g):
        return None
    if not _pays(base, node.inputs[1], node.shape[1]):
        return None

    def rule():
        index = _index_before(source, wrap(node.inputs[1], None))
        sums = _sums(wrap(g, None), index, node.shape[0])
        operands = (sums, wrap(weight, None))
        rows = record(product.op, operands, product.params, node.shape, node.dtype)
        start = wrap(base, None)
        return where(_taken(index, node.shape[0]), start + rows, start)

    return recorded_apart(node, rule)


# -- what is asked ---------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def _pays(table: Node, index: Node, depth: cython.longlong) -> cython.bint:
    """True if the index repeats rows often enough: multiplying the table's rows instead saves enough of the chains of
    `depth` multiply-adds."""
    rows: cython.longlong = table.shape[0]
    least: cython.longlong = device_at(table.device).tuning.products.fewest_saved_multiplications
    return (index.numel - rows) * depth >= least * index.numel and index.numel > rows > 0


@cython.cfunc
def _below_views(source: Node) -> Node:
    """The pending node, of no batch, below views that keep rows of its last dimension whole; None if there is none."""
    while source.state == PENDING and source.quotient is None:
        if source.op.kind != _view:
            return source
        if not _keeps_rows(source):
            return None
        source = source.inputs[0]
    return None


@cython.cfunc
@cython.exceptval(check=False)
def _keeps_rows(view: Node) -> cython.bint:
    """True if a view moves rows of the last dimension as they are."""
    below: Node = view.inputs[0]
    last: cython.Py_ssize_t = len(view.shape) - 1
    depth: cython.Py_ssize_t = len(below.shape) - 1
    if last < 0 or depth < 0 or view.numel == 0:
        return False
    if view.op.form == PERMUTE:
        return view.params[last] == last
    return view.op.form == RESHAPE and view.shape[last] == below.shape[depth]


@cython.cfunc
def _gather_below(source: Node) -> Node:
    """The gather of rows from a matrix that an operand views, or None."""
    found: Node = _below_views(source)
    if found is None or not _takes_rows(found) or found.params != (0,):
        return None
    return found if len(cython.cast(Node, found.inputs[0]).shape) == 2 else None


@cython.cfunc
@cython.exceptval(check=False)
def _lies_in_rows(node: Node) -> cython.bint:
    """True if the rows to be added up are in memory as they are, and not a view that is read element by element."""
    while node.op.form == RESHAPE and node.state == PENDING and node.quotient is None:
        node = node.inputs[0]
    return node.op.kind != _view


@cython.cfunc
@cython.exceptval(check=False)
def _is_number(node: Node) -> cython.bint:
    """True if a node is a number, expanded; which one is not asked, since it may be another when the program is run
    again."""
    if node.op.form != EXPAND or node.state != PENDING:
        return False
    return cython.cast(Node, node.inputs[0]).op is _scalar_op


# -- what is recorded ------------------------------------------------------------------------------------------------


@cython.cfunc
def _index_of(source: Node) -> Tensor:
    """For each row of a view of gathered rows, the row of the table: (..., k) gives (...)."""
    if _takes_rows(source):
        return wrap(source.inputs[1], None)
    index: Tensor = _index_of(source.inputs[0])
    rank: cython.Py_ssize_t = len(source.shape) - 1
    if source.op.form == PERMUTE:
        return permute(index, source.params[:rank])
    return reshape(index, source.shape[:rank])


@cython.cfunc
def _index_before(source: Node, index: Tensor) -> Tensor:
    """Positions of the rows of a view as those of the rows of what it views."""
    while source.op.kind == _view:
        below: Node = source.inputs[0]
        rank: cython.Py_ssize_t = len(source.shape) - 1
        if source.op.form == PERMUTE:
            index = permute(index, inverse_order(source.params[:rank]))
        else:
            index = reshape(index, below.shape[: len(below.shape) - 1])
        source = below
    return index


@cython.cfunc
def _sums(g: Tensor, index: Tensor, count: cython.longlong):
    """(..., n) at positions (...) gives (count, n): rows of one position added up, one after the other."""
    width = g._shape[len(g._shape) - 1]
    rows: cython.longlong = value(index).numel
    start = full((count, width), 0, g._dtype)
    return take_add(start, 0, reshape(index, (rows,)), reshape(g, (rows, width)))


@cython.cfunc
def _taken(index: Tensor, count: cython.longlong):
    """A mask of the rows of a table that an index names: (count, 1) of bool."""
    rows: cython.longlong = value(index).numel
    boolean: DType = dtypes.bool_
    yes = full((rows, 1), True, boolean)
    return take_put(full((count, 1), False, boolean), 0, reshape(index, (rows,)), yes)
