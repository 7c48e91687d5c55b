# cython: language_level=3
"""Collect and simplify: from the tape to the nodes that have to run, in an order in which they can.

In comes a tape; out goes a Program with `order` (each node after its value inputs, equal values once) and `places`
(views, rows of batches and duplicates as regions of what is computed; a product's operand may have axes of several
dimensions, `implicit_gemm`). A macro lies where what it stands for does (`decompose`). Dead code is what no live value
reaches: it stays on the tape, untouched. Nothing is rewritten; the recorded nodes keep their inputs.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import equal, mix
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.tape import finish
from cython.cimports.weft.engine.pipeline.batching.membership import in_ragged
from cython.cimports.weft.engine.pipeline.program_ir import (
    Place,
    Program,
    has_place,
    operand,
    place_of,
    region,
    row_major,
)

from weft._build.compiled import require
from weft.engine.frontend.node_factory import make_node
from weft.engine.ir.primitive import MACRO, ROWS, SCALAR_ROW, VIEW
from weft.engine.pipeline.simplify.decompose import expand
from weft.engine.pipeline.simplify.gather_matmul import exchanged
from weft.errors import VerificationError
from weft.ops.row import TABLE

require(__name__, cython.compiled)

_add_row = cython.declare(Primitive, TABLE["add"])
_cat_row = cython.declare(Primitive, TABLE["cat"])
_stack_row = cython.declare(Primitive, TABLE["stack"])
_sum_row = cython.declare(Primitive, TABLE["sum"])
_strided_row = cython.declare(Primitive, TABLE["strided"])
_view_row = cython.declare(Primitive, TABLE["view"])
_linear_bias_row = cython.declare(Primitive, TABLE["linear_bias"])
_linear_row = cython.declare(Primitive, TABLE["linear"])
_matmul_row = cython.declare(Primitive, TABLE["matmul"])
_take_add_row = cython.declare(Primitive, TABLE["take_add"])
_scalar_row = cython.declare(Primitive, SCALAR_ROW)
_macro = cython.declare(cython.int, MACRO)
_rows = cython.declare(cython.int, ROWS)
_view = cython.declare(cython.int, VIEW)


def collect(pending: list) -> Program:
    """The program of everything live among pending nodes (oldest first)."""
    program: Program = Program()
    needed: list = []
    node: Node
    for node in pending:
        if node.live > 0 and node.state == PENDING:
            needed.append(node)
    known: dict = {}
    for node in needed:
        if has_place(program, node):
            continue
        if node.quotient is not None and has_place(program, node.quotient):
            _place_member(program, node)
        else:
            _visit(program, node, known)
    _note_ends(program)
    for node in program.order:
        if node.row.kind == _view:
            _absorb(program)
            break
    return program


@cython.cfunc
def _note_ends(program: Program) -> cython.void:
    """List what comes from outside, and what is seen from there afterwards."""
    node: Node
    place: Place
    number: cython.Py_ssize_t
    for number in range(len(program.placed)):
        node = program.placed[number]
        place = program.places[number]
        root: Node = place.root
        if root.state == DONE and place.value.slot < 0:
            place.value.slot = len(program.external)
            program.external.append(root)
        if node.live > 0:
            if root.state == PENDING:
                place.value.kept = True
                program.kept.add(root)
            else:
                program.viewed.add(root)


@cython.cfunc
def _absorb(program: Program) -> cython.void:
    """Reshapes that matrix products read where their source lies."""
    from weft.engine.pipeline.simplify.implicit_gemm import absorb

    absorb(program)


@cython.cfunc
def _visit(program: Program, start: Node, known: dict) -> cython.void:
    """Depth-first by an explicit stack: values before their readers."""
    stack: list = [start]
    node: Node
    source: Node
    while stack:
        node = stack[len(stack) - 1]
        if has_place(program, node):
            stack.pop()
            continue
        ready: cython.bint = True
        if node.quotient is not None and node.state == PENDING:
            if not has_place(program, node.quotient):
                stack.append(node.quotient)
                ready = False
        elif node.state == PENDING and _stands_for(program, node) is not None:
            source = program.expanded[node]
            if not has_place(program, source):
                stack.append(source)
                ready = False
        elif node.state == PENDING:
            for source in node.inputs:
                if not has_place(program, source):
                    if source.state == PENDING:
                        stack.append(source)
                        ready = False
                    else:
                        _place_value(program, source, known)
        if ready:
            stack.pop()
            _place(program, node, known)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_macro(node: Node) -> cython.bint:
    """Whether a node stands for others: a macro, or a stack whose parts no gather has brought together."""
    return node.row.kind == _macro or (node.row.code == _stack_row.code and len(node.inputs) > 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _may_be_exchanged(node: Node) -> cython.bint:
    """Whether a node is a product, or a scatter of rows."""
    code: cython.int = node.row.code
    return (
        code == _matmul_row.code
        or code == _linear_row.code
        or code == _linear_bias_row.code
        or code == _take_add_row.code
    )


@cython.cfunc
def _stands_for(program: Program, node: Node) -> Node:
    """What is computed in place of a node: a macro's value in primitives, a product of gathered rows in rows of a
    product; None where that is the node itself."""
    macro: cython.bint = _is_macro(node)
    if not macro and not _may_be_exchanged(node):
        return None
    if node not in program.expanded:
        program.expanded[node] = expand(node) if macro else exchanged(node)
    return program.expanded[node]


@cython.cfunc
def _place_value(program: Program, node: Node, known: dict) -> cython.void:
    """A value that exists: itself, or an equal number met before."""
    if node.row is _scalar_row:
        key = _key_of_number(node)
        other = known.get(key)
        if other is None:
            known[key] = node
        else:
            program.set_place(node, place_of(program, other))
            return
    strides = node.strides
    program.new_value(node, row_major(node.shape) if strides is None else strides)


@cython.cfunc
def _key_of_number(node: Node) -> tuple:
    """What equal numbers have in common; zeros differ by their sign, and a NaN is equal to itself."""
    number = node.params
    if type(number) is int or (type(number) is float and (number > 0.0 or number < 0.0)):
        return node.dtype.code, type(number), number
    return node.dtype.code, type(number), repr(number)


@cython.cfunc
def _place(program: Program, node: Node, known: dict) -> cython.void:
    """Where a node lies whose operands have a place; what is to be computed for it comes next in the order."""
    if node.state == DONE:
        _place_value(program, node, known)
    elif node.quotient is not None:
        _place_member(program, node)
    elif _stands_for(program, node) is not None:
        program.set_place(node, place_of(program, program.expanded[node]))
    elif node.row.kind == _rows:
        _place_computed(program, node, known)
    else:
        key = _digest(program, node)
        other = known.get(key)
        if other is not None and _is_same(program, node, other):
            program.set_place(node, place_of(program, other))
            return
        if other is not None and _is_reshaped(program, node, other):
            place = place_of(program, other)
            program.set_place(node, region(place, place.offset, row_major(node.shape), node.shape))
            return
        _place_computed(program, node, known)
        if other is None:
            known[key] = node


@cython.cfunc
def _place_member(program: Program, node: Node) -> cython.void:
    """Where a member of a batch lies that has a place: in its rows."""
    below: Place = place_of(program, node.quotient)
    strides: tuple
    if below.whole and not in_ragged(node):
        strides = row_major(node.shape)
    else:
        strides = below.strides if in_ragged(node) else below.strides[1:]
    start: cython.longlong = below.strides[node.quotient.info[2]]
    program.set_place(node, region(below, below.offset + node.qrow * start, strides, node.shape))


@cython.cfunc
def _place_computed(program: Program, node: Node, known: dict) -> cython.void:
    """Where a node lies that nobody has computed yet: in its operand, or in memory of its own."""
    place: Place = None
    if node.row.kind == _view:
        place = _view_place(program, node, known)
    elif len(node.inputs) == 1 and (
        node.row is _cat_row or node.row.code == _stack_row.code or node.row is _add_row
    ):
        place = place_of(program, node.inputs[0])  # of a batch of rows that one gather has made
    elif node.row is _sum_row:
        place = _sum_place(program, node)
    if place is None:
        program.new_value(node, row_major(node.shape))
        program.order.append(node)
    else:
        program.set_place(node, place)
    program.connect(node)


@cython.cfunc
def _sum_place(program: Program, node: Node) -> Place:
    """Where a sum lies over a dimension that a view has put in, as in the gradient that a bias gets from one vector, or
    None. (Other sums of one element are computed: they make 0 of -0.)"""
    source: Node = node.inputs[0]
    if source.row is not _view_row or source.state == DONE or source.numel == 0:
        return None
    if source.dtype is not node.dtype or not equal(
        cython.cast(Node, source.inputs[0]).shape, node.shape
    ):
        return None
    below: Place = place_of(program, source)
    axes, keepdim = node.params
    strides: tuple = tuple(
        [step for axis, step in enumerate(below.strides) if keepdim or axis not in axes]
    )
    return region(below, below.offset, strides, node.shape)


@cython.cfunc
def _digest(program: Program, node: Node):
    """A number that is the same for two nodes which compute the same."""
    h: cython.ulonglong = mix(node.row.code, node.numel << 8 | node.dtype.code)
    if node.params is not None and not _is_of_rows(node):
        h = mix(h, hash(node.params))
    source: Node
    place: Place
    for source in node.inputs:
        place = place_of(program, source)
        h = mix(h, cython.cast(cython.longlong, cython.cast(cython.p_void, place.root)))
        h = mix(h, place.offset)
    return h


@cython.cfunc
def _is_same(program: Program, node: Node, other: Node) -> cython.bint:
    """Whether a node computes the same as one that has a place: one row, of the same regions."""
    if node.row is not other.row or node.dtype is not other.dtype:
        return False
    if len(node.inputs) != len(other.inputs) or not equal(node.shape, other.shape):
        return False
    if not equal(node.params, other.params):
        return False
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        here: Place = place_of(program, node.inputs[index])
        there: Place = operand(program, other, index)
        if here is there:
            continue
        if here.root is not there.root or here.offset != there.offset:
            return False
        if not equal(here.strides, there.strides) or not equal(here.shape, there.shape):
            return False
    return True


@cython.cfunc
def _is_reshaped(program: Program, node: Node, other: Node) -> cython.bint:
    """Whether a node computes the elements of one that has a place, in their order, and shapes alone differ: parts
    below each other, or sums over the leading dimensions, of the same memory. So the rows of all times of a loop, which
    a weight's gradient and the sequence's cotangent both want, are laid out once."""
    if node.row is not other.row or node.dtype is not other.dtype or node.numel != other.numel:
        return False
    if not (_is_of_rows(node) and _is_of_rows(other)) or len(node.inputs) != len(other.inputs):
        return False
    index: cython.Py_ssize_t
    for index in range(len(node.inputs)):
        here: Place = place_of(program, node.inputs[index])
        there: Place = operand(program, other, index)
        part: Node = node.inputs[index]
        if here.root is not there.root or here.offset != there.offset:
            return False
        if part.numel != cython.cast(Node, other.inputs[index]).numel:
            return False
        if not (_is_dense(here) and _is_dense(there)):
            return False
    return _is_dense(place_of(program, other))


@cython.cfunc
@cython.exceptval(check=False)
def _is_of_rows(node: Node) -> cython.bint:
    """Whether a node lays its parts below each other, or sums over leading dimensions."""
    if node.row is _cat_row:
        return node.params[0] == 0
    if node.row is not _sum_row or node.params[1]:
        return False
    axes: tuple = node.params[0]
    return axes == tuple(range(len(axes)))


@cython.cfunc
@cython.exceptval(check=False)
def _is_dense(place: Place) -> cython.bint:
    return equal(place.strides, row_major(place.shape))


@cython.cfunc
def _view_place(program: Program, node: Node, known: dict) -> Place:
    """Where a view lies without moving anything, or None where it has to be copied."""
    source: Node = node.inputs[0]
    below: Place = place_of(program, source)
    dense: cython.bint = equal(below.strides, row_major(source.shape))
    if dense and node.row is _view_row:
        return region(below, below.offset, row_major(node.shape), node.shape)
    if node.row is _strided_row and not dense:
        copy: Node = make_node(TABLE["clone"], (source,), None, source.shape, source.dtype)
        finish(copy)
        _place(program, copy, known)
        below = place_of(program, copy)
    strides, offset = node.row.strides(node.params, source.shape, below.strides, below.offset)
    return None if strides is None else region(below, offset, strides, node.shape)


def verify(program: Program):
    """Every node of the order comes after what it reads, and none twice."""
    seen: set = set()
    for node in program.order:
        for source in node.inputs:
            root = program.place(source).root
            if root.state == PENDING and root not in seen:
                raise VerificationError(
                    "collect", expected=f"{root!r} before {node!r}", got="after it or missing"
                )
        if node in seen:
            raise VerificationError("collect", expected="each node once", got=f"{node!r} twice")
        seen.add(node)


def text(program: Program):
    """The order, one line per node."""
    names = {node: f"%{i}" for i, node in enumerate(program.order)}
    lines = []
    for node in program.order:
        operands = []
        for source in node.inputs:
            place = program.place(source)
            label = names.get(place.root)
            if label is None:
                label = (
                    str(place.root.params)
                    if place.root.row is SCALAR_ROW
                    else f"value{list(place.root.shape)}"
                )
            elif source.shape != place.root.shape or place.offset:
                label += f"[{place.offset}:{'x'.join(map(str, source.shape))}]"
            operands.append(label)
        lines.append(
            f"{names[node]} = {node.row.name}({', '.join(operands)})"
            f"{'' if node.params is None else ' ' + repr(node.params)}"
            f" : {node.dtype.name}{list(node.shape)}{' live' if node.live > 0 else ''}"
        )
    return "\n".join(lines)
