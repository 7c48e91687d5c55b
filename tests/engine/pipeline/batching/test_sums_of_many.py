"""Sums that grow are one operation of many operands in a batch: whoever observes what they begin with sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from random_programs import running
from weft.debug import stages

COUNTS = [2, 5, 3, 7, 4, 2]


def rows(leaf: Any) -> list[Any]:
    return [(leaf[number] * 2).tanh() for number in range(leaf.shape[0])]


def leaf_of(size: int = 40) -> Any:
    draw = weft.Generator().manual_seed(3)
    return weft.randn(size, 6, generator=draw, dtype=weft.float64).requires_grad_()


def grown(parts: list[Any], keep: Callable[[int, Any], None] | None = None) -> list[Any]:
    """Sums of so many rows as `COUNTS` says; `keep` is shown each step of them."""
    totals = []
    place = 0
    for count in COUNTS:
        total = parts[place]
        for part in parts[place + 1 : place + count]:
            total = total + part
            if keep is not None:
                keep(place, total)
        totals.append(total)
        place += count
    return totals


def both(program: Callable[[], Any]) -> None:
    """A program's arrays, in batches and without."""
    found = []
    for batched in (True, False):
        with running(batched=batched):
            found.append(program())
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def loss_of(totals: list[Any]) -> Any:
    return weft.stack([(total.sin() * total).sum() for total in totals]).mean()


def test_one_batch_for_all_lengths() -> None:
    leaf = leaf_of()
    text = stages(lambda: loss_of(grown(rows(leaf))).backward())["batch"]
    assert "add x 6 [6]" in text
    assert text.count("add x") == 1


def test_gradients_of_leaves() -> None:
    def program() -> Any:
        leaf = leaf_of()
        loss_of(grown(rows(leaf))).backward()
        return [leaf.grad.numpy()]

    both(program)


def test_a_step_that_is_kept_has_its_value_and_its_gradient() -> None:
    def program() -> Any:
        leaf, kept = leaf_of(), []

        def keep(place: int, total: Any) -> None:
            if place == 7 and len(kept) < 3:
                total.retain_grad()
                kept.append(total)

        loss_of(grown(rows(leaf), keep)).backward()
        return [
            leaf.grad.numpy(),
            *(k.detach().numpy() for k in kept),
            *(k.grad.numpy() for k in kept),
        ]

    both(program)


def test_hooks_on_a_record_inside_a_sum() -> None:
    """A record that is reached from a later one's `next_functions` may be observed without a handle."""

    def program() -> Any:
        leaf, seen = leaf_of(), []
        totals = grown(rows(leaf))
        inner = totals[1].grad_fn.next_functions[0][0].next_functions[0][0]
        inner.register_prehook(lambda gradients: seen.append(gradients[0].clone()))
        totals[3].grad_fn.register_hook(lambda ins, outs: seen.extend(x.clone() for x in ins))
        loss_of(totals).backward()
        assert len(seen) == 3
        return [leaf.grad.numpy(), *(x.numpy() for x in seen)]

    both(program)


def test_captured_inputs() -> None:
    def program() -> Any:
        leaf, steps = leaf_of(), []
        parts = rows(leaf)
        totals = grown(parts, lambda place, total: steps.append(total) if place == 10 else None)
        loss = loss_of(totals)
        found = weft.autograd.grad(loss, [leaf, parts[3], parts[20], steps[2]])
        return [x.numpy() for x in found]

    both(program)


def test_a_captured_record_inside_a_sum() -> None:
    def program() -> Any:
        totals = grown(rows(leaf_of()))
        inner = totals[3].grad_fn.next_functions[0][0].next_functions[0][0]
        edge = weft.autograd.graph.GradientEdge(inner, 0)
        return [weft.autograd.grad(loss_of(totals), [edge])[0].numpy()]

    both(program)


def test_second_derivatives() -> None:
    def program() -> Any:
        leaf = leaf_of()
        (first,) = weft.autograd.grad(loss_of(grown(rows(leaf))), [leaf], create_graph=True)
        first.square().sum().backward()
        return [leaf.grad.numpy()]

    both(program)


def test_two_walks_over_one_graph() -> None:
    def program() -> Any:
        leaf = leaf_of()
        loss = loss_of(grown(rows(leaf)))
        loss.backward(retain_graph=True)
        loss.backward()
        return [leaf.grad.numpy()]

    both(program)


def test_terms_without_gradient() -> None:
    def program() -> Any:
        leaf = leaf_of()
        parts = [part.detach() if n % 3 == 0 else part for n, part in enumerate(rows(leaf))]
        loss_of(grown(parts)).backward()
        return [leaf.grad.numpy()]

    both(program)


def test_a_step_that_is_cut_off() -> None:
    """The gradient does not go on below a `detach` in the middle of a sum."""

    def program() -> Any:
        leaf, totals = leaf_of(), []
        parts = rows(leaf)
        for start in range(0, 30, 5):
            total = parts[start] + parts[start + 1]
            total = total.detach() + parts[start + 2]
            totals.append(total + parts[start + 3])
        loss_of(totals).backward()
        return [leaf.grad.numpy()]

    both(program)


def test_a_row_that_is_added_twice() -> None:
    def program() -> Any:
        leaf, totals = leaf_of(), []
        parts = rows(leaf)
        for start in range(0, 30, 5):
            total = parts[start] + parts[start]
            total = total + total
            totals.append(total + parts[start] + parts[start + 1])
        loss_of(totals).backward()
        return [leaf.grad.numpy()]

    both(program)


def test_leaves_that_are_added_up() -> None:
    def program() -> Any:
        leaves = [leaf_of(3)[0].detach().requires_grad_() for _ in range(24)]
        parts = [leaf * 1.5 if n % 2 else leaf for n, leaf in enumerate(leaves)]
        loss_of(grown(parts)).backward()
        return [leaf.grad.numpy() for leaf in leaves[: sum(COUNTS)]]

    both(program)


def test_parts_of_batches_are_added_up() -> None:
    def program() -> Any:
        leaf = leaf_of()
        parts = [half for part in rows(leaf) for half in part.split(3)]
        loss_of(grown(parts)).backward()
        return [leaf.grad.numpy()]

    both(program)


def test_rows_of_different_heights() -> None:
    def program() -> Any:
        leaf, totals = leaf_of(), []
        for start, height in enumerate((1, 2, 3, 2, 4, 2)):
            total = leaf[start : start + height].tanh()
            for shift in range(1, 4):
                total = total + leaf[start + shift : start + shift + height].tanh()
            totals.append(total)
        loss_of(totals).backward()
        return [leaf.grad.numpy()]

    both(program)


def test_a_failed_batch_computes_its_sums_one_by_one() -> None:
    """One example has a bad index, which nobody can check at the call; the sums of the others come out."""

    def totals_of(numbers: list[int]) -> list[Any]:
        table = leaf_of()
        totals = []
        for number in numbers:
            total = table[weft.tensor([number]) * 1].tanh()
            for shift in range(1, 4):
                total = total + table[shift : shift + 1].tanh()
            totals.append(total)
        return totals

    numbers = [3, 0, 99, 2, 1]
    found = totals_of(numbers)
    with pytest.raises(IndexError, match="index 99"):
        found[2].detach().numpy()
    with running(batched=False):
        expected = [total.detach().numpy() for total in totals_of([3, 0, 2, 1])]
    for one, other in zip(found[:2] + found[3:], expected, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other)
