# cython: language_level=3
"""Nodes: one recorded operation each, with its value.

Values (`inputs`) and gradients (`edges`) are two relations on the same record. The record does not change; its
execution fields (its buffer, its batch), which the pipeline and backward own, do. `node_factory` makes nodes, the
pipeline runs them, the op table defines what they mean.
"""

import cython
from cython.cimports.weft.engine.ir.node import DONE, FAILED, PENDING, RESULT_SHIFT

from weft._build.compiled import require

require(__name__, cython.compiled)

RESULT_BIT = RESULT_SHIFT
PENDING_STATE, DONE_STATE, FAILED_STATE = PENDING, DONE, FAILED


@cython.final
@cython.no_gc
@cython.cclass
class Node:
    """One recorded operation. `inputs` are values, `edges` the gradient edges as they stood at the call."""

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def nbytes(self):
        return self.numel * self.dtype.itemsize

    @property
    def requires_grad(self):
        return self.edges is not None

    def name(self):
        """The name of the gradient node, as `MulBackward0`."""
        return self.op.grad_name if self.grad_name is None else self.grad_name

    @property
    def where(self):
        """The user's line that recorded this node."""
        from weft.errors import describe_position

        return describe_position(self.code, self.offset_in_code)

    def __repr__(self):
        if self.op.grad_name and self.edges is not None:
            return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"
        return f"<node {self.seq} {self.op.name} {self.dtype.name}{list(self.shape)}>"
