"""Gradients of a rank's rows with the same bits on any number of ranks: the mean over the blocks of a global batch.

Each backward is of one block (`data_parallel.blocks`). Neighbouring blocks are on neighbouring ranks: a
`reduce_scatter` adds those that the ranks compute at the same time, and each rank adds its rows of these sums up, by
neighbours again. So no rank keeps whole gradients, and the tree of additions is that of one process. When the rank's
last block is done, its rows of the mean become gradients.

Within a block the gradients of a module that is called several times are added up before they are scattered: whole ones
stay until the backward of its last call, or till the end of the block where a call takes no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.autograd.variable import Variable
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.data_parallel.blocks import PairwiseSum, dtype_of_sums, interleaved_blocks
from weft.distributed.sharding.dtensor import DTensor
from weft.distributed.sharding.gradient_reduction import (
    GradientReducer,
    Owner,
    Totals,
    dense,
    need_gathered,
    over_copies,
    presence,
    scattered,
)
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.tensor.modes import no_grad


class GlobalBatch:
    """The blocks of one global batch that this rank has computed for a model: how many, and the modules that took
    part."""

    def __init__(self, blocks: range) -> None:
        self.blocks = blocks
        self.ended = 0
        self._members: list[BlockReduction] = []
        self._is_queued = False

    def begin(self) -> None:
        """Leave nothing pending that could run with a block, nor what a backward left that has failed."""
        weft.realize()
        if self._is_queued:
            self._is_queued = False
            for member in self._members:
                member.forget_block()

    def join(self, member: BlockReduction) -> bool:
        """Have a module take part, from the block on that is under way; False if it did already."""
        if any(one is member for one in self._members):
            return False
        self._members.append(member)
        return True

    def queue(self) -> None:
        """Have the block end with the backward that runs."""
        if not self._is_queued:
            self._is_queued = True
            Variable._execution_engine.queue_callback(self._end_block)

    def _end_block(self) -> None:
        self._is_queued = False
        self.ended += 1
        with no_grad():
            weft.realize(*[value for member in self._members for value in member.end_block()])
            if self.ended == len(self.blocks):
                members, self._members, self.ended = self._members, [], 0
                for member in members:
                    member.give()


class BlockReduction:
    """The gradients of one module's rows, of `count` blocks."""

    is_on = True

    def __init__(self, owner: Owner, count: int, ranks: int, index: int) -> None:
        self.owner, self.count = owner, count
        self.batch = GlobalBatch(
            interleaved_blocks(count, ranks, index)
        )  # of this module's own calls
        self.divisor: float | None = None
        self._joined: GlobalBatch | None = None
        self._sum = PairwiseSum()
        self._shards: list[DTensor] = []  # that are trained
        self._awaited = 0  # calls of this block whose gradients are to come
        self._totals: dict[int, Tensor] = {}
        self._parts: list[Any] | None = None  # of this block, scattered
        self._uses_all = True

    # -- a block -----------------------------------------------------------------------------------------------------

    def expect(self, outermost: GradientReducer) -> None:
        """A forward has gathered the parameters: a block of the outermost module's batch has a call more. Errors:
        ValueError for gradients that are there already, and for a module of two models at a time."""
        batch = outermost.batch if isinstance(outermost, BlockReduction) else self.batch
        self._need_free(batch)
        self._joined = batch
        if batch.join(self):
            self._sum = PairwiseSum()
            self._uses_all = True
            self._shards = [shard for shard in self.owner.shards() if shard.requires_grad]
            for _ in range(batch.ended):  # blocks that did not call it
                self._sum.add([None] * (len(self._shards) + 1))
        self._awaited += 1

    def _need_free(self, batch: GlobalBatch) -> None:
        problem = ""
        if self._joined not in (None, batch):
            problem, fix = "is called in blocks of two models at a time", "end one batch first"
        elif any(shard.grad is not None for shard in self.owner.shards()):
            problem, fix = (
                "begins a block with gradients",
                "call optimizer.zero_grad() after each step",
            )
        if problem:
            raise ArgumentError(
                f"fully_shard: a module {problem}",
                expected="no gradients, and the blocks of one batch, with deterministic=",
                got="gradients of another backward",
                fix=fix,
            )

    def reduced(self, shards: Sequence[DTensor], cotangents: Totals) -> list[Any]:
        """None for each: a block's gradients are added to those of the blocks before."""
        assert self._joined is not None
        self._joined.queue()
        for number, cotangent in enumerate(cotangents):
            if cotangent is not None:
                own = dense(cotangent, self._dtype(shards[number]))
                before = self._totals.get(number)
                self._totals[number] = own if before is None else before + own
        self._awaited -= 1
        if not self._awaited:
            self._scatter()
        return [None] * len(shards)

    def _dtype(self, shard: DTensor) -> DType:
        return dtype_of_sums(self.owner.dtype_of_gradients(shard))

    def _scatter(self) -> None:
        """Add a block's gradients to those of the blocks that other ranks compute. Errors: ValueError for a second
        time in a block."""
        if self._parts is not None:
            raise ArgumentError(
                "fully_shard: a block has gradients of a module after its last one",
                expected="calls of a module that a backward knows of when it begins, with deterministic=",
                got="a call within the backward, as reentrant checkpoints make it",
                fix="pass use_reentrant=False to checkpoint",
            )
        totals = [self._totals.get(number) for number in range(len(self._shards))]
        self._totals = {}
        self._uses_all &= all(total is not None for total in totals)
        parts = [
            scattered(self.owner, shard, total, self._dtype(shard), ReduceOp.SUM)
            for shard, total in zip(self._shards, totals, strict=True)
        ]
        parts.append(presence(self.owner, totals, self._dtype(self._shards[0]), ReduceOp.SUM))
        self._parts = [over_copies(self.owner, part, ReduceOp.SUM) for part in parts]

    def end_block(self) -> list[Tensor]:
        """Add the block to those before; what is to be computed before the next one."""
        if self._totals:
            self._scatter()
        missing: list[Any] = [None] * (len(self._shards) + 1)
        parts = missing if self._parts is None else self._parts
        self._awaited, self._parts = 0, None
        return self._sum.add(parts)

    def forget_block(self) -> None:
        """Forget the block under way, whose backward has failed."""
        self._awaited, self._totals, self._parts = 0, {}, None

    # -- a batch -----------------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Give rows the mean over all blocks as their gradients; None where no block of any rank has used one."""
        *totals, present = self._sum.take()
        self._joined = None
        anywhere = [True] * len(totals)
        if not self._uses_all and present is not None:
            anywhere = present.tolist()
        divisor = self.count if self.divisor is None else self.divisor
        for shard, total, there in zip(self._shards, totals, anywhere, strict=True):
            if total is not None and there:
                part = need_gathered(shard).part_of(total)
                shard.grad = (part / divisor).to(shard.dtype)
