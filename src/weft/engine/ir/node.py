# cython: language_level=3
"""Nodes: one recorded operation each, with its value.

Values (`inputs`) and gradients (`edges`) are two relations on the same record. The record does not change; its
execution fields (its buffer, its batch), which the pipeline and backward own, do. `node_factory` makes nodes, the
pipeline runs them, the op table defines what they mean.
"""

import cython
from cython.cimports.weft.engine.ir.node import (
    DONE,
    FAILED,
    PENDING,
    RESULT_SHIFT,
    deferral_of,
    error_of,
    grad_name_of,
    observers_on,
    rare_facts,
    result_of,
)

from weft._build.compiled import require

require(__name__, cython.compiled)

RESULT_BIT = RESULT_SHIFT
PENDING_STATE, DONE_STATE, FAILED_STATE = PENDING, DONE, FAILED


@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.cclass
class RareFacts:
    """Facts of a node that few have. A node makes its own record of them when one is first written."""


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
        own = grad_name_of(self)
        return self.op.grad_name if own is None else own

    # What few nodes have, for interpreted readers.

    @property
    def observers(self):
        return observers_on(self)

    @observers.setter
    def observers(self, attached):
        rare_facts(self).observers = attached

    @property
    def error(self):
        return error_of(self)

    @property
    def grad_name(self):
        return grad_name_of(self)

    @property
    def result(self):
        return result_of(self)

    @property
    def deferred(self):
        return deferral_of(self)

    @property
    def where(self):
        """The user's line that recorded this node."""
        from weft.errors import describe_position

        return describe_position(self.code, self.offset_in_code)

    def __repr__(self):
        if self.op.grad_name and self.edges is not None:
            return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"
        return f"<node {self.seq} {self.op.name} {self.dtype.name}{list(self.shape)}>"
