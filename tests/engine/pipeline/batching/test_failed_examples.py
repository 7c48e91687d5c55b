"""An example with a bad index fails alone: the others, and their gradients, are what they are without it."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from random_programs import running

GOOD, BAD = [3, 0, 5, 2], 99
WAYS = [{}, {"batched": False}, {"threads": 2}]


def model() -> list[Any]:
    weft.manual_seed(0)
    table = weft.randn(6, 4, dtype=weft.float64, requires_grad=True)
    weight = weft.randn(4, 4, dtype=weft.float64, requires_grad=True)
    return [table, weight]


def losses(parameters: list[Any], numbers: list[int]) -> list[Any]:
    """One loss per number, all alike; the index is a pending value, so that nobody can check it at the call."""
    table, weight = parameters
    found = []
    for number in numbers:
        row = table[weft.tensor([number]) * 1]  # (1, 4)
        hidden = (row @ weight).tanh()
        found.append((hidden * hidden.exp()).softmax(-1)[0, 1] + row.square().sum())
    return found


def gradients(parameters: list[Any]) -> list[float]:
    return [n for parameter in parameters for n in parameter.grad.flatten().tolist()]


def without() -> Any:
    """Gradients of the good examples where there are no others."""
    parameters = model()
    weft.stack(losses(parameters, GOOD)).sum().backward()
    return gradients(parameters)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("place", range(len(GOOD) + 1))
def test_backward_over_the_others_before_anything_was_read(way: Any, place: int) -> None:
    parameters = model()
    with running(**way):
        every = losses(parameters, [*GOOD[:place], BAD, *GOOD[place:]])
        bad = every.pop(place)
        weft.stack(every).sum().backward()
        assert gradients(parameters) == pytest.approx(without(), rel=1e-13)
        with pytest.raises(IndexError, match="index 99"):
            bad.item()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_failed_example_does_so_later_too(way: Any) -> None:
    parameters = model()
    with running(**way):
        *every, bad = losses(parameters, [*GOOD, BAD])
        weft.stack(every).sum().backward(retain_graph=True)
        before = gradients(parameters)
        copies = [parameter.grad.clone() for parameter in parameters]
        with pytest.raises(
            IndexError, match="index 99 is out of bounds for dimension 0 with size 6"
        ):
            bad.backward()
            gradients(parameters)
        for parameter, copy in zip(parameters, copies, strict=True):
            parameter.grad = copy
        assert gradients(parameters) == before
        every[1].backward()  # a second walk, from what the first has kept
        assert gradients(parameters) != before


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_second_derivatives_of_the_others(way: Any) -> None:
    def second(numbers: list[int]) -> list[Any]:
        parameters = model()
        every = [
            loss for loss, n in zip(losses(parameters, numbers), numbers, strict=True) if n != BAD
        ]
        first = weft.autograd.grad(weft.stack(every).sum(), parameters, create_graph=True)
        weft.stack([part.square().sum() for part in first]).sum().backward()
        return gradients(parameters)

    with running(**way):
        assert second([3, BAD, 0, 5, BAD, 2]) == pytest.approx(second(GOOD), rel=1e-12)


def test_errors_name_their_own_example() -> None:
    parameters = model()
    every = losses(parameters, [3, 77, 0, 88])
    weft.stack([every[0], every[2]]).sum().backward()
    assert gradients(parameters)
    for number, loss in ((77, every[1]), (88, every[3])):
        with pytest.raises(IndexError, match=f"index {number}"):
            loss.item()
