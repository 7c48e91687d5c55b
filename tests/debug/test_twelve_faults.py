"""Twelve common faults in small training programs: the questions of docs/debugging.md lead to the line, in two at most.

The line that is at fault is marked. An answer leads to it where it names the file and the line.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import debug, nn
from weft.nn import functional as F

Questions = list[Callable[[], object]]


def nan_from_a_log() -> Questions:
    logits = weft.tensor([[0.0, 200.0], [1.0, 2.0]], requires_grad=True)
    probabilities = logits.softmax(1)
    entropy = -(probabilities * probabilities.log()).sum(1)  # fault
    loss = entropy.mean()
    return [lambda: debug.why(loss)]


def exploding_gradient() -> Questions:
    weight = nn.Parameter(weft.eye(3) * 4)
    state = weft.ones(2, 3)
    for _ in range(12):
        state = state @ weight  # fault
    loss = state.sum()
    return [lambda: debug.why_grad(weight, loss)]


def detached_branch() -> Questions:
    first, second = nn.Linear(3, 3), nn.Linear(3, 1)
    hidden = first(weft.randn(4, 3)).relu()
    loss = second(hidden.detach() * 2).sum()  # fault
    return [lambda: debug.why_grad(first.weight, loss)]


def wrong_broadcast() -> Questions:
    layer, target = nn.Linear(3, 1), weft.randn(8)
    guess = layer(weft.randn(8, 3))
    difference = guess - target  # fault
    loss = difference.square().mean()
    return [lambda: debug.why(loss)]


def frozen_layer() -> Questions:
    first = nn.Linear(3, 4).requires_grad_(False)  # fault
    net = nn.Sequential(first, nn.Tanh(), nn.Linear(4, 1))
    loss = net(weft.randn(5, 3)).sum()
    return [lambda: debug.why_grad(net[0].weight, loss)]


def leak_through_a_list() -> Questions:
    layer, losses = nn.Linear(3, 1), []
    for _ in range(6):
        x = weft.randn(4, 3)
        losses.append(layer(x).square().mean())  # fault
    total = weft.stack(losses).sum()

    def kept() -> str:
        """The line with the most records."""
        lines = Counter(entry.where for entry in debug.collect_graph(total) if entry.gradient)
        return str(lines.most_common(1))

    return [kept]


def unused_parameter() -> Questions:
    used, spare = nn.Linear(3, 1), nn.Linear(3, 1)
    x = weft.randn(4, 3)
    loss = used(x).sum()  # fault
    return [lambda: debug.why_grad(spare.weight, loss)]


def shared_buffer_in_place() -> Questions:
    weight, state = nn.Parameter(weft.ones(3)), weft.ones(3)
    history = []
    for _ in range(3):
        state.mul_(2)  # fault
        history.append(state)
    first = weight * history[0]
    return [lambda: debug.why(first)]


def wrong_reduction() -> Questions:
    layer, x, target = nn.Linear(3, 1), weft.randn(256, 3) * 30, weft.randn(256, 1) * 30
    loss = F.mse_loss(layer(x), target, reduction="sum")  # fault
    return [lambda: debug.why_grad(layer.weight, loss)]


def mix_of_dtypes() -> Questions:
    layer = nn.Linear(3, 3)
    scale = weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64)
    y = layer(weft.randn(2, 3)) * scale  # fault
    found = [entry.where for entry in debug.collect_graph(y * 2) if entry.operation == "cast"]
    return [lambda: found]


def order_of_data() -> Questions:
    weight = weft.tensor([0.5])

    def loss_of(seed: int) -> Any:
        order = weft.randperm(6, generator=weft.Generator().manual_seed(seed))  # fault
        rows = weft.arange(6.0)[order] + 0
        return (rows * weight).square().cumsum(0).sum()

    runs = [debug.stepper(loss_of(0)), debug.stepper(loss_of(1))]

    def first_difference() -> str:
        numbers = range(len(runs[0].capsule.records))
        differ = (n for n in numbers if not runs[0].value(n).equal(runs[1].value(n)))
        return str(runs[1].goto(next(differ)))

    return [first_difference]


def dead_relu() -> Questions:
    layer = nn.Linear(3, 4)
    with weft.no_grad():
        layer.bias.fill_(-50)
    hidden = layer(weft.randn(6, 3)).relu()  # fault
    loss = hidden.sum()
    return [lambda: debug.why_grad(layer.weight, loss)]


FAULTS = [
    nan_from_a_log, exploding_gradient, detached_branch, wrong_broadcast, frozen_layer, leak_through_a_list,
    unused_parameter, shared_buffer_in_place, wrong_reduction, mix_of_dtypes, order_of_data, dead_relu,
]  # fmt: skip


def line_of(fault: Callable[[], Questions]) -> int:
    lines, first = inspect.getsourcelines(fault)
    return first + next(n for n, line in enumerate(lines) if line.rstrip().endswith("# fault"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_questions_lead_to_the_line(fault: Callable[[], Questions]) -> None:
    questions = fault()
    answers = "\n".join(str(question()) for question in questions)
    assert f"test_twelve_faults.py:{line_of(fault)}" in answers
    assert len(questions) <= 2
