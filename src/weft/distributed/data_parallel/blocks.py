"""Sums over a global batch that have the same bits on any number of ranks.

The batch is cut into a fixed number of blocks of equally many examples. A rank computes whole blocks, neighbouring
ones, each as a program of its own, so that a block's result does not depend on who computes it and what else that rank
does. Blocks are added by pairing neighbours, then neighbouring pairs, and so on: a rank that has a power of two of
them has a whole subtree, and the ranks' sums are added in the same way (`reduction`). Where gradients are shared out,
no rank may keep whole sums: there neighbouring blocks are on neighbouring ranks (`interleaved_blocks`), which add them
at once, and each rank adds up its rows of these sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any

import weft
from weft.data import Sampler
from weft.data.distributed import order_of_epoch
from weft.distributed.collectives.carrier import record
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError

Sums = list[Tensor | None]


def blocks_of_rank(blocks: int, group: ProcessGroup) -> range:
    """The numbers of this rank's blocks. Errors: ValueError unless a rank has a power of two of them, or all."""
    size = group.size()
    own, left = divmod(blocks, size)
    if left or own < 1 or (size > 1 and own & (own - 1)):
        fits = [n for n in range(1, 65) if blocks % n == 0 and (n == 1 or _is_power(blocks // n))]
        raise ArgumentError(
            f"{blocks} blocks cannot be dealt out to {size} ranks",
            expected=f"a number of ranks out of {fits}, each of which has a power of two of blocks",
            got=f"{size} ranks",
            fix=f"cut the batch into {size * 4} blocks, say",
        )
    return range(group.rank() * own, (group.rank() + 1) * own)


def _is_power(count: int) -> bool:
    return count & (count - 1) == 0


def interleaved_blocks(blocks: int, ranks: int, index: int) -> range:
    """The numbers of the blocks of the rank `index` where neighbouring blocks are on neighbouring ranks. Errors:
    ValueError unless there is a power of two of ranks, or a rank for each block."""
    if blocks % ranks or not (_is_power(ranks) or blocks == ranks):
        fits = [
            n for n in range(1, blocks + 1) if blocks % n == 0 and (_is_power(n) or n == blocks)
        ]
        raise ArgumentError(
            f"{blocks} blocks cannot be dealt out to {ranks} ranks in turn",
            expected=f"a number of ranks out of {fits}",
            got=f"{ranks} ranks",
            fix=f"cut the batch into {ranks} blocks, or start a power of two of ranks",
        )
    return range(index, blocks, ranks)


def dtype_of_sums(dtype: DType) -> DType:
    """The type in which values are added up: float32 for float16 and bfloat16."""
    return weft.float32 if dtype in (weft.float16, weft.bfloat16) else dtype


def _added(some: Sums, others: Sums) -> Sums:
    """Two lists added entry by entry; a missing entry adds nothing."""
    return [
        b if a is None else a if b is None else a + b for a, b in zip(some, others, strict=True)
    ]


class PairwiseSum:
    """Lists of tensors added in the tree of neighbours as they come. At most one of each height waits."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[Sums] = []

    def add(self, values: Sums) -> list[Tensor]:
        """Add the next block's; what is to be computed before another block begins."""
        total = [v if v is None else v.to(dtype_of_sums(v.dtype)) for v in values]
        self.count += 1
        for _ in range((self.count & -self.count).bit_length() - 1):  # pairs that it completes
            total = _added(self._waiting.pop(), total)
        self._waiting.append(total)
        return [value for value in total if value is not None]

    def take(self) -> Sums:
        """The sum of all, and begin anew."""
        total = self._waiting.pop()
        while self._waiting:
            total = _added(self._waiting.pop(), total)
        self.count = 0
        return total


def mean_of_blocks(values: Sequence[Tensor], group: Group = None, interleaved: bool = False) -> Any:
    """The mean of a value over all blocks of the global batch, as of losses: the same bits on any number of ranks.

    Args:
        values: of this rank's blocks, in their order.
        group: the ranks; None: all.
        interleaved: blocks are dealt out in turn, as `BlockSampler` with this argument does.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.mean_of_blocks([weft.tensor(1.0), weft.tensor(3.0)])  # losses of two blocks
        tensor(2.)
        >>> dist.destroy_process_group()
    """
    found, total = resolve(group), PairwiseSum()
    own = [value.detach().to(dtype_of_sums(value.dtype)) for value in values]
    if interleaved:
        own = list(record("all_reduce", weft.stack(own), found).unbind(0))
    for value in own:
        weft.realize(*total.add([value]))
    (mean,) = total.take()
    assert mean is not None
    if not interleaved:
        mean = record("all_reduce", mean, found)
    return (mean / (len(values) * found.size())).to(values[0].dtype)


class BlockSampler(Sampler):
    """Indices of this rank's blocks, a list for each, of all global batches of an epoch: a `batch_sampler` of a
    DataLoader. The batches are those of any other number of ranks; what is left of the last one is left out.

    Args:
        data_source: the examples, or anything with their number as its length.
        blocks: blocks of a global batch.
        block_size: examples of a block.
        shuffle: take them in an order that `seed` and the epoch give, else in their own.
        seed: the number of the order.
        group: the ranks; by default all.
        interleaved: deal blocks out in turn, as sharded modules need it, and not neighbouring ones to one rank.

    `blocks` are the numbers of this rank's blocks in each global batch.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> list(dist.BlockSampler(range(8), blocks=2, block_size=2, shuffle=False))
        [[0, 1], [2, 3], [4, 5], [6, 7]]
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        data_source: Sized,
        blocks: int,
        block_size: int,
        shuffle: bool = True,
        seed: int = 0,
        group: Group = None,
        interleaved: bool = False,
    ) -> None:
        self._count, self._blocks, self._block_size = len(data_source), blocks, block_size
        self._shuffle, self._seed, self.epoch = shuffle, seed, 0
        ranks = resolve(group)
        self.blocks = (
            interleaved_blocks(blocks, ranks.size(), ranks.rank())
            if interleaved
            else blocks_of_rank(blocks, ranks)
        )

    def set_epoch(self, epoch: int) -> None:
        """Shuffle by another number; call it before each epoch, in all processes alike.

        Args:
            epoch: the number of the epoch.
        """
        self.epoch = epoch

    def __len__(self) -> int:
        return self._count // (self._blocks * self._block_size) * len(self.blocks)

    def __iter__(self) -> Iterator[list[int]]:
        order = order_of_epoch(self._count, self._shuffle, self._seed, self.epoch)
        size = self._block_size
        for batch in range(self._count // (self._blocks * size)):
            for block in self.blocks:
                first = (batch * self._blocks + block) * size
                yield order[first : first + size]
