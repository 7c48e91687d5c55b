"""Range checks of an operand of a loss or a draw: at the call if the values are known, else when they are computed.

A check returns the operands, or tensors whose value fails if an element is out of range. Results of a sigmoid, numbers
and booleans are known to fit; computed values are looked at; for the rest a kernel of the program checks, as for
indices, so that nothing is read early. `weft.ops.limits` has the ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._typing import Shape
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.recorder import cast, record
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.engine.ir.node import DONE_STATE as DONE
from weft.engine.ir.primitive import SCALAR_OP, VIEW
from weft.engine.ir.strides import kept_strides
from weft.functional.support import host
from weft.ops.limits import LIMITS, Limit, limit_error, picking_op
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape, where
from weft.tensor.arguments import describe, untracked

if TYPE_CHECKING:
    from weft.engine.ir.node import Node
    from weft.engine.ir.primitive import Primitive


_least, _most = partial(np.minimum.reduce, axis=None), partial(np.maximum.reduce, axis=None)
_PICKS = {
    (function, operand): picking_op(function, operand)
    for function, operand in (
        ("binary_cross_entropy", "input"),
        ("binary_cross_entropy", "target"),
        ("bernoulli", "p"),
        ("normal", "std"),
        ("multinomial", "weights"),
        ("multinomial_row", "sum"),
    )
}


def need_within(function: str, operand: str, tensor: Tensor) -> Any:
    """The tensor, or one that fails when it is computed. Errors: RuntimeError for an element outside the limits of the
    function's operand, or nan."""
    node, high = value_of(tensor), LIMITS[function].high
    if is_on_meta(tensor):
        return tensor
    if node.state == DONE:
        values = host.to_numpy(tensor)
        if values.size and not (_least(values) >= 0 and (high is None or _most(values) <= high)):
            got = f"{describe(operand, tensor)} from {values.min():.6g} to {values.max():.6g}"
            raise limit_error(function, operand, got)
        return tensor
    if _surely_fits(node, high) or not tapes.tape().mode.is_untransformed():
        return tensor
    return within_when_computed(function, operand, tensor)


def within_when_computed(function: str, operand: str, tensor: Tensor) -> Any:
    """A tensor that fails when it is computed, if an element is outside the limits of the function's operand."""
    return _checked(_PICKS[function, operand], tensor, LIMITS[function])


def _surely_fits(node: Node, high: float | None) -> bool:
    """True if the op that makes a pending value gives only numbers from 0 to 1 (or nan, which stays one)."""
    while node.op.kind == VIEW and node.inputs:
        node = node.inputs[0]
    if node.op is SCALAR_OP:
        return node.params >= 0 and (high is None or node.params <= high)
    if node.op.name == "cast":
        return bool(node.inputs) and node.inputs[0].dtype is dtypes.bool_
    return bool(node.op.name == "sigmoid")


def _checked(op: Primitive | int | Shape | Sequence[int], tensor: Tensor, limit: Limit) -> Any:
    """A handle with the tensor's gradient edge whose value is picked from the tensor by 0 where an element fits."""
    edge = edge_for(tensor) if tensor.requires_grad else None
    with untracked():
        flat = reshape(tensor, (1, tensor.numel()))
        fits = call("gt" if limit.positive else "ge", flat, 0)
        if limit.high is not None:
            fits = call("logical_and", fits, call("le", flat, limit.high))
        index = cast(where(fits, 0, 1), dtypes.int64)
        picked = record(op, (flat, index), (0,), flat._shape, flat._dtype)
        value = reshape(picked, tensor._shape)
    return wrap_node(value_of(value), edge, kept_strides(tensor._shape, tensor.strides))
