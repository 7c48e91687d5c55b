"""Whether what a loss takes for probabilities lies between 0 and 1: at the call where that can be known, else when it
is computed.

In come inputs and targets; out go the same, or tensors whose value has failed where an element lies outside. Results
of a sigmoid, numbers and booleans are known to fit; what has been computed is looked at; for the rest a kernel of the
program looks, as for indices, so that nothing is read early.
"""

from __future__ import annotations

from typing import Any

from weft.errors import ArgumentError
from weft.functional import host
from weft.functional.arguments import describe, untracked
from weft.graph import dtype as dtypes
from weft.graph import tape as tapes
from weft.graph.edges import edge_for, value_of
from weft.graph.handles import wrap_node
from weft.graph.node import DONE_STATE as DONE
from weft.graph.recording import cast, record
from weft.graph.rows import SCALAR_ROW, VIEW
from weft.ops import TABLE
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape, where
from weft.ops.row import named

_PICKS = {
    name: named(TABLE["gather"], f"{name.title()}OfBinaryCrossEntropyBackward0")
    for name in ("input", "target")
}


def need_probabilities(name: str, tensor: Any) -> Any:
    """The tensor, or one that fails when it is computed. Errors: RuntimeError for an element outside [0, 1], or nan."""
    node = value_of(tensor)
    if node.state == DONE:
        values = host.to_numpy(tensor)
        if values.size and not (values.min() >= 0 and values.max() <= 1):
            raise ArgumentError(
                f"all elements of {name} should be between 0 and 1",
                expected="probabilities",
                got=f"{describe(name, tensor)} from {values.min():.6g} to {values.max():.6g}",
                fix="use sigmoid, or binary_cross_entropy_with_logits for scores",
            )
        return tensor
    mode = tapes.tape().mode
    if _surely_fits(node) or mode.duals is not None or mode.extra is not None:
        return tensor
    return _checked(name, tensor)


def _surely_fits(node: Any) -> bool:
    """Whether a pending value is made by something that gives only probabilities (or nan, which stays one)."""
    while node.row.kind == VIEW and node.inputs:
        node = node.inputs[0]
    if node.row is SCALAR_ROW:
        return 0 <= node.params <= 1
    if node.row.name == "cast":
        return bool(node.inputs) and node.inputs[0].dtype is dtypes.bool_
    return bool(node.row.name == "sigmoid")


def _checked(name: str, tensor: Any) -> Any:
    """A handle with the tensor's gradient edge whose value is picked from the tensor by 0 where an element fits."""
    edge = edge_for(tensor) if tensor.requires_grad else None
    with untracked():
        flat = reshape(tensor, (1, tensor.numel()))
        fits = call("logical_and", call("ge", flat, 0), call("le", flat, 1))
        index = cast(where(fits, 0, 1), dtypes.int64)
        picked = record(_PICKS[name], (flat, index), (0,), flat._shape, flat._dtype)
        value = reshape(picked, tensor._shape)
    return wrap_node(value_of(value), edge, tensor.strides)
