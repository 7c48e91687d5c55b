"""Lifetimes: what is kept and for how long; everything is freed by reference counts, at any depth and length."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from live_nodes import settled_count
from weft.engine.devices.cpu import pool
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.frontend.recorder import set_budget
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.node import Node
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """What these tests see freed is freed without the cyclic collector."""
    settled_count()
    gc.disable()
    yield
    gc.enable()


def held() -> tuple[int, int]:
    """How many nodes exist, and how many bytes of buffers."""
    return count_live_nodes(), pool.stats()["allocated"]


def grows(step: Callable[[int], object], warm: int, steps: int) -> tuple[int, int]:
    """By how many nodes and bytes more is held after `steps` further steps."""
    for i in range(warm):
        step(i)
    nodes, nbytes = held()
    for i in range(steps):
        step(warm + i)
    after = held()
    return after[0] - nodes, after[1] - nbytes


# -- flat memory -----------------------------------------------------------------------------------


def test_losses_that_are_kept_hold_no_graphs() -> None:
    before, _ = held()
    weight = weft.ones(64, 64, requires_grad=True)
    optimizer = weft.optim.SGD([weight], lr=1e-3)
    losses = []

    def step(_: int) -> None:
        optimizer.zero_grad()
        loss = (weft.ones(8, 64) @ weight).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)

    nodes, nbytes = grows(step, 50, 400)
    assert nbytes < 400 * 256  # a loss is one number, its graph's values are 16 KB
    del losses[:]
    assert held()[0] < before + 20
    assert nodes < 400 * 12


def test_a_moving_average_of_parameters_is_flat() -> None:
    weight = weft.ones(32, requires_grad=True)
    average = weight.detach().clone()

    def step(_: int) -> None:
        nonlocal average
        loss = (weight * 2).sum()
        loss.backward()
        with weft.no_grad():
            weight.sub_(weight.grad * 0.1)
            weight.grad = None
            average = average * 0.99 + weight * 0.01

    nodes, nbytes = grows(step, 2000, 6000)
    weft.realize()
    before = held()
    grows(step, 0, 3000)
    weft.realize()
    assert abs(held()[0] - before[0]) < 20 and abs(held()[1] - before[1]) < 10_000
    assert nbytes < 5_000_000 and nodes < 150_000


def test_a_recurrent_state_under_no_grad_is_flat() -> None:
    cell = weft.nn.GRUCell(8, 8)
    h = weft.zeros(1, 8)
    x = weft.ones(1, 8)

    def step(i: int) -> None:
        nonlocal h
        with weft.no_grad():
            h = cell(x, h)
        if i % 500 == 499:
            weft.realize(h)

    nodes, nbytes = grows(step, 1000, 4000)
    assert nodes < 20 and nbytes < 10_000


def test_a_loop_that_never_reads_runs_when_the_budget_of_nodes_is_used_up() -> None:
    x = weft.ones(16)
    most = 0
    before = set_budget(5000, 1 << 40)
    try:
        for _ in range(30_000):
            x = x * 0.999 + 0.001
            most = max(most, tape().count)
    finally:
        set_budget(*before)
    assert most <= 5002
    assert x.tolist() == pytest.approx([1.0] * 16)


def test_a_loop_that_never_reads_runs_when_the_budget_of_bytes_is_used_up() -> None:
    before = set_budget(1 << 40, 1 << 20)
    try:
        x = weft.zeros(1 << 16)  # 256 KB
        for _ in range(50):
            x = x + 1
            assert tape().pending_bytes <= (1 << 20) + (1 << 18)
    finally:
        set_budget(*before)
    assert x[:2].tolist() == [50, 50]


def test_pending_work_does_not_hold_many_values_from_outside() -> None:
    before = set_budget(1 << 40, 1 << 22)
    try:
        total, most = weft.zeros(1), 0
        start = pool.stats()["allocated"]
        for _ in range(40):
            total = total + weft.tensor([1.0] * (1 << 14)).sum()  # 64 KB, which the sum would hold
            most = max(most, pool.stats()["allocated"] - start)
    finally:
        set_budget(*before)
    assert total.item() == 40 * (1 << 14)
    assert most < 1 << 21


def test_what_stays_pending_after_a_flush_does_not_ask_for_the_next_one() -> None:
    unread = []
    with weft.no_grad():
        x = weft.ones(2)
    before = set_budget(1 << 40, 1 << 40)
    try:
        for _ in range(300):
            unread.append(value_of(x * 2))  # a node without a handle: nobody wants its value
        weft.realize(x + 1)
        assert tape().count >= 300
        set_budget(100, 1 << 40)
        flushes = driver.counters["flushes"]
        for _ in range(90):
            x = x + 1
        assert driver.counters["flushes"] == flushes
    finally:
        set_budget(*before)


def test_the_collector_does_not_know_the_parts_of_a_graph() -> None:
    w = weft.ones(4, requires_grad=True)
    gc.collect()
    known = {id(found) for found in gc.get_objects()}
    y = w
    for _ in range(100):
        y = (y * 2 + w)[:].sigmoid()
    fresh = [found for found in gc.get_objects() if id(found) not in known]
    parts = [found for found in fresh if isinstance(found, tuple)]
    assert not [part for part in parts if any(isinstance(piece, Node) for piece in part)]


def test_training_steps_leave_nothing_behind() -> None:
    model = weft.nn.Sequential(weft.nn.Linear(6, 12), weft.nn.Tanh(), weft.nn.Linear(12, 1))
    optimizer = weft.optim.Adam(model.parameters())
    data = weft.ones(5, 6)

    def step(_: int) -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    nodes, nbytes = grows(step, 60, 300)
    assert nodes <= 0 and nbytes <= 0


# -- saves and graphs ------------------------------------------------------------------------------


def test_intermediate_values_die_with_the_program_and_saves_with_the_walk() -> None:
    megabyte, slack = 1 << 20, (1 << 17) + 4096  # a block may be an eighth larger than asked for
    for first in (
        True,
        True,
        True,
        False,
    ):  # what a stored program keeps for itself is there by then
        x = weft.ones(1 << 18, requires_grad=True)
        weft.realize(x)
        _, start = held()
        y = (x + 1) * 2 - 3
        loss = (y * y).sum()
        weft.realize(loss)
        del y
        _, saved = held()
        loss.backward()
        weft.realize()
        _, after = held()
        x.grad = None
        _, end = held()
        del loss, x
        if not first:
            assert megabyte <= saved - start <= megabyte + slack  # y, that its square needs
            assert megabyte <= after - start <= megabyte + slack  # the gradient, no longer y
            assert end - start <= 4096


def test_losses_that_are_read_before_backward_and_kept_hold_no_activations() -> None:
    """Between forward and backward the activations are in memory; a loss that is kept does not keep them there."""
    weight = weft.ones(64, 64, requires_grad=True)
    losses, outputs = [], None

    def step(_: int) -> None:
        nonlocal outputs
        outputs = ((weft.ones(64, 64) * 0.01) @ weight).tanh()  # 16 KB each
        loss = (outputs @ weight).square().mean()
        loss.item()
        loss.backward()
        with weft.no_grad():
            weight.sub_(weight.grad * 1e-3)
            weight.grad = None
        losses.append(loss)

    _, nbytes = grows(step, 20, 100)
    assert nbytes < 100 * 256


def test_a_pending_reader_keeps_a_value_that_a_walk_has_let_go() -> None:
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    loss = (y * y).sum()
    loss.item()
    later = y.detach() + 1
    loss.backward()
    del y
    weft.realize(x)
    assert later.tolist() == [3, 3, 3]
    assert x.grad.tolist() == [8, 8, 8]
    loss.item()


def test_retain_graph_keeps_the_saves_and_the_next_walk_releases_them() -> None:
    x = weft.ones(1 << 18, requires_grad=True)
    loss = (x + 1).square().sum()
    loss.backward(retain_graph=True)
    first = x.grad[0].item()
    loss.backward()
    assert x.grad[0].item() == 2 * first
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_what_saves_nothing_can_be_walked_twice() -> None:
    x = weft.ones(3, requires_grad=True)
    total = (x + x).sum()
    total.backward()
    total.backward()
    assert x.grad.tolist() == [4, 4, 4]
    product = (x * x).sum()
    product.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        product.backward()


def test_a_metric_that_is_kept_unread_holds_no_graph() -> None:
    weight = weft.ones(1000, requires_grad=True)
    weft.realize(weight)
    nodes, nbytes = held()
    metrics = []
    for _ in range(20):
        loss = (weight * 2).square().sum()
        metrics.append(loss.detach() * 0.5)
        loss.backward()
        weight.grad = None
    del loss
    weft.realize()
    assert held()[0] - nodes < 100 and held()[1] - nbytes < 20 * 128
    assert {metric.item() for metric in metrics} == {2000.0}


def test_dead_branches_are_never_computed() -> None:
    x = weft.ones(4)
    dead = (x + 1).exp().sum()
    kept = x * 2
    del dead
    assert [node.op.name for node in tape().pending() if node.op.name in ("exp", "sum")] == []
    assert kept.tolist() == [2, 2, 2, 2]


# -- depth -----------------------------------------------------------------------------------------


def test_a_chain_of_a_million_operations_builds_runs_backward_and_is_freed() -> None:
    before, nodes = set_budget(1 << 40, 1 << 60), count_live_nodes()
    try:
        x = weft.ones(2, requires_grad=True)
        y = x
        for _ in range(1_000_000):
            y = y * 1.0
        assert count_live_nodes() - nodes > 1_000_000
        y.sum().backward()
        del y
        x.grad = None
        del x
        assert count_live_nodes() - nodes < 10
    finally:
        set_budget(*before)


def test_a_deep_chain_runs_and_gives_its_value_and_gradient() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x
    for _ in range(60_000):
        y = y * 1.00001
    y.sum().backward()
    expected = pytest.approx(1.00001**60_000, rel=1e-2)
    assert y[0].item() == expected
    assert x.grad[0].item() == expected


@pytest.mark.parametrize("kind", ["views", "in place", "Function", "second order", "detached"])
def test_deep_chains_of_every_kind_are_freed_without_recursion(kind: str) -> None:
    nodes = count_live_nodes()
    x = weft.ones(2, 2, requires_grad=True)
    y: Any = x * 1
    for _ in range(20_000):
        y = DEEPER[kind](y)
    if kind == "second order":
        (y,) = weft.autograd.grad(y.sum(), (x,), create_graph=True)
    weft.realize(y)
    del y, x
    assert count_live_nodes() - nodes < 10


class _Same(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + 0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


DEEPER: dict[str, Callable[[Any], Any]] = {
    "views": lambda y: y.t(),
    "in place": lambda y: y.mul_(1.0),
    "Function": lambda y: _Same.apply(y),
    "second order": lambda y: y * 1.0,
    "detached": lambda y: y.detach() + 0,
}


def test_a_handle_alone_keeps_its_value() -> None:
    x = weft.ones(5)
    y = x + 1
    node = value_of(y)
    weft.realize()
    assert node.external_refs == 1
    del y
    assert node.external_refs == 0


def test_a_sum_over_more_than_memory_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MB of differences, where 32 are all: the recorder asks for a run while they live, which then waits."""
    x = weft.linspace(0, 1, 4096)
    direct = float((x[:, None] - x).square().mean())
    monkeypatch.setattr("weft.engine.devices.cpu.hardware.memory_limit", lambda: 1 << 25)
    before = set_budget(1 << 40, 1 << 20)
    pool.set_budget(pool.stats()["allocated"] + (1 << 24))
    try:
        known = float((x[:, None] - x).square().mean())  # an assertion would hold what it calls
        cold = float((x[:, None] - x).abs().mul(2).sum(1)[0])
        assert known == direct and cold > 0
        kept = x[:, None] - x
        with pytest.raises(MemoryError):
            kept.sum(0).tolist()
        del kept
        with weft.eager(), pytest.raises(MemoryError):
            x[:, None] - x
    finally:
        pool.set_budget(None)
        set_budget(*before)
