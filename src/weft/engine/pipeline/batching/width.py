# cython: language_level=3
"""Width of a graph: one pass decides if it may be wide enough for batches, before any node is compared with another.

The pass takes nodes that no search has considered, oldest first. It counts those that could join a group, the levels of
the longest path, where the additions of a sum count once, and the nodes that products by one weight at one depth would
save. The decision depends on the graph alone, so a program forms the same batches each time.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.weft.engine.devices.api import several
from cython.cimports.weft.engine.devices.tuning import Batching
from cython.cimports.weft.engine.ir.node import PENDING, Node, crosses
from cython.cimports.weft.engine.ir.prefetch import prefetch_inputs
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.pipeline.batching.batch_key import (
    address_of,
    adds_rows,
    joins_tables,
    most_bytes,
    operand_role,
    tuning_of,
)

from weft._build.compiled import require
from weft.engine.ir.primitive import CONTRACT, SOURCE, VIEW

require(__name__, cython.compiled)

_SOURCE = cython.declare(cython.int, SOURCE)
_VIEW = cython.declare(cython.int, VIEW)
_CONTRACT = cython.declare(cython.int, CONTRACT)


@cython.final
@cython.no_gc
@cython.cclass
class GraphWidth:
    """Counts of the nodes before a position. `depth` and `additions` hold for each node the length of the longest path
    to it, in nodes and in sums that go on from each other."""

    nodes = cython.declare(list)
    depth = cython.declare(cython.p_int)
    additions = cython.declare(cython.p_int)
    joinable = cython.declare(cython.Py_ssize_t)
    deepest = cython.declare(cython.int)
    longest_sum = cython.declare(cython.int)
    begun = cython.declare(cython.Py_ssize_t)  # sums that another one goes on from
    # op, weight (0: any, or one to be computed), its size and depth -> how many there are
    products = cython.declare(dict)
    product_count = cython.declare(cython.Py_ssize_t)
    spared = cython.declare(cython.double)  # nodes, by products that go together

    def __cinit__(self, nodes: list):
        self.nodes = nodes
        self.products = {}
        self.depth = cython.cast(cython.p_int, calloc(len(nodes) + 1, cython.sizeof(cython.int)))
        self.additions = cython.cast(
            cython.p_int, calloc(len(nodes) + 1, cython.sizeof(cython.int))
        )
        if self.depth == cython.NULL or self.additions == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.depth)
        free(self.additions)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def measure(self, position: cython.Py_ssize_t, joins: cython.bint) -> cython.int:
        """Put a node one level behind its inputs; `joins` is true if it could join a group."""
        node: Node = self.nodes[position]
        source: Node
        below: cython.longlong
        highest: cython.int = 0
        added: cython.int = 0
        node.index = position
        if node.inputs is None:
            return 0
        adds: cython.bint = joins and adds_rows(node)
        for source in node.inputs:
            if source is None or source.state != PENDING:
                continue
            below = source.index
            if below >= position or self.nodes[below] is not source:
                continue
            highest = max(highest, self.depth[below])
            if adds:
                added = max(added, self.additions[below])
        self.depth[position] = highest + 1
        if node.external_refs > 0:  # a live value: the longest path ends at one
            self.deepest = max(self.deepest, highest + 1)
        if adds:
            self.begun += added > 0
            self.additions[position] = added + 1
            self.longest_sum = max(self.longest_sum, added)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def measure_product(self, position: cython.Py_ssize_t, tuning: Batching) -> cython.int:
        """Add a product to those at its depth by the same weight, or by values of one size that are no weight, and the
        nodes that it saves there, estimated as in `batch._pays`."""
        node: Node = self.nodes[position]
        weight: Node = node.inputs[1]
        shared: cython.longlong = 0 if operand_role(node, 1) == "b" else address_of(weight)
        product: tuple = (node.op.code, shared, weight.numel, self.depth[position])
        others: cython.Py_ssize_t = self.products.get(product, 0)
        self.products[product] = others + 1
        self.product_count += 1
        self.spared += max(0.0, spared_by(node, others + 1, tuning))
        self.spared -= max(0.0, spared_by(node, others, tuning))
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def suffices(self, tuning: Batching) -> cython.bint:
        """True if there are enough nodes per level (half as many in a small graph), or products that go together."""
        few: cython.bint = self.joinable < tuning.narrow_nodes
        least: cython.double = 0 if few else self.product_count / tuning.nodes_of_a_spared_one
        sums: cython.bint = 4 * self.begun > self.joinable and self.begun >= tuning.fewest_rows
        if sums or (self.spared > 0 and self.spared >= least):
            return True
        steps: cython.longlong = self.deepest - self.longest_sum
        return self.joinable * (2 if few else 1) >= tuning.fewest_nodes_of_a_step * steps


@cython.cfunc
def is_wide(nodes: list) -> cython.bint:
    """True if groups among some nodes may be large enough to pay."""
    width: GraphWidth = GraphWidth(nodes)
    tuning: Batching = tuning_of(nodes[0])
    node: Node
    position: cython.Py_ssize_t
    for position in range(len(nodes)):
        prefetch_inputs(nodes, position)
        node = nodes[position]
        joins: cython.bint = not node.batch_seen and node.state == PENDING and may_join(node)
        width.measure(position, joins)
        width.joinable += joins
        if joins and node.op.kind == _CONTRACT:
            width.measure_product(position, tuning)
            if width.spared >= tuning.narrow_nodes:
                return True
    return width.suffices(tuning)


@cython.cfunc
@cython.exceptval(check=False)
def spared_by(node: Node, count: cython.Py_ssize_t, tuning: Batching) -> cython.double:
    """The nodes that a group of so many nodes like one spares. It costs one node and the packing of its operands; a
    group of products by a shared weight also saves reading the weight again."""
    each: cython.double = 1
    if node.op.kind == _CONTRACT:
        weight: Node = node.inputs[1]
        nbytes: cython.longlong = weight.numel * weight.dtype.itemsize
        each += cython.cast(cython.double, nbytes) / tuning.bytes_of_a_node
    return (count - 1) * each - tuning.gathers_of_a_batch


@cython.cfunc
def may_join(node: Node) -> cython.bint:
    """True if batching this op can pay: it has a batching rule, is below the size limit, and is no view. A view
    follows the value below it into its batch when something reads it (`operand_packing.stack`)."""
    op: Primitive = node.op
    return (
        (op.batchable or joins_tables(node))
        and op.kind != _SOURCE
        and op.kind != _VIEW
        and node.numel * node.dtype.itemsize <= most_bytes(node)
        and node.inputs is not None
        and len(node.inputs) > 0
        and not (several and crosses(node))
    )
