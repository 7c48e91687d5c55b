"""What the engine does for known programs, counted: a guard against regressions that times nothing.

Each program runs until it is known, then one step is counted: nodes, kernels, launches, flushes, programs known,
compilations, bytes that kernels store. The bounds are the counts when they were written, and may be lowered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
from benchmarks import elementwise, loops, networks, recording, training
from benchmarks.counting import snapshot
from benchmarks.models import GPTSize

import weft
from weft.config import config
from weft.debug import stages

WARM = 6


class Most(NamedTuple):
    """Upper bounds of one step."""

    nodes: int
    kernels: int
    launches: int
    flushes: int = 1


def counted(run: Callable[[], Any], warm: int = WARM) -> Counter[str]:
    """The events of one run, after others."""
    for _ in range(warm):
        run()
    before = snapshot()
    run()
    after = snapshot()
    return Counter({name: after[name] - before[name] for name in after})


def stored_bytes(run: Callable[[], Any]) -> int:
    """What the kernels of a program store."""
    found = re.search(r"for (\d+) bytes stored", stages(run)["plan"])
    assert found is not None
    return int(found[1])


GPT = GPTSize(layers=2, width=64, heads=2, length=32, batch=4)
PROGRAMS: dict[str, tuple[Callable[[], Callable[[], Any]], Most]] = {
    # 50 times four operations, three of which have gradients to follow; chains are cut at 32 operations.
    "a chain of small operations": (lambda: recording.long_chain(weft).run, Most(502, 17, 17)),
    # One kernel: it reads x and writes the gradient, and adds up the loss; then the parts of the sum.
    "gelu written out, both ways": (
        lambda: elementwise.both_ways(weft, elementwise.gelu_sum, (4096,)).run,
        Most(24, 1, 2),
    ),
    "softmax": (
        lambda: elementwise.forward(weft, elementwise.softmax, (64, 100)).run,
        Most(5, 1, 1),
    ),
    "layer_norm and cross_entropy, both ways": (
        lambda: elementwise.normed_loss(weft, (64, 100)).run,
        Most(72, 12, 14),
    ),
    "a sum over rows": (
        lambda: elementwise.total(weft, (64, 64), 0).run,
        Most(1, 1, 1),
    ),
    "a step of a perceptron": (lambda: training.mlp_step(weft).run, Most(144, 21, 23)),
    "a step of a GPT": (lambda: training.gpt_step(weft, GPT).run, Most(853, 74, 79)),
    # For each time a product and a cell, forward and backward; one product for each weight's gradient.
    "a step of an LSTM over 8 times": (
        lambda: networks.lstm_step(weft, 4, 8, 16, 16).run,
        Most(577, 77, 82),
    ),
    "a step of a residual network": (
        lambda: networks.resnet_step(weft, 2, 8, (4, 8)).run,
        Most(859, 144, 162),
    ),
}


@pytest.mark.usefixtures("known_soon")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_known_step(name: str) -> None:
    make, most = PROGRAMS[name]
    events = counted(make())
    assert events["compiled"] == 0
    assert events["flushes"] == most.flushes
    assert events["known"] == events["flushes"]
    for kind in ("nodes", "kernels", "launches"):
        assert events[kind] <= getattr(most, kind), (kind, events)


def test_a_value_that_is_read_each_turn() -> None:
    """Two kernels a turn, in one flush that is known. The first one of a run comes back a hundred flushes later: it is
    interpreted until that has taken as long as scheduling it."""
    job = recording.growing(weft)
    events = counted(job.run, warm=40)
    turns = job.per + 1
    assert events["compiled"] == 0
    assert events["known"] == events["flushes"] == turns
    assert events["launches"] <= 2 * turns


def test_nothing_is_compiled_for_another_length() -> None:
    """The kernels of an RNN are all there after a few lengths; others take the same ones."""
    job = networks.rnn_one_step(weft, 8, 2, [5, 9, 6, 7, 12, 8, 11, 10, 14, 13])
    counts = [counted(job.run, 0)["compiled"] for _ in range(10)]
    assert sum(counts[5:]) == 0, counts


def test_rows_taken_one_by_one_store_as_much_as_the_whole() -> None:
    """Work that grows with the length, not with its square."""

    def loss(length: int) -> Any:
        x = weft.ones(length, 16, requires_grad=True)
        sum(x[time].sin().sum() for time in range(length)).backward()
        return x.grad

    few, many = (stored_bytes(partial(loss, length)) for length in (8, 32))
    assert many < 5 * few


@pytest.mark.parametrize("form", loops.FORMS)
def test_loops_over_elements_cost_by_the_turn(form: str) -> None:
    """Ten times the turns over a vector that is ten times as long: ten times as much is recorded, launched and gone
    over by kernels, so that no turn copies the vector."""

    def cost(turns: int) -> Counter[str]:
        text = stages(partial(loops.loop_of(form), weft, turns))
        units = [int(count) for count in re.findall(r" units (\d+) ", text["lower"])]
        events = counted(lambda: loops.loop_of(form)(weft, turns).item(), warm=0)
        names = ("recorded", "nodes", "launches")
        return Counter({"units": sum(units), **{name: events[name] for name in names}})

    config.interpreter = "none"  # which does another part of few turns than of many
    try:
        few, many = cost(30), cost(300)
    finally:
        config.interpreter = "novel"
    assert all(many[name] < 12 * few[name] for name in many), (few, many)


def test_workloads_go_by_their_names() -> None:
    from benchmarks.measure import Context
    from benchmarks.rivals import figures_of
    from benchmarks.suite import CORE, RIVALLED, SUITE

    assert set(CORE) <= set(SUITE)
    assert all(set(names) <= set(SUITE) for names in RIVALLED.values())
    assert figures_of("record", Context({}, 1), ["torch.compile", "jax"]) == {}
