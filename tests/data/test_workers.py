"""Worker processes: batches through shared memory, workers that stay, and what happens when somebody dies."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import data

SOON_S = 30  # on a machine that does other things, too; what hangs takes for ever


class Rows(data.Dataset):
    """Rows of some KiB, and who made them."""

    def __init__(self, count: int = 24, width: int = 4096) -> None:
        self.count, self.width = count, width

    def __getitem__(self, index: int) -> Any:
        row = weft.full((self.width,), float(index))
        return {"row": row, "half": row[:3].bfloat16(), "who": os.getpid(), "name": str(index)}

    def __len__(self) -> int:
        return self.count


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_large_batches_come_through_shared_memory() -> None:
    loader = data.DataLoader(Rows(), batch_size=8, num_workers=2)
    batches = list(loader)
    assert [b["name"] for b in batches] == [
        [str(i) for i in range(8 * k, 8 * k + 8)] for k in range(3)
    ]
    for number, batch in enumerate(batches):
        expected = np.arange(8.0, dtype=np.float32) + 8 * number
        assert np.array_equal(batch["row"].numpy(), np.repeat(expected[:, None], 4096, 1))
        assert batch["half"].dtype is weft.bfloat16 and batch["half"].shape == (8, 3)
    batches[0]["row"].add_(1)  # memory of its own, that can be written to
    assert batches[0]["row"][0, 0] == 1 and batches[1]["row"][0, 0] == 8
    before = descriptors()
    for _ in loader:
        pass
    assert descriptors() <= before


def test_values_without_dimensions_keep_their_shape() -> None:
    values = [weft.tensor(value) for value in (1.5, True, 2 + 1j)]
    values += [weft.tensor(3.0, dtype=weft.bfloat16)]
    for batch in data.DataLoader(Rows(2), num_workers=1, collate_fn=lambda rows: values):
        assert [tensor.shape for tensor in batch] == [()] * len(values)
        assert [tensor.item() for tensor in batch] == [tensor.item() for tensor in values]


def test_persistent_workers_stay_and_begin_again() -> None:
    loader = data.DataLoader(Rows(), batch_size=4, num_workers=2, persistent_workers=True)
    pids = [{int(p) for b in loader for p in b["who"]} for _ in range(2)]
    assert pids[0] == pids[1] and len(pids[0]) == 2
    for number, _batch in enumerate(loader):  # a pass that is left in the middle
        if number == 1:
            break
    names = [name for batch in loader for name in batch["name"]]
    assert names == [str(i) for i in range(24)]
    assert {int(p) for b in loader for p in b["who"]} == pids[0]
    del loader
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids[0])


class Stream(data.IterableDataset):
    def __iter__(self) -> Any:
        return iter(range(5))


def test_persistent_streams_begin_again() -> None:
    loader = data.DataLoader(Stream(), batch_size=2, num_workers=1, persistent_workers=True)
    assert [b.tolist() for b in loader] == [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]]


class Draws(data.Dataset):
    def __getitem__(self, index: int) -> Any:
        return weft.rand(()).item(), random.random(), np.random.random()

    def __len__(self) -> int:
        return 4


def test_workers_have_numbers_of_their_own() -> None:
    weft.manual_seed(0)
    columns = [c.tolist() for b in data.DataLoader(Draws(), 2, num_workers=2) for c in b]
    assert len({value for column in columns for value in column}) == 12
    weft.manual_seed(0)
    assert columns == [c.tolist() for b in data.DataLoader(Draws(), 2, num_workers=2) for c in b]


class Fatal(Rows):
    """A worker that dies at one index."""

    def __getitem__(self, index: int) -> Any:
        if index == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def children() -> list[str]:
    """Our children that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == str(os.getpid()) and fields[0] not in "ZX":
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize("persistent", [False, True])
def test_a_killed_worker_is_reported_soon_and_nothing_is_left(persistent: bool) -> None:
    before = children()
    loader = data.DataLoader(Fatal(), 4, num_workers=2, persistent_workers=persistent)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"(?s)exited unexpectedly.*killed by SIGKILL"):
        list(loader)
    assert time.monotonic() - begin < SOON_S
    assert children() == before


class Signalled(Rows):
    """A worker that is told to end, as by an impatient user or a batch system."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.number = number

    def __getitem__(self, index: int) -> Any:
        if index == 9:
            os.kill(os.getpid(), self.number)
            time.sleep(0.05)
        return super().__getitem__(index)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_worker_is_reported_soon_and_nothing_is_left(number: signal.Signals) -> None:
    before, begin = (children(), set(os.listdir("/dev/shm"))), time.monotonic()
    loader = data.DataLoader(Signalled(number), 4, num_workers=2)
    how = "ended with 0" if number == signal.SIGINT else f"killed by {number.name}"
    with pytest.raises(RuntimeError, match=f"(?s)exited unexpectedly.*{how}"):
        list(loader)
    assert time.monotonic() - begin < SOON_S
    del loader
    assert children() == before[0]
    limit = time.monotonic() + SOON_S  # what other processes of the suite share goes away with them
    while (left := set(os.listdir("/dev/shm")) - before[1]) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not left


class Failing(Rows):
    def __getitem__(self, index: int) -> Any:
        raise KeyError(f"row {index}")


def test_an_error_comes_with_the_worker_s_traceback() -> None:
    with pytest.raises(KeyError, match=r"(?s)in DataLoader worker process \d.*__getitem__.*row 0"):
        list(data.DataLoader(Failing(), 4, num_workers=1))


class Slow(Rows):
    def __getitem__(self, index: int) -> Any:
        time.sleep(30)


def test_a_batch_that_takes_too_long_is_reported() -> None:
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="timed out after 0.3 seconds"):
        list(data.DataLoader(Slow(), 4, num_workers=1, timeout=0.3))
    assert time.monotonic() - begin < SOON_S


PROGRAM = """
import os, sys, time
import weft
from weft import data
class Rows(data.Dataset):
    def __getitem__(self, index):
        os.write(1, b"%d\\n" % os.getpid())
        return weft.zeros(3)
    def __len__(self):
        return 1000
