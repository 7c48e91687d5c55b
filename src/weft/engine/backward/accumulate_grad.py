# cython: language_level=3
"""Gradient accumulation (AccumulateGrad): a leaf's `.grad` becomes its gradient, or the gradient is added to it.

It takes a leaf, its cotangent after the leaf's hooks, and the leaf's record, whose hooks are called before and after.
`walk` and `replay` decide which leaf gets what.
"""

import cython
from cython.cimports.weft.engine.backward.hooks import after_node, before_vjp
from cython.cimports.weft.engine.backward.ready_queue import is_sparse
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.frontend.resolve import edge_of, needs_grad, value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad
from cython.cimports.weft.engine.ir.strides import kept_strides

from weft._build.compiled import require
from weft.engine.backward.hooks import call_after
from weft.engine.frontend.inplace import in_place

require(__name__, cython.compiled)


def accumulate_grad(leaf: Tensor, g, create: bool, sink: AccumulateGrad):
    """Give a leaf its gradient, unless it requires none any more; call what waits for it."""
    observers = sink.observers
    if observers is not None:
        g = before_vjp(observers, (g,))[0]
    if needs_grad(leaf):
        _add(leaf, g, create)
        hooks = leaf.hooks
        if hooks is not None and hooks.post_accumulate:
            call_after(leaf, hooks.post_accumulate)
    if observers is not None:
        after_node(observers, [], (g,))


@cython.cfunc
def _add(leaf: Tensor, g, create: cython.bint):
    """Put a gradient into `.grad`: in place on the same object, out of place under create_graph."""
    if is_sparse(g) or (leaf._grad is not None and is_sparse(leaf._grad)):
        core_hooks.sparse().accumulate(leaf, g, create)
    elif leaf._grad is None:
        fresh: Tensor = wrap(value(g), edge_of(g) if create and needs_grad(g) else None)
        if fresh._shape == leaf._shape:
            fresh.strides = kept_strides(leaf._shape, leaf.strides)
        leaf._grad = fresh
    elif create:
        leaf._grad = leaf._grad + g
    else:
        # It checks the shape: the leaf may have been given data of another.
        in_place(leaf._grad, leaf._grad + g)
