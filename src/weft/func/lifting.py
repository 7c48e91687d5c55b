# cython: language_level=3
"""Lifting (vmap by batching rules): the record of one example becomes a record over all examples.

It takes the results of a function that ran on one example, and the whole batch for each of its mapped arguments, and
returns results with a leading batch dimension. Each recorded node that depends on the example is recorded once more on
the batch, by its op's own batching rule; other nodes are shared. Values and gradient edges are lifted together.
`Unliftable` says that there is something without a rule (a custom Function, an operation that has run): the function
then has to run example by example.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.weft.engine.backward.reachability import multi_output_of
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_node
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction, OutputEdge
from cython.cimports.weft.engine.ir.node import Node, observers_on, rare_facts, result_of, save
from cython.cimports.weft.engine.ir.primitive import (
    EXPAND,
    INTO_BASE,
    LINEAR,
    MATMUL,
    OF_ELEMENTS,
    SLICES,
    Primitive,
    scalar_op,
    value_op,
)
from cython.cimports.weft.engine.ir.tape import finish

from weft._build.compiled import require
from weft.engine.frontend.resolve import edge_for
from weft.engine.ir.node import PENDING_STATE
from weft.engine.ir.primitive import COMPOSITE, CONTRACT, ELEMENTWISE, MACRO
from weft.engine.ir.tape import last_sequence, tape
from weft.ops.primitives import (
    elementwise,
    expand,
    gather,
    matmul,
    reshape,
    scatter,
    scatter_add,
    take,
    take_add,
    take_put,
    transpose,
)
from weft.ops.registry import OPS

require(__name__, cython.compiled)

Shape = tuple
_pending = cython.declare(cython.int, PENDING_STATE)
_elementwise = cython.declare(cython.int, ELEMENTWISE)
_contract = cython.declare(cython.int, CONTRACT)
_composite = cython.declare(cython.int, COMPOSITE)
_macro = cython.declare(cython.int, MACRO)
_view_op = cython.declare(Primitive, OPS["view"])
_expand_op = cython.declare(Primitive, OPS["expand"])


class Unliftable(Exception):  # noqa: N818 - says which way to go, not that something is wrong
    """Something that an example has recorded has no rule over all examples."""


@cython.cclass
class Lifting:
    """The nodes of one example, and what stands for them over all `count` examples."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    start = cython.declare(cython.longlong)
    values = cython.declare(dict, visibility="readonly")  # node of the example -> node of the batch
    edges = cython.declare(dict)  # gradient record of the example -> edge of the batch
    tracked = cython.declare(set)  # gradient records that results need
    shared = cython.declare(set)  # nodes of the example that are the same for all
    handles = cython.declare(list)  # what is kept until the map is done
    ends = cython.declare(
        set
    )  # records of the example that lead nowhere: arguments of an inner transform

    def __init__(self, count: int) -> None:
        self.count = count
        self.start = last_sequence()
        self.values = {}
        self.edges = {}
        self.tracked = set()
        self.handles = []
        self.shared = set()
        self.ends = set()

    def stand_in(self, example: Any, whole: Any) -> None:
        """Say what a mapped argument is over all examples, the batch dimension in front."""
        self.values[value(example)] = value(whole)
        edge = edge_for(whole)
        if edge is not None:
            self.edges[edge_for(example)] = edge

    def connect(self, example: Any, whole: Any) -> None:
        """`stand_in` for a result: its value, and its gradient where both have one."""
        self.values[value(example)] = value(whole)
        self.handles.append(whole)
        edge, behind = edge_for(example), edge_for(whole)
        if edge is not None and behind is not None:
            self.edges[edge] = behind
        elif edge is not None:
            self.ends.add(edge)

    def lift_pending(self) -> None:
        """Lift all that the example has recorded so far, and keep it: its records may go."""
        nodes: list = tape().since(self.start)
        node: Node
        self.walk(nodes, [n for n in nodes if n.edges is not None and not n.released])
        for node in nodes:
            if node in self.values:
                self.handles.append(wrap(self.values[node], self.edges.get(node)))

    def lift(self, results: list[Any]) -> list[Any]:
        """The results over all examples; None for what is the same for all. Errors: Unliftable."""
        nodes: list = [value(result) for result in results]
        edges: list = [edge_for(result) for result in results]
        self.walk(nodes, edges)
        lifted: list = []
        for node, edge in zip(nodes, edges, strict=True):
            if node not in self.values and (edge is None or edge not in self.edges):
                lifted.append(None)
                continue
            whole, behind = self.operand(node, edge, True)
            lifted.append(wrap(whole, behind))
        return lifted

    @cython.cfunc
    def walk(self, nodes: list, edges: list) -> cython.void:
        """Lift everything that the results depend on, oldest first."""
        self.find_records([edge for edge in edges if edge is not None])
        stack: list = [*nodes, *self.tracked]
        met: set = set()
        found: list = []
        node: Node
        while stack:
            node = stack.pop()
            if node in met or node.seq <= self.start or node in self.values:
                continue
            if node.state != _pending and node in self.shared:
                continue
            met.add(node)
            found.append(node)
            self.check(node)
            if node.inputs is not None:
                stack.extend(node.inputs)
            if result_of(node) is not None:
                stack.append(result_of(node))
        found.sort(key=_age)
        for node in found:
            self.lift_node(node)
            if node not in self.values:
                self.shared.add(node)

    @cython.cfunc
    def find_records(self, stack: list) -> cython.void:
        """The gradient records of the example that results lead to, and through which of them a gradient gets on."""
        new: list = []
        while stack:
            record = stack.pop()
            if record in self.edges or record in self.ends:
                continue
            if isinstance(record, OutputEdge):
                record = cython.cast(OutputEdge, record).function
            if isinstance(record, GradientFunction):
                if cython.cast(GradientFunction, record).seq > self.start:
                    raise Unliftable("a custom Function")
                continue
            if isinstance(record, AccumulateGrad) or record in self.tracked:
                continue
            if cython.cast(Node, record).seq <= self.start:
                continue
            below: list = [e for e in cython.cast(Node, record).edges if e is not None]
            if below:
                self.tracked.add(record)
                new.append(record)
                stack.extend(below)
            else:
                self.ends.add(record)
        self.end_what_leads_to_ends(new)

    @cython.cfunc
    def end_what_leads_to_ends(self, records: list) -> cython.void:
        """Records of inner transforms around one another lead to ends only, and are ends themselves."""
        records.sort(key=_age)
        for record in records:
            for edge in cython.cast(Node, record).edges:
                if edge is not None and edge not in self.ends:
                    break
            else:
                self.tracked.discard(record)
                self.ends.add(record)

    @cython.cfunc
    def check(self, node: Node) -> cython.void:
        """Errors: Unliftable where a node has run, is in a batch, or is somebody else's business too."""
        if node.quotient is not None:
            raise Unliftable("a node of a batch")
        if node in self.tracked and (node.released or _is_observed(node)):
            raise Unliftable("a gradient record that is released or observed")
        known: cython.bint = node.op is value_op or node.op is scalar_op
        if node.state != _pending and not known:
            raise Unliftable("a value that has been read")

    @cython.cfunc
    def depends(self, node: Node, tracked: cython.bint) -> cython.bint:
        """True if a node's value or gradient differs from example to example."""
        if node.inputs is not None:
            for source in node.inputs:
                if source in self.values:
                    return True
        if tracked:
            for edge in node.edges:
                if edge is not None and edge in self.edges:
                    return True
        return False

    @cython.cfunc
    def lift_node(self, node: Node) -> cython.void:
        """Record a node over all examples, where it depends on them."""
        tracked: cython.bint = node in self.tracked
        if not self.depends(node, tracked):
            return
        if not tracked and node.op.kind == _elementwise and node.op.batch is None:
            self.values[node] = self.by_element(node)
            return
        if node.inputs is None or node.op.kind == _composite:
            self.lift_record(node)
            return
        operands: list = []
        behind: list = []
        flags: list = []
        index: cython.Py_ssize_t
        for index in range(len(node.inputs)):
            edge = node.edges[index] if tracked else None
            source, edge_of_batch = self.operand(node.inputs[index], edge, False)
            operands.append(source)
            behind.append(edge_of_batch)
            flags.append(source is not node.inputs[index])
        whole: Node = self.record(node, operands, behind, flags, tracked)
        self.values[node] = whole
        if tracked:
            self.edges[node] = whole

    @cython.cfunc
    def by_element(self, node: Node) -> Node:
        """An elementwise operation without a gradient, on the batch: what most nodes are. Operands of fewer dimensions
        get the others behind the first one."""
        rank: cython.Py_ssize_t = len(node.shape)
        operands: list = []
        source: Node
        for source in node.inputs:
            whole = self.values.get(source)
            if whole is None:
                operands.append(source)
                continue
            missing: cython.Py_ssize_t = rank - len(source.shape)
            if missing > 0:
                shape: Shape = (self.count, *(1,) * missing, *source.shape)
                whole = _viewed(_view_op, whole, None, shape, shape)[0]
            operands.append(whole)
        numel: cython.longlong = self.count * node.numel
        whole_shape: Shape = (self.count, *node.shape)
        return new_node(node.op, tuple(operands), node.params, whole_shape, numel, node.dtype, None)

    @cython.cfunc
    def operand(self, source: Node, edge, always: cython.bint):
        """The value and the edge of an operand over all examples; as they are where nothing depends on them."""
        if edge is not None and edge in self.ends:
            edge = None
        batched: cython.bint = source in self.values
        below = None if edge is None else self.edges.get(edge)
        if below is None and not batched and not always:
            return source, edge
        if batched and edge is not None and below is None:
            raise Unliftable("a value that depends on the example, with a gradient that does not")
        whole: Node = self.values[source] if batched else self.repeated(source, None)[0]
        return whole, below

    @cython.cfunc
    def repeated(self, source: Node, edge):
        """A value that is the same for all examples, with a batch dimension."""
        shape: Shape = source.shape
        one, behind = _viewed(_view_op, source, edge, (1, *shape), (1, *shape))
        many: Shape = (self.count, *shape)
        return _viewed(_expand_op, one, behind, many, many)

    @cython.cfunc
    def record(
        self, node: Node, operands: list, behind: list, flags: list, tracked: cython.bint
    ) -> Node:
        """The same operation on the batch."""
        op: Primitive = node.op
        shapes: Shape = tuple([cython.cast(Node, source).shape for source in node.inputs])
        if op.form == LINEAR and flags[1:] != [False] * (len(flags) - 1):
            return self.linear(node, operands, behind, flags)
        if op.form == SLICES and flags != [False, True]:
            return self.indexed(node, operands, behind, flags)
        shapes = self.align(node, operands, behind, flags, shapes)
        if op.form == MATMUL and shapes[0][len(shapes[0]) - 1] == 1:
            return _outer(operands, behind)
        if op.sums == OF_ELEMENTS and _adds_nothing(node):
            return _unsummed(operands[0], behind[0], (self.count, *node.shape))
        params = node.params
        if op.batch is not None:
            params = op.batch(params, shapes, tuple(flags), self.count)
        if op.kind != _elementwise and (
            op.batch is None or (params is None and node.params is not None)
        ):
            raise Unliftable(f"{op.name} over all examples")
        shape: Shape = (self.count, *node.shape)
        return _recorded(op, operands, behind, params, shape, node, tracked)

    @cython.cfunc
    def align(self, node: Node, operands: list, behind: list, flags: list, shapes: Shape) -> Shape:
        """Bring the operands into the shapes that the batch rule expects, the batch dimension in front; their shapes
        at one example."""
        op: Primitive = node.op
        aligned: cython.bint = op.kind in (_elementwise, _contract, _macro)
        rank: cython.Py_ssize_t = len(node.shape)
        index: cython.Py_ssize_t
        for index in range(len(operands)):
            missing: cython.Py_ssize_t = rank - len(shapes[index])
            if not flags[index]:
                if not aligned and op.form != SLICES:
                    operands[index], behind[index] = self.repeated(operands[index], behind[index])
                    flags[index] = True
            elif missing > 0 and (aligned or op.form == EXPAND):
                shape: Shape = (self.count, *(1,) * missing, *shapes[index])
                operands[index], behind[index] = _viewed(
                    _view_op, operands[index], behind[index], shape, shape
                )
                if not aligned:
                    shapes = (shape[1:],)
        return shapes

    @cython.cfunc
    def lift_record(self, node: Node) -> cython.void:
        """A gradient record without a value of its own: a view, a region written, a composite."""
        if node not in self.tracked:
            return
        op: Primitive = node.op
        shapes: Shape = node.operand_shapes if node.operand_shapes is not None else (node.shape,)
        edges: list = []
        inputs: list = []
        index: cython.Py_ssize_t
        for index in range(len(node.edges)):
            edge = node.edges[index]
            if edge is not None and edge in self.ends:
                edge = None
            below = None if edge is None else self.edges.get(edge)
            if edge is not None and below is None:
                raise Unliftable("a gradient that does not depend on the example")
            edges.append(below)
            if node.inputs is not None:
                inputs.append(self.operand(node.inputs[index], None, True)[0])
        flags = (True,) * len(edges)
        params = node.params
        if op.batch is not None:
            params = op.batch(params, shapes, flags, self.count)
        known: cython.bint = op.batch is not None or op.kind == _elementwise
        if not known or (params is None and node.params is not None):
            raise Unliftable(f"the gradient of {op.name} over all examples")
        shape: Shape = (self.count, *node.shape)
        sources = tuple(inputs) if node.inputs is not None else None
        whole: Node = new_node(
            op, sources, params, shape, count_elements(shape), node.dtype, tuple(edges)
        )
        whole.operand_shapes = tuple([(self.count, *part) for part in shapes])
        if result_of(node) is not None:
            rare_facts(whole).result = self.operand(result_of(node), None, True)[0]
            save(result_of(whole))
        whole.batch_seen = op.kind == _elementwise
        finish(whole)
        self.edges[node] = whole

    # -- rows whose own rule does not say everything ---------------------------------------------------------------

    @cython.cfunc
    def wrapped(self, node: Node, operands: list, behind: list, flags: list) -> list:
        """The operands as tensors with a batch dimension each."""
        found: list = []
        index: cython.Py_ssize_t
        for index in range(len(operands)):
            if not flags[index]:
                operands[index], behind[index] = self.repeated(operands[index], behind[index])
            found.append(wrap(operands[index], behind[index]))
        return found

    @cython.cfunc
    def linear(self, node: Node, operands: list, behind: list, flags: list) -> Node:
        """x @ weight.T + bias where the weight or the bias is another one for each example: a product of batches."""
        tensors: list = self.wrapped(node, operands, behind, flags)
        size: cython.Py_ssize_t = cython.cast(Node, node.inputs[1]).shape[1]
        rows: cython.Py_ssize_t = cython.cast(Node, node.inputs[0]).numel // max(size, 1)
        result = matmul(reshape(tensors[0], (self.count, rows, size)), transpose(tensors[1]))
        result = reshape(result, (self.count, *node.shape))
        if len(tensors) == 3:
            width: cython.Py_ssize_t = node.shape[len(node.shape) - 1]
            ones: Shape = (1,) * (len(node.shape) - 1)
            result = elementwise("add", result, reshape(tensors[2], (self.count, *ones, width)))
        return value(result)

    @cython.cfunc
    def indexed(self, node: Node, operands: list, behind: list, flags: list) -> Node:
        """Slices through indices along a dimension, where not only the index is another one for each example: as
        single elements, so that indices are checked against one example's size."""
        axis: cython.Py_ssize_t = node.params[0] + 1
        table: Node = node.inputs[0]
        index: Node = node.inputs[1]
        writes: cython.bint = len(operands) == 3
        shared: Tensor = wrap(operands[1], None)
        keep: cython.bint = not flags[1]
        flags[1] = flags[1] or keep
        tensors: list = self.wrapped(node, operands, behind, flags)
        if keep:
            if not writes:
                return value(take(tensors[0], axis, shared))
            function = take_add if node.op.sums == INTO_BASE else take_put
            return value(function(tensors[0], axis, shared, tensors[2]))
        before: Shape = table.shape[: axis - 1]
        after: Shape = table.shape[axis:]
        places = reshape(
            tensors[1], (self.count, *(1,) * len(before), index.numel, *(1,) * len(after))
        )
        flat: Shape = (self.count, *before, index.numel, *after)
        places = expand(places, flat)
        if not writes:
            return value(reshape(gather(tensors[0], axis, places), (self.count, *node.shape)))
        store = scatter_add if node.op.sums == INTO_BASE else scatter
        return value(store(tensors[0], axis, places, reshape(tensors[2], flat)))


