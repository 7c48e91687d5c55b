"""The recorded graph as text, and its verifier.

It takes the pending nodes of a tape, oldest first. `text` has a line for each: its value inputs, its value, the
targets of its cotangents. `verify` checks each against the op table: the shape and the dtype must be those that its op
makes of the inputs, each input must have a gradient edge to something of its shape, and exactly the residuals that the
derivatives of these edges need must be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.engine.frontend.recorder import COMPARE, LOGICAL
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import primitive as kinds
from weft.engine.ir.grad_edges import AccumulateGrad, OutputEdge
from weft.engine.ir.node import PENDING_STATE as PENDING
from weft.engine.ir.node import RESULT_BIT, Node
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import VerificationError

if TYPE_CHECKING:
    from weft._typing import GradientEdge

ATTENTION = [kinds.FORMS["contract"][form] for form in ("attention", "attention_gradient")]

OF_FIRST = (kinds.VIEW, kinds.REGION, kinds.CONTRACT, kinds.INDEX, kinds.SCATTER)


def text(nodes: list[Node]) -> str:
    """One line per pending node, oldest first: its value inputs, its value, where its cotangents go."""
    names = {node: f"%{number}" for number, node in enumerate(nodes)}
    lines = []
    for node in nodes:
        operands = ", ".join(_operand(source, names) for source in node.inputs or ())
        params = "" if node.params is None else f" {node.params!r}"
        edges = "" if node.edges is None else " | " + ", ".join(_edge(e, names) for e in node.edges)
        lines.append(f"{names[node]} = {node.op.name}({operands}){params} : {_kind(node)}{edges}")
    return "\n".join(lines)


def _kind(node: Node) -> str:
    return f"{node.dtype.name}{list(node.shape)}"


def _operand(node: Node, names: dict[Node, str]) -> str:
    if node.op is SCALAR_OP:
        return repr(node.params)
    return names.get(node) or f"value {_kind(node)}"


def _edge(edge: GradientEdge, names: dict[Node, str]) -> str:
    """A gradient edge: the record of an input, a leaf, or none."""
    if edge is None:
        return "-"
    if isinstance(edge, AccumulateGrad):
        return f"leaf{list(edge.variable.shape)}"
    if isinstance(edge, OutputEdge):
        function: Any = edge.function
        return f"{function.name()}.{edge.number}"
    record: Any = edge
    return names.get(record) or str(record.name())


# -- what holds ----------------------------------------------------------------------------------------------------


def verify(nodes: list[Node]) -> None:
    """Every pending node is what the op table says. Errors: VerificationError."""
    for node in nodes:
        if node.state != PENDING or node.inputs is None:
            continue
        for source in node.inputs:
            if source.seq >= node.seq:
                raise _wrong(node, "inputs that were recorded before it", source)
        _expect(node, "shape", _shape(node))
        _expect(node, "dtype", _dtype(node))
        if node.edges is not None:
            _verify_edges(node)
            _verify_residuals(node)


def _wrong(node: Node, expected: str, got: object) -> VerificationError:
    return VerificationError("record", expected=f"{node!r} with {expected}", got=repr(got))


def _expect(node: Node, field: str, expected: object) -> None:
    got = getattr(node, field)
    if expected is not None and got != expected:
        raise _wrong(node, f"{field} {expected!r}, as its op says", got)


def _shape(node: Node) -> Any:
    """The shape that a row makes of its operands' shapes; None where it leaves that free."""
    op, shapes = node.op, [source.shape for source in node.inputs]
    if op.kind == kinds.ROWS or (len(shapes) == 1 and shapes[0] == node.shape):
        return None  # rows that a batch has brought together are all parts of a joint already
    if op.shape is None:
        return broadcast_shapes(shapes, op.name) if shapes else None
    expected = op.shape(node.params, *shapes)
    if (
        op.form
        in (kinds.FORMS["contract"]["attention"], kinds.FORMS["contract"]["attention_gradient"])
        and node.shape[-len(expected) :] == expected
    ):
        return None  # its rule asks the query alone, which the examples of a batch may share
    return expected


def _dtype(node: Node) -> Any:
    """The dtype that an op makes of its operands' dtypes; None if the recorder chooses it."""
    op, given = node.op, [source.dtype for source in node.inputs]
    if op.kind in OF_FIRST:
        return given[0]
    if op.kind != kinds.ELEMENTWISE or op.is_cast or not given:
        return None
    if op.rule in (COMPARE, LOGICAL):
        return dtypes.bool_
    return given[-1] if op.dtype is None else op.dtype(node.params, given[-1])


def _verify_edges(node: Node) -> None:
    """One gradient edge for each input, or none; it leads to something of the input's shape."""
    if not node.op.differentiable:
        raise _wrong(node, "no gradient edges, since it has no derivative", node.edges)
    if len(node.edges) != len(node.inputs):
        raise _wrong(node, f"{len(node.inputs)} gradient edges, one for each input", node.edges)
    for edge, source in zip(node.edges, node.inputs, strict=True):
        shape = _edge_shape(edge)
        if shape is not None and shape != source.shape:
            raise _wrong(node, f"an edge to a gradient of shape {source.shape}", (edge, shape))


def _edge_shape(edge: GradientEdge) -> Any:
    """The shape of the cotangents that an edge takes; None where it says nothing of it."""
    if isinstance(edge, Node):
        return edge.shape
    if isinstance(edge, AccumulateGrad) and edge.expects is None and edge.variable is not None:
        return tuple(edge.variable.shape)
    return None


def _verify_residuals(node: Node) -> None:
    """Check the residuals of a node: exactly the inputs that the derivatives of its edges need are kept, each
    referenced."""
    if not node.has_residuals:
        return
    masks = node.op.residual_masks
    needed = 0
    for number, edge in enumerate(node.edges):
        if edge is not None:
            needed |= masks[min(number, len(masks) - 1)]
    if node.residual_mask != needed:
        raise _wrong(node, f"residuals {needed:#x}", f"{node.residual_mask:#x}")
    held = node.inputs[:RESULT_BIT] if node.observers is None else ()
    for number, source in enumerate(held):
        if node.residual_mask >> number & 1 and source.external_refs <= 0:
            raise _wrong(node, f"its input {number} held", source)
