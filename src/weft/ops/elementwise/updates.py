"""Rows of updates: the steps that optimizers move parameters and running means by.

Each stands for three or four operations, in the order in which PyTorch's `lerp`, `addcmul` and `addcdiv` on lists do
them: what recording an update of many small parameters costs goes by the node. Every step rounds as the primitive of
its name (`weft.engine.devices.cpu.elementwise.optimizer_steps`), so that they give the bits that the operations one by
one give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ops.primitives import elementwise as call
from weft.ops.registry import define_elementwise

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Tensor


define_elementwise(
    "blend",
    "mean value share",
    lambda mean, value, share: mean + (value - mean) * share,
    "real real real",
    {
        "mean": lambda g, share: g - g * share,
        "value": lambda g, share: g * share,
        "share": lambda g, mean, value: g * (value - mean),
    },
    dtypes="float",
)
define_elementwise(
    "add_product",
    "total one other factor",
    lambda total, one, other, factor: total + one * factor * other,
    "real real real real",
    {
        "total": lambda g: g,
        "one": lambda g, other, factor: g * other * factor,
        "other": lambda g, one, factor: g * one * factor,
        "factor": lambda g, one, other: g * one * other,
    },
    dtypes="float",
)


def _vjp_below(g: Tensor, above: Tensor, below: Tensor, factor: Tensor) -> Any:
    return call("neg", g * factor * above / (below * below))


define_elementwise(
    "add_quotient",
    "total above below factor",
    lambda total, above, below, factor: total + above / below * factor,
    "real real nonzero real",
    {
        "total": lambda g: g,
        "above": lambda g, below, factor: g * factor / below,
        "below": _vjp_below,
        "factor": lambda g, above, below: g * (above / below),
    },
    dtypes="float",
)
