"""Training by blocks has the same bits on any number of ranks, also when it goes on with another number of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from weft.distributed.fsdp import fully_shard

import weft
from ranks import needs_mpi, run
from weft.distributed.data_parallel.blocks import PairwiseSum, blocks_of_rank, interleaved_blocks

PROGRAM, SHARDS = "deterministic.py", "deterministic_shards.py"


def outcome(size: int, out: Path, *words: str, program: str = PROGRAM) -> list[Any]:
    """Losses and weights after each epoch, which all ranks of a run have in common."""
    out.mkdir()
    run(size, program, "weft", out, *words)
    told = [json.loads((out / f"{rank}.json").read_text()) for rank in range(size)]
    assert all(one == told[0] for one in told)
    return list(told[0])


@needs_mpi
def test_losses_and_weights_are_the_same_bits_on_1_2_and_4_ranks(tmp_path: Path) -> None:
    whole = outcome(1, tmp_path / "1", "4")
    assert len({loss for losses, _ in whole for loss in losses}) == 8
    assert outcome(2, tmp_path / "2", "2") == whole[:2]
    assert outcome(4, tmp_path / "4", "2") == whole[:2]
    (tmp_path / "2" / "state").rename(tmp_path / "state")
    assert outcome(4, tmp_path / "resumed", "2", "resume") == whole[2:]


@needs_mpi
def test_sharded_models_have_the_same_bits_on_1_2_and_4_ranks(tmp_path: Path) -> None:
    whole = outcome(1, tmp_path / "1", "4", program=SHARDS)
    assert len({loss for losses, _ in whole for loss in losses}) == 16
    assert outcome(2, tmp_path / "2", "2", program=SHARDS) == whole[:2]
    assert outcome(4, tmp_path / "4", "2", program=SHARDS) == whole[:2]
    assert outcome(4, tmp_path / "copies", "2", "copies", program=SHARDS) == whole[:2]
    (tmp_path / "2" / "state").rename(tmp_path / "state")
    assert outcome(4, tmp_path / "resumed", "2", "resume", program=SHARDS) == whole[2:]


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 8])
def test_neighbours_are_added_first(count: int) -> None:
    total, names = PairwiseSum(), [weft.tensor(2.0**-n * (1 + 2**-23)) for n in range(count)]
    for value in names:
        total.add([value, None])
    expected = names
    while len(expected) > 1:
        paired = [a + b for a, b in zip(expected[::2], expected[1::2], strict=False)]
        expected = [*paired, *expected[len(expected) & ~1 :]]
    found, missing = total.take()
    assert found is not None and missing is None
    assert found.item() == expected[0].item()


class Three:
    """A group of three."""

    def rank(self) -> int:
        return 1

    def size(self) -> int:
        return 3


def test_blocks_that_no_tree_has_in_common_are_refused() -> None:
    assert list(blocks_of_rank(6, Three())) == [2, 3]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"9 blocks cannot be dealt out to 3 ranks"):
        blocks_of_rank(9, Three())  # type: ignore[arg-type]
    assert list(interleaved_blocks(8, 4, 1)) == [1, 5]
    assert list(interleaved_blocks(3, 3, 1)) == [1]
    for blocks, ranks in ((6, 3), (6, 4)):
        with pytest.raises(ValueError, match=f"{blocks} blocks cannot be dealt out to {ranks}"):
            interleaved_blocks(blocks, ranks, 0)


def test_a_block_begins_without_gradients() -> None:
    weft.distributed.init_process_group()
    try:
        model = weft.nn.Linear(1, 1)
        parallel = weft.nn.parallel.DistributedDataParallel(
            model, deterministic=True, block_count=6
        )
        assert list(parallel.blocks) == [0, 1, 2, 3, 4, 5]
        model.weight.grad = weft.ones(1, 1)
        with pytest.raises(ValueError, match=r"call optimizer.zero_grad\(\) after each step"):
            parallel(weft.ones(1))
    finally:
        weft.distributed.destroy_process_group()


@pytest.fixture
def sharded() -> Iterator[Any]:
    """A module in one process, of two blocks."""
    weft.distributed.init_process_group()
    yield fully_shard(weft.nn.Linear(1, 1), deterministic=True, block_count=2)
    weft.distributed.destroy_process_group()


def test_blocks_of_a_sharded_module_begin_without_gradients(sharded: Any) -> None:
    sharded(weft.ones(1, 1)).sum().backward()
    assert sharded.weight.grad is None
    sharded(weft.ones(1, 1) * 3).sum().backward()
    assert sharded.weight.grad.tolist() == [[2.0]]
    with pytest.raises(ValueError, match=r"call optimizer.zero_grad\(\) after each step"):
        sharded(weft.ones(1, 1))


def test_a_block_whose_backward_fails_does_not_count(sharded: Any) -> None:
    def fail(grad: Any) -> None:
        raise KeyError("on purpose")

    x = weft.ones(1, 1, requires_grad=True)
    x.register_hook(fail)
    with pytest.raises(KeyError):
        sharded(x).sum().backward()
    for factor in (1, 3):
        sharded(weft.ones(1, 1) * factor).sum().backward()
    assert sharded.weight.grad.tolist() == [[2.0]]


def test_what_blocks_of_sharded_modules_are_not_for(sharded: Any) -> None:
    with pytest.raises(ValueError, match="gradients of a block are combined at once"):
        sharded.set_requires_gradient_sync(False)
    with pytest.raises(ValueError, match="a batch of no blocks around a module with one of 2"):
        fully_shard(weft.nn.Sequential(sharded))
    inner = weft.nn.Sequential(sharded, weft.nn.Linear(1, 1))
    outer = fully_shard(inner, deterministic=True, block_count=2)
    outer(weft.ones(1, 1))
    with pytest.raises(ValueError, match="in blocks of two models at a time"):
        sharded(weft.ones(1, 1))
