"""Gradients of tensors whose data was replaced by data of another shape or dtype than their history has.

It takes a handle whose value was replaced (`y.data = other`, `set_`, `t_` without a gradient), and its former shape
and dtype. It inserts a record between later operations and the history, which makes gradients fit as PyTorch does:
broadcasting is undone, the dtype converted, and any other shape refused. Users see and observe the history itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.engine.backward.reachability import observed_edge, target_for
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import edge_for, set_edge
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.grad_edges import GradientFunction, OutputEdge
from weft.errors import GradientError
from weft.ops.primitives import sum_to

if TYPE_CHECKING:
    from weft._typing import Shape
    from weft.engine.ir.dtype import DType


class Refitted(GradientFunction):
    """The record of a tensor that shows other data than its history led to. `behind` is the edge to that history,
    `output_types` what the tensor shows now, `wanted` (shape, dtype) of the history."""

    def __init__(
        self,
        edge: Any,
        wanted: tuple[Shape, DType],
        shown: tuple[Shape, DType],
    ) -> None:
        self.edges, self.behind = (edge,), edge
        self.wanted, self.output_types = wanted, [shown]

    @property
    def where(self) -> str:
        """The user's line that recorded the history."""
        return str(getattr(target_for(self.behind)[0], "where", ""))

    def name(self) -> str:
        """The name of the record behind."""
        return str(target_for(self.behind)[0].name())

    def vjp(self, cotangents: list[Tensor | None], create: bool) -> list[Any]:
        """The cotangent as the history takes it. Errors: RuntimeError where it does not fit."""
        (cotangent,) = cotangents
        return [None if cotangent is None else fit(cotangent, *self.wanted, where=self.where)]


def refit(tensor: Tensor, shape: Shape, dtype: DType) -> None:
    """Put a record in front of the history of a tensor, which had this shape and dtype up to now; take away one that
    was there."""
    edge, wanted = edge_for(tensor), (shape, dtype)
    behind = observed_edge(edge)
    if behind is not edge:
        wanted = edge.function.wanted
    shown = (tensor._shape, tensor._dtype)
    if wanted != shown:
        behind = OutputEdge(Refitted(behind, wanted, shown), 0)
    set_edge(tensor, behind)


def fit(
    cotangent: Tensor, shape: Shape, dtype: DType | None = None, where: str | None = None
) -> Any:
    """A cotangent in a shape, and a dtype if one is given: what a size of one or a missing dimension was broadcast to
    is added up, real numbers become complex ones. Errors: RuntimeError on any other shape, and on complex numbers where
    real ones are wanted."""
    got = cotangent._shape
    if got != shape:
        if not can_expand(shape, got):
            raise GradientError(
                f"a function returned an invalid gradient - got {list(got)} but expected shape compatible with "
                f"{list(shape)}",
                expected=f"a gradient of shape {list(shape)}, as the tensor had when it was computed",
                got=f"shape {list(got)}, as the tensor has since its data were replaced",
                fix="replace data by others of the same shape, or detach the tensor first",
                where=where,
            )
        cotangent = sum_to(cotangent, shape)
    if dtype is None or cotangent._dtype is dtype:
        return cotangent
    if cotangent._dtype.is_complex and not dtype.is_complex:
        raise GradientError(
            f"a function returned an invalid gradient - got {cotangent._dtype.name} but expected {dtype.name}",
            expected=f"a gradient of dtype {dtype.name}, as the tensor had when it was computed",
            got=f"{cotangent._dtype.name}, as the tensor has since its data were replaced",
            fix="replace real data by real ones",
            where=where,
        )
    return cast(cotangent, dtype)


def fit_all(came: Tensor | list[tuple[Tensor, int, int]] | None, shape: Shape) -> Any:
    """The contributions to a leaf, each in the given shape: a tensor, or a list of (tensor, row, number)."""
    if came is None or isinstance(came, Tensor):
        return came if came is None else fit(came, shape)
    return [(fit(part, shape), row, number) for part, row, number in came]


def can_expand(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """True if `shape` broadcasts to `target`."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(size in (1, want) for size, want in zip(shape, tail, strict=True))
