"""From gradients of whole parameters to those of a rank's rows: `reduce_scatter` of each, recorded as nodes.

What a gathering's backward gives goes to its owner's reduction, which says what becomes the gradient now: the mean over
all ranks, nothing because it is kept for a later backward, or nothing because it is that of one block of a batch
(`block_reduction`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import weft
from weft.distributed.collectives.carrier import record as record_collective
from weft.distributed.collectives.counting import as_one
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.group import ProcessGroup
from weft.distributed.sharding.dtensor import DTensor
from weft.distributed.sharding.layout import MeshLayout, need_group, with_more
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.engine.ir.node import Node

Totals = Sequence[Tensor | None]
AllReduceHook = Callable[[Tensor], object]


class Standing(NamedTuple):
    """Gathered tables that stay, and the values of the rows that they are of. A write gives rows another value, and so
    ends this."""

    rows: list[Node]
    tables: list[Tensor]

    def is_of(self, rows: list[Node]) -> bool:
        """True if the tables are of these values."""
        return all(own is other for own, other in zip(self.rows, rows, strict=True))


class GradientReducer(Protocol):
    """The reduction of the gradients of a module's parameters."""

    def expect(self, outermost: GradientReducer) -> None:
        """A forward has gathered the parameters, within one of the module that `outermost` belongs to."""

    def reduced(self, shards: Sequence[DTensor], cotangents: Totals) -> list[Any]:
        """The gradients of rows, of cotangents of the whole; None for those that are not to be there."""


class Owner(Protocol):
    """The parameters that one module shards (`fully_shard.ShardedParameters`); `copies` are the ranks that have the
    same rows."""

    group: ProcessGroup
    copies: ProcessGroup | None
    kept: Standing | None
    reshards_after_backward: bool

    @property
    def keeps_whole(self) -> bool:
        """True if whole parameters are to stay behind a forward whose backward does not gather again."""

    @property
    def reduction(self) -> GradientReducer:
        """The reduction of their gradients."""

    def shards(self) -> list[DTensor]:
        """The parameters, each once."""

    def operand(self, shard: DTensor) -> Tensor:
        """This rank's rows of a parameter as they are sent."""

    def whole(self, shard: DTensor, value: Tensor) -> Tensor:
        """A parameter that has been gathered, as a module sees it."""

    def standing(
        self, values: Callable[[], Sequence[Tensor]] | None
    ) -> AbstractContextManager[None]:
        """A context in which the module has whole parameters: these values, or None for new ones."""

    def dtype_of_gradients(self, shard: DTensor) -> DType:
        """The type in which gradients are combined."""


def need_gathered(shard: DTensor) -> MeshLayout:
    """The layout of the rows of a parameter that the ranks of `fully_shard` share out."""
    assert shard.gathers is not None
    return shard.gathers


def dense(cotangent: Tensor, dtype: DType) -> Any:
    """A cotangent as it is combined with others."""
    return (cotangent.to_dense() if cotangent.is_sparse else cotangent).to(dtype)


def scattered(
    owner: Owner, shard: DTensor, total: Tensor | None, dtype: DType, op: ReduceOp
) -> Any:
    """This rank's rows of the combined gradients of all, with padding."""
    layout = need_gathered(shard)
    rows = layout.most_rows * layout.size
    if total is None:
        total = weft.zeros(layout.shape, dtype=dtype, device=shard.device)
    operand = with_more(layout.as_rows(total.detach()), 0, rows)
    return record_collective("reduce_scatter", operand, owner.group, op)


def presence(owner: Owner, totals: Totals, dtype: DType, op: ReduceOp) -> Any:
    """The number, or the share, of ranks that have a gradient for each parameter. It goes with the gradients."""
    flags = weft.tensor([float(total is not None) for total in totals], dtype=dtype)
    return record_collective("reduce_scatter", flags.repeat(owner.group.size()), owner.group, op)


