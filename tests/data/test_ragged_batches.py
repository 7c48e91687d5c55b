"""Ragged batches from the loader: collating without padding, and batches filled to a budget of tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.utils.data import DataLoader, RandomSampler, TokenBatchSampler, ragged_collate

Lengths = st.lists(st.integers(0, 9), min_size=1, max_size=30)


@given(
    lengths=Lengths,
    budget=st.integers(9, 30),
    pool=st.sampled_from([1, 4, 100]),
    padded=st.booleans(),
    random=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_example_comes_once_and_no_batch_is_over_budget(
    lengths: list[int], budget: int, pool: int, padded: bool, random: bool
) -> None:
    order = RandomSampler(lengths) if random else None
    batches = list(TokenBatchSampler(lengths, budget, order, pool=pool, padded=padded))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        own = [lengths[index] for index in batch]
        assert (max(own) * len(own) if padded else sum(own)) <= budget
    if pool == 1 and not padded:  # as full as the order allows
        for batch, following in zip(batches, batches[1:], strict=False):
            assert sum(lengths[i] for i in batch) + lengths[following[0]] > budget


def test_the_last_batch_can_be_left_out() -> None:
    assert list(TokenBatchSampler([4, 4, 4], 8, drop_last=True)) == [[0, 1]]
    with pytest.raises(ValueError, match="an example of 9 tokens"):
        TokenBatchSampler([4, 9], 8)


def test_a_loader_gives_ragged_batches() -> None:
    random = np.random.default_rng(0)
    data = [
        {
            "words": weft.tensor(random.integers(0, 9, length)),
            "label": length,
            "raw": np.ones(length),
        }
        for length in random.integers(1, 20, 40)
    ]
    lengths = [example["label"] for example in data]
    loader = DataLoader(
        data, batch_sampler=TokenBatchSampler(lengths, 50, pool=8), collate_fn=ragged_collate
    )
    seen = 0
    for batch in loader:
        words = batch["words"]
        assert words.is_nested and words.numel() <= 50
        assert words.lengths().tolist() == batch["label"].tolist()
        assert batch["raw"].dtype is weft.float64
        seen += len(words)
    assert seen == 40


def test_structures_are_kept() -> None:
    first, (second, third) = ragged_collate(
        [(weft.ones(2, 3), [1.0, "a"]), (weft.ones(1, 3), [2.0, "b"])]
    )
    assert first.is_nested and second.tolist() == [1.0, 2.0] and list(third) == ["a", "b"]
    with pytest.raises(RuntimeError, match="equal size"):
        ragged_collate([(1, 2), (1,)])
    with pytest.raises(RuntimeError, match="same dimension"):
        ragged_collate([weft.ones(2), weft.ones(2, 2)])
