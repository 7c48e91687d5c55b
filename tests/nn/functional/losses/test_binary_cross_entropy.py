"""Binary cross entropy takes probabilities: others are refused at the call, or where they are computed."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.nn import functional as F


@pytest.mark.parametrize("name", ["input", "target"])
@pytest.mark.parametrize("value", [1.5, -0.25, float("nan"), float("inf")])
def test_values_that_are_there_are_refused_at_the_call(name: str, value: float) -> None:
    given = {"input": weft.full((3,), 0.5), "target": weft.full((3,), 0.5)}
    given[name] = weft.tensor([0.5, value, 0.25])
    with pytest.raises(RuntimeError, match=f"all elements of {name} should be between 0 and 1"):
        F.binary_cross_entropy(given["input"], given["target"])


@pytest.mark.parametrize("name", ["input", "target"])
def test_pending_values_are_refused_where_they_are_computed(name: str) -> None:
    x = weft.tensor([0.25, 0.5, 0.75])
    wrong = (x * 1.5).sqrt()  # the last one is above 1
    fine = (x * 0.5).sqrt()
    pair = (wrong, fine) if name == "input" else (fine, wrong)
    loss = F.binary_cross_entropy(*pair)
    with pytest.raises(RuntimeError, match=f"all elements of {name}.*") as caught:
        loss.item()
    assert "1 of 3 elements outside" in str(caught.value)
    assert "in test_pending_values" in str(caught.value)


def test_a_gradient_fails_with_its_loss_and_a_step_changes_nothing() -> None:
    parameter = weft.nn.Parameter(weft.tensor([0.5, 2.0]))
    optimizer = weft.optim.SGD([parameter], lr=1.0)
    F.binary_cross_entropy(parameter * 0.9, weft.zeros(2)).backward()
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        optimizer.step()
    assert parameter.tolist() == [0.5, 2.0]


def test_of_several_examples_one_fails() -> None:
    x = weft.tensor([[0.25, 0.5], [0.5, 1.5], [0.75, 0.5], [0.25, 0.25]])
    losses = [F.binary_cross_entropy(row * 0.9, weft.tensor([1.0, 0.0])) for row in x]
    assert losses[0].item() > 0
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        losses[1].item()
    assert losses[3].item() > 0


def test_what_is_checked_has_the_values_and_gradients_of_what_is_not() -> None:
    """Of a sigmoid nothing is checked; of the same numbers by another way everything is."""
    found: list[Any] = []
    for way in (weft.sigmoid, lambda z: weft.sigmoid(z) * 1.0):
        z = weft.linspace(-3, 3, 7).requires_grad_()
        loss = F.binary_cross_entropy(way(z), (z > 0).float(), reduction="none")
        loss.sum().backward()
        found.append((loss.tolist(), z.grad.tolist(), type(loss.grad_fn).__name__))
    assert found[0] == found[1]