def over_copies(owner: Owner, part: Tensor, op: ReduceOp) -> Any:
    """A part combined with those of the ranks that have the same rows."""
    copies = owner.copies
    return part if copies is None else record_collective("all_reduce", part, need_group(copies), op)


class GradientReduction:
    """The mean over all ranks at each backward, or kept for a later one."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.is_on = self.all_reduces = True
        self.divisor: float | None = None
        self.hook: AllReduceHook | None = None
        self._kept: dict[int, Tensor] = {}  # by the parameter's identity
        self._scattered: list[Any] | None = None  # parts, and who has some, not yet over copies

    def expect(self, outermost: GradientReducer) -> None:
        """Nothing: each backward ends by itself."""

    def reduced(self, shards: Sequence[DTensor], cotangents: Totals) -> list[Any]:
        """The gradients of rows, of cotangents of the whole; None where no rank has one."""
        totals = [self._total(s, c) for s, c in zip(shards, cotangents, strict=True)]
        if not self.is_on:
            for shard, total in zip(shards, totals, strict=True):
                if total is not None:
                    self._kept[id(shard)] = total
            return [None] * len(shards)
        self._kept = {}
        uses_all = all(total is not None for total in totals)
        parts = self._scatter(shards, totals)
        if not self.all_reduces and self.owner.copies is not None:
            self._scattered = parts
            return [None] * len(shards)
        self._scattered = None
        with as_one("all_reduce") if self.owner.copies else nullcontext():
            *parts, present = [over_copies(self.owner, part, self._op) for part in parts]
        if self.hook is not None:
            parts = _hooked(self.hook, parts)
        found: list[Any] = [self._of_rows(s, p) for s, p in zip(shards, parts, strict=True)]
        if uses_all:
            return found
        anywhere = (
            present.tolist()
        )  # waits for the ranks: only where this one has not used a parameter
        return [grad if there else None for grad, there in zip(found, anywhere, strict=True)]

    @property
    def _op(self) -> ReduceOp:
        return ReduceOp.AVG if self.divisor is None else ReduceOp.SUM

    def _scatter(self, shards: Sequence[DTensor], totals: Totals) -> list[Any]:
        """This rank's rows of the gradients of all, with those that wait for others, and who has some."""
        types = [self.owner.dtype_of_gradients(shard) for shard in shards]
        with as_one("reduce_scatter_tensor"):
            parts = [
                scattered(self.owner, shard, total, dtype, self._op)
                for shard, total, dtype in zip(shards, totals, types, strict=True)
            ]
            parts.append(presence(self.owner, totals, types[0], self._op))
        if self._scattered is not None:
            parts = [part + kept for part, kept in zip(parts, self._scattered, strict=True)]
        return parts

    def _total(self, shard: DTensor, cotangent: Tensor | None) -> Any:
        """A cotangent with what was kept for it."""
        kept = self._kept.get(id(shard))
        if cotangent is None:
            return kept
        own = dense(cotangent, self.owner.dtype_of_gradients(shard))
        return own if kept is None else kept + own

    def _of_rows(self, shard: DTensor, part: Tensor) -> Any:
        """The gradient of a rank's rows."""
        grad = part if self.divisor is None else part / self.divisor
        return need_gathered(shard).part_of(grad).to(shard.dtype)


def _hooked(hook: AllReduceHook, parts: Sequence[Tensor]) -> list[Any]:
    """Parts of gradients after a function has seen those of each type as one flat tensor."""
    found: list[Any] = list(parts)
    for dtype in dict.fromkeys(part.dtype for part in parts):
        numbers = [n for n, part in enumerate(parts) if part.dtype is dtype]
        flat = weft.cat([parts[n].reshape(-1) for n in numbers])
        hook(flat)
        pieces = flat.split([parts[n].numel() for n in numbers])
        for n, piece in zip(numbers, pieces, strict=True):
            found[n] = piece.view(parts[n].shape)
    return found
