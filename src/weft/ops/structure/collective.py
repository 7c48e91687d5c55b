"""The row of collectives: operations among processes, each of which gives an operand and gets a result.

`Collective` is what a node's parameters say: what is done, in which group, how results are laid out. The value is
brought by a carrier (`engine.frontend.collective`). All of them are linear, or have a derivative that is: that of
`all_reduce` is itself, of `all_gather` `reduce_scatter`, and the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import record
from weft.ops.registry import OPS, define

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor

Shape = tuple[int, ...]
# Each with the one that takes its cotangents back.
ADJOINTS = {
    "all_reduce": "all_reduce",
    "broadcast": "sum_at_root",
    "sum_at_root": "broadcast",
    "reduce": "broadcast",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "gather": "scatter",
    "scatter": "gather",
    "all_to_all": "all_to_all",
}


class Collective:
    """A collective of a group of `size` processes.

    `reduction` is the name of a `ReduceOp`, `root` the member that sends to all or gets from all; `sent` and `received`
    are rows for each member in an `all_to_all`. `sum_at_root` is zero on all other members, where `reduce` gives them
    their own operand.
    """

    def __init__(
        self,
        name: str,
        group: str = "",
        size: int = 1,
        reduction: str = "",
        root: int = 0,
        sent: Shape = (),
        received: Shape = (),
    ) -> None:
        self.name, self.group, self.size, self.reduction = name, group, size, reduction
        self.root, self.sent, self.received = root, sent, received
        self._key = (name, group, size, reduction, root, sent, received)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Collective) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.name} {self.reduction}".rstrip()

    def result_shape(self, shape: Shape) -> Shape:
        """The shape of the result for that of the operand."""
        if self.name in ("all_gather", "gather"):
            return (shape[0] * self.size, *shape[1:])
        if self.name in ("reduce_scatter", "scatter"):
            return (shape[0] // self.size, *shape[1:])
        if self.name == "all_to_all":
            return (sum(self.received), *shape[1:])
        return shape

    def adjoint(self) -> Collective:
        """The collective that takes cotangents of results to cotangents of operands."""
        name = ADJOINTS[self.name]
        reduction = self.reduction if name == "all_reduce" else "sum"
        return Collective(
            name, self.group, self.size, reduction, self.root, self.received, self.sent
        )


def collective(tensor: Tensor, params: Collective) -> Any:
    """Record a collective of a tensor."""
    shape = params.result_shape(tensor._shape)
    return record(OPS["collective"], (tensor,), params, shape, tensor._dtype)


def _take_back(g: Tensor, at: At) -> Any:
    return collective(g, at.params.adjoint())


def _alone(x: Array, params: Collective) -> Any:
    """The meaning in a group of one."""
    return np.copy(x)


define(
    "collective",
    kind="collective",
    operands="self",
    reference=_alone,
    domain=[((3, 4), Collective("all_reduce", reduction="sum")), ((5,), Collective("all_gather"))],
    shape=lambda p, shape: p.result_shape(shape),
    vjp={"self": _take_back},
    jvp_kind="linear",
)
