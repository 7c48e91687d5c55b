"""Loaders visit every example once, in the asked order, here or in worker processes."""

from __future__ import annotations

import os
from collections import namedtuple

import numpy as np
import pytest

import weft
from weft import data

Point = namedtuple("Point", "x y")


class Squares(data.Dataset):
    """Example i is i and its square, and who made it."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict:
        if not 0 <= index < self.count:
            raise IndexError(index)
        worker = data.get_worker_info()
        square = (weft.tensor(float(index)) ** 2).sum()  # computed in the worker
        return {"i": index, "square": square, "worker": -1 if worker is None else worker.id}


class Counting(data.IterableDataset):
    """Numbers shared out among the workers."""

    def __iter__(self):
        worker = data.get_worker_info()
        start, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(range(start, 10, step))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(workers: int) -> None:
    batches = list(data.DataLoader(Squares(10), 4, num_workers=workers))
    assert [b["i"].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2]["square"].tolist() == [64.0, 81.0]
    made_by = {w for b in batches for w in b["worker"].tolist()}
    assert made_by == ({-1} if workers == 0 else {0, 1})


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffling_follows_the_seed(workers: int) -> None:
    def order(seed: int) -> list[int]:
        weft.manual_seed(seed)
        loader = data.DataLoader(Squares(20), 5, shuffle=True, num_workers=workers)
        return [i for batch in loader for i in batch["i"].tolist()]

    assert order(0) == order(0) != order(1)
    assert sorted(order(0)) == list(range(20))


def test_a_generator_of_ones_own() -> None:
    def order() -> list[int]:
        generator = weft.Generator().manual_seed(3)
        return list(data.RandomSampler(range(9), generator=generator))

    assert order() == order() and sorted(order()) == list(range(9))


def test_lengths_and_the_last_batch() -> None:
    assert len(data.DataLoader(Squares(10), 4)) == 3
    assert len(data.DataLoader(Squares(10), 4, drop_last=True)) == 2
    assert len(list(data.DataLoader(Squares(10), 4, drop_last=True))) == 2
    assert len(data.DataLoader(Squares(3), batch_size=None)) == 3
    single = list(data.DataLoader(Squares(3), batch_size=None))
    assert single[2]["i"] == 2 and single[2]["square"].item() == 4.0


@pytest.mark.parametrize("workers", [0, 2])
def test_streams(workers: int) -> None:
    loader = data.DataLoader(Counting(), 2, num_workers=workers)
    batches = [batch.tolist() for batch in loader]
    assert sorted(i for batch in batches for i in batch) == list(range(10))
    if workers:
        assert batches[:2] == [[0, 2], [1, 3]]


def test_samplers() -> None:
    chosen = data.DataLoader(Squares(9), batch_sampler=[[3, 1], [8]])
    assert [b["i"].tolist() for b in chosen] == [[3, 1], [8]]
    weft.manual_seed(0)
    drawn = list(data.WeightedRandomSampler([0.0, 1.0, 3.0], 400))
    assert set(drawn) == {1, 2} and 250 < drawn.count(2) < 350
    assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    assert len(list(data.RandomSampler(range(4), replacement=True, num_samples=11))) == 11
    assert list(data.BatchSampler(data.SequentialSampler(range(5)), 2, False)) == [
        [0, 1],
        [2, 3],
        [4],
    ]


def test_splitting_and_joining() -> None:
    weft.manual_seed(0)
    parts = data.random_split(range(10), [7, 3])
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(list(parts[0]) + list(parts[1])) == list(range(10))
    assert [len(part) for part in data.random_split(range(9), [0.5, 0.25, 0.25])] == [5, 2, 2]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        data.random_split(range(10), [5, 4])
    joined = data.Subset(range(10), [1, 2]), data.Subset(range(10), [9])
    both = data.ConcatDataset(joined)
    assert [both[i] for i in range(3)] == [1, 2, 9] and both[-1] == 9
    x, y = data.TensorDataset(weft.arange(6).reshape(3, 2), weft.arange(3))[1]
    assert x.tolist() == [2, 3] and y.item() == 1


def test_collating_keeps_structure() -> None:
    batch = data.default_collate(
        [
            {"a": weft.ones(2), "b": (1, 2.5, "x"), "c": Point(np.float32(1), np.zeros(2))},
            {"a": weft.zeros(2), "b": (2, 3.5, "y"), "c": Point(np.float32(2), np.ones(2))},
        ]
    )
    assert batch["a"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert batch["b"][0].dtype == weft.int64 and batch["b"][1].dtype == weft.float64
    assert list(batch["b"][2]) == ["x", "y"]
    assert isinstance(batch["c"], Point) and batch["c"].y.shape == (2, 2)
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        data.default_collate([weft.ones(2), weft.ones(3)])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        data.default_collate([object()])


class Broken(Squares):
    """Fails at the fifth example."""

    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise ValueError("the fifth is broken")
        return index


class Dying(Squares):
    """Its worker ends without a word."""

    def __getitem__(self, index: int) -> int:
        os._exit(3)


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_examples_are_raised_here(workers: int) -> None:
    with pytest.raises(ValueError, match="the fifth is broken"):
        list(data.DataLoader(Broken(8), 2, num_workers=workers))


def test_a_dead_worker_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(data.DataLoader(Dying(8), 2, num_workers=1))


def test_leaving_in_the_middle_ends_the_workers() -> None:
    import multiprocessing

    batches = iter(data.DataLoader(Squares(50), 2, num_workers=2))
    next(batches)
    batches.close()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 4}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ],
)
def test_options_that_exclude_each_other(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        data.DataLoader(Squares(3), **options)


def test_streams_cannot_be_shuffled() -> None:
    with pytest.raises(ValueError, match="DataLoader with IterableDataset"):
        data.DataLoader(Counting(), shuffle=True)
