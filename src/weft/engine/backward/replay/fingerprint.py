# cython: language_level=3
"""The fingerprint of a backward: everything in the graph that decides which nodes a backward records.

It takes the roots and covers the records below them, their residuals and where these come from, the targets of their
edges, their order, and the leaves. Backwards over graphs of equal fingerprints record the same operations. A graph
that does more than its structure says has none: hooks, Functions, members of batches, leaves of other layouts.
"""

import cython
from cython.cimports.weft.engine.backward.reachability import Reachability, number_in
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad
from cython.cimports.weft.engine.ir.node import DONE, FAILED, RESULT_SHIFT, Node, result_of
from cython.cimports.weft.engine.ir.primitive import scalar_op
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.replay.fingerprint import (
    Fingerprint,
    put,
    put_object,
    put_sizes,
    reserve,
)

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import COMPOSITE

require(__name__, cython.compiled)

_composite = cython.declare(cython.int, COMPOSITE)
_result_bit = cython.declare(cython.longlong, cython.cast(cython.longlong, 1) << RESULT_SHIFT)
_ONE = cython.declare(
    cython.longlong, -(1 << 62)
)  # stands for the cotangent of ones that `backward` makes


@cython.cclass
class WalkFingerprint(Reachability):
    """The outline of the graph below some roots. Values that are no records have numbers behind those of the records,
    by first use."""

    def __cinit__(self):
        self.key = Fingerprint.__new__(Fingerprint)
        self.cotangents = []

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def describe(self, roots: list) -> cython.bint:
        """Reach everything and describe it; False where a walk would do more than the outline says.

        Errors: RuntimeError where a record has given up its saved values."""
        key: Fingerprint = self.key
        number: cython.int
        index: cython.Py_ssize_t
        self.discover(roots)
        root = cython.cast(object, self.known[0].record)
        if self.observed > 0 or not isinstance(root, Node):
            return False
        self.newest = cython.cast(Node, root).seq
        for number in range(self.count):
            record = cython.cast(object, self.known[number].record)
            if isinstance(record, Node):
                if not self.describe_node(cython.cast(Node, record)):
                    return False
            elif not self.describe_leaf(cython.cast(AccumulateGrad, record)):
                return False
        reserve(key, self.targets.count)
        for index in range(self.targets.count):
            put(key, self.targets.items[index])
        if not self.describe_roots(roots):
            return False
        key.digest()
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def has_members(self) -> cython.bint:
        """True if a record in the fingerprint has become a member of a batch."""
        number: cython.int
        for number in range(self.count):
            record = cython.cast(object, self.known[number].record)
            if isinstance(record, Node) and cython.cast(Node, record).quotient is not None:
                return True
        return False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def describe_node(self, node: Node) -> cython.bint:
        key: Fingerprint = self.key
        if node.quotient is not None or node.state == FAILED:
            return False
        reserve(key, len(node.shape) + 3)
        put(
            key,
            cython.cast(cython.longlong, node.op.code)
            | cython.cast(cython.longlong, node.device) << 16
            | cython.cast(cython.longlong, node.dtype.code) << 20
            | cython.cast(cython.longlong, node.params is not None) << 29
            | cython.cast(cython.longlong, node.operand_shapes is not None) << 30
            | cython.cast(cython.longlong, len(node.shape)) << 32
            | cython.cast(cython.longlong, len(node.edges)) << 40,
        )
        put(key, self.newest - node.seq)
        put(key, node.residual_mask)
        put_sizes(key, node.shape)
        if node.params is not None:
            put_object(key, node.params)
        if node.operand_shapes is not None:
            put_object(key, node.operand_shapes)
        return node.residual_mask == 0 or self.describe_saves(node)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def describe_saves(self, node: Node) -> cython.bint:
        """Name the values that a derivative is given, which have to be there."""
        index: cython.Py_ssize_t
        if node.residual_mask != _result_bit:
            if node.inputs is None:
                return False
            for index in range(len(node.inputs)):
                if is_saved(node.residual_mask, index):
                    self.describe_value(node.inputs[index])
        if node.op.kind == _composite and node.residual_mask >> RESULT_SHIFT & 1:
            if result_of(node) is None:
                return False
            self.describe_value(result_of(node))
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def describe_value(self, node: Node) -> cython.int:
        """Put the number of a value; of one that is met for the first time, what a rule can see of it."""
        key: Fingerprint = self.key
        reserve(key, len(node.shape) + 2)
        if node.walk_number >> 32 != self.stamp:
            node.walk_number = self.stamp << 32 | (self.count + self.outside)
            self.outside += 1
            put(
                key,
                node.dtype.code
                | cython.cast(cython.longlong, node.op is scalar_op) << 8
                | cython.cast(cython.longlong, node.device) << 10,
            )
            put_sizes(key, node.shape)
        put(key, number_in(node.walk_number))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def describe_leaf(self, sink: AccumulateGrad) -> cython.bint:
        key: Fingerprint = self.key
        leaf: Tensor = sink.variable
        if leaf.view_transform != 0:
            return False
        reserve(key, len(leaf._shape) + 1)
        put(
            key,
            1 << 48
            | cython.cast(cython.longlong, leaf._dtype.code) << 20
            | cython.cast(cython.longlong, leaf._grad is None) << 28
            | cython.cast(cython.longlong, len(leaf._shape)) << 32,
        )
        put_sizes(key, leaf._shape)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def describe_roots(self, roots: list) -> cython.bint:
        """Say where the walk begins, and with what: the number one, or values that are there. A rule may make numbers
        of the default type."""
        key: Fingerprint = self.key
        reserve(key, 2 * len(roots) + 1)
        put(key, cython.cast(DType, dtypes.get_default()).code)
        for edge, cotangent in roots:
            tensor: Tensor = cotangent
            if tensor.view_transform != 0:
                return False
            node: Node = value(tensor)
            self.cotangents.append(node)
            put(key, self.number_of(edge))
            if node.op is scalar_op and type(node.params) is int and node.params == 1:
                put(key, _ONE | node.dtype.code)
            elif node.state == DONE and node.buffer is not None:
                self.describe_value(node)
                reserve(key, 2 * len(roots))
            else:
                return False
        return True