@cython.cfunc
def _is_observed(node: Node) -> cython.bint:
    """True if users have attached something to a record, or to that of an operation with several outputs."""
    joint = multi_output_of(node)
    return observers_on(node) is not None or (joint is not None and joint.observers is not None)


def _age(node: Node) -> int:
    return node.seq


@cython.cfunc
def _outer(operands: list, behind: list) -> Node:
    """A product over a dimension of size 1, as elements: what it costs is writing the result. Adding 0 makes what a
    matrix product makes of a negative zero."""
    column: Tensor = wrap(operands[0], behind[0])
    op: Tensor = wrap(operands[1], behind[1])
    return value(column * op + 0)


@cython.cfunc
def _adds_nothing(node: Node) -> cython.bint:
    """True if a sum is over dimensions of size 1, in the dtype of its operand."""
    source: Node = node.inputs[0]
    return node.numel == source.numel and node.dtype is source.dtype


@cython.cfunc
def _unsummed(source: Node, edge, shape: Shape) -> Node:
    """A sum over dimensions of size 1: the elements as they are, but for what a sum makes of a negative zero."""
    return value(reshape(wrap(source, edge) + 0, shape))


@cython.cfunc
def _viewed(op: Primitive, source: Node, edge, params, shape: Shape):
    """A view of a value, and its gradient record where there is an edge."""
    if source.shape == shape:
        return source, edge
    edges = None if edge is None else (edge,)
    node: Node = new_node(op, (source,), params, shape, count_elements(shape), source.dtype, edges)
    if edge is None:
        return node, None
    node.operand_shapes = (source.shape,)
    return node, node


@cython.cfunc
def _recorded(
    op: Primitive,
    operands: list,
    behind: list,
    params,
    shape: Shape,
    like: Node,
    tracked: cython.bint,
) -> Node:
    """A node of the dtype of another."""
    node: Node = new_node(
        op,
        tuple(operands),
        params,
        shape,
        count_elements(shape),
        like.dtype,
        tuple(behind) if tracked else None,
    )
    if tracked:
        node.operand_shapes = tuple([cython.cast(Node, source).shape for source in operands])
    return node
