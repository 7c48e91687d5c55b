"""Training by blocks has the same bits on any number of ranks, also when it goes on with another number of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weft
from ranks import needs_mpi, run
from weft.distributed.blocks import PairwiseSum, blocks_of_rank

PROGRAM = "deterministic.py"


def outcome(size: int, out: Path, *words: str) -> list[Any]:
    """Losses and weights after each epoch, which all ranks of a run have in common."""
    out.mkdir()
    run(size, PROGRAM, "weft", out, *words)
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
