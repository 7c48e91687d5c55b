# cython: language_level=3
"""Nodes: one recorded operation each, with its value.

Values (`inputs`) and gradients (`edges`) are two relations on the same record, which is immutable. What happens to a
node later (its buffer, its place in a batch) is kept in its execution fields, which the schedule and the walks own.
How nodes are made is in `node_factory`, how they run is left to the pipeline, what they mean to the op table.
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
