"""Rows that a walk hands on as they are: of stacks, of cells in turn, of products that are all one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import random_programs as programs
import weft
from oracle import torch
from weft.debug import stages

WIDTH = 6


def leaves(lib: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """The same numbers in both libraries, as leaves."""
    generator = torch.Generator().manual_seed(5)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    made = [lib.tensor(values.tolist(), dtype=lib.float64) for values in drawn]
    return [values.requires_grad_() for values in made]


def gradients(program: Callable[..., Any], lib: Any, *shapes: tuple[int, ...]) -> list[Any]:
    inputs = leaves(lib, *shapes)
    program(lib, *inputs).backward()
    return [values.grad.numpy() for values in inputs]


def agrees(program: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    """Gradients in batches, without batches, and as PyTorch has them."""
    expected = gradients(program, torch, *shapes)
    for batched in (True, False):
        with programs.running(batched=batched):
            found = gradients(program, weft, *shapes)
        for one, other in zip(found, expected, strict=True):
            assert programs.agree(one, other, 1e-12)


def recorded(run: Callable[[], Any], stage: str = "record") -> Counter[str]:
    """How many operations of each name a run has."""
    lines = [line for line in stages(run)[stage].splitlines() if " = " in line]
    return Counter(line.split(" = ")[1].partition("(")[0] for line in lines)


# -- stacks --------------------------------------------------------------------------------------------------------


def losses(lib: Any, table: Any, lengths: tuple[int, ...]) -> Any:
    """The mean of means over stacks of so many losses."""
    means = [
        lib.stack([table[row].sin().sum() * (row + 1) for row in range(length)]).mean()
        for length in lengths
    ]
    return lib.stack(means).square().sum()


@pytest.mark.parametrize("lengths", [(3, 3, 3), (4, 5, 6, 7), (2, 7, 7, 2, 7), (1, 1, 1)])
def test_stacks_of_all_lengths_give_the_gradients_of_their_parts(lengths: tuple[int, ...]) -> None:
    agrees(lambda lib, table: losses(lib, table, lengths), (7, WIDTH))


def test_a_stack_takes_no_record_for_its_parts_in_either_direction() -> None:
    (table,) = leaves(weft, (7, WIDTH))
    with programs.running(batched=True):
        counts = recorded(lambda: losses(weft, table, (7, 7, 7, 5)).backward())
    assert counts["slice"] + counts["view"] < 26  # as many as there are parts


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_stacks_along_any_dimension(dim: int) -> None:
    def program(lib: Any, table: Any) -> Any:
        rows = [lib.stack([table[i], table[i].exp(), table[i + 1]], dim) for i in range(5)]
        weights = lib.tensor([1.0, -2.0, 3.0], dtype=lib.float64)
        weights = weights[:, None] if dim == 0 else weights
        return sum((row * weights).cos().sum() for row in rows)

    agrees(program, (6, WIDTH))


def test_parts_of_a_stack_may_be_leaves_one_value_twice_or_observed() -> None:
    def program(lib: Any, one: Any, other: Any) -> Any:
        middle = one * other
        middle.register_hook(lambda g: g * 2)
        middle.retain_grad()
        whole = lib.stack([one, middle, one, other, middle])
        return (whole * lib.arange(5, dtype=lib.float64)[:, None]).square().sum()

    agrees(program, (WIDTH,), (WIDTH,))


def test_stacks_are_differentiated_twice() -> None:
    def program(lib: Any, table: Any) -> Any:
        whole = lib.stack([table[row].exp() for row in range(4)])
        (slope,) = lib.autograd.grad(whole.square().sum(), table, create_graph=True)
        return (slope * slope).sum()

    agrees(program, (4, WIDTH))


def test_stacks_go_forward_and_over_a_batch() -> None:
    one, other = leaves(weft, (4, WIDTH), (4, WIDTH))
    whole = weft.func.vmap(lambda x, y: weft.stack([x, y.sin()]))(one, other)
    assert whole.tolist() == weft.stack([one, other.sin()], 1).tolist()
    _, tangent = weft.func.jvp(
        lambda x: weft.stack([x, x * 3]), (one.detach(),), (weft.ones_like(one),)
    )
    assert (
        tangent.tolist() == weft.stack([weft.ones_like(one), weft.full((4, WIDTH), 3.0)]).tolist()
    )


# -- products that are all one value -------------------------------------------------------------------------------


def cells(lib: Any, inputs: Any, weight: Any, bias: Any, lengths: tuple[int, ...]) -> Any:
    """Recurrent cells of several examples, each of which starts from zeros."""
    total = 0.0
    for length in lengths:
        state = lib.zeros(WIDTH, dtype=lib.float64)
        for time in range(length):
            state = (inputs[time] + lib.nn.functional.linear(state, weight, bias)).tanh()
        total = total + (state * length).sum()
    return total


SHAPES = (5, WIDTH), (WIDTH, WIDTH), (WIDTH,)


def test_cells_that_start_from_zeros_have_their_gradients() -> None:
    agrees(lambda lib, *given: cells(lib, *given, (3, 5, 2, 5, 4)), *SHAPES)


def test_cells_that_start_from_one_value_are_pulled_together() -> None:
    def counted(examples: int) -> Counter[str]:
        given = leaves(weft, *SHAPES)
        with programs.running(batched=True):
            return recorded(lambda: cells(weft, *given, (3,) * examples).backward())

    few, many = counted(6), counted(24)
    assert few["linear_bias"] == many["linear_bias"]
    assert many["permute"] < 6  # one for each group at most, none for each example


# -- cells in turn -------------------------------------------------------------------------------------------------


def both_ways(lib: Any, inputs: Any, forth: Any, back: Any) -> Any:
    """Two networks in turn over each example: their cotangents lie at equal distances in one batch."""
    total = 0.0
    for row in range(inputs.shape[0]):
        for weight in (forth, back):
            hidden = lib.nn.functional.linear(inputs[row], weight)
            total = total + (hidden.tanh() * hidden).sum()
    return total


def test_rows_at_equal_distances_are_not_copied_on_the_way_back() -> None:
    shapes = (5, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)
    agrees(both_ways, *shapes)
