"""DistributedSampler and DistributedStream: each of several processes visits a part of the data set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import weft
from weft.data.dataset import IterableDataset
from weft.data.sampler import Sampler
from weft.errors import ArgumentError


def _place(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """The number of processes that share a data set, and that of this one. Errors: ValueError for a rank outside."""
    together = weft.distributed.is_initialized()
    if num_replicas is None:
        num_replicas = weft.distributed.get_world_size() if together else 1
    if rank is None:
        rank = weft.distributed.get_rank() if together else 0
    if not 0 <= rank < num_replicas:
        raise ArgumentError(
            f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]",
            expected=f"0 <= rank < {num_replicas}",
            got=str(rank),
            fix="pass the number of this process",
        )
    return num_replicas, rank


def order_of_epoch(count: int, shuffle: bool, seed: int, epoch: int) -> list[int]:
    """The numbers of so many examples, in an order that all processes share."""
    if not shuffle:
        return list(range(count))
    source = weft.Generator()
    source.manual_seed(seed + epoch)
    order: list[int] = weft.randperm(count, generator=source).tolist()
    return order


class DistributedSampler(Sampler):
    """Every `num_replicas`-th index, from `rank` on, of an order that all processes share. By default these are the
    numbers of `weft.distributed`, and those of one process where that has not begun.

    The order is shuffled anew for each epoch that `set_epoch` names. With `drop_last` what does not divide evenly is
    left out, else the first indices come twice. Errors: ValueError for a rank outside.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas, rank = _place(num_replicas, rank)
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset)
        if drop_last:
            self.num_samples = count // num_replicas
        else:
            self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        order = order_of_epoch(len(self.dataset), self.shuffle, self.seed, self.epoch)
        if order and len(order) < self.total_size:
            order *= math.ceil(self.total_size / len(order))
        return iter(order[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle by another number; call it before each epoch, in all processes alike."""
        self.epoch = epoch


class DistributedStream(IterableDataset):
    """Every `num_replicas`-th example of a stream, from `rank` on. By default these are the numbers of
    `weft.distributed`, and those of one process where that has not begun.

    Each process goes through the whole stream, and leaves out what the others take; the last of them may get one
    example less. A stream that worker processes share among themselves (`get_worker_info`) is shared so within each
    process. Errors: ValueError for a rank outside.

    Example: `DataLoader(DistributedStream(lines), batch_size=32)`.
    """

    def __init__(
        self, dataset: Iterable[Any], num_replicas: int | None = None, rank: int | None = None
    ) -> None:
        self.dataset = dataset
        self.num_replicas, self.rank = _place(num_replicas, rank)

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self.dataset, self.rank, None, self.num_replicas)
