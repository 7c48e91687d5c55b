"""What went wrong in batching elsewhere (DyNet's issues): here each is a property of any program of its kind.

An operand from a wrong offset (1258), the backward pass of an operand that is batched already (1666), a sum that keeps
a later softmax out of a batch (1107), values that are read in the middle (719).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_programs
import weft

EXAMPLES = 6


def values(*shape: int, seed: int = 0) -> weft.Tensor:
    generator = weft.Generator().manual_seed(seed)
    tensor = weft.randn(*shape, generator=generator, dtype=weft.float64)
    weft.realize(tensor)
    return tensor


def outcome(program: Callable[[], tuple[list[Any], list[Any]]], batched: bool) -> Any:
    """The values of losses and the gradients of leaves after a walk over all of them."""
    with random_programs.running(batched=batched):
        losses, leaves = program()
        weft.stack(losses).sum().backward()
        return [loss.item() for loss in losses], [leaf.grad.numpy() for leaf in leaves]


def check(program: Callable[[], tuple[list[Any], list[Any]]]) -> None:
    """Batched is unbatched: values to the bit, gradients within 1e-12."""
    (batched, gradients), (alone, references) = outcome(program, True), outcome(program, False)
    assert batched == alone
    for gradient, reference in zip(gradients, references, strict=True):
        assert random_programs.agree(gradient, reference, 1e-12)


# -- an operand from a wrong offset ------------------------------------------------------------------

# Where each example takes its operand from: rows of one batch in any order, again and again, with gaps.
places = st.lists(st.integers(0, EXAMPLES - 1), min_size=3, max_size=12)


@settings(max_examples=12, deadline=None)
@given(places=places, begin=st.integers(0, 3), read=st.booleans())
def test_operands_come_from_their_own_rows(places: list[int], begin: int, read: bool) -> None:
    def program() -> tuple[list[Any], list[Any]]:
        leaves = [values(7, seed=n).requires_grad_() for n in range(EXAMPLES)]
        rows = [leaf.sin() for leaf in leaves]
        if read:  # then rows are values from outside, beside each other in one buffer
            weft.realize(*rows)
        parts = [rows[place][begin : begin + 4] for place in places]
        used = [leaves[place] for place in sorted(set(places))]
        return [(part.exp() * part).sum() for part in parts], used

    check(program)


@pytest.mark.parametrize("shift", [1, 2, 5])
def test_two_operands_of_one_batch_at_different_rows(shift: int) -> None:
    def program() -> tuple[list[Any], list[Any]]:
        leaves = [values(5, seed=n).requires_grad_() for n in range(EXAMPLES)]
        rows = [leaf.tanh() for leaf in leaves]
        others = rows[shift:] + rows[:shift]
        return [(a * b - a).sum() for a, b in zip(rows, others, strict=True)], leaves

    check(program)


# -- the backward pass of an operand that is a batch already -----------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_examples_that_are_batches_by_hand(shared: bool) -> None:
    weight = values(4, 3, seed=9)

    def program() -> tuple[list[Any], list[Any]]:
        leaf = weight.clone().requires_grad_()
        batches = [values(8, 4, seed=n).requires_grad_() for n in range(EXAMPLES)]
        weights = [leaf if shared else leaf * (n + 1) for n in range(EXAMPLES)]
        outputs = [
            (batch @ own).relu().square().sum(1)
            for batch, own in zip(batches, weights, strict=True)
        ]
        return [output.mean() for output in outputs], [leaf, *batches]

    check(program)


def test_one_batch_by_hand_that_all_examples_read() -> None:
    def program() -> tuple[list[Any], list[Any]]:
        memory = values(9, 4, seed=1).requires_grad_()
        queries = [values(4, seed=n + 2).requires_grad_() for n in range(EXAMPLES)]
        kept = memory.tanh()
        found = [(kept @ query).softmax(0) @ kept for query in queries]
        return [row.square().sum() for row in found], [memory, *queries]

    check(program)


# -- a sum that keeps a later softmax out of a batch -------------------------------------------------


def test_sums_of_different_lengths_do_not_keep_what_follows_apart() -> None:
    inputs = [values(n + 2, 5, seed=n) for n in range(8)]  # the sums are over 2 to 9 rows
    with weft.explain() as report:
        outputs = [rows.sum(0).softmax(0) for rows in inputs]
        weft.realize(*outputs)
    sizes = {
        made.size
        for run in report.runs
        for made in run.batches
        if made.facts.shape == (5,) and made.facts.operation in ("exp", "sub", "div")
    }
    assert sizes == {8}


@pytest.mark.parametrize("lengths", [(3, 3, 3, 3), (1, 2, 3, 4, 5), (4, 1, 4, 1, 4)])
def test_sums_before_a_softmax_are_right(lengths: tuple[int, ...]) -> None:
    def program() -> tuple[list[Any], list[Any]]:
        leaves = [values(n, 5, seed=k).requires_grad_() for k, n in enumerate(lengths)]
        return [leaf.sum(0).softmax(0)[2].log() for leaf in leaves], leaves

    check(program)


# -- values that are read in the middle --------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(reads=st.lists(st.integers(0, 3), min_size=EXAMPLES, max_size=EXAMPLES), map_=st.booleans())
def test_values_read_in_the_middle(reads: list[int], map_: bool) -> None:
    """Each example reads at another place; the rest goes on as if nobody had."""

    def program() -> tuple[list[Any], list[Any]]:
        weight = values(4, 4, seed=20).requires_grad_()
        leaves = [values(4, seed=n).requires_grad_() for n in range(EXAMPLES)]

        def example(number: int) -> Any:
            state = leaves[number]
            for step in range(3):
                state = (weight @ state).tanh()
                if step < reads[number] and state.sum().item() > 0.5:
                    state = state * 2
            return state.sum()

        numbers = list(range(EXAMPLES))
        losses = weft.map(example, numbers) if map_ else [example(n) for n in numbers]
        return losses, [weight, *leaves]

    check(program)


def test_batches_go_on_after_a_read() -> None:
    weight = values(4, 4, seed=20)
    states = [values(4, seed=n) for n in range(EXAMPLES)]
    with weft.explain() as report:
        states = [(weight @ state).tanh() for state in states]
        assert states[2].sum().item() < 4
        states = [(weight @ state).tanh() for state in states]
        weft.realize(*states)
    sizes = [made.size for run in report.runs for made in run.batches]
    assert sizes == [EXAMPLES] * 4  # a product and a tanh, before and after