for batch in data.DataLoader(Rows(), 1, num_workers=2):
    time.sleep(30)
"""


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_when_their_parent_does(how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout is not None
        workers = {int(program.stdout.readline()) for _ in range(4)}
        program.send_signal(how)
        program.wait(20)
        end = time.monotonic() + 15
        while time.monotonic() < end and not all(map(gone, workers)):
            time.sleep(0.05)
        assert all(map(gone, workers))


@pytest.mark.parametrize(
    "context", ["spawn", multiprocessing.get_context("forkserver")], ids=["name", "context"]
)
def test_other_ways_to_start_workers(context: Any) -> None:
    """The data set is pickled, batches come back in shared memory as from forked workers."""
    images = weft.arange(40_000.0).reshape(4, 10_000)
    dataset = data.TensorDataset(images, weft.arange(4))
    loader = data.DataLoader(
        dataset, 2, num_workers=1, multiprocessing_context=context, persistent_workers=True
    )
    for _ in range(2):
        batches = list(loader)
        assert weft.equal(weft.cat([batch for batch, _ in batches]), images)
        assert [label.tolist() for _, label in batches] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="valid start method"):
        data.DataLoader(range(2), num_workers=1, multiprocessing_context="conjure")


def test_shared_memory_is_written_again() -> None:
    """A long pass does not hold more descriptors in the worker than a short one; kept batches stay what they were."""
    dataset = data.TensorDataset(weft.arange(640_000.0).reshape(64, 10_000))
    loader = data.DataLoader(dataset, 2, num_workers=1, persistent_workers=True)
    counts = []
    for _ in range(3):
        kept = [batch for (batch,) in loader]
        assert weft.equal(weft.cat(kept), dataset.tensors[0])
        (worker,) = loader._pool.processes
        counts.append(len(os.listdir(f"/proc/{worker.pid}/fd")))
    assert max(counts) - min(counts) <= 3


def test_stacks_and_chains() -> None:
    stack = data.StackDataset(weft.arange(3), [5, 6, 7])
    assert stack[1] == (weft.tensor(1), 6) and len(stack) == 3
    assert data.StackDataset(a=[1, 2], b=[3, 4])[0] == {"a": 1, "b": 3}
    with pytest.raises(ValueError, match="Size mismatch"):
        data.StackDataset([1], [1, 2])
    assert list(Stream() + Stream()) == [*range(5), *range(5)]
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(data.ChainDataset([[1, 2]]))


@pytest.mark.parametrize("drop_last", [False, True])
def test_processes_share_the_data(drop_last: bool) -> None:
    def parts(shuffle: bool, epoch: int = 0) -> list[list[int]]:
        made = []
        for rank in range(3):
            sampler = data.DistributedSampler(range(10), 3, rank, shuffle, drop_last=drop_last)
            sampler.set_epoch(epoch)
            assert len(sampler) == len(list(sampler)) == (3 if drop_last else 4)
            made.append(list(sampler))
        return made

    expected = list(range(9)) if drop_last else [0, 0, 1, 1, *range(2, 10)]
    assert sorted(sum(parts(False), [])) == expected
    assert parts(True) == parts(True) != parts(True, 1)
    with pytest.raises(ValueError, match="Invalid rank 3"):
        data.DistributedSampler(range(10), 3, 3)


class Shuffling:
    """A sampler that draws its order when it is asked for one, not when the first index is."""

    def __init__(self) -> None:
        self.draw = np.random.RandomState(0)

    def __iter__(self) -> Any:
        order = list(range(6))
        self.draw.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return 6


def test_samplers_are_asked_as_often_as_pytorch_asks() -> None:
    """Once a pass, when it begins, and once more where workers start: seeded shuffles give PyTorch's order."""
    orders = Shuffling()
    wanted = [list(iter(orders)) for _ in range(6)]

    def loader(**options: Any) -> data.DataLoader:
        return data.DataLoader(range(6), sampler=Shuffling(), batch_size=None, **options)

    def passes(made: data.DataLoader, count: int) -> list[list[int]]:
        return [[int(index) for index in made] for _ in range(count)]

    assert passes(loader(), 3) == wanted[:3]
    assert passes(loader(num_workers=1), 2) == [wanted[1], wanted[3]]
    assert passes(loader(num_workers=1, persistent_workers=True), 3) == wanted[1:4]
    made = loader()
    first = iter(made)
    assert [list(iter(made)), list(first)] == [wanted[1], wanted[0]]
